"""Convert numbers outside the kernels: wide ones to doubles, and doubles to wide ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.ring import LIMIT, STEP


def steps(powers: NDArray[np.float64]) -> NDArray[np.int32]:
    """Clip powers of two to the range of ldexp; beyond it everything is infinite or zero."""
    return np.minimum(np.maximum(powers, -100_000), 100_000).astype(np.int32)


def to_double(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Convert wide numbers to doubles, infinite beyond their range."""
    if not numbers.imag.any():
        return np.array(numbers.real, np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(numbers.real, steps(numbers.imag)), np.float64)


def wide_of(numbers: NDArray[np.float64], powers: NDArray[Any] | float = 0.0) -> NDArray[Any]:
    """Convert doubles times powers of two to wide numbers, with mantissas in [1, LIMIT)."""
    mantissa, power = np.frexp(numbers)
    shift = power.astype(np.float64) - 1 + powers
    base = np.floor(shift / STEP) * STEP
    real = np.ldexp(mantissa * 2, (shift - base).astype(np.int64))
    finite = np.isfinite(numbers) & (numbers != 0)
    return np.where(finite, real + 1j * base, numbers)


def numbers_of(weights: NDArray[Any], dtype: np.dtype[Any], modulus: int = 0) -> NDArray[Any]:
    """Convert the weights of events to the number format of a kernel."""
    if modulus:
        # Moduli fit 63 bits, so integers and their remainders do.
        return np.asarray(np.mod(weights, np.int64(modulus)), np.uint64)
    if dtype.kind != "c" or _largest(weights) < LIMIT:
        return weights.astype(dtype, copy=False)
    return wide_of(weights)


def fit_doubles(weights: NDArray[Any], *, finite: bool = False) -> bool:
    """Check whether doubles with a shared exponent can hold these values times any count.

    Such a product is a double if the value is between 2^-400 and 2^400, and then a number of
    matches is never lost beside a sum of values. Infinite and undefined values need no exponent;
    with ``finite`` they do not fit either, since zero times infinity is no number.
    """
    if weights.dtype.kind != "f":
        return True
    for row in weights:
        for begin in range(0, len(row), _BLOCK):
            block = row[begin : begin + _BLOCK]
            if block.min() >= 2.0**-400 and block.max() <= 2.0**400:
                continue
            # Without its sign a double has the order of its bits; zero becomes the largest.
            size = block.view(np.uint64) << _ONE
            if size.max() > _LARGE or (size - _ONE).min() < _SMALL:
                return _fit_slowly(weights, finite=finite)
    return True


_BLOCK = 1 << 13
"""Values that are processed together, so that they stay in the CPU cache."""
_ONE = np.uint64(1)
_LARGE, _SMALL = (np.float64(2.0**n).view(np.uint64) << _ONE for n in (400, -400))


def _fit_slowly(weights: NDArray[np.float64], *, finite: bool) -> bool:
    if finite and not np.isfinite(weights).all():
        return False
    size = np.abs(weights[np.isfinite(weights) & (weights != 0)])
    return not len(size) or bool(size.max() <= 2.0**400 and size.min() >= 2.0**-400)


def _largest(weights: NDArray[Any]) -> float:
    size = np.abs(weights)
    return float(np.max(size, initial=0.0, where=np.isfinite(size)))
