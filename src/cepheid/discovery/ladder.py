"""The durations that discovered rules may have: round ones, so that people can read them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MS, _S = 1_000, 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _S, 3_600 * _S, 86_400 * _S
DURATIONS_US = (
    *(n * _MS for n in (1, 10, 100)),
    *(n * _S for n in (1, 2, 5, 10, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 30)),
    *(n * _HOUR for n in (1, 2, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 180, 365)),
)
"""Lengths in microseconds, ascending."""


def ladder(tick_ns: int) -> tuple[tuple[int, ...], NDArray[np.int64]]:
    """Return the durations that are at least a tick long, in microseconds and in ticks."""
    lengths = tuple(one for one in DURATIONS_US if one * 1_000 >= tick_ns)
    return lengths, np.array([one * 1_000 // tick_ns for one in lengths], np.int64)
