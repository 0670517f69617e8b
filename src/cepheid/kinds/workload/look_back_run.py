"""Run queries with common edge predicates together: keep their events once, evaluate windows once.

The state is that of one query (``windows/open_windows.py``): the events of open windows, here those
that fit a variable of any member. When windows close, one or two passes aggregate all members
(``kernels/shared_lanes.py``). Numbers are doubles; if they do not suffice, or a pass needs too much
memory, each member runs alone over the same events.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.windows.open_windows import CHUNKS_MAX, closing, process_open_windows
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.kinds.workload.look_back_evaluate import (
    LookBackProgram,
    Windows,
    ask,
    lanes_of_windows,
    run_pass,
)
from cepheid.kinds.workload.look_back_tables import LanePass
from cepheid.kinds.workload.look_back_trailing import RowsOfMembers, answer_trailing
from cepheid.kinds.workload.shared_reading import SharedEvents, read_kinds
from cepheid.patterns.segments import sliding_segments, tumbling_segments
from cepheid.plans.plan import WindowKind


def process_together(
    program: LookBackProgram, state: PartitionState, batch: pa.Table, until: int | None
) -> RowsOfMembers:
    """Add events and evaluate the windows that end by ``until``, or all at the end (None)."""
    table = _add_events(program, state, batch)
    plan, first_job = program.group.plan, program.jobs[0]
    nothing: RowsOfMembers = [[] for _ in program.jobs]
    kind = plan.window.kind
    if not len(table) or (kind is WindowKind.NONE and until is not None):
        return nothing
    columns = Columns(table)
    times = read_times(columns, plan.time)
    if kind is WindowKind.TRAILING:
        found = answer_trailing(program, state, columns, until)
        rows = found if found is not None else _one_by_one(program, state, until)
        if until is not None:
            kept = int(np.searchsorted(times, until - plan.window.within))
            state.events, state.reported = table.slice(kept), until
        return rows
    closed, kept, first, last = closing(first_job, state, times, until)
    if not closed:
        return nothing
    found = _answer_closed(program, state, Columns(table.slice(0, closed)), first, last)
    rows = found if found is not None else _one_by_one(program, state, until)
    state.events = table.slice(kept)
    if kind is WindowKind.SLIDING:
        state.reported = last
    return rows


def _add_events(program: LookBackProgram, state: PartitionState, batch: pa.Table) -> pa.Table:
    """Add the columns and rows of a batch that can matter to the events of open windows."""
    batch = batch.select([name for name in batch.column_names if program.reads(name)])
    columns = Columns(batch)
    kept = columns.numbers(state.keys) >= 0
    kinds = read_kinds(program.kinds, columns, program.group.plan.type)
    kept = np.asarray(kept & np.take(program.bound, kinds))
    table = batch if kept.all() else batch.filter(pa.array(kept))
    if state.events is not None:
        # Queries that were removed may have left columns.
        table = pa.concat_tables([state.events.select(table.column_names), table])
    if table.num_columns and table.column(0).num_chunks > CHUNKS_MAX:
        table = table.combine_chunks()
    state.events = table
    return table


def _one_by_one(
    program: LookBackProgram, state: PartitionState, until: int | None
) -> RowsOfMembers:
    """Evaluate the windows of every member alone."""
    assert state.events is not None
    rows = []
    for job in program.jobs:
        own = PartitionState(job)
        own.keys, own.last, own.reported = state.keys, state.last, state.reported
        (found,) = process_open_windows(job, own, state.events, until)
        rows.append(found)
    return rows


def _answer_closed(
    program: LookBackProgram, state: PartitionState, columns: Columns, first: int, last: int
) -> RowsOfMembers | None:
    """Compute the rows of tumbling, sliding or no windows; None if each member must run alone."""
    asked = ask(program, state, columns)
    if asked is None:
        return None
    rows: RowsOfMembers = [[] for _ in program.jobs]
    window = program.group.plan.window
    for one in program.passes:
        for windows in _windows_of(program, one, asked.events, first, last):
            answers = run_pass(program, one, asked, windows, tailed=False)
            if answers is None:
                return None
            for member, answer in zip(one.members, answers, strict=True):
                some = np.nonzero((answer.numbers[:, :, 0].real > 0) & (windows.number < last))
                name = windows.number[some]
                if window.kind is WindowKind.SLIDING:
                    # Sliding windows are named by the pane in which they end.
                    name = (name * window.slide + window.within) // window.pane
                else:
                    name = windows.segments.window[some[0]]
                rows[member].append(
                    Rows(
                        windows.segments.key[some[0]], name, answer.numbers[some],
                        answer.values[some],
                    )
                )  # fmt: skip
    return rows


def _windows_of(
    program: LookBackProgram, one: LanePass, events: SharedEvents, first: int, last: int
) -> Iterator[Windows]:
    """Build the segments of closed windows; windows that overlap are lanes of one segment."""
    window, kinds = program.group.plan.window, events.kinds.astype(np.int64)
    if window.kind is not WindowKind.SLIDING:
        width = window.within if window.kind is WindowKind.TUMBLING else 0
        segments = tumbling_segments(events.key, events.ts, kinds, width)
        whole = np.full((len(segments.key), 1), LONG_AGO, np.int64)
        yield Windows(segments, np.zeros_like(whole), whole, np.full_like(whole, FOREVER))
        return
    many = lanes_of_windows(program, one, -(-window.within // window.slide))
    slide = window.slide
    # Consecutive windows are one longer window with a longer slide.
    together = (window.within + (many - 1) * slide, many * slide)
    count = -(-(last - first) // many)
    shifted = events.ts - first * slide
    for segments in sliding_segments(events.key, shifted, kinds, *together, 0, count):
        number = first + segments.window[:, None] * many + np.arange(many)
        yield Windows(segments, number, number * slide - 1, number * slide + window.within - 1)
