"""The operators of a SELECT on the device: rows that fit, folds into slots, pairs that fit.

Arrays come in and go out on the host; between, every array is copied once.

Source: Körber, "Accelerating Event Stream Processing in On- and Offline Systems", chapter 4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.conditions import Columns, Conditions
from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.kernels.compaction import filter_kernels, join_kernels
from cepheid.accelerator.kernels.conditions import pair_predicate_of, predicate_of
from cepheid.accelerator.kernels.folds import NO_LARGEST, NO_LEAST, fold_kernel
from cepheid.accelerator.launches import ITEMS, STRIPE, offsets_of

THREADS = 128
RUN = 32
"""Neighbouring events of a thread that folds."""

Rows = NDArray[np.int64]


class Folds(NamedTuple):
    """Values to be folded into slots, a row for each fold.

    Minima and maxima are whole numbers, or the bits of doubles where ``doubled_*`` says so.
    """

    doubles: list[NDArray[np.float64]]
    whole: list[NDArray[np.int64]]
    low: list[NDArray[np.int64]]
    high: list[NDArray[np.int64]]
    doubled_low: list[bool]
    doubled_high: list[bool]


class Folded(NamedTuple):
    """The results of folds, (fold, slot), and the number of events of each slot."""

    counts: NDArray[np.int64]
    doubles: NDArray[np.float64]
    whole: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def _threads() -> int:
    return 8 if find_device()[0] is Found.SIMULATOR else THREADS


def _there(columns: Columns) -> tuple[Any, ...]:
    """Copy the columns of one side to the device."""
    return tuple(cuda.to_device(array) for array in columns)


def find_rows(conditions: Conditions, length: int) -> Rows:
    """Find the events for which a condition is true, in order."""
    threads = _threads()
    blocks = -(-length // (threads * ITEMS))
    if not blocks:
        return np.zeros(0, np.int64)
    count, write = filter_kernels(predicate_of(conditions.form), threads, ITEMS)
    columns = _there(conditions.sides[0])
    counts = cuda.device_array(blocks, np.int32)
    count[blocks, threads](columns, length, counts)
    offsets, total = offsets_of(counts)
    if not total:
        return np.zeros(0, np.int64)
    out = cuda.device_array(total, np.int64)
    write[blocks, threads](columns, length, offsets, 0, out)
    return np.asarray(out.copy_to_host())


def fold_slots(folds: Folds, slots: Rows, size: int) -> Folded:
    """Fold the values of every event into its slot, all in one pass."""
    names: tuple[list[Any], ...] = (folds.doubles, folds.whole, folds.low, folds.high)
    dtypes: tuple[Any, ...] = (np.float64, np.int64, np.int64, np.int64)
    neutral = (0.0, 0, NO_LEAST, NO_LARGEST)
    counts = cuda.to_device(np.zeros(size, np.int64))
    values = [_rows(rows, dtype) for rows, dtype in zip(names, dtypes, strict=True)]
    flags = [np.array([*doubled, False]) for doubled in (folds.doubled_low, folds.doubled_high)]
    outs = [
        cuda.to_device(np.full((max(len(rows), 1), size), zero, dtype))
        for rows, dtype, zero in zip(names, dtypes, neutral, strict=True)
    ]
    threads = _threads()
    if len(slots):
        blocks = -(-len(slots) // (threads * RUN))
        kernel = fold_kernel(*(len(rows) for rows in names), RUN)
        kernel[blocks, threads](
            cuda.to_device(slots), *values, *(cuda.to_device(flag) for flag in flags), counts, *outs
        )
    return Folded(counts.copy_to_host(), *(out.copy_to_host() for out in outs))


def _rows(rows: list[NDArray[Any]], dtype: Any) -> Any:
    """Copy rows to the device, one after the other."""
    if not rows:
        return cuda.to_device(np.zeros((1, 1), dtype))
    there = cuda.device_array((len(rows), len(rows[0])), dtype)
    for place, row in enumerate(rows):
        there[place].copy_to_device(np.ascontiguousarray(row, dtype))
    return there


class Probes(NamedTuple):
    """The left event of each probe, and its candidates: right events low to high - 1."""

    rows: Rows
    low: Rows
    high: Rows


def count_pairs(conditions: Conditions, probes: Probes) -> tuple[int, Any]:
    """Count the pairs for which a condition is true; the second result writes them."""
    widest = int((probes.high - probes.low).max(initial=0))
    if not widest:
        return 0, None
    stripes = -(-widest // STRIPE)
    count, write, _ = join_kernels(pair_predicate_of(conditions.form))
    left, right = (_there(columns) for columns in conditions.sides)
    arrays = [cuda.to_device(np.ascontiguousarray(array)) for array in probes]
    threads, places = _threads(), len(probes.rows) * stripes
    blocks = -(-places // threads)
    counts = cuda.device_array(places, np.int32)
    count[blocks, threads](left, right, *arrays, stripes, counts)
    offsets, total = offsets_of(counts)

    def write_pairs() -> tuple[Rows, Rows]:
        probe, partner = cuda.device_array(total, np.int64), cuda.device_array(total, np.int64)
        write[blocks, threads](left, right, *arrays, stripes, offsets, probe, partner)
        return np.asarray(probe.copy_to_host()), np.asarray(partner.copy_to_host())

    return total, write_pairs
