"""Tasks of Spark's Python workers: batches in, blobs or results out.

Every function here returns a generator of Arrow batches for ``mapInArrow``. A task is a frozen
value that Spark sends with the plan as JSON; it needs nothing else of the driver. How a query
processes its events is up to its kind (``task_jobs.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.blobs import EVENTS, Batches, Blob, blobs_of, blobs_to_batch, split
from cepheid.jobs.kind import needs_of
from cepheid.jobs.ordering import ordered, slices
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.jobs.tables import table_to_bytes
from cepheid.jobs.task_jobs import composing, merging, task_job
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan
from cepheid.runtimes.scan import Slice
from cepheid.runtimes.scan_read import Reader
from cepheid.spark.batches import (
    BUCKET,
    Task,
    begin_of,
    chunks,
    in_task,
    merged_events,
    partition_id,
    with_names,
)

# ---------------------------------------------------------------------------------------
# Events by key, and by time


def send_events(
    work: Work, edges: tuple[int, ...] | None = None, reach: tuple[int, int] = (0, 0)
) -> Task:
    """Build the task that sends events to buckets, as blobs sorted by time.

    ``edges`` are times that cut the stream; without them the column BUCKET holds the bucket.
    ``reach`` is the margin of time that buckets also get on either side of their range.
    """

    def run(batches: Batches) -> Batches:
        plan = Plan.from_json(work.plan)
        seq = partition_id() << 32
        for chunk in chunks(batches):
            table = ordered(with_names(chunk, work.schema), plan)
            bucket = np.zeros(len(table), np.int64)
            if edges is not None:
                rows, bucket = _ranges_of(read_times(Columns(table), plan.time), edges, reach)
                table = table if len(rows) == len(table) else table.take(rows)
            elif BUCKET in table.column_names:
                bucket = table[BUCKET].to_numpy().astype(np.int64)
                table = table.drop_columns([BUCKET])
            blobs = [
                Blob(number, begin_of(part, plan), seq, EVENTS, table_to_bytes(part))
                for number, part in split(table, bucket, work.buckets)
            ]
            seq += 1
            yield blobs_to_batch(blobs)

    return in_task(run)


def _ranges_of(
    times: NDArray[np.int64], edges: tuple[int, ...], reach: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign events to ranges; an event near an edge goes to both."""
    before, after = reach
    cuts = np.array(edges, np.int64)
    first = np.searchsorted(cuts, times - after, side="right")
    counts = np.searchsorted(cuts, times + before, side="right") - first + 1
    rows = np.repeat(np.arange(len(times)), counts)
    inside = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + inside


Events = Callable[[Batches], Iterable[pa.Table]]
"""Turns the input of a task into its events, in time order."""


def events_of_blobs(work: Work) -> Events:
    """Let a task merge the events of the blobs that it gets."""
    return lambda batches: merged_events(work.planned(), blobs_of(batches))


def run_bucket(work: Work, events: Events) -> Task:
    """Build the task that runs the query over the events of its bucket."""

    def run(batches: Batches) -> Batches:
        yield from task_job(work).rows(events(batches), EVERYTHING, partition_id())

    return in_task(run)


def run_part(work: Work, events: Events) -> Task:
    """Build the task that runs the query over some partitions of groups and emits blobs."""

    def run(batches: Batches) -> Batches:
        yield from merging(work).partial_rows(events(batches))

    return in_task(run)


def merge_rows(work: Work) -> Task:
    """Build the task that merges the partitions of its groups."""

    def run(batches: Batches) -> Batches:
        yield from merging(work).merge(blobs_of(batches))

    return in_task(run)


def run_times(work: Work, edges: tuple[int, ...]) -> Task:
    """Build the task that owns a range of time between edges, and gets its events as blobs."""

    def run(batches: Batches) -> Batches:
        blobs = blobs_of(batches)
        first = next(blobs, None)
        if first is None:
            return  # Rows come from events.
        # Spark numbers the tasks of a union through, so the blobs must say which range this is.
        number = first.bucket
        begin = edges[number - 1] if number else None
        end = edges[number] if number < len(edges) else None
        tables = merged_events(work.planned(), chain((first,), blobs))
        yield from task_job(work).rows(tables, Owned(begin, end), number)

    return in_task(run)


def run_slice(work: Work, piece: Slice, number: int) -> Batches:
    """Yield the results of the windows that start in a slice or, without SLIDE, end in it."""
    plan = work.planned()
    needs = needs_of(plan)
    before, after = needs.reach
    reader = Reader(plan, work.schema)
    tables = reader.events(piece, before=before, after=after, event_before=needs.leads_in)
    return task_job(work).rows(tables, Owned(piece.begin, piece.end), number)


# ---------------------------------------------------------------------------------------
# Summaries


class Ranges(msgspec.Struct, frozen=True):
    """The driver's profile of the partitions of a DataFrame."""

    first: dict[int, int]
    last: dict[int, int]
    unordered: frozenset[int]


def summarise_partition(work: Work, ranges: Ranges, block: int) -> Task:
    """Build the task that summarises a partition of a DataFrame, which is a range of time."""

    def run(batches: Batches) -> Batches:
        here = partition_id()
        rows = 1 << 60 if here in ranges.unordered else block
        plan = Plan.from_json(work.plan)
        times: list[int] = []

        def checked() -> Iterator[pa.Table]:
            for chunk in chunks(_in_blocks(batches, rows)):
                named = with_names(chunk, work.schema)
                for table in (ordered(part, plan) for part in slices(named, rows)):
                    found = read_times(Columns(table), plan.time)
                    times.extend((int(found[0]), int(found[-1])))
                    yield table

        yield from composing(work).summarise(checked(), here)
        if times and (min(times), max(times)) != (ranges.first.get(here), ranges.last.get(here)):
            message = "the partitions of the DataFrame were not the same when it was read again"
            helps = ("cache it, or pass strategy='key shuffle'",)
            raise DataError([Diagnostic("E521", message, helps=helps)])

    return in_task(run)


def _in_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Split batches at the ends of blocks, so that no chunk ends inside a block."""
    place = 0
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        offset = 0
        while offset < len(batch):
            take = min(rows - place, len(batch) - offset)
            waiting.append(batch.slice(offset, take))
            offset, place = offset + take, place + take
            if place == rows:
                yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
                waiting, place = [], 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def summarise_bucket(work: Work) -> Task:
    """Build the task that summarises the events of its range of time, which come as blobs."""

    def run(batches: Batches) -> Batches:
        tables = merged_events(work.planned(), blobs_of(batches))
        yield from composing(work).summarise(tables, partition_id())

    return in_task(run)


def compose_stretches(work: Work) -> Task:
    """Build the task that merges the summaries of its groups in the order of time."""

    def run(batches: Batches) -> Batches:
        yield from composing(work).compose(blobs_of(batches))

    return in_task(run)
