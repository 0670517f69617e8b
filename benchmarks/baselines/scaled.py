"""Numbers beyond the range of doubles: m · 2^e, where many m share one e.

Every baseline adds numbers and never multiplies them, and one event at most doubles their total,
plus one. So it is enough to look at the size of the numbers once in `BLOCK_EVENTS` events: what is
below 2^500 before a block is below 2^757 after it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel

Floats = npt.NDArray[np.float64]

BLOCK_EVENTS = 256
LIMIT = 2.0**500
SHIFT_BITS = 500
SHRINK = 2.0**-500


@kernel
def shrink(values: Floats) -> None:
    """Multiply with 2^-500 in place; what leaves the range of doubles becomes 0.

    Doubles below 2^-1022 would be right too, but processors add them a hundred times slower.
    """
    for i in range(values.size):
        value = values[i] * SHRINK
        values[i] = value if value > SHRINK else 0.0


@kernel
def largest(values: Floats) -> float:
    """Return the largest of numbers that are at least 0."""
    peak = 0.0
    for i in range(values.size):
        if values[i] > peak:
            peak = values[i]
    return peak


def log2(mantissa: float, exponent: int) -> float:
    """Return the logarithm of a scaled number, -inf for zero."""
    return math.log2(mantissa) + exponent if mantissa > 0 else -math.inf
