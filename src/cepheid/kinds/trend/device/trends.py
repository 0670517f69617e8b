"""Trends such as falling prices on the GPU: one variable under Kleene plus, compared neighbours.

Segments (keys in windows) run in parallel. Where one order is compared, events are sorted run by
run; with ``=`` and ``<>``, NULL, and several comparisons, every event compares itself with all
earlier ones of its segment, in tiles.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.sorted_trends import ORDERED, sorted_trend_kernel
from cepheid.accelerator.kernels.trends import EQUAL, least_kernel, trend_kernel
from cepheid.accelerator.launches import device_of
from cepheid.accelerator.room import events_at_once
from cepheid.accelerator.systems import SHARED_BYTES_MAX
from cepheid.arrays.columns import Columns, EventArrays, KeyTable
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels.ranks import OPERATORS
from cepheid.kinds.trend.device.summaries import by_key
from cepheid.kinds.trend.look_back.relations import Comparison, read_relations
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.program.wide import fit_doubles
from cepheid.language import tree
from cepheid.plans.plan import WindowKind, WindowPlan

THREADS = 128
"""Threads of a block that compares pairs."""

TILE = 64
SORTED_THREADS = ((1 << 10, 32), (1 << 12, 64), (1 << 13, 128))
SORTED_THREADS_MOST = 256
"""Events of a tile, and threads of a block that sorts, by the average length of segments."""

WARP = 32
"""Threads of the smallest block."""

SIMULATED, SIMULATED_TILE = 8, 4
"""Threads and tile of a block of the simulator."""

PAIRS_PER_SECOND = 3e11
PAIRS_OF_A_BLOCK = 1.5e9
SORTED_PER_SECOND = 8e9
SORTED_OF_A_BLOCK = 1.4e7
CPU_EVENT_SECONDS = 200e-9
"""Rates of an H200, of one of its blocks, and of the CPU: pairs, and events times levels."""

ROOM_ROWS = 1 << 27
"""Events of segments that are on the device at once; each part takes 16 bytes."""


class Segments(NamedTuple):
    """Keys in windows: their events, and the windows' names."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    window: NDArray[np.int64]


class Compared(NamedTuple):
    """The keys of every event as the earlier and as the later one of a pair, and an operator."""

    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    operator: int


class Trends(NamedTuple):
    """Events by key in time order, and their segments; columns may be on the device."""

    key: NDArray[np.int64]
    weights: NDArray[np.float64]
    values: NDArray[np.int64]
    compared: tuple[Compared, ...]
    before: NDArray[np.int64]
    segments: Segments

    @property
    def sorts(self) -> bool:
        """Check whether events are sorted; otherwise all pairs are compared."""
        return len(self.compared) == 1 and self.compared[0].operator in ORDERED

    def is_worth_it(self) -> bool:
        """Estimate whether the GPU is faster than the CPU, from known rates of both."""
        if len(self.compared) > 1:
            return False  # Nobody has measured it.
        lengths = (self.segments.end - self.segments.begin).astype(np.float64)
        if self.sorts:
            steps = lengths * np.log2(np.maximum(lengths, 2))
            taken = max(steps.sum() / SORTED_PER_SECOND, steps.max(initial=0) / SORTED_OF_A_BLOCK)
        else:
            steps = lengths * lengths / 2
            taken = max(steps.sum() / PAIRS_PER_SECOND, steps.max(initial=0) / PAIRS_OF_A_BLOCK)
        return bool(1e-3 + taken < CPU_EVENT_SECONDS * lengths.sum())


def read_trends(job: Job, keys: KeyTable, table: pa.Table) -> Trends | None:
    """Read the events of a table; None if they are for the CPU."""
    columns = Columns(table)
    (relation,) = read_relations(job.plan.edges, columns)
    if relation.rest:
        return None  # A condition that is no comparison of two values.
    compared = [one for comparison in relation.comparisons for one in _compared(comparison)]
    arrays = read_arrays(job, keys, columns)
    if len(arrays.ts) != len(table):
        return None  # An event belongs to no partition.
    if not fit_doubles(arrays.weights, finite=True):
        return None
    rows = _rows(arrays)
    if rows is not None:
        arrays = arrays.take(rows)
        compared = [_taken(one, rows) for one in compared]
    return Trends(
        arrays.key,
        np.ascontiguousarray(arrays.weights[: max(len(job.parts) - 1, 1)], np.float64),
        arrays.values[: len(job.extremes)],
        tuple(compared),
        _before(job, arrays),
        _segments(job.plan.window, arrays),
    )


def _compared(comparison: Comparison) -> list[Compared]:
    """Convert a comparison; where one side may be NULL, another one checks that neither is."""
    operator = OPERATORS[comparison.operator]
    found = [Compared(comparison.prev_keys, comparison.next_keys, operator)]
    masks = (comparison.prev_valid, comparison.next_valid)
    if any(mask is not None and not mask.all() for mask in masks):
        length = len(comparison.prev_keys)
        earlier, later = (
            np.ones(length, np.int64) if mask is None else np.where(mask, 1, null)
            for mask, null in zip(masks, (2, 3), strict=True)
        )
        found.append(Compared(earlier, later, EQUAL))
    return found


def _taken(one: Compared, rows: NDArray[np.int64]) -> Compared:
    """Select some events; both sides of a comparison may be one column."""
    earlier = one.earlier[rows]
    return Compared(earlier, earlier if one.later is one.earlier else one.later[rows], one.operator)


def _rows(arrays: EventArrays) -> NDArray[np.int64] | None:
    """Select the events of the variable, grouped by key; None for all."""
    takes = arrays.bits != 0
    if takes.all():
        return by_key(arrays.key)
    rows = np.flatnonzero(takes)
    order = by_key(arrays.key[rows])
    return rows if order is None else rows[order]


def _before(job: Job, arrays: EventArrays) -> NDArray[np.int64]:
    """Find for each event the first event that it may not follow."""
    number = np.arange(len(arrays.ts), dtype=np.int64)
    if job.plan.ties is not tree.Ties.STRICT or len(number) < 2:
        return number
    tied = (arrays.ts[1:] == arrays.ts[:-1]) & (arrays.key[1:] == arrays.key[:-1])
    if not tied.any():
        return number
    new = np.ones(len(number), np.bool_)
    new[1:] = ~tied
    return np.asarray(np.maximum.accumulate(np.where(new, number, 0)))


def _segments(window: WindowPlan, arrays: EventArrays) -> Segments:
    """Build all windows of all keys that have events."""
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(arrays.key)) + 1, [len(arrays.ts)]])
    found = [
        windows_of(window, arrays.ts[first:last], first)
        for first, last in itertools.pairwise(bounds)
        if first < last
    ]
    if not found:
        return Segments(*(np.zeros(0, np.int64) for _ in range(3)))
    return Segments(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def windows_of(window: WindowPlan, times: NDArray[np.int64], first: int) -> Segments:
    """Build the windows of one key, whose events begin at ``first``."""
    if window.kind is WindowKind.NONE:
        begin, end = np.array([first]), np.array([first + len(times)])
        return Segments(begin, end, np.full(1, LONG_AGO, np.int64))
    # From the first window that contains the first event to the last one that opens.
    lowest, highest = (times[0] - window.within) // window.slide + 1, times[-1] // window.slide
    overlap = -(-window.within // window.slide)
    if highest - lowest > len(times) * overlap:
        # Most windows are empty.
        start = np.unique((times // window.slide)[:, None] - np.arange(overlap)) * window.slide
    else:
        start = np.arange(lowest, highest + 1) * window.slide
    begin = np.searchsorted(times, start, side="left")
    end = np.searchsorted(times, start + window.within, side="left")
    some = begin < end
    # Overlapping windows are named by the pane that ends them.
    sliding = window.kind is WindowKind.SLIDING
    name = (start + window.within) // window.pane if sliding else start
    return Segments(first + begin[some], first + end[some], name[some])


def count_trends(
    trends: Trends, parts: int, threads: int | None = None
) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
    """Compute the aggregates of every segment: (segment, part) wide numbers, and value keys."""
    begin, end, _ = trends.segments
    extremes = len(trends.values)
    if not len(begin):
        return np.zeros((0, parts), np.complex128), np.zeros((0, extremes), np.int64)
    weights: Any = trends.weights if len(trends.weights) else np.zeros((1, 1))
    kernel, threads = _kernel(trends, parts, threads)
    events = (*_keys(trends), device_of(trends.before), device_of(weights))
    values = device_of(trends.values) if extremes else None
    found, least = [], []
    for first, last in _slices(end - begin):
        own, size = end[first:last] - begin[first:last], last - first
        numbers = cuda.device_array((int(own.sum()), parts, 2), np.float64)
        totals = cuda.device_array((size, parts, 2), np.float64)
        ranges = (begin[first:last], end[first:last], np.cumsum(own) - own)
        there = [cuda.to_device(np.ascontiguousarray(array)) for array in ranges]
        more = _rooms_of_runs(len(numbers), parts) if trends.sorts else ()
        kernel[size, threads](*events, *there, numbers, totals, *more)
        found.append(totals.copy_to_host().view(np.complex128)[..., 0])
        out = cuda.device_array((size, max(extremes, 1)), np.int64)
        if extremes:
            least_kernel(threads)[(size, extremes), threads](values, *there[:2], out)
        least.append(out.copy_to_host()[:, :extremes])
    return np.concatenate(found), np.concatenate(least)


def _keys(trends: Trends) -> tuple[Any, Any]:
    """Copy the keys of earlier and later events; of several comparisons, in rows."""
    compared = trends.compared
    # Both sides of `S.price > NEXT(S).price` are one column.
    same = all(one.earlier is one.later for one in compared)
    if len(compared) == 1:
        earlier = device_of(compared[0].earlier)
        later = earlier if same else device_of(compared[0].later)
        if trends.sorts:
            return earlier, later
        return tuple(keys.reshape((1, len(keys))) for keys in (earlier, later))
    earlier = device_of(np.stack([one.earlier for one in compared]))
    return earlier, earlier if same else device_of(np.stack([one.later for one in compared]))


def _kernel(trends: Trends, parts: int, threads: int | None) -> tuple[Any, int]:
    """Choose a kernel and its threads for segments of an average length."""
    simulated = find_device()[0] is Found.SIMULATOR
    if not trends.sorts:
        operators = tuple(one.operator for one in trends.compared)
        wanted = threads_for(THREADS, parts, len(operators))
        threads = threads or (SIMULATED if simulated else wanted)
        return trend_kernel(operators, parts, threads), threads
    length = float((trends.segments.end - trends.segments.begin).mean())
    wanted = next((own for most, own in SORTED_THREADS if length <= most), SORTED_THREADS_MOST)
    threads = threads or (SIMULATED if simulated else threads_for(wanted, parts))
    tile = min(SIMULATED_TILE if simulated else TILE, threads)
    return sorted_trend_kernel(trends.compared[0].operator, parts, threads, tile), threads


def threads_for(wanted: int, parts: int, compared: int = 1) -> int:
    """Choose the threads of a block whose wide numbers and keys have room in shared memory.

    Examples
    --------
    >>> threads_for(256, 3), threads_for(256, 12), threads_for(128, 12)
    (256, 128, 128)
    """
    while wanted > WARP and wanted * 8 * (2 * parts + compared) > SHARED_BYTES_MAX:
        wanted //= 2
    return wanted


def _rooms_of_runs(rows: int, parts: int) -> tuple[Any, Any, Any]:
    """Allocate the buffers of sorted runs: their keys, rows and sums."""
    return (
        cuda.device_array((2, rows), np.int64),
        cuda.device_array((2, rows), np.int32),
        cuda.device_array((rows, parts, 2), np.float64),
    )


def _slices(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Split segments into ranges that fit into device memory."""
    stretch = np.cumsum(lengths) // events_at_once(ROOM_ROWS)
    cuts = [0, *(np.flatnonzero(np.diff(stretch)) + 1), len(lengths)]
    return [(int(a), int(b)) for a, b in itertools.pairwise(cuts)]


def run_trends(job: Job, table: pa.Table, *, forced: bool) -> pa.Table | None:
    """Compute the result of a query over a sorted table; None if the CPU should do it."""
    keys = KeyTable(job.plan.partition.attributes)
    trends = read_trends(job, keys, table)
    return None if trends is None else table_of(job, trends, keys, table.schema, forced=forced)


def table_of(
    job: Job, trends: Trends, keys: KeyTable, schema: pa.Schema, *, forced: bool
) -> pa.Table | None:
    """Compute the result of trends; None if the CPU should do it."""
    if not (forced or trends.is_worth_it()):
        return None
    begin, _, window = trends.segments
    rows = Rows(trends.key[begin], window, *count_trends(trends, len(job.parts)))
    return build_table(job, [[rows]], keys, schema)
