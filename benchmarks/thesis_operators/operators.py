"""Operators on streams of numbers, on a CPU or a GPU: filter, windowed aggregation, windowed join.

Streams are arrays (column, event) in the order of time; results are rows or pairs in order. A
predicate is a Python function of arrays and rows that numba can compile; it is the same for both.

Source: Körber, "Accelerating Event Stream Processing in On- and Offline Systems", chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Predicate = Callable[..., Any]
Rows = NDArray[np.int64]

STRETCH = 1024
"""Events per thread of a filter."""

THREADS = 128
FUNCTIONS = {"sum": 0, "min": 1, "max": 2}


class Work(NamedTuple):
    """The processor of an operator: ``"cpu"`` with one or all threads, or ``"gpu"``."""

    device: str = "cpu"
    parallel: bool = False
    threads: int = THREADS


ONE_THREAD = Work()


class Bounds(NamedTuple):
    """The events of a window or the candidates of a probe: low to high - 1."""

    low: Rows
    high: Rows


def count_windows(length: int, size: int, slide: int = 1) -> Bounds:
    """Compute the windows of the last ``size`` events, one every ``slide`` events."""
    high = np.arange(slide, length + 1, slide, dtype=np.int64)
    return Bounds(np.maximum(high - size, 0), high)


def time_windows(times: Rows, within: int, slide: int) -> Bounds:
    """Compute the windows ``[s, s + within)`` for multiples s of slide that hold an event."""
    if not len(times):
        return Bounds(np.zeros(0, np.int64), np.zeros(0, np.int64))
    first = (int(times[0]) - within) // slide + 1
    starts = np.arange(first, int(times[-1]) // slide + 1, dtype=np.int64) * slide
    low = np.searchsorted(times, starts).astype(np.int64)
    high = np.searchsorted(times, starts + within).astype(np.int64)
    some = low < high
    return Bounds(low[some], high[some])


def window_before(probes: Rows, times: Rows, within: int) -> Bounds:
    """Find the events of another stream in ``(t - within, t]`` for every probe's time t."""
    low = np.searchsorted(times, probes - within, side="right").astype(np.int64)
    return Bounds(low, np.searchsorted(times, probes, side="right").astype(np.int64))


def last_events(probes: Rows, times: Rows, size: int) -> Bounds:
    """Find the last ``size`` events of another stream up to every probe's time."""
    high = np.searchsorted(times, probes, side="right").astype(np.int64)
    return Bounds(np.maximum(high - size, 0), high)


def filter_events(columns: NDArray[Any], predicate: Predicate, work: Work = ONE_THREAD) -> Rows:
    """Find the rows of the events for which ``predicate(columns, row)`` is true, in order."""
    if work.device == "gpu":
        from benchmarks.thesis_operators import launches

        return launches.filter_events(columns, predicate, work.threads)
    from benchmarks.thesis_operators import cpu

    places = -(-columns.shape[1] // STRETCH)

    loop = cpu.filter_loop(predicate, parallel=work.parallel)
    counts = np.zeros(places, np.int64)
    loop(columns, STRETCH, counts, np.zeros(0, np.int64), True)
    out = np.zeros(int(counts.sum()), np.int64)
    loop(columns, STRETCH, np.cumsum(counts) - counts, out, False)
    return out


def aggregate(
    values: NDArray[np.float64], windows: Bounds, function: str, work: Work = ONE_THREAD, *,
    incremental: bool = False,
) -> NDArray[np.float64]:  # fmt: skip
    """Compute the sum, minimum or maximum of every window.

    With ``incremental``, panes of neighbours are folded once, and windows from panes; otherwise
    every window is folded from its values.
    """
    out = np.zeros(len(windows.low))
    if work.device == "gpu":
        from benchmarks.thesis_operators import launches

        return launches.aggregate(
            values, windows, FUNCTIONS[function], work.threads, incremental=incremental
        )
    from benchmarks.thesis_operators import cpu

    if incremental:
        return _incremental(values, windows, function)
    loop = cpu.fold_loop(FUNCTIONS[function], parallel=work.parallel)
    loop(values, *windows, out)
    return out


def _incremental(
    values: NDArray[np.float64], windows: Bounds, function: str
) -> NDArray[np.float64]:
    """Aggregate by prefix sums, or by a table of folds over powers of two."""
    if function == "sum":
        sums = np.concatenate([[0.0], np.cumsum(values)])
        return np.asarray(sums[windows.high] - sums[windows.low])
    fold = np.minimum if function == "min" else np.maximum
    lengths = windows.high - windows.low
    out = np.full(len(lengths), np.inf if function == "min" else -np.inf)
    level, width = np.asarray(values), 1
    while len(level):
        # Two folds of the largest power of two that fits cover a window.
        here = (lengths >= width) & (lengths < 2 * width)
        low, high = windows.low[here], windows.high[here] - width
        out[here] = fold(level[low], level[high])
        level, width = fold(level[: len(level) - width], level[width:]), 2 * width
    return out


def join(
    left: NDArray[Any], right: NDArray[Any], bounds: Bounds, predicate: Predicate,
    work: Work = ONE_THREAD, rows: Rows | None = None,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Find the pairs for which ``predicate(left, i, right, j)`` is true.

    Parameters
    ----------
    bounds
        The candidates of every probe.
    rows
        The left event of every probe; by default all left events are probes, in order.

    Returns
    -------
    The probe and the right event of every pair, in the order of probes, then of right events.
    """
    rows = np.arange(left.shape[1], dtype=np.int64) if rows is None else rows
    if work.device == "gpu":
        from benchmarks.thesis_operators import launches

        return launches.join(left, right, rows, bounds, predicate, work.threads)
    from benchmarks.thesis_operators import cpu

    loop = cpu.join_loop(predicate, parallel=work.parallel)
    nothing = np.zeros(0, np.int64)
    counts = np.zeros(len(rows), np.int64)
    loop(left, right, rows, *bounds, counts, nothing, nothing, True)
    probe, partner = np.zeros((2, int(counts.sum())), np.int64)
    loop(left, right, rows, *bounds, np.cumsum(counts) - counts, probe, partner, False)
    return probe, partner


def first_partners(
    left: NDArray[Any], right: NDArray[Any], rows: Rows, bounds: Bounds, predicate: Predicate,
    work: Work = ONE_THREAD,
) -> Rows:  # fmt: skip
    """Find the first candidate of every probe that satisfies the predicate, -1 for none."""
    if work.device == "gpu":
        from benchmarks.thesis_operators import launches

        return launches.first_partners(left, right, rows, bounds, predicate, work.threads)
    from benchmarks.thesis_operators import cpu

    found = np.zeros(len(rows), np.int64)
    cpu.first_loop(predicate, parallel=work.parallel)(left, right, rows, *bounds, found)
    return found
