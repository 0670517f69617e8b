"""Aggregate windows on the device, a block of threads each, and find first partners."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, float64

SUM, MIN, MAX = 0, 1, 2


@functools.cache
def fold_kernels(function: int, threads: int) -> tuple[Any, Any]:
    """Build the kernels that fold windows from values, and from panes of values.

    Parameters of the kernels
    -------------------------
    values, panes, width
        The values; the folds of ``width`` neighbours each.
    low, high
        The values of every window: low to high - 1.
    """
    zero = {SUM: 0.0, MIN: np.inf, MAX: -np.inf}[function]

    @cuda.jit(device=True)
    def fold(a, b):
        if function == SUM:
            return a + b
        if function == MIN:
            return min(a, b)
        return max(a, b)

    @cuda.jit(device=True)
    def fold_block(shared, total):
        me = cuda.threadIdx.x
        shared[me] = total
        cuda.syncthreads()
        step = threads // 2
        while step > 0:
            if me < step:
                shared[me] = fold(shared[me], shared[me + step])
            cuda.syncthreads()
            step //= 2

    @cuda.jit
    def again(values, low, high, out):
        shared = cuda.shared.array(threads, float64)
        window = cuda.blockIdx.x
        total = zero
        for i in range(low[window] + cuda.threadIdx.x, high[window], threads):
            total = fold(total, values[i])
        fold_block(shared, total)
        if cuda.threadIdx.x == 0:
            out[window] = shared[0]

    @cuda.jit
    def from_panes(values, panes, width, low, high, out):
        shared = cuda.shared.array(threads, float64)
        window = cuda.blockIdx.x
        begin, end = low[window], high[window]
        first, last = (begin + width - 1) // width, end // width
        total = zero
        if first >= last:
            for i in range(begin + cuda.threadIdx.x, end, threads):
                total = fold(total, values[i])
        else:
            for i in range(begin + cuda.threadIdx.x, first * width, threads):
                total = fold(total, values[i])
            for i in range(first + cuda.threadIdx.x, last, threads):
                total = fold(total, panes[i])
            for i in range(last * width + cuda.threadIdx.x, end, threads):
                total = fold(total, values[i])
        fold_block(shared, total)
        if cuda.threadIdx.x == 0:
            out[window] = shared[0]

    return again, from_panes


@functools.cache
def first_kernel(predicate: Callable[..., Any]) -> Any:
    """Build the kernel that finds the first candidate of every probe that fits; see ``join``."""
    fits = cuda.jit(device=True)(predicate)

    @cuda.jit
    def first_of(left, right, rows, low, high, found):
        probe = cuda.grid(1)
        if probe >= rows.shape[0]:
            return
        found[probe] = np.int64(-1)
        for j in range(low[probe], high[probe]):
            if fits(left, rows[probe], right, j):
                found[probe] = j
                break

    return first_of
