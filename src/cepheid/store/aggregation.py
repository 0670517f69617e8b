"""Windowed aggregates over a store, computed from block statistics or by a replay of all events.

If a block lies within one slice, its statistics come from the index. Only blocks that cross a
slice edge are read, together with their row groups (Körber, section 3.3.1). Their number is known
before anything is read, so the choice between index and replay needs no estimate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.events.nanoseconds import PER_MICROSECOND, type_of_times
from cepheid.store.aggregates import Aggregate, WindowSpec
from cepheid.store.blocks import Blocks, Summary, summarise, values_of
from cepheid.store.manifest import Segment
from cepheid.store.places import in_order
from cepheid.store.slices import Grid, Partials, grid_of, windows_of
from cepheid.store.snapshot import RUN_GROUPS, Interval, Snapshot
from cepheid.store.times import read_ticks

INDEX_SHARE_MAX = 0.6
"""The index is used if at most this share of the row groups must be read,"""

SLICE_EVENTS_MIN = 32
"""or if a slice has this many events: cutting the events is then faster than a replay."""


class Reading(NamedTuple):
    """A segment, its blocks, their positions (time, or event number) and the row groups to read."""

    segment: Segment
    blocks: Blocks
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    whole: NDArray[np.bool_]
    partial: NDArray[np.bool_]


class AggregatePlan(NamedTuple):
    """The way to compute aggregates, and the reason; reads ``groups`` of ``total`` row groups."""

    method: str
    reason: str
    readings: list[Reading]
    grid: Grid | None
    groups: int
    total: int


def plan_aggregate(
    snapshot: Snapshot, spec: WindowSpec, interval: Interval, attributes: list[str], method: str
) -> AggregatePlan:
    """Choose between index and replay.

    ``method`` is ``"auto"``, ``"index"`` or ``"replay"``; a replay is always possible.
    """
    bounds = _bounds(snapshot, spec, interval)
    if bounds is None:
        return AggregatePlan("replay", "there are no events", [], None, 0, 0)
    grid = grid_of(spec.windows, *bounds)
    begin, end = snapshot.clip(interval)
    total = sum(snapshot.tree(segment).groups for segment in snapshot.manifest.segments)
    why = _why_not_counted(snapshot, begin, end) if spec.counted else ""
    if why:
        return AggregatePlan("replay", why, [], grid, total, total)
    readings = _readings(snapshot, spec, grid, (begin, end), attributes)
    groups = sum(len(np.unique(r.blocks.group[r.partial])) for r in readings)
    share = groups / max(total, 1)
    reason = f"{groups:,} of {total:,} row groups lie across edges of slices"
    long = snapshot.manifest.rows >= SLICE_EVENTS_MIN * grid.size
    chosen = "index" if share <= INDEX_SHARE_MAX or long else "replay"
    return AggregatePlan(
        chosen if method == "auto" else method, reason, readings, grid, groups, total
    )


def _bounds(snapshot: Snapshot, spec: WindowSpec, interval: Interval) -> tuple[int, int] | None:
    """Compute the first and the last position that an event can have."""
    begin, end = snapshot.clip(interval)
    segments = snapshot.manifest.segments
    if not segments:
        return None
    if spec.counted:
        return 0, snapshot.manifest.rows - 1
    first = min(segment.first for segment in segments)
    last = max(segment.last for segment in segments)
    first = first if begin is None else max(first, begin)
    last = last if end is None else min(last, end - 1)
    return (first, last) if first <= last else None


def _why_not_counted(snapshot: Snapshot, begin: int | None, end: int | None) -> str:
    if begin is not None or end is not None:
        return "the events of a range of time must be counted first"
    overlap = "segments overlap, so events must be counted: `compact()`"
    return "" if in_order(snapshot) else overlap


def _readings(
    snapshot: Snapshot,
    spec: WindowSpec,
    grid: Grid,
    bounds: tuple[int | None, int | None],
    attributes: list[str],
) -> list[Reading]:
    """Split each segment into nodes taken from the index and blocks that cross a slice edge."""
    found = []
    offset = 0
    for segment in snapshot.manifest.segments:
        where = spec.counted, offset, grid, bounds
        upper = _reading(segment, snapshot.tree(segment).nodes, where, attributes)
        below = snapshot.blocks(segment, np.flatnonzero(upper.partial), attributes)
        nothing = np.zeros(len(upper.partial), np.bool_)
        found.append(upper._replace(partial=nothing))
        found.append(_reading(segment, below, where, attributes))
        offset += segment.rows
    return found


def _reading(
    segment: Segment,
    blocks: Blocks,
    where: tuple[bool, int, Grid, tuple[int | None, int | None]],
    attributes: list[str],
) -> Reading:
    counted, offset, grid, (begin, end) = where
    low, high = blocks.first, blocks.last
    if counted:
        low = offset + blocks.begins
        high = low + blocks.rows - 1
    touched = np.ones(len(low), np.bool_)
    inside = grid.place(low) == grid.place(high)
    if begin is not None:
        touched &= high >= begin
        inside &= low >= begin
    if end is not None:
        touched &= low < end
        inside &= high < end
    if any(_lacks_sum(blocks, name) for name in attributes):
        inside[:] = False
    return Reading(segment, blocks, low, high, touched & inside, touched & ~inside)


def _lacks_sum(blocks: Blocks, attribute: str) -> bool:
    return attribute in blocks.attributes and blocks.attributes[attribute].sum is None


# ---------------------------------------------------------------------------------------
# Partial aggregates of slices


class Slices:
    """The partial aggregates of all slices, for all events and for each attribute."""

    def __init__(self, grid: Grid, schema: pa.Schema, attributes: list[str]) -> None:
        self.grid = grid
        self.rows = np.zeros(grid.size, np.int64)
        self.attributes: dict[str, Partials] = {}
        for name in attributes:
            double = pa.types.is_floating(schema.field(name).type)
            self.attributes[name] = Partials.empty(grid.size, np.float64 if double else np.int64)
        self._bound = dict.fromkeys(attributes, 0.0)

    def add_blocks(self, reading: Reading) -> None:
        """Add the statistics of blocks that each lie within one slice."""
        whole = reading.whole
        at = self.grid.place(reading.low[whole])
        np.add.at(self.rows, at, reading.blocks.rows[whole])
        for name, partials in self.attributes.items():
            summary = reading.blocks.attributes.get(name)
            if summary is None or not whole.any():
                continue
            assert summary.sum is not None, "blocks without a sum are read"
            part = Summary(*(values[whole] for values in summary if values is not None))
            self._add(name, partials, at, part)

    def add_events(self, table: pa.Table, places: NDArray[np.int64]) -> None:
        """Add events in the order of their positions."""
        if not len(places):
            return
        begins = np.flatnonzero(np.diff(places, prepend=places[0] - 1))
        offsets = np.append(begins, len(places))
        at = places[begins]
        np.add.at(self.rows, at, np.diff(offsets))
        for name, partials in self.attributes.items():
            if pa.types.is_null(table.column(name).type):
                continue
            summary = summarise(*values_of(table.column(name)), offsets)
            if summary.sum is None:
                raise _too_large(name)
            self._add(name, partials, at, summary)

    def add_piece(self, piece: Piece) -> None:
        """Add the aggregates of events that were read."""
        np.add.at(self.rows, piece.at, piece.rows)
        for name, summary in piece.summaries.items():
            self._add(name, self.attributes[name], piece.at, summary)

    def _add(self, name: str, partials: Partials, at: NDArray[np.int64], summary: Summary) -> None:
        total: Any = summary.sum
        if partials.sum.dtype != np.float64:
            # As long as the sum of all absolute values fits, no sum of some can leave 64 bits.
            self._bound[name] += float(np.abs(total.astype(np.float64)).sum())
            if self._bound[name] >= 2.0**62:
                raise _too_large(name)
        partials.add(at, summary.known, summary.least, summary.largest, total)


def _too_large(name: str) -> DataError:
    message = f"a sum of column `{name}` may overflow 64 bits"
    return DataError([Diagnostic("E504", message, helps=("store the column as a double",))])


def run_aggregate(
    snapshot: Snapshot,
    spec: WindowSpec,
    interval: Interval,
    aggregates: list[Aggregate],
    plan: AggregatePlan,
) -> pa.Table:
    """Compute one row for every window that holds an event."""
    manifest = snapshot.manifest
    attributes = attributes_of(aggregates)
    if plan.grid is None:
        empty = Slices(grid_of(spec.windows, 0, 0), manifest.schema, attributes)
        return _result(empty, spec, aggregates, manifest.schema, manifest.time)
    slices = Slices(plan.grid, manifest.schema, attributes)
    columns = list(dict.fromkeys([manifest.time, *attributes]))
    if plan.method == "replay":
        offset = 0
        for table in snapshot.scan(interval, columns):
            at = read_ticks(table, manifest.time)
            if spec.counted:
                at = np.arange(offset, offset + len(table))
            offset += len(table)
            slices.add_events(table, plan.grid.place(at))
    else:
        begin, end = snapshot.clip(interval)
        for reading in plan.readings:
            slices.add_blocks(reading)
        crossing = [reading for reading in plan.readings if reading.partial.any()]
        # Parquet is unpacked outside of Python's lock.
        with ThreadPoolExecutor(max(1, pa.cpu_count())) as pool:
            for pieces in pool.map(
                lambda reading: _read_partial(
                    snapshot, slices.grid, reading, attributes, spec, (begin, end)
                ),
                crossing,
            ):
                for piece in pieces:
                    slices.add_piece(piece)
    return _result(slices, spec, aggregates, manifest.schema, manifest.time)


def attributes_of(aggregates: list[Aggregate]) -> list[str]:
    """Collect the columns that aggregates use, each once."""
    return list(dict.fromkeys(a.attribute for a in aggregates if a.attribute is not None))


class Piece(NamedTuple):
    """Events that were read: for each run of them its slice, its length, and its aggregates."""

    at: NDArray[np.int64]
    rows: NDArray[np.int64]
    summaries: dict[str, Summary]


def _read_partial(
    snapshot: Snapshot,
    grid: Grid,
    reading: Reading,
    attributes: list[str],
    spec: WindowSpec,
    bounds: tuple[int | None, int | None],
) -> list[Piece]:
    """Read the blocks that cross slice edges, a few row groups at a time."""
    blocks = reading.blocks
    columns = list(dict.fromkeys([snapshot.manifest.time, *attributes]))
    opened: dict[int, Any] = {}
    wanted = np.unique(blocks.group[reading.partial])
    found = []
    for begin in range(0, len(wanted), RUN_GROUPS):
        groups = wanted[begin : begin + RUN_GROUPS]
        table = snapshot.read_groups(reading.segment, groups.tolist(), columns, opened=opened)
        mine = np.flatnonzero(np.isin(blocks.group, groups))
        times = read_ticks(table, snapshot.manifest.time)
        begins = np.cumsum(blocks.rows[mine]) - blocks.rows[mine]
        at = times
        if spec.counted:
            inside = np.arange(len(times)) - np.repeat(begins, blocks.rows[mine])
            at = np.repeat(reading.low[mine], blocks.rows[mine]) + inside
        ends = [np.searchsorted(times, b, side="left") for b in bounds if b is not None]
        inner = grid.edges[(grid.edges > at[0]) & (grid.edges <= at[-1])]
        cuts = [begins, np.searchsorted(at, inner, side="left"), ends, [len(times)]]
        offsets = np.unique(np.concatenate(cuts).astype(np.int64))
        starts = offsets[:-1]
        kept = reading.partial[mine][np.searchsorted(begins, starts, side="right") - 1]
        if bounds[0] is not None:
            kept &= times[starts] >= bounds[0]
        if bounds[1] is not None:
            kept &= times[starts] < bounds[1]
        found.append(_piece(table, attributes, offsets, kept, grid.place(at[starts[kept]])))
    return found


def _piece(
    table: pa.Table,
    names: list[str],
    offsets: NDArray[np.int64],
    kept: NDArray[np.bool_],
    at: NDArray[np.int64],
) -> Piece:
    summaries = {}
    for name in names:
        if not pa.types.is_null(table.column(name).type):
            whole = summarise(*values_of(table.column(name)), offsets)
            if whole.sum is None:
                raise _too_large(name)
            summaries[name] = Summary(*(np.asarray(values)[kept] for values in whole))
    return Piece(at, np.diff(offsets)[kept], summaries)


# ---------------------------------------------------------------------------------------
# Results


def _result(
    slices: Slices, spec: WindowSpec, aggregates: list[Aggregate], schema: pa.Schema, time: str
) -> pa.Table:
    grid = slices.grid
    rows = windows_of(Partials(slices.rows, slices.rows, slices.rows, slices.rows), grid).known
    starts = (grid.first_window + np.arange(len(rows))) * grid.windows.slide
    # Windows of events begin with the first event, windows of time reach back before it.
    some = np.flatnonzero((rows > 0) & ((starts >= 0) | (not spec.counted)))
    starts = starts[some]
    kind = schema.field(time).type
    columns: dict[str, Any] = {
        "window_start": _times(starts, kind, spec),
        "window_end": _times(starts + grid.windows.within, kind, spec),
    }
    found = {name: windows_of(partials, grid) for name, partials in slices.attributes.items()}
    for aggregate in aggregates:
        if aggregate.attribute is None:
            columns[aggregate.name] = pa.array(rows[some])
            continue
        partials = found[aggregate.attribute]
        own = schema.field(aggregate.attribute).type
        columns[aggregate.name] = _column(aggregate.function, partials, some, own)
    return pa.table(columns)


def _column(function: str, partials: Partials, some: NDArray[np.int64], kind: pa.DataType) -> Any:
    known = partials.known[some]
    if function == "COUNT":
        return pa.array(known)
    none = known == 0
    # Sums and averages of times are numbers of microseconds.
    unit = PER_MICROSECOND if getattr(kind, "unit", "") == "ns" else 1
    if function == "AVG":
        return pa.array(partials.sum[some] / np.maximum(known, 1) / unit, mask=none)
    if function == "SUM":
        return pa.array(partials.sum[some] / unit if unit > 1 else partials.sum[some], mask=none)
    values = (partials.least if function == "MIN" else partials.largest)[some]
    if pa.types.is_floating(kind):
        return pa.array(values, mask=none)
    return _ticks(np.where(none, 0, values), kind, none)


def _times(ticks: NDArray[np.int64], kind: pa.DataType, spec: WindowSpec) -> Any:
    return pa.array(ticks) if spec.counted else _ticks(ticks, kind, None)


def _ticks(ticks: NDArray[np.int64], kind: pa.DataType, none: NDArray[np.bool_] | None) -> Any:
    """Convert ticks to integers, durations or timestamps."""
    if pa.types.is_duration(kind):
        return pa.array(ticks, pa.duration("ns" if kind.unit == "ns" else "us"), mask=none)
    return pa.array(ticks, type_of_times(kind), mask=none)
