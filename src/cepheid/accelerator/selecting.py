"""The operators of a SELECT on the device: rows that fit, folds into slots, pairs that fit.

Arrays come in and go out on the host; between, every array is copied once.

Source: Körber, "Accelerating Event Stream Processing in On- and Offline Systems", chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from cepheid.accelerator.conditions import Columns, Conditions, Form
from cepheid.accelerator.device import Found, find_device
from cepheid.accelerator.grouping import grid_of
from cepheid.accelerator.kernels.compaction import filter_kernels, gather_kernel, join_kernels
from cepheid.accelerator.kernels.conditions import pair_predicate_of, predicate_of
from cepheid.accelerator.kernels.folds import NO_LARGEST, NO_LEAST, fold_kernel
from cepheid.accelerator.launches import ITEMS, STRIPE, device_of, offsets_of
from cepheid.accelerator.uploading import Uploaded, upload_columns

THREADS = 128
RUN = 32
"""Events of a thread that folds."""

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
    return tuple(map(device_of, columns))


def find_rows(conditions: Conditions, length: int) -> Rows:
    """Find the events for which a condition is true, in order."""
    found = rows_on_device(_there(conditions.sides[0]), conditions.form, length)
    return np.zeros(0, np.int64) if found is None else np.asarray(found.copy_to_host())


def rows_on_device(columns: tuple[Any, ...], form: Form, length: int) -> Any:
    """Find the events for which a condition on columns there is true; None for no events."""
    threads = _threads()
    blocks = -(-length // (threads * ITEMS))
    if not blocks:
        return None
    count, write = filter_kernels(predicate_of(form), threads, ITEMS)
    counts = cuda.device_array(blocks, np.int32)
    count[blocks, threads](columns, length, counts)
    offsets, total = offsets_of(counts)
    if not total:
        return None
    out = cuda.device_array(total, np.int64)
    write[blocks, threads](columns, length, offsets, 0, out)
    return out


def gather_rows(column: Any, rows: Any) -> NDArray[np.int64]:
    """Gather some events of a column on the device."""
    out = cuda.device_array(len(rows), np.int64)
    gather_kernel[grid_of(len(rows))](column, rows, out)
    return np.asarray(out.copy_to_host())


class FoldPlaces(NamedTuple):
    """The columns of folds on the device; ``doubled_*`` says which ones to compare are doubles."""

    doubles: list[int]
    whole: list[int]
    low: list[int]
    high: list[int]
    doubled_low: list[bool]
    doubled_high: list[bool]


def fold_slots(folds: Folds, slots: Rows, size: int) -> Folded:
    """Fold the values of every event into its slot, all in one pass."""
    columns: list[NDArray[np.int64]] = []
    rows: dict[tuple[int, tuple[int, ...]], int] = {}

    def place(values: NDArray[Any]) -> int:
        # A sum, a minimum and a maximum of one column read it from one place.
        known = (values.__array_interface__["data"][0], values.strides)
        if known not in rows:
            rows[known] = len(columns)
            columns.append(np.ascontiguousarray(values).view(np.int64))
        return rows[known]

    doubles, whole, low, high = (
        [place(values) for values in names]
        for names in (folds.doubles, folds.whole, folds.low, folds.high)
    )
    places = FoldPlaces(doubles, whole, low, high, folds.doubled_low, folds.doubled_high)
    there = upload_columns([[column] for column in columns], len(slots))
    return fold_columns(there, places, device_of(slots), size)


def fold_columns(there: Uploaded, places: FoldPlaces, slots: Any, size: int) -> Folded:
    """Fold columns on the device into the slots of events, which are there, too."""
    names = places[:4]
    widest = max(1, *map(len, names))
    at, bits = np.zeros((4, widest), np.int64), np.zeros((2, widest), np.bool_)
    for row, own in zip(at, names, strict=True):
        row[: len(own)] = own
    for flags, doubled in zip(bits, (places.doubled_low, places.doubled_high), strict=True):
        flags[: len(doubled)] = doubled
    dtypes: tuple[Any, ...] = (np.float64, np.int64, np.int64, np.int64)
    neutral = (0.0, 0, NO_LEAST, NO_LARGEST)
    counts = cuda.to_device(np.zeros(size, np.int64))
    outs = [
        cuda.to_device(np.full((max(len(rows), 1), size), zero, dtype))
        for rows, dtype, zero in zip(names, dtypes, neutral, strict=True)
    ]
    threads = _threads()
    if len(slots):
        blocks = -(-len(slots) // (threads * RUN))
        kernel = fold_kernel(*(len(rows) for rows in names), threads, RUN)
        kernel[blocks, threads](
            slots, there.whole, there.doubles, cuda.to_device(at), cuda.to_device(bits), counts,
            *outs,
        )  # fmt: skip
    return Folded(counts.copy_to_host(), *(out.copy_to_host() for out in outs))


class Probes(NamedTuple):
    """The left event of each probe, and its candidates: right events low to high - 1."""

    rows: Rows
    low: Rows
    high: Rows


class PairCounts(NamedTuple):
    """The number of pairs, and a function that writes them: probes, and right events."""

    total: int
    write: Callable[[], tuple[Rows, Rows]]


def count_pairs(conditions: Conditions, probes: Probes) -> PairCounts:
    """Count the pairs for which a condition is true."""
    left, right = (_there(columns) for columns in conditions.sides)
    return count_pairs_there(conditions.form, left, right, probes)


def count_pairs_there(
    form: Form, left: tuple[Any, ...], right: tuple[Any, ...], probes: Probes
) -> PairCounts:
    """Count the pairs for which a condition on columns there is true."""
    widest = int((probes.high - probes.low).max(initial=0))
    if not widest:
        return PairCounts(0, _no_pairs)
    stripes = -(-widest // STRIPE)
    count, write = join_kernels(pair_predicate_of(form))
    arrays = [device_of(array) for array in probes]
    threads, places = _threads(), len(probes.rows) * stripes
    blocks = -(-places // threads)
    counts = cuda.device_array(places, np.int32)
    count[blocks, threads](left, right, *arrays, stripes, counts)
    offsets, total = offsets_of(counts)

    def write_pairs() -> tuple[Rows, Rows]:
        if not total:
            return _no_pairs()
        probe, partner = cuda.device_array(total, np.int64), cuda.device_array(total, np.int64)
        write[blocks, threads](left, right, *arrays, stripes, offsets, probe, partner)
        return np.asarray(probe.copy_to_host()), np.asarray(partner.copy_to_host())

    return PairCounts(total, write_pairs)


def _no_pairs() -> tuple[Rows, Rows]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)
