"""The operators on a CPU, with one thread or all: the baseline for the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange


def _compiled(predicate: Callable[..., Any]) -> Any:
    """Compile a predicate without reference counting, which costs more than the predicate."""
    compiler: Any = njit
    return compiler(_nrt=False)(predicate)


@functools.cache
def filter_loop(predicate: Callable[..., Any], *, parallel: bool = False) -> Any:
    """Build a function (columns, stretch, counts or offsets, out) that counts or writes."""
    fits = _compiled(predicate)

    @njit(parallel=parallel)
    def loop(columns, stretch, places, out, counting):  # type: ignore[no-untyped-def]
        for place in prange(len(places)):
            at = 0 if counting else places[place]
            for i in range(place * stretch, min((place + 1) * stretch, columns.shape[1])):
                if fits(columns, i):
                    if not counting:
                        out[at] = i
                    at += 1
            if counting:
                places[place] = at

    return loop


@functools.cache
def join_loop(predicate: Callable[..., Any], *, parallel: bool = False) -> Any:
    """Build a function that counts or writes the pairs of every probe; see ``join_kernels``."""
    fits = _compiled(predicate)

    @njit(parallel=parallel)
    def loop(  # type: ignore[no-untyped-def]
        left, right, rows, low, high, places, out_probe, out_right, counting
    ):
        for probe in prange(len(rows)):
            at = 0 if counting else places[probe]
            for j in range(low[probe], high[probe]):
                if fits(left, rows[probe], right, j):
                    if not counting:
                        out_probe[at] = probe
                        out_right[at] = j
                    at += 1
            if counting:
                places[probe] = at

    return loop


@functools.cache
def first_loop(predicate: Callable[..., Any], *, parallel: bool = False) -> Any:
    """Build a function that finds the first partner of every probe, -1 for none."""
    fits = _compiled(predicate)

    @njit(parallel=parallel)
    def loop(left, right, rows, low, high, found):  # type: ignore[no-untyped-def]
        for probe in prange(len(rows)):
            found[probe] = -1
            for j in range(low[probe], high[probe]):
                if fits(left, rows[probe], right, j):
                    found[probe] = j
                    break

    return loop


@functools.cache
def fold_loop(function: int, *, parallel: bool = False) -> Any:
    """Build a function (values, low, high, out) that folds every window from its values."""
    zero = (0.0, np.inf, -np.inf)[function]

    # Sums in any order let the loop run in vectors, as the device adds in another order too.
    @njit(parallel=parallel, fastmath=function == 0)
    def loop(values, low, high, out):  # type: ignore[no-untyped-def]
        for window in prange(len(low)):
            total = zero
            for i in range(low[window], high[window]):
                if function == 0:
                    total += values[i]
                elif function == 1:
                    total = min(total, values[i])
                else:
                    total = max(total, values[i])
            out[window] = total

    return loop
