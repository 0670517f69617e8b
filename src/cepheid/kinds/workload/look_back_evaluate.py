"""Evaluate windows of queries with common edge predicates in one pass over their events.

In come the kept events and segments of windows; out go the aggregates of every member. The kernel
is ``kernels/shared_lanes.py``. Its numbers are doubles; the answer is None if they do not suffice,
or if a pass needs too much memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kernels import shared_lanes as kernel
from cepheid.kernels.lanes import widen_results
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.evaluate import Answer
from cepheid.kinds.trend.look_back.overlapping import WEIGHT_MAX, WEIGHT_MIN
from cepheid.kinds.trend.look_back.prefix_sums import lookups_of
from cepheid.kinds.trend.look_back.relations import Comparison, read_relations
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.kinds.workload.look_back_sharing import LookBackGroup
from cepheid.kinds.workload.look_back_tables import LanePass, places_of, tables_of
from cepheid.kinds.workload.shared_reading import SharedEvents, read_shared
from cepheid.kinds.workload.shared_tables import Kinds
from cepheid.language import tree
from cepheid.patterns.segments import (
    Segments,
    take,
)

WINDOWS_MAX = 16
"""Overlapping windows that are lanes of one segment."""

LANES_WANTED = 64
"""Numbers of an index for one place: with more, the trees of a window leave a processor's cache."""

NUMBERS_MAX = 1 << 24
"""Numbers of all trees, and of all rows of one time; with more, each query runs alone."""

LARGE = 2.0**1000
"""Numbers above it are not trusted: sums of them may leave the range of doubles."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


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


class Asked(NamedTuple):
    """The events of a step, and the comparisons of their relations."""

    events: SharedEvents
    comparisons: list[Comparison]


class Windows(NamedTuple):
    """Segments with a row of windows each: their names, and the times (low, high] of each.

    ``number`` has -1 for windows that only fill a row.
    """

    segments: Segments
    number: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def ask(program: LookBackProgram, state: PartitionState, columns: Columns) -> Asked | None:
    """Read events and the operands of their predicates; None if doubles or ranks do not do."""
    events = read_shared(program.group, program.kinds, state.keys, columns)
    assert len(events.ts) == len(columns.batch), "the state keeps no event without a key"
    size = np.abs(events.weights)
    if not ((size == 0) | ((size >= WEIGHT_MIN) & (size <= WEIGHT_MAX))).all():
        return None
    relations = read_relations(program.edges, columns)
    if any(relation.rest for relation in relations):
        return None
    return Asked(events, [relation.comparisons[0] for relation in relations])


def lanes_of_windows(program: LookBackProgram, one: LanePass, overlap: int) -> int:
    """Choose how many overlapping windows run together."""
    numbers = max(one.lanes, 1) * (len(program.group.parts) + len(program.group.extremes))
    return max(1, min(WINDOWS_MAX, overlap, LANES_WANTED // numbers))


def run_pass(
    program: LookBackProgram, one: LanePass, asked: Asked, windows: Windows, *, tailed: bool
) -> list[Answer] | None:
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
    program: LookBackProgram, one: LanePass, asked: Asked, rows: NDArray[np.int64],
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
) -> Answer:  # fmt: skip
    """Add up the nodes that count the matches of a member, with its own order of parts."""
    parts, extremes = (np.argsort(order) for order in program.group.orders[member])
    plain = numbers[:, :, own][..., parts].sum(axis=2)
    last = ended[:, :, own].sum(axis=2)[..., None]
    wide = np.zeros(plain.shape, np.complex128)
    wide_ended = np.zeros(last.shape, np.complex128)
    widen_results(np.ascontiguousarray(plain), wide)
    widen_results(np.ascontiguousarray(last), wide_ended)
    least = values[:, :, own][..., extremes].min(axis=2, initial=np.iinfo(np.int64).max)
    return Answer(wide, least, wide_ended[..., 0])
