"""Wide numbers on the device: a mantissa in [1, 2^512) and an exponent, a multiple of 512.

The same numbers as ``cepheid.kernels.ring``, as pairs of doubles.
"""

from __future__ import annotations

import math

from numba import cuda

LIMIT = 2.0**512
SHRINK = 2.0**-512
TINY = 2.0**-500
STEP = 512.0


@cuda.jit(device=True)
def widen(mantissa, exponent):
    """Normalise a mantissa to a wide number."""
    if mantissa == 0.0 or not math.isfinite(mantissa):
        return mantissa, 0.0
    while abs(mantissa) >= LIMIT:
        mantissa *= SHRINK
        exponent += STEP
    while abs(mantissa) < 1.0:
        mantissa *= LIMIT
        exponent -= STEP
    return mantissa, exponent


@cuda.jit(device=True)
def add(a, ax, b, bx):
    """Add two wide numbers."""
    if b == 0.0:
        return a, ax
    if a == 0.0:
        return b, bx
    if ax == bx:
        return widen(a + b, ax)
    # Two steps apart, the smaller number is below the last digit of the larger one.
    if ax > bx:
        if ax - bx > STEP:
            return a, ax
        return widen(a + b * SHRINK, ax)
    if bx - ax > STEP:
        return b, bx
    return widen(b + a * SHRINK, bx)


@cuda.jit(device=True)
def mul(a, ax, b, bx):
    """Multiply two wide numbers."""
    return widen(a * b, ax + bx)
