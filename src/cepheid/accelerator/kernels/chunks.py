"""Aggregate chunks of events: codes, weights and values become one matrix for every chunk.

A thread pushes one or all columns of its chunk's matrix through the events, in registers. ``parts``
are counts and sums, ``mins`` minimum value keys; see ``cepheid.accelerator.systems`` for the rule.

    numbers[chunk, row, part, column, 2]    wide numbers
    values[chunk, row, extreme, column]     value keys
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.settling import shrinking, storing
from cepheid.accelerator.kernels.wide import add, mul, widen

NO_VALUE = np.iinfo(np.int64).max
PERIOD = 64
"""Events after which numbers are rescaled: one event multiplies a number by at most 2^7."""


@functools.cache
def stepping(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build a function that pushes column c of a matrix through one event."""

    @cuda.jit(device=True)
    def step(m, least, v, low, w, x, c, keep, at, used, weighs, picks):
        for q in range(starts):
            total = 0.0
            for r in range(starts):
                total += keep[at + q * dimension + r] * v[0, r]
            m[0, q, c] = total
        for q in range(starts, dimension):
            inc = 0.0
            total = 0.0
            for r in range(dimension):
                total += keep[at + q * dimension + r] * v[0, r]
                inc += keep[used + at + q * dimension + r] * v[0, r]
            m[0, q, c] = total + inc
            for a in range(1, parts):
                # A weight that does not count here may be infinite or NaN.
                total = w[a] * inc if weighs[a, q] != 0.0 and inc != 0.0 else 0.0
                for r in range(starts, dimension):
                    cell = at + q * dimension + r
                    both = keep[cell] + keep[used + cell]
                    total += both * v[a, r]
                m[a, q, c] = total
            for a in range(mins):
                smallest = x[a] if picks[a, q] != 0.0 and inc != 0.0 else NO_VALUE
                for r in range(starts, dimension):
                    cell = at + q * dimension + r
                    both = keep[cell] + keep[used + cell]
                    if both != 0.0:
                        smallest = min(smallest, low[a, r])
                least[a, q, c] = smallest

    return step


@functools.cache
def chunk_kernel(dimension: int, starts: int, parts: int, mins: int, columns: int) -> Any:
    """Build the kernel for doubles that share an exponent per thread.

    Parameters of the kernel
    ------------------------
    kept, gained
        (system, code, row, column) the systems, of one shape; a row of blocks runs each of them,
        and the matrices of the first system come first.
    weighs, picks
        (system, part, row) and (system, extreme, row): one where a weight or a value counts.
    opening, steady
        As in ``count_kernel``, the first for each system.
    codes, W, X
        The events: codes, weights (parts x events), value keys (extremes x events).
    ptr
        (chunks + 1,) the start offsets of the chunks.
    """
    slots = max(mins, 1)
    lanes = dimension // columns
    square = dimension * dimension
    step = stepping(dimension, starts, parts, mins)
    shrink = shrinking(dimension, starts, parts, columns)
    store = storing(dimension, starts, parts, columns)

    @cuda.jit
    def kernel(
        kept, gained, weighs, picks, opening, steady, codes, W, X, ptr, numbers, values, flags
    ):
        keep = cuda.shared.array(0, float64)
        system = cuda.blockIdx.y
        own_weighs, own_picks = weighs[system], picks[system]
        # Shared memory holds both tables, one after the other.
        used = kept.shape[1] * square
        for n in range(cuda.threadIdx.x, used, cuda.blockDim.x):
            code, q, r = n // square, n // dimension % dimension, n % dimension
            keep[n] = kept[system, code, q, r]
            keep[used + n] = gained[system, code, q, r]
        cuda.syncthreads()
        place = cuda.grid(1)
        chunk = place // lanes
        if chunk >= ptr.shape[0] - 1:
            return
        first = (place % lanes) * columns
        m = cuda.local.array((parts, dimension, columns), float64)
        least = cuda.local.array((slots, dimension, columns), int64)
        v = cuda.local.array((parts, dimension), float64)
        low = cuda.local.array((slots, dimension), int64)
        w = cuda.local.array(parts, float64)
        x = cuda.local.array(slots, int64)
        for c in range(columns):
            for q in range(dimension):
                for a in range(parts):
                    m[a, q, c] = 1.0 if a == 0 and q == first + c else 0.0
                for a in range(mins):
                    least[a, q, c] = NO_VALUE
        exponent, lost, narrow, left = 0.0, False, False, PERIOD
        for i in range(ptr[chunk], ptr[chunk + 1]):
            at = np.int32(codes[i]) * square
            for a in range(1, parts):
                w[a] = W[a - 1, i]
            for a in range(mins):
                x[a] = X[a, i]
            for c in range(columns):
                for q in range(dimension):
                    for a in range(parts):
                        v[a, q] = m[a, q, c]
                    for a in range(mins):
                        low[a, q] = least[a, q, c]
                step(m, least, v, low, w, x, c, keep, at, used, own_weighs, own_picks)
            left -= 1
            if left == 0 or i + 1 == ptr[chunk + 1]:
                left = PERIOD
                exponent, losing, narrowing = shrink(m, exponent)
                lost = lost or losing
                narrow = narrow or narrowing
        row = system * (ptr.shape[0] - 1) + chunk
        if not store(m, exponent, lost, opening[system], first, row, numbers):
            narrow = True
        for c in range(columns):
            for q in range(dimension):
                for a in range(mins):
                    values[row, q, a, first + c] = least[a, q, c]
        if narrow or (lost and not steady):
            flags[0] = 1

    return kernel


@functools.cache
def wide_kernel(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build the kernel for numbers with their own exponents; arguments as of ``chunk_kernel``."""
    slots = max(mins, 1)

    @cuda.jit
    def kernel(
        kept, gained, weighs, picks, opening, steady, codes, W, X, ptr, numbers, values, flags
    ):
        place = cuda.grid(1)
        chunk = place // dimension
        if chunk >= ptr.shape[0] - 1:
            return
        column = place % dimension
        system = cuda.blockIdx.y
        m = cuda.local.array((2, parts, dimension), float64)
        v = cuda.local.array((2, parts, dimension), float64)
        least = cuda.local.array((slots, dimension), int64)
        low = cuda.local.array((slots, dimension), int64)
        for q in range(dimension):
            for a in range(parts):
                m[0, a, q] = 1.0 if a == 0 and q == column else 0.0
                m[1, a, q] = 0.0
            for a in range(mins):
                least[a, q] = NO_VALUE
        for i in range(ptr[chunk], ptr[chunk + 1]):
            code = np.int32(codes[i])
            for q in range(dimension):
                for a in range(parts):
                    v[0, a, q], v[1, a, q] = m[0, a, q], m[1, a, q]
                for a in range(mins):
                    low[a, q] = least[a, q]
            for q in range(dimension):
                inc, power = 0.0, 0.0
                for r in range(dimension):
                    if gained[system, code, q, r] != 0.0:
                        inc, power = add(inc, power, v[0, 0, r], v[1, 0, r])
                for a in range(parts):
                    total, high = 0.0, 0.0
                    if a == 0:
                        total, high = inc, power
                    elif weighs[system, a, q] != 0.0 and inc != 0.0:
                        weight, up = widen(W[a - 1, i], 0.0)
                        total, high = mul(weight, up, inc, power)
                    for r in range(dimension):
                        if kept[system, code, q, r] != 0.0 or (
                            a > 0 and gained[system, code, q, r] != 0.0
                        ):
                            total, high = add(total, high, v[0, a, r], v[1, a, r])
                        if (
                            kept[system, code, q, r] != 0.0
                            and a > 0
                            and gained[system, code, q, r] != 0.0
                        ):
                            total, high = add(total, high, v[0, a, r], v[1, a, r])
                    m[0, a, q], m[1, a, q] = total, high
                for a in range(mins):
                    smallest = X[a, i] if picks[system, a, q] != 0.0 and inc != 0.0 else NO_VALUE
                    for r in range(dimension):
                        if kept[system, code, q, r] != 0.0 or gained[system, code, q, r] != 0.0:
                            smallest = min(smallest, low[a, r])
                    least[a, q] = smallest
        row = system * (ptr.shape[0] - 1) + chunk
        for q in range(dimension):
            for a in range(parts):
                numbers[row, q, a, column, 0] = m[0, a, q]
                numbers[row, q, a, column, 1] = m[1, a, q]
            for a in range(mins):
                values[row, q, a, column] = least[a, q]

    return kernel
