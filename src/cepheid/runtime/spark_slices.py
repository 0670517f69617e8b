"""One slice of time of one query: row groups in, the results of the windows that it owns out."""

from __future__ import annotations

import numpy as np

from cepheid.engine.job import Job
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.runs import Rows
from cepheid.engine.step import PartitionState, finish, step
from cepheid.planner.plan import Plan, WindowKind
from cepheid.runtime.scan import Slice
from cepheid.runtime.scan_read import Reader
from cepheid.runtime.spark_tasks import Batches, Report
from cepheid.runtime.work import Work


def reach(plan: Plan) -> tuple[int, int]:
    """Return how far a task reads before and after its range, to own windows as a whole."""
    if plan.window.kind in (WindowKind.NONE, WindowKind.COUNT):
        return 0, 0
    if plan.window.kind is WindowKind.TRAILING:
        return plan.window.within, 0
    return 0, plan.window.within


def run_slice(work: Work, piece: Slice) -> Batches:
    """Yield the results of the windows that start in a slice or, without SLIDE, end in it."""
    job = work.job()
    before, after = reach(job.plan)
    report = Report(work, job, final=True)
    state = PartitionState(job)
    reader = Reader(job.plan, work.schema)
    for table in reader.events(piece, before=before, after=after):
        state, rows = step(job, state, table)
        yield from report.add(_owned_rows(job, rows, piece), state.keys)
    state, rows = finish(job, state)
    yield from report.add(_owned_rows(job, rows, piece), state.keys)
    yield from report.close(state.keys)


def _owned_rows(job: Job, rows: RowsOfRuns, piece: Slice) -> RowsOfRuns:
    return [[_owned(job, part, piece) for part in found] for found in rows]


def _owned(job: Job, rows: Rows, piece: Slice) -> Rows:
    window = job.plan.window
    place = rows.window
    if window.kind is WindowKind.SLIDING:
        place = rows.window * window.pane - window.within
    kept = np.ones(len(place), np.bool_)
    if piece.begin is not None:
        kept &= place >= piece.begin
    if piece.end is not None:
        kept &= place < piece.end
    return rows if kept.all() else Rows(*(column[kept] for column in rows))
