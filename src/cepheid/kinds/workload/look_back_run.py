"""Run queries with common edge predicates together: keep their events once, evaluate windows once.

The state is that of one query (``windows/open_windows.py``): the events of open windows, here those
that fit a variable of any member. When windows close, one or two passes aggregate all members
(``kernels/shared_lanes.py``). Numbers are doubles; if they do not suffice, or a pass needs too much
memory, each member runs alone over the same events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels import shared_lanes as kernel
from cepheid.kernels import trailing
from cepheid.kernels.lanes import widen_results
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.overlapping import WEIGHT_MAX, WEIGHT_MIN
from cepheid.kinds.trend.look_back.prefix_sums import lookups_of
from cepheid.kinds.trend.look_back.relations import Comparison, read_relations
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.windows.event_windows import report_changes
from cepheid.kinds.trend.windows.open_windows import (
    CHUNKS_MAX,
    closing,
    process_open_windows,
)
from cepheid.kinds.trend.windows.start_counters import Changes
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.kinds.workload.look_back_sharing import LookBackGroup
from cepheid.kinds.workload.look_back_tables import LanePass, places_of, tables_of
from cepheid.kinds.workload.shared_reading import SharedEvents, read_kinds, read_shared
from cepheid.kinds.workload.shared_tables import Kinds
from cepheid.language import tree
from cepheid.patterns.segments import (
    Segments,
    sliding_segments,
    take,
    trailing_segments,
    tumbling_segments,
)
from cepheid.plans.plan import WindowKind

WINDOWS_MAX = 16
"""Overlapping windows that are lanes of one segment."""

LANES_WANTED = 64
"""Numbers of an index for one place: with more, the trees of a window leave a processor's cache."""

NUMBERS_MAX = 1 << 24
"""Numbers of all trees, and of all rows of one time; with more, each query runs alone."""

LARGE = 2.0**1000
"""Numbers above it are not trusted: sums of them may leave the range of doubles."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}

RowsOfMembers = list[list[Rows]]


class LookBackProgram:
    """A group with everything that can be precomputed before the data comes."""

    def __init__(self, group: LookBackGroup, jobs: list[Job]) -> None:
        self.group, self.jobs = group, jobs
        self.kinds = Kinds(group.symbols)
        self.passes = [tables_of(group, one, self.kinds) for one in group.passes]
        has = np.zeros((len(group.symbols), self.kinds.count), np.bool_)
        for kind in range(self.kinds.count):
            has[self.kinds.symbols_of(kind), kind] = True
        self.has = has
        self.bound = has.any(axis=0)
        # Relations are read one by one, so that each is a pair of names of its own.
        self.edges = [_renamed(edge, f"{number}") for number, edge in enumerate(group.edges)]

    def reads(self, name: str) -> bool:
        """Check whether a member reads a column."""
        return any(job.reads(name) for job in self.jobs)


def _renamed(edge: Any, name: str) -> Any:
    return type(edge)(edge.expression, name, name, edge.separation, edge.reason)


class _Data(NamedTuple):
    """The input arrays of the kernel."""

    segment_ptr: NDArray[np.int64]
    order: NDArray[np.int64]
    ts: NDArray[np.int64]
    kinds: NDArray[np.int64]
    place: NDArray[np.int32]
    upto: NDArray[np.int32]
    weights: NDArray[np.float64]
    values: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class _Buffers(NamedTuple):
    """The buffers of the kernel."""

    held: NDArray[np.float64]
    total: NDArray[np.float64]
    entry: NDArray[np.float64]
    tree: NDArray[np.float64]
    room: NDArray[np.float64]
    least: NDArray[np.int64]
    total_least: NDArray[np.int64]
    entry_least: NDArray[np.int64]
    tree_least: NDArray[np.int64]
    room_least: NDArray[np.int64]


class _Asked(NamedTuple):
    """The events of a step, and the comparisons of their relations."""

    events: SharedEvents
    comparisons: list[Comparison]


class _Windows(NamedTuple):
    """Segments with a row of windows each: their names, and the times (low, high] of each.

    ``number`` has -1 for windows that only fill a row.
    """

    segments: Segments
    number: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class _Answer(NamedTuple):
    """The aggregates of members: (windows, parts) for each of those that have matches."""

    numbers: NDArray[np.complex128]
    values: NDArray[np.int64]
    ended: NDArray[np.complex128]


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
        found = _answer_trailing(program, state, columns, until)
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


def _ask(program: LookBackProgram, state: PartitionState, columns: Columns) -> _Asked | None:
    """Read events and the operands of their predicates; None if doubles or ranks do not do."""
    events = read_shared(program.group, program.kinds, state.keys, columns)
    assert len(events.ts) == len(columns.batch), "the state keeps no event without a key"
    size = np.abs(events.weights)
    if not ((size == 0) | ((size >= WEIGHT_MIN) & (size <= WEIGHT_MAX))).all():
        return None
    relations = read_relations(program.edges, columns)
    if any(relation.rest for relation in relations):
        return None
    return _Asked(events, [relation.comparisons[0] for relation in relations])


def _answer_closed(
    program: LookBackProgram, state: PartitionState, columns: Columns, first: int, last: int
) -> RowsOfMembers | None:
    """Compute the rows of tumbling, sliding or no windows; None if each member must run alone."""
    asked = _ask(program, state, columns)
    if asked is None:
        return None
    rows: RowsOfMembers = [[] for _ in program.jobs]
    window = program.group.plan.window
    for one in program.passes:
        for windows in _windows_of(program, one, asked.events, first, last):
            answers = _run(program, one, asked, windows, tailed=False)
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
) -> Iterator[_Windows]:
    """Build the segments of closed windows; windows that overlap are lanes of one segment."""
    window, kinds = program.group.plan.window, events.kinds.astype(np.int64)
    if window.kind is not WindowKind.SLIDING:
        width = window.within if window.kind is WindowKind.TUMBLING else 0
        segments = tumbling_segments(events.key, events.ts, kinds, width)
        whole = np.full((len(segments.key), 1), LONG_AGO, np.int64)
        yield _Windows(segments, np.zeros_like(whole), whole, np.full_like(whole, FOREVER))
        return
    many = _lanes_of_windows(program, one, -(-window.within // window.slide))
    slide = window.slide
    # Consecutive windows are one longer window with a longer slide.
    together = (window.within + (many - 1) * slide, many * slide)
    count = -(-(last - first) // many)
    shifted = events.ts - first * slide
    for segments in sliding_segments(events.key, shifted, kinds, *together, 0, count):
        number = first + segments.window[:, None] * many + np.arange(many)
        yield _Windows(segments, number, number * slide - 1, number * slide + window.within - 1)


def _lanes_of_windows(program: LookBackProgram, one: LanePass, overlap: int) -> int:
    """Choose how many overlapping windows run together."""
    numbers = max(one.lanes, 1) * (len(program.group.parts) + len(program.group.extremes))
    return max(1, min(WINDOWS_MAX, overlap, LANES_WANTED // numbers))


def _answer_trailing(
    program: LookBackProgram, state: PartitionState, columns: Columns, until: int | None
) -> RowsOfMembers | None:
    """Report the trailing window, for every time at which a match ends (§6.3)."""
    order = np.argsort(columns.numbers(state.keys), kind="stable")
    sorted_columns = Columns(columns.batch.take(order))
    asked = _ask(program, state, sorted_columns)
    if asked is None:
        return None
    events, within = asked.events, program.group.plan.window.within
    kinds = events.kinds.astype(np.int64)
    end = FOREVER if until is None else until - 1
    times = np.unique(np.stack([events.key, events.ts]), axis=1)
    key, time = times[:, (times[1] >= state.reported) & (times[1] <= end)]
    rows: RowsOfMembers = [[] for _ in program.jobs]
    for one in program.passes:
        many = _lanes_of_windows(program, one, WINDOWS_MAX)
        owner, number = _rows_of_windows(key, many)
        used = number >= 0
        high = np.where(used, time[number], FOREVER)
        low = np.where(used, high - within, FOREVER)
        bounds = (low[:, 0], high.max(axis=1, where=used, initial=LONG_AGO))
        for mine, segments in trailing_segments(events.key, events.ts, kinds, owner, *bounds):
            windows = _Windows(segments, number[mine], low[mine], high[mine])
            answers = _run(program, one, asked, windows, tailed=True)
            if answers is None:
                return None
            for member, answer in zip(one.members, answers, strict=True):
                here = np.nonzero(windows.number >= 0)
                changes = _changes_of(answer, here, segments.key, windows.high)
                rows[member] += report_changes(program.jobs[member], changes, None, state.reported)
    return rows


def _rows_of_windows(
    key: NDArray[np.int64], many: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put windows of one key into rows: return the keys of rows, and numbers, -1 for none."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    lengths = np.diff(starts, append=len(key))
    counts = -(-lengths // many)
    first = np.repeat(starts, counts)
    stop = np.repeat(starts + lengths, counts)
    lap = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    number = (first + lap * many)[:, None] + np.arange(many)
    return np.repeat(key[starts], counts), np.where(number < stop[:, None], number, -1)


def _changes_of(
    answer: _Answer, here: Any, key: NDArray[np.int64], time: NDArray[np.int64]
) -> Changes:
    """Build the changes of the windows of some segments."""
    ended = answer.ended[here]
    kind = np.where(ended.real > 0, trailing.ENDED, 0).astype(np.int8)
    return Changes(key[here[0]], time[here], kind, ended, answer.numbers[here], answer.values[here])


def _run(
    program: LookBackProgram, one: LanePass, asked: _Asked, windows: _Windows, *, tailed: bool
) -> list[_Answer] | None:
    """Aggregate windows in one pass; return the answers of its members, None if they fit not."""
    group, tables, segments = program.group, one.tables, windows.segments
    nodes, many = len(tables.bundle), windows.low.shape[1]
    # Backwards, matches that end with the last event of a window are those that begin there.
    parts = len(group.parts) + (tailed and one.backwards)
    mins = len(group.extremes)
    step = slice(None, None, -1 if one.backwards else 1)
    rows = np.ascontiguousarray(segments.rows[step])
    ptr = segments.ptr if not one.backwards else len(rows) - segments.ptr[::-1]
    place, upto = _look_ups(program, one, asked, rows, ptr)
    events = asked.events
    ts = take(events.ts, rows)
    order = np.empty(len(rows), np.int64)
    widest = order_rows(ptr, ts, group.plan.ties is tree.Ties.STRICT, order)
    room = segments.longest + 1
    numbers_of_trees = room * one.lanes * many * max(parts, mins)
    if max(numbers_of_trees, widest * nodes * many * max(parts, mins)) > NUMBERS_MAX:
        return None
    data = _Data(
        np.ascontiguousarray(ptr), order, ts, take(events.kinds.astype(np.int64), rows),
        place, upto, take(events.weights, rows), take(events.values, rows),
        np.ascontiguousarray(windows.low[step]), np.ascontiguousarray(windows.high[step]),
    )  # fmt: skip
    count = len(segments.key)
    numbers = np.zeros((count, many, nodes, parts))
    values = np.zeros((count, many, nodes, mins), np.int64)
    ended = np.zeros((count if tailed and not one.backwards else 0, many, nodes))
    buffers = _buffers(nodes * many, one.lanes * many, room, widest, parts, mins)
    places = [places_of(tables, many, width, room) for width in (parts, mins)]
    kernel.run_shared(
        tables, data, buffers, *places, tailed and one.backwards, numbers, values, ended
    )
    # Also false for infinities and NaN.
    if not (np.abs(numbers) < LARGE).all():
        return None
    numbers, values, ended = numbers[step], values[step], ended[step]
    if not tailed:
        ended = np.zeros((count, many, nodes))
    elif one.backwards:
        numbers, ended = numbers[..., :-1], numbers[..., -1]
    return [
        _answer_of(program, member, list(own), numbers, values, ended)
        for member, own in zip(one.members, one.outputs, strict=True)
    ]


def _look_ups(
    program: LookBackProgram, one: LanePass, asked: _Asked, rows: NDArray[np.int64],
    ptr: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:  # fmt: skip
    """Rank the rows for every relation of a pass."""
    group = program.group
    symbols = {symbol: n for n, symbol in enumerate(group.symbols)}
    kinds = take(asked.events.kinds, rows)
    places, uptos = [], []
    for number in one.relations:
        relation, comparison = group.relations[number], asked.comparisons[number]
        names = [symbols[relation.prev], symbols[relation.next]]
        if one.backwards:
            comparison = Comparison(
                MIRRORED[comparison.operator], comparison.prev, comparison.next_keys,
                comparison.next_valid, comparison.prev_keys, comparison.prev_valid,
            )  # fmt: skip
            names = names[::-1]
        earlier = program.has[names[0]][kinds]
        later = earlier if names[0] == names[1] else program.has[names[1]][kinds]
        found = lookups_of(comparison, rows, np.ascontiguousarray(ptr), earlier, later)
        places += [lookup.place for lookup in found]
        uptos += [lookup.upto for lookup in found]
    none = np.zeros((0, len(rows)), np.int32)
    return (np.stack(places), np.stack(uptos)) if places else (none, none)


def _buffers(numbers: int, lanes: int, room: int, widest: int, parts: int, mins: int) -> _Buffers:
    return _Buffers(
        np.zeros(widest * numbers * parts), np.zeros(numbers * parts), np.zeros(numbers * parts),
        np.zeros(room * lanes * parts), np.zeros(numbers * parts),
        *(np.zeros(size * mins, np.int64) for size in (
            widest * numbers, numbers, numbers, room * lanes, numbers,
        )),
    )  # fmt: skip


def _answer_of(
    program: LookBackProgram, member: int, own: list[int], numbers: NDArray[np.float64],
    values: NDArray[np.int64], ended: NDArray[np.float64],
) -> _Answer:  # fmt: skip
    """Add up the nodes that count the matches of a member, with its own order of parts."""
    parts, extremes = (np.argsort(order) for order in program.group.orders[member])
    plain = numbers[:, :, own][..., parts].sum(axis=2)
    last = ended[:, :, own].sum(axis=2)[..., None]
    wide = np.zeros(plain.shape, np.complex128)
    wide_ended = np.zeros(last.shape, np.complex128)
    widen_results(np.ascontiguousarray(plain), wide)
    widen_results(np.ascontiguousarray(last), wide_ended)
    least = values[:, :, own][..., extremes].min(axis=2, initial=np.iinfo(np.int64).max)
    return _Answer(wide, least, wide_ended[..., 0])
