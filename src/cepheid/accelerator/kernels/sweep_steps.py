"""Step functions of one parameter on the device: a matrix for every cell of a chunk of events.

Between two ranks of its events a chunk has the same matrix for all values: a cell. The results of a
segment are step functions, too; a thread computes one of their cells as the product of the matrices
of all chunks, and finds the cell of each by its value.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.chunks import NO_VALUE, PERIOD, stepping
from cepheid.accelerator.kernels.settling import shrinking, storing
from cepheid.accelerator.kernels.trailing import matrix_step
from cepheid.accelerator.kernels.wide import add


@functools.cache
def cell_kernel(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build the kernel: a thread pushes one column of the matrix of a cell through its chunk.

    Parameters of the kernel
    ------------------------
    kept, gained, weighs, picks, opening, W, X
        One system, and the weights and values of events; see ``chunks.py``.
    codes, rank, below
        (2, event) the code of an event if it fails or passes, its rank, and whether it passes for
        the values below it.
    begin, end
        The events of chunks.
    owner, least_value
        The chunk of every cell, and the number of the value with which it begins.
    numbers, values, flags
        Room for a matrix a cell; see ``chunks.py``.
    """
    slots, square = max(mins, 1), dimension * dimension
    step = stepping(dimension, starts, parts, mins)
    shrink = shrinking(dimension, starts, parts, 1)
    store = storing(dimension, starts, parts, 1)

    @cuda.jit
    def kernel(
        kept, gained, weighs, picks, opening, codes, W, X, rank, below, begin, end, owner,
        least_value, numbers, values, flags,
    ):  # fmt: skip
        keep = cuda.shared.array(0, float64)
        used = kept.shape[1] * square
        for n in range(cuda.threadIdx.x, used, cuda.blockDim.x):
            code, q, r = n // square, n // dimension % dimension, n % dimension
            keep[n] = kept[0, code, q, r]
            keep[used + n] = gained[0, code, q, r]
        cuda.syncthreads()
        place = cuda.grid(1)
        cell = place // dimension
        if cell >= owner.shape[0]:
            return
        column, chunk, value = place % dimension, owner[cell], least_value[cell]
        m = cuda.local.array((parts, dimension, 1), float64)
        least = cuda.local.array((slots, dimension, 1), int64)
        v = cuda.local.array((parts, dimension), float64)
        low = cuda.local.array((slots, dimension), int64)
        w = cuda.local.array(parts, float64)
        x = cuda.local.array(slots, int64)
        for q in range(dimension):
            for a in range(parts):
                m[a, q, 0] = 1.0 if a == 0 and q == column else 0.0
            for a in range(mins):
                least[a, q, 0] = NO_VALUE
        exponent, lost, narrow, left = 0.0, False, False, PERIOD
        for i in range(begin[chunk], end[chunk]):
            passes = 1 if (value < rank[i]) == below else 0
            at = np.int32(codes[passes, i]) * square
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
            if left == 0 or i + 1 == end[chunk]:
                left = PERIOD
                exponent, losing, narrowing = shrink(m, exponent)
                lost = lost or losing
                narrow = narrow or narrowing
        if not store(m, exponent, lost, opening[0], column, cell, numbers) or narrow or lost:
            flags[0] = 1
        for q in range(dimension):
            for a in range(mins):
                values[cell, q, a, column] = least[a, q, 0]

    return kernel


@cuda.jit(device=True)
def cell_of(begins, first, last, value):
    """Find the last cell of a chunk that begins at or before a value."""
    while first < last - 1:
        middle = (first + last) // 2
        if begins[middle] <= value:
            first = middle
        else:
            last = middle
    return first


@functools.cache
def product_of_cells(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build the kernel: a thread multiplies the matrices of all chunks of a segment, for one cell.

    Parameters of the kernel
    ------------------------
    counts
        (configuration,) whether matches in it count.
    numbers, values, least_value, cells
        The matrices of the cells of chunks, the values with which they begin, and where the cells
        of each chunk begin.
    chunks, owner, own_value
        Where the chunks of each segment begin; the segment of every result, and its first value.
    out, least_out
        Room for the results.
    """
    slots = max(mins, 1)
    take_matrix = matrix_step(dimension, parts, mins)

    @cuda.jit
    def kernel(
        counts, numbers, values, least_value, cells, chunks, owner, own_value, out, least_out
    ):
        place = cuda.grid(1)
        if place >= owner.shape[0]:
            return
        segment, value = owner[place], own_value[place]
        v = cuda.local.array((2, parts, dimension), float64)
        m = cuda.local.array((2, parts, dimension), float64)
        low = cuda.local.array((slots, dimension), int64)
        least = cuda.local.array((slots, dimension), int64)
        for q in range(dimension):
            for a in range(parts):
                m[0, a, q] = 1.0 if a == 0 and q == 0 else 0.0
                m[1, a, q] = 0.0
            for a in range(mins):
                least[a, q] = NO_VALUE
        for chunk in range(chunks[segment], chunks[segment + 1]):
            for q in range(dimension):
                for a in range(parts):
                    v[0, a, q], v[1, a, q] = m[0, a, q], m[1, a, q]
                for a in range(mins):
                    low[a, q] = least[a, q]
            cell = cell_of(least_value, cells[chunk], cells[chunk + 1], value)
            take_matrix(numbers, values, cell, v, low, m, least)
        for a in range(parts):
            total, power = 0.0, 0.0
            for q in range(starts, dimension):
                if counts[q - starts]:
                    total, power = add(total, power, m[0, a, q], m[1, a, q])
            out[place, a, 0], out[place, a, 1] = total, power
        for a in range(mins):
            smallest = NO_VALUE
            for q in range(starts, dimension):
                if counts[q - starts] and m[0, 0, q] != 0.0:
                    smallest = min(smallest, least[a, q])
            least_out[place, a] = smallest

    return kernel
