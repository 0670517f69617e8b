"""The operators on the device: copies and launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.thesis_operators.fold_kernels import first_kernel, fold_kernels
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.kernels.compaction import filter_kernels, join_kernels
from cepheid.accelerator.launches import ITEMS, STRIPE, device_of, offsets_of

if TYPE_CHECKING:
    from benchmarks.thesis_operators.operators import Bounds

PANE = 1024
Rows = NDArray[np.int64]


def filter_events(columns: Any, predicate: Callable[..., Any], threads: int) -> Rows:
    """Filter; see ``operators.filter_events``."""
    found = filter_on_device(device_of(columns), predicate, threads)
    return np.asarray(found.copy_to_host() if found is not None else np.zeros(0, np.int64))


def filter_on_device(
    columns: Any, predicate: Callable[..., Any], threads: int, out: Any = None
) -> Any:
    """Filter to rows on the device, into a buffer if one is given; None for no rows."""
    length = columns.shape[1]
    blocks = -(-length // (threads * ITEMS))
    if not blocks:
        return None
    count, write = filter_kernels(predicate, threads, ITEMS)
    counts = cuda.device_array(blocks, np.int32)
    count[blocks, threads](columns, length, counts)
    offsets, total = offsets_of(counts)
    if not total:
        return None
    out = cuda.device_array(total, np.int64) if out is None else out[:total]
    write[blocks, threads](columns, length, offsets, 0, out)
    return out


def aggregate(
    values: Any, windows: Bounds, function: int, threads: int, *, incremental: bool
) -> NDArray[np.float64]:
    """Aggregate windows; see ``operators.aggregate``."""
    length = len(windows.low)
    if not length:
        return np.zeros(0)
    values = device_of(values)
    out = cuda.device_array(length, np.float64)
    low, high = device_of(windows.low), device_of(windows.high)
    fold_on_device(values, low, high, out, function, threads, incremental=incremental)
    return np.asarray(out.copy_to_host())


def fold_on_device(
    values: Any, low: Any, high: Any, out: Any, function: int, threads: int, *, incremental: bool
) -> None:
    """Fold windows of values that lie on the device."""
    again, from_panes = fold_kernels(function, threads)
    if not incremental:
        again[len(low), threads](values, low, high, out)
        return
    count = -(-len(values) // PANE)
    begin = np.arange(count, dtype=np.int64) * PANE
    panes = cuda.device_array(count, np.float64)
    end = np.minimum(begin + PANE, len(values))
    again[count, threads](values, cuda.to_device(begin), cuda.to_device(end), panes)
    from_panes[len(low), threads](values, panes, PANE, low, high, out)


def join(
    left: Any, right: Any, rows: Rows, bounds: Bounds, predicate: Callable[..., Any], threads: int
) -> tuple[Rows, Rows]:
    """Join; see ``operators.join``."""
    pairs = join_on_device(left, right, rows, bounds, predicate, threads)
    if pairs is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return pairs[0].copy_to_host(), pairs[1].copy_to_host()


def join_on_device(
    left: Any, right: Any, rows: Any, bounds: Bounds, predicate: Callable[..., Any], threads: int
) -> tuple[Any, Any] | None:
    """Join to pairs on the device; None for no pairs."""
    widest = int((bounds.high - bounds.low).max(initial=0))
    if not widest:
        return None
    stripes = -(-widest // STRIPE)
    count, write = join_kernels(predicate)
    arrays = [device_of(array) for array in (left, right, rows, *bounds)]
    places = len(bounds.low) * stripes
    blocks = -(-places // threads)
    counts = cuda.device_array(places, np.int32)
    count[blocks, threads](*arrays, stripes, counts)
    offsets, total = offsets_of(counts)
    if not total:
        return None
    probe, partner = cuda.device_array(total, np.int64), cuda.device_array(total, np.int64)
    write[blocks, threads](*arrays, stripes, offsets, probe, partner)
    return probe, partner


def first_partners(
    left: Any, right: Any, rows: Rows, bounds: Bounds, predicate: Callable[..., Any], threads: int
) -> Rows:
    """Find first partners; see ``operators.first_partners``."""
    if not len(rows):
        return np.zeros(0, np.int64)
    arrays = [device_of(array) for array in (left, right, rows, *bounds)]
    found = cuda.device_array(len(rows), np.int64)
    first_kernel(predicate)[-(-len(rows) // threads), threads](*arrays, found)
    return np.asarray(found.copy_to_host())
