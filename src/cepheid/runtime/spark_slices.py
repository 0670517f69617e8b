"""A range of time of one query: its events in, the results of the windows that it owns out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.engine.job import Job
from cepheid.engine.listing import EVERYTHING, Owned
from cepheid.engine.match_tables import MATCH_ID
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.runs import Rows
from cepheid.engine.step import PartitionState, finish, step
from cepheid.planner.needs import needs_of
from cepheid.planner.plan import Plan, SituationsPlan, WindowKind
from cepheid.runtime import spark_gpu
from cepheid.runtime.blobs import blobs_of
from cepheid.runtime.local_jobs import list_batches
from cepheid.runtime.scan import Slice
from cepheid.runtime.scan_read import Reader
from cepheid.runtime.spark_situations import run_situations
from cepheid.runtime.spark_tasks import Batches, Report, in_task, merged_events, partition_id
from cepheid.runtime.work import Work

LISTING_ROWS = 1 << 20
"""Events of one step that lists matches, which looks again at the events of open windows."""

ID_BITS = 40
"""Matches of a task are numbered in so many bits, with the task above them."""


def run_slice(work: Work, piece: Slice, number: int) -> Batches:
    """Yield the results of the windows that start in a slice or, without SLIDE, end in it."""
    plan = work.planned()
    needs = needs_of(plan)
    before, after = needs.reach
    reader = Reader(plan, work.schema)
    tables = reader.events(piece, before=before, after=after, event_before=needs.leads_in)
    return run_range(work, tables, Owned(piece.begin, piece.end), number)


def run_times(work: Work, edges: tuple[int, ...]) -> Callable[[Batches], Batches]:
    """Return a task that owns a range of times between edges, and gets its events as blobs."""

    def run(batches: Batches) -> Batches:
        number = partition_id()
        begin = edges[number - 1] if number else None
        end = edges[number] if number < len(edges) else None
        tables = merged_events(Plan.from_json(work.plan), blobs_of(batches))
        yield from run_range(work, tables, Owned(begin, end), number)

    return in_task(run)


def list_bucket(work: Work) -> Callable[[Batches], Batches]:
    """Return a task that lists the matches of its keys, whose events come as blobs."""

    def run(batches: Batches) -> Batches:
        tables = merged_events(Plan.from_json(work.plan), blobs_of(batches))
        yield from list_tables(work, work.job(), tables, EVERYTHING, partition_id())

    return in_task(run)


def run_range(work: Work, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
    """Yield the results of events in order, of the windows that are owned.

    ``number`` tells ranges of one query apart.
    """
    if isinstance(work.planned(), SituationsPlan):
        yield from run_situations(work, tables, owned.begin, owned.end)
        return
    job = work.job()
    if job.plan.lists_matches:
        yield from list_tables(work, job, tables, owned, number)
        return
    report = Report(work, job, final=True)
    if spark_gpu.on_device(job):
        rows, keys = spark_gpu.run_on_device(job, tables, work.schema)
        yield from report.add(_owned_rows(job, rows, owned), keys)
        yield from report.close(keys)
        return
    state = PartitionState(job)
    for table in tables:
        state, rows = step(job, state, table)
        yield from report.add(_owned_rows(job, rows, owned), state.keys)
    state, rows = finish(job, state)
    yield from report.add(_owned_rows(job, rows, owned), state.keys)
    yield from report.close(state.keys)


def _owned_rows(job: Job, rows: RowsOfRuns, owned: Owned) -> RowsOfRuns:
    return [[_owned(job, part, owned) for part in found] for found in rows]


def _owned(job: Job, rows: Rows, owned: Owned) -> Rows:
    window = job.plan.window
    place = rows.window
    if window.kind is WindowKind.SLIDING:
        place = rows.window * window.pane - window.within
    kept = np.ones(len(place), np.bool_)
    if owned.begin is not None:
        kept &= place >= owned.begin
    if owned.end is not None:
        kept &= place < owned.end
    return rows if kept.all() else Rows(*(column[kept] for column in rows))


# ---------------------------------------------------------------------------------------
# Matches


def list_tables(
    work: Work, job: Job, tables: Iterable[pa.Table], owned: Owned, number: int
) -> Batches:
    """Yield the matches in events as they are found, numbered apart from those of other tasks."""
    for table in list_batches(job, _gathered(job, tables), owned):
        yield from work.shown(number_matches(table, number)).to_batches()


def number_matches(table: pa.Table, number: int) -> pa.Table:
    """Return matches with numbers that no other task gives."""
    if MATCH_ID not in table.column_names or not number:
        return table
    place = table.column_names.index(MATCH_ID)
    ids = pc.add(table.column(place), number << ID_BITS)
    return table.set_column(place, MATCH_ID, ids)


def _gathered(job: Job, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables put together, as every step looks at what is open again.

    Without a window everything stays open, and steps that double keep the work linear.
    """
    doubling = job.plan.window.kind is WindowKind.NONE
    waiting: list[pa.Table] = []
    rows = total = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= max(LISTING_ROWS, total if doubling else 0):
            yield pa.concat_tables(waiting)
            total += rows
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
