"""Wide numbers outside the kernels: to doubles, and pairs of matches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cepheid.kernels.ring import add, mul, widen


def steps(powers: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return powers of two that ldexp takes; beyond them everything is infinite or zero."""
    return np.clip(powers, -100_000, 100_000).astype(np.int32)


def to_double(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Return wide numbers as doubles, infinite beyond their range."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(numbers.real, steps(numbers.imag)), np.float64)


@njit(cache=True)
def count_pairs(p, q, both):  # type: ignore[no-untyped-def]
    """Return PQ - c - c(c-1)/2 for columns of wide numbers, c the matches of both (§2.10)."""
    pairs = np.zeros_like(p)
    modulus = np.uint64(0)
    for i in range(len(p)):
        c = both[i]
        square = mul(c, c, modulus)
        half = widen(-(square.real * 0.5), square.imag)
        whole = add(mul(p[i], q[i], modulus), half, modulus)
        pairs[i] = add(whole, widen(-(c.real * 0.5), c.imag), modulus)
    return pairs


@njit(cache=True)
def sum_rows(numbers, values, place, total, least, modulus):  # type: ignore[no-untyped-def]
    """Add rows up at their places: numbers to totals, and the least of values."""
    for row in range(len(place)):
        for a in range(numbers.shape[1]):
            total[place[row], a] = add(total[place[row], a], numbers[row, a], modulus)
        for a in range(values.shape[1]):
            least[place[row], a] = min(least[place[row], a], values[row, a])
