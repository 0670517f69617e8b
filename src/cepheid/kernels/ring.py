"""The number types of the kernels: doubles, doubles with their own exponents, and residues.

A kernel is written once in terms of these operations and compiled for the dtype of its arrays:

    float64      plain; the kernel shares one exponent per partition and rescales at LIMIT
    complex128   wide: a mantissa (real) and a power of two (imag, a multiple of STEP)
    uint64       residues modulo a prime: MERSENNE = 2^61 - 1, or a prime below 2^32
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cepheid.kernels.tiers import kernel, operation

MERSENNE = 2**61 - 1
STEP = 512.0
"""Exponents of wide numbers are multiples of this, so aligning two costs one product."""
LIMIT = 2.0**512
SHRINK = 2.0**-512
TINY = 2.0**-500
"""Doubles with a shared exponent stay between TINY and LIMIT, or a kernel needs wide numbers."""

_M61 = np.uint64(MERSENNE)
_MASK31 = np.uint64(2**31 - 1)
_MASK30 = np.uint64(2**30 - 1)
_U1, _U30, _U31, _U32, _U61 = (np.uint64(n) for n in (1, 30, 31, 32, 61))


@kernel()
def widen(mantissa: float, exponent: float) -> complex:
    """Normalise to a wide number with a mantissa in [1, LIMIT), or zero."""
    if mantissa == 0.0 or not math.isfinite(mantissa):
        return complex(mantissa, 0.0)
    while abs(mantissa) >= LIMIT:
        mantissa *= SHRINK
        exponent += STEP
    while abs(mantissa) < 1.0:
        mantissa *= LIMIT
        exponent -= STEP
    return complex(mantissa, exponent)


@kernel()
def _add_wide(a: complex, b: complex) -> Any:
    if b.real == 0.0:
        return a
    if a.real == 0.0:
        return b
    if a.imag == b.imag:
        return widen(a.real + b.real, a.imag)
    if not (math.isfinite(a.real) and math.isfinite(b.real)):
        return complex(a.real + b.real, 0.0)
    if a.imag < b.imag:
        a, b = b, a
    # Two steps apart, the smaller number is below the last digit of the larger one.
    if a.imag - b.imag > STEP:
        return a
    return widen(a.real + b.real * SHRINK, a.imag)


@kernel()
def _add_residue(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Compute a + b mod p; both are below p."""
    total = a + b
    return min(total, total - p)


@kernel()
def _mul_residue(a: np.uint64, b: np.uint64, p: np.uint64) -> np.uint64:
    """Compute a * b mod p within 64 bits."""
    if p != _M61:
        return a * b % p
    ah, al, bh, bl = a >> _U31, a & _MASK31, b >> _U31, b & _MASK31
    middle = ah * bl + al * bh
    # 2^61 is 1 modulo the prime, so high bits come round at the low end.
    total = ((ah * bh) << _U1) + (middle >> _U30) + ((middle & _MASK30) << _U31) + al * bl
    total = (total & _M61) + (total >> _U61)
    return total - _M61 if total >= _M61 else total


@operation()
def add(a: Any, b: Any, p: Any) -> Any:
    """Compute a + b; p is the modulus of residues."""
    return a + b


@add.wide
def _(a: Any, b: Any, p: Any) -> Any:
    return _add_wide(a, b)


@add.residue
def _(a: Any, b: Any, p: Any) -> Any:
    return _add_residue(a, b, p)


@operation()
def mul(a: Any, b: Any, p: Any) -> Any:
    """Compute a * b; p is the modulus of residues."""
    return a * b


@mul.wide
def _(a: Any, b: Any, p: Any) -> Any:
    return widen(a.real * b.real, a.imag + b.imag)


@mul.residue
def _(a: Any, b: Any, p: Any) -> Any:
    return _mul_residue(a, b, p)


@operation()
def present(a: Any) -> Any:
    """Check whether a number is not zero; a zero residue says nothing about the number."""
    return a != 0


@present.wide
def _(a: Any) -> Any:
    return a.real != 0.0


@present.residue
def _(a: Any) -> Any:
    return True


@operation()
def tiny(one: Any) -> Any:
    """Check whether the unit of doubles with a shared exponent is negligible."""
    return one < TINY


@operation()
def large(x: Any) -> Any:
    """Check whether a double with a shared exponent should be rescaled."""
    return abs(x) > LIMIT


@tiny.wide
@tiny.residue
@large.wide
@large.residue
def _(x: Any) -> Any:
    return False


@operation()
def settle(V: Any, one: Any, exponent: Any, k: Any) -> Any:
    """Rescale the doubles of a partition below LIMIT; return False if small ones underflow."""
    for lane in range(V.shape[3]):
        largest, least = 0.0, LIMIT
        for q in range(V.shape[1]):
            for a in range(V.shape[2]):
                x = abs(V[k, q, a, lane])
                if math.isfinite(x):
                    largest = max(largest, x)
                    least = min(least, x) if x > 0.0 else least
        if largest <= LIMIT:
            continue
        if least * SHRINK < TINY:
            return False
        for q in range(V.shape[1]):
            for a in range(V.shape[2]):
                V[k, q, a, lane] *= SHRINK
        one[k, lane] *= SHRINK
        exponent[k, lane] += 512
    return True


@settle.wide
@settle.residue
def _(V: Any, one: Any, exponent: Any, k: Any) -> Any:
    return True


@operation()
def wide(x: Any, exponent: Any) -> Any:
    """Convert a number of any type to the form of results: wide, or a residue."""
    return widen(x, float(exponent))


@wide.wide
@wide.residue
def _(x: Any, exponent: Any) -> Any:
    return x
