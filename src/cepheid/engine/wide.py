"""Numbers outside the kernels: wide ones to doubles, and pairs of matches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cepheid.kernels.ring import add, mul


def steps(powers: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return powers of two that ldexp takes; beyond them everything is infinite or zero."""
    return np.clip(powers, -100_000, 100_000).astype(np.int32)


def to_double(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Return wide numbers as doubles, infinite beyond their range."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(numbers.real, steps(numbers.imag)), np.float64)


def count_pairs(
    p: NDArray[Any], q: NDArray[Any], both: NDArray[Any], *, modulus: int = 0
) -> NDArray[Any]:
    """Return PQ - c(c+1)/2 for columns of numbers, c the matches of both (§2.10).

    Wide numbers, or residues of an odd modulus.
    """
    minus_half = np.uint64((modulus - 1) // 2) if modulus else np.complex128(-0.5)
    pairs = np.zeros_like(p)
    _count_pairs(p, q, both, p.dtype.type(1), minus_half, np.uint64(modulus), pairs)
    return pairs


@njit(cache=True)
def sum_rows(numbers, values, place, total, least, modulus):  # type: ignore[no-untyped-def]
    """Add rows up at their places: numbers to totals, and the least of values."""
    for row in range(len(place)):
        for a in range(numbers.shape[1]):
            total[place[row], a] = add(total[place[row], a], numbers[row, a], modulus)
        for a in range(values.shape[1]):
            least[place[row], a] = min(least[place[row], a], values[row, a])


@njit(cache=True)
def _count_pairs(p, q, both, one, minus_half, modulus, pairs):  # type: ignore[no-untyped-def]
    for i in range(len(p)):
        square = mul(both[i], add(both[i], one, modulus), modulus)
        pairs[i] = add(mul(p[i], q[i], modulus), mul(minus_half, square, modulus), modulus)
