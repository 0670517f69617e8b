"""Numbers outside the kernels: wide ones to doubles, and pairs of matches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.products import count_pairs as multiply


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
    multiply(p, q, both, p.dtype.type(1), minus_half, np.uint64(modulus), pairs)
    return pairs
