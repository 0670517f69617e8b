"""Multiply consecutive matrices: one product for every group of neighbours, in order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.wide import add, mul

NO_VALUE = np.iinfo(np.int64).max


@functools.cache
def product_kernel(dimension: int, parts: int, mins: int) -> Any:
    """Build the kernel: a thread pushes one column of the first matrix through the others.

    Parameters of the kernel
    ------------------------
    numbers, values
        The matrices, as ``chunks.py`` writes them.
    ptr, fanout
        (groups + 1,) the offsets of the groups; if this has one entry, that is the number of
        matrices, and each group has ``fanout`` neighbours.
    products, extremes
        Room for one matrix a group.
    """
    slots = max(mins, 1)

    @cuda.jit
    def kernel(numbers, values, ptr, fanout, products, extremes):
        place = cuda.grid(1)
        group = place // dimension
        if group >= products.shape[0]:
            return
        if ptr.shape[0] > 1:
            begin, end = ptr[group], ptr[group + 1]
        else:
            begin, end = group * fanout, min((group + 1) * fanout, ptr[0])
        column = place % dimension
        m = cuda.local.array((2, parts, dimension), float64)
        v = cuda.local.array((2, parts, dimension), float64)
        least = cuda.local.array((slots, dimension), int64)
        low = cuda.local.array((slots, dimension), int64)
        for q in range(dimension):
            for a in range(parts):
                m[0, a, q] = numbers[begin, q, a, column, 0]
                m[1, a, q] = numbers[begin, q, a, column, 1]
            for a in range(mins):
                least[a, q] = values[begin, q, a, column]
        for i in range(begin + 1, end):
            for q in range(dimension):
                for a in range(parts):
                    v[0, a, q], v[1, a, q] = m[0, a, q], m[1, a, q]
                    m[0, a, q], m[1, a, q] = 0.0, 0.0
                for a in range(mins):
                    low[a, q] = least[a, q]
                    least[a, q] = NO_VALUE
            for q in range(dimension):
                for r in range(dimension):
                    count, power = numbers[i, q, 0, r, 0], numbers[i, q, 0, r, 1]
                    if count == 0.0 or v[0, 0, r] == 0.0:
                        continue
                    x, up = mul(v[0, 0, r], v[1, 0, r], count, power)
                    m[0, 0, q], m[1, 0, q] = add(m[0, 0, q], m[1, 0, q], x, up)
                    for a in range(1, parts):
                        x, up = mul(v[0, a, r], v[1, a, r], count, power)
                        m[0, a, q], m[1, a, q] = add(m[0, a, q], m[1, a, q], x, up)
                        x, up = mul(
                            v[0, 0, r], v[1, 0, r], numbers[i, q, a, r, 0], numbers[i, q, a, r, 1]
                        )
                        m[0, a, q], m[1, a, q] = add(m[0, a, q], m[1, a, q], x, up)
                    for a in range(mins):
                        least[a, q] = min(least[a, q], min(low[a, r], values[i, q, a, r]))
        for q in range(dimension):
            for a in range(parts):
                products[group, q, a, column, 0] = m[0, a, q]
                products[group, q, a, column, 1] = m[1, a, q]
            for a in range(mins):
                extremes[group, q, a, column] = least[a, q]

    return kernel
