"""The end of every chunk: rescale numbers below the limit, and write matrices of wide numbers."""

from __future__ import annotations

import functools
import math
from typing import Any

from numba import cuda

from cepheid.accelerator.kernels.wide import LIMIT, SHRINK, TINY, widen


@functools.cache
def shrinking(dimension: int, starts: int, parts: int, columns: int) -> Any:
    """Build a function that rescales numbers (part, row, column) below the limit.

    It returns the new shared exponent, whether the unit of new matches underflowed, and whether
    doubles with a shared exponent ran out of range.
    """

    @cuda.jit(device=True)
    def shrink(m, exponent):
        largest = 0.0
        lost = False
        narrow = False
        for a in range(parts):
            for q in range(dimension):
                for c in range(columns):
                    largest = max(largest, abs(m[a, q, c]))
                    narrow = narrow or not math.isfinite(m[a, q, c])
        if largest >= LIMIT:
            exponent += 512.0
            for a in range(parts):
                for q in range(dimension):
                    for c in range(columns):
                        m[a, q, c] *= SHRINK
                        small = abs(m[a, q, c])
                        if q < starts:
                            if small < SHRINK:
                                lost = lost or small != 0.0
                                m[a, q, c] = 0.0
                        elif small != 0.0 and small < TINY:
                            narrow = True
        return exponent, lost, narrow

    return shrink


@functools.cache
def storing(dimension: int, starts: int, parts: int, columns: int) -> Any:
    """Build a function that writes columns of a matrix; it returns whether their range sufficed.

    If the unit has underflowed, a row in which matches begin must have some already: a new match
    would be negligible beside them.
    """

    @cuda.jit(device=True)
    def store(m, exponent, lost, opening, first, chunk, numbers):
        right = True
        for c in range(columns):
            for q in range(dimension):
                if lost and first + c < starts and q >= starts and opening[q]:
                    right = right and m[0, q, c] != 0.0
                for a in range(parts):
                    mantissa, power = widen(m[a, q, c], exponent)
                    if lost and a == 0 and q < starts and q == first + c:
                        # Nothing moves the start where its unit may be lost.
                        mantissa, power = 1.0, 0.0
                    numbers[chunk, q, a, first + c, 0] = mantissa
                    numbers[chunk, q, a, first + c, 1] = power
        return right

    return store
