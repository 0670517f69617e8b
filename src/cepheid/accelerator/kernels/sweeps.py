"""Answer a query for every value of its parameters: a thread runs one value over one segment.

Threads side by side have neighbouring values and read the same events, so memory is read once for
all of them. An event has up to four codes: for values that it passes, and for those that it fails.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.chunks import NO_VALUE, PERIOD, stepping
from cepheid.accelerator.kernels.settling import shrinking
from cepheid.accelerator.kernels.wide import add, widen


@functools.cache
def sweep_kernel(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build the kernel.

    Parameters of the kernel
    ------------------------
    kept, gained, weighs, picks, opening, W, X
        One system, and the weights and values of events; see ``chunks.py``.
    counts
        (configuration,) whether matches in it count.
    codes
        (4, event) the code of an event if it passes neither condition, the first, the second, both.
    first_rank, second_rank, first_below, second_below, width
        The ranks of events on both scales, whether they pass for the values below them, and the
        number of values of the second one: value v is v // width of the first, v % width of this.
    begin, end, values
        The events of the segments, and the number of all values.
    out, least_out, flags
        Room for the aggregates of every segment and value; the first flag is set if doubles with a
        shared exponent ran out of range.
    """
    slots, square = max(mins, 1), dimension * dimension
    step = stepping(dimension, starts, parts, mins)
    shrink = shrinking(dimension, starts, parts, 1)
    finish = finishing(dimension, starts, parts, mins)

    @cuda.jit
    def kernel(
        kept, gained, weighs, picks, opening, counts, codes, W, X, first_rank, second_rank,
        first_below, second_below, width, begin, end, values, out, least_out, flags,
    ):  # fmt: skip
        keep = cuda.shared.array(0, float64)
        used = kept.shape[1] * square
        for n in range(cuda.threadIdx.x, used, cuda.blockDim.x):
            code, q, r = n // square, n // dimension % dimension, n % dimension
            keep[n] = kept[0, code, q, r]
            keep[used + n] = gained[0, code, q, r]
        cuda.syncthreads()
        blocks = (values + cuda.blockDim.x - 1) // cuda.blockDim.x
        segment = cuda.blockIdx.x // blocks
        value = cuda.blockIdx.x % blocks * cuda.blockDim.x + cuda.threadIdx.x
        if value >= values:
            return
        first_value, second_value = value // width, value % width
        m = cuda.local.array((parts, dimension, 1), float64)
        least = cuda.local.array((slots, dimension, 1), int64)
        v = cuda.local.array((parts, dimension), float64)
        low = cuda.local.array((slots, dimension), int64)
        w = cuda.local.array(parts, float64)
        x = cuda.local.array(slots, int64)
        for q in range(dimension):
            for a in range(parts):
                m[a, q, 0] = 1.0 if a == 0 and q == 0 else 0.0
            for a in range(mins):
                least[a, q, 0] = NO_VALUE
        exponent, lost, narrow, left = 0.0, False, False, PERIOD
        for i in range(begin[segment], end[segment]):
            which = 1 if (first_value < first_rank[i]) == first_below else 0
            if width > 1:
                which += 2 if (second_value < second_rank[i]) == second_below else 0
            at = np.int32(codes[which, i]) * square
            for a in range(1, parts):
                w[a] = W[a - 1, i]
            for a in range(mins):
                x[a] = X[a, i]
            for q in range(dimension):
                for a in range(parts):
                    v[a, q] = m[a, q, 0]
                for a in range(mins):
                    low[a, q] = least[a, q, 0]
            step(m, least, v, low, w, x, 0, keep, at, used, weighs[0], picks[0])
            left -= 1
            if left == 0 or i + 1 == end[segment]:
                left = PERIOD
                exponent, losing, narrowing = shrink(m, exponent)
                lost = lost or losing
                narrow = narrow or narrowing
        row = segment * values + value
        finish(m, least, exponent, counts, row, out, least_out)
        for q in range(starts, dimension):
            # A new match is negligible only beside others.
            narrow = narrow or (lost and opening[0, q] and m[0, q, 0] == 0.0)
        if narrow:
            flags[0] = 1

    return kernel


@functools.cache
def finishing(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build a function that adds up the configurations that count, as wide numbers."""

    @cuda.jit(device=True)
    def finish(m, least, exponent, counts, row, out, least_out):
        for a in range(parts):
            total, power = 0.0, 0.0
            for q in range(starts, dimension):
                if counts[q - starts]:
                    mantissa, high = widen(m[a, q, 0], exponent)
                    total, power = add(total, power, mantissa, high)
            out[row, a, 0], out[row, a, 1] = total, power
        for a in range(mins):
            smallest = NO_VALUE
            for q in range(starts, dimension):
                if counts[q - starts] and m[0, q, 0] != 0.0:
                    smallest = min(smallest, least[a, q, 0])
            least_out[row, a] = smallest

    return finish
