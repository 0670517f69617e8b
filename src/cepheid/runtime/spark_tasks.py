"""What Spark's Python workers run: batches in, blobs or results out.

Every function here is a generator of Arrow batches for ``mapInArrow``. A task is a frozen value
that travels with the plan as JSON; nothing else of the driver is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from cepheid.engine.events import Columns, KeyTable, read_times
from cepheid.engine.job import Job
from cepheid.engine.partials import (
    RowsOfRuns,
    buckets_of_groups,
    is_whole,
    rows_from_table,
    rows_to_table,
)
from cepheid.engine.results import build_table
from cepheid.engine.step import PartitionState, finish, step
from cepheid.engine.summaries import (
    Composer,
    Summariser,
    stretch_from_bytes,
    stretch_to_bytes,
)
from cepheid.engine.tables import table_from_bytes, table_to_bytes
from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.language import tree
from cepheid.planner.plan import Plan, SituationsPlan
from cepheid.planner.trend_needs import shuffle_attributes
from cepheid.runtime import spark_gpu
from cepheid.runtime.blobs import (
    EVENTS,
    ROWS,
    STRETCH,
    Blob,
    blobs_of,
    blobs_to_batch,
    split,
)
from cepheid.runtime.ordering import STEP_ROWS, TimeMerge, ordered, slices
from cepheid.runtime.spark_situations import (
    compose_situations,
    run_situations,
    summarise_situations,
)
from cepheid.runtime.spark_worker import begin_task
from cepheid.runtime.work import Work

Batches = Iterator[pa.RecordBatch]

REPORT_ROWS = 100_000
"""Rows of complete windows that wait before they leave a task."""

BUCKET = "__bucket"
"""The column that tells the task of an event."""


def in_task(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Let what Cepheid says about data leave a task as one message, without what led to it."""

    def run(batches: Batches) -> Batches:
        begin_task()
        try:
            yield from task(batches)
        except CepheidError as error:
            raise type(error)(error.diagnostics, error.text) from None

    return run


def partition_id() -> int:
    """Return the number of the task."""
    context = TaskContext.get()
    assert context is not None, "this runs inside a Spark task"
    return context.partitionId()


def chunks(batches: Iterable[pa.RecordBatch], rows: int = STEP_ROWS) -> Iterator[pa.Table]:
    """Yield batches put together to tables of at least so many rows; the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if len(batch):
            waiting.append(batch)
        if sum(map(len, waiting)) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


# ---------------------------------------------------------------------------------------
# Events by key


def send_events(
    work: Work, edges: tuple[int, ...] | None = None, reach: tuple[int, int] = (0, 0)
) -> Callable[[Batches], Batches]:
    """Return a task that sends events to buckets, as blobs in the order of time.

    ``edges`` are times that cut the stream; without them the column BUCKET tells the bucket.
    ``reach`` says how far buckets see beyond their range, to either side.
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
                Blob(number, _begin(part, plan), seq, EVENTS, table_to_bytes(part))
                for number, part in split(table, bucket, work.buckets)
            ]
            seq += 1
            yield blobs_to_batch(blobs)

    return in_task(run)


def _ranges_of(
    times: NDArray[np.int64], edges: tuple[int, ...], reach: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return events and the ranges that see them; an event near an edge is there twice."""
    before, after = reach
    cuts = np.array(edges, np.int64)
    first = np.searchsorted(cuts, times - after, side="right")
    counts = np.searchsorted(cuts, times + before, side="right") - first + 1
    rows = np.repeat(np.arange(len(times)), counts)
    inside = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, first[rows] + inside


def with_names(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table of Spark with the names and types that the query gives its columns.

    Spark hands times over in the zone of the session, and a schema is in UTC: the moments are the
    same, and nothing is copied. Everything after this sees one zone only.
    """
    fields = list(schema)
    fields += [table.schema.field(i) for i in range(len(schema), table.num_columns)]
    named = table.rename_columns([field.name for field in fields])
    wanted = pa.schema([(field.name, field.type) for field in fields])
    return named if named.schema.equals(wanted) else named.cast(wanted)


def _begin(table: pa.Table, plan: Plan) -> int:
    return int(read_times(Columns(table.slice(0, 1)), plan.time)[0])


def merged_events(plan: Plan, blobs: Iterable[Blob]) -> Iterator[pa.Table]:
    """Yield the events of blobs in the order of time."""
    merge = TimeMerge(plan)
    for blob in blobs:
        yield from merge.add(blob.seq, blob.begin, table_from_bytes(blob.payload))
    yield from merge.rest()


def run_events(work: Work) -> Callable[[Batches], Batches]:
    """Return a task that runs the query over the events of its bucket.

    Rows of groups that have partitions in other tasks leave as blobs, others as results.
    """

    def run(batches: Batches) -> Batches:
        plan = Plan.from_json(work.plan)
        if isinstance(plan, SituationsPlan):
            yield from run_situations(work, merged_events(plan, blobs_of(batches)))
            return
        job = work.job()
        report = Report(work, job, final=not needs_merge(job))
        tables = merged_events(job.plan, blobs_of(batches))
        if spark_gpu.on_device(job):
            rows, keys = spark_gpu.run_on_device(job, tables, work.schema)
            yield from report.add(rows, keys)
            yield from report.close(keys)
            return
        state = PartitionState(job)
        for table in tables:
            state, rows = step(job, state, table)
            yield from report.add(rows, state.keys)
        state, rows = finish(job, state)
        yield from report.add(rows, state.keys)
        yield from report.close(state.keys)

    return in_task(run)


class Report:
    """Collects the rows of complete windows and lets them go: final, or to be added up."""

    def __init__(self, work: Work, job: Job, *, final: bool) -> None:
        self.work, self.job, self.final = work, job, final
        # Rows of other partitions, programs and kinds of numbers may still come for a window.
        self._early = is_whole(job) and len(job.templates) == 1 and not job.moduli
        self._rows: RowsOfRuns = [[] for _ in range(len(job.templates) * (1 + len(job.moduli)))]

    def add(self, rows: RowsOfRuns, keys: KeyTable) -> Batches:
        """Add rows; yield results when they are many."""
        for found, new in zip(self._rows, rows, strict=True):
            found += new
        if self._early and sum(len(r.key) for r in self._rows[0]) >= REPORT_ROWS:
            yield from self.close(keys)

    def close(self, keys: KeyTable) -> Batches:
        """Yield what is there."""
        rows, self._rows = self._rows, [[] for _ in self._rows]
        if self.final:
            yield from result_batches(self.work, self.job, rows, keys)
            return
        schema = self.work.schema
        table = rows_to_table(self.job, rows, keys, schema)
        _, named = rows_from_table(self.job, table)
        number = named.number(_named_keys(self.job, table))
        bucket = buckets_of_groups(self.job, named, self.work.buckets)[number]
        bucket = (bucket + table["window"].to_numpy()) % self.work.buckets
        blobs = [
            Blob(place, 0, partition_id(), ROWS, table_to_bytes(part))
            for place, part in split(table, bucket, self.work.buckets)
        ]
        if blobs:
            yield blobs_to_batch(blobs)


def _named_keys(job: Job, table: pa.Table) -> Columns:
    names = job.plan.partition.attributes
    places = ["run", *(f"key_{n}" for n in range(len(names)))]
    return Columns(table.select(places).rename_columns(["", *names]))


def needs_merge(job: Job) -> bool:
    """Return whether groups have partitions in several tasks of a key shuffle."""
    return not is_whole(job) and bool(job.plan.partition.attributes) and not _by_group(job)


def _by_group(job: Job) -> bool:
    return set(shuffle_attributes(job.plan)) == set(job.plan.partition.group_by)


def merge_rows(work: Work) -> Callable[[Batches], Batches]:
    """Return a task that adds up the partitions of its groups."""

    def run(batches: Batches) -> Batches:
        job = work.job()
        tables = [table_from_bytes(blob.payload) for blob in blobs_of(batches)]
        if tables:
            rows, keys = rows_from_table(job, pa.concat_tables(tables))
            yield from result_batches(work, job, rows, keys)

    return in_task(run)


def result_batches(work: Work, job: Job, rows: RowsOfRuns, keys: KeyTable) -> Batches:
    """Yield the results of rows, in the types that the driver has promised."""
    table = work.shown(build_table(job, rows, keys, work.schema))
    yield from table.combine_chunks().to_batches(REPORT_ROWS)


# ---------------------------------------------------------------------------------------
# Summaries


class Ranges(msgspec.Struct, frozen=True):
    """What the driver found out about the partitions of a DataFrame."""

    first: dict[int, int]
    last: dict[int, int]
    unordered: frozenset[int]


def summarise_partition(work: Work, ranges: Ranges, block: int) -> Callable[[Batches], Batches]:
    """Return a task that summarises a partition of a DataFrame, which is a range of time."""

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

        yield from summarise(work, checked(), here)
        if times and (min(times), max(times)) != (ranges.first.get(here), ranges.last.get(here)):
            message = "the partitions of the DataFrame were not the same when it was read again"
            helps = ("cache it, or pass strategy='key shuffle'",)
            raise DataError([Diagnostic("E521", message, helps=helps)])

    return in_task(run)


def _in_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches cut where blocks end, so that no chunk ends inside a block."""
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


def summarise_bucket(work: Work) -> Callable[[Batches], Batches]:
    """Return a task that summarises the events of its range of time, which come as blobs."""

    def run(batches: Batches) -> Batches:
        tables = merged_events(work.planned(), blobs_of(batches))
        yield from summarise(work, tables, partition_id())

    return in_task(run)


RAW_RATIO = 4
"""With fewer events for each matrix, the events themselves travel."""


def summarise(work: Work, tables: Iterable[pa.Table], seq: int) -> Batches:
    """Yield the summaries of events in order, or the events where these are fewer numbers."""
    if isinstance(work.planned(), SituationsPlan):
        yield from summarise_situations(work, tables, seq)
        return
    job = work.job()
    iterator = iter(tables)
    first = next(iterator, None)
    if first is None:
        return
    begin = _begin(first, job.plan)
    if _is_sparse(job, first):
        yield from _send_raw(work, job, _chain(first, iterator), seq << 32)
        return
    summariser = spark_gpu.summariser_of(job)
    for table in spark_gpu.gathered(_chain(first, iterator), summariser.step_rows):
        summariser.feed(table)
    keys, summaries = summariser.close()
    bucket = buckets_of_groups(job, keys, work.buckets)
    blobs = []
    for number in range(work.buckets):
        data = stretch_to_bytes(job, keys, summaries, work.schema, bucket == number)
        if data:
            blobs.append(Blob(number, begin, seq << 32, STRETCH, data))
    if blobs:
        yield blobs_to_batch(blobs)


def _chain(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _is_sparse(job: Job, table: pa.Table) -> bool:
    columns, keys = Columns(table), KeyTable(job.plan.partition.attributes)
    key = keys.number(columns)
    pairs = len(keys)
    if job.plan.window.pane and len(key):
        pane = read_times(columns, job.plan.time) // job.plan.window.pane
        pairs = len(np.unique((pane - pane.min()) * (key.max() + 2) + key + 1))
    lanes = sum(program.size + 1 for program in job.programs)
    return len(table) < RAW_RATIO * lanes * pairs


def _send_raw(work: Work, job: Job, tables: Iterable[pa.Table], seq: int) -> Batches:
    strict = job.plan.ties is tree.Ties.STRICT
    held: pa.Table | None = None
    for table in tables:
        whole = table if held is None else pa.concat_tables([held, table])
        times = read_times(Columns(whole), job.plan.time)
        # Events of one time stay together: later ones may still come.
        ready = int(np.searchsorted(times, times[-1], side="left")) if strict else len(whole)
        held = whole.slice(ready)
        yield from _raw_blobs(work, job, whole.slice(0, ready), seq)
        seq += 1
    if held is not None:
        yield from _raw_blobs(work, job, held, seq)


def _raw_blobs(work: Work, job: Job, table: pa.Table, seq: int) -> Batches:
    keys = KeyTable(job.plan.partition.attributes)
    number = keys.number(Columns(table))
    if (number < 0).any():
        rows = np.flatnonzero(number >= 0)
        table, number = table.take(rows), number[rows]
    if not len(table):
        return
    bucket = buckets_of_groups(job, keys, work.buckets)[number]
    yield blobs_to_batch(
        [
            Blob(place, _begin(part, job.plan), seq, EVENTS, table_to_bytes(part))
            for place, part in split(table, bucket, work.buckets)
        ]
    )


def compose_stretches(work: Work) -> Callable[[Batches], Batches]:
    """Return a task that multiplies the summaries of its groups, which come in order of time."""

    def run(batches: Batches) -> Batches:
        if isinstance(work.planned(), SituationsPlan):
            yield from compose_situations(work, blobs_of(batches))
            return
        job = work.job()
        composer = Composer(job)
        for blob in blobs_of(batches):
            if blob.kind == STRETCH:
                composer.add(*stretch_from_bytes(blob.payload))
            else:
                composer.add(*_stretch_of_events(work, job, blob.payload))
        rows = composer.finish()
        yield from result_batches(work, job, rows, composer.keys)

    return in_task(run)


def _stretch_of_events(work: Work, job: Job, payload: bytes) -> Any:
    summariser = Summariser(job)
    summariser.feed(table_from_bytes(payload))
    keys, summaries = summariser.close()
    every = np.ones(len(keys), np.bool_)
    return stretch_from_bytes(stretch_to_bytes(job, keys, summaries, work.schema, every))
