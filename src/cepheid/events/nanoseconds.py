"""Timestamps of nanoseconds in, microseconds out: exact, or refused with a code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic


def whole_microseconds(
    steps: NDArray[np.int64], valid: NDArray[np.bool_] | None, name: str
) -> NDArray[np.int64]:
    """Return nanoseconds as microseconds; rounding would turn events in order into ties.

    Raises
    ------
    DataError
        E514 if one of them is no whole microsecond.
    """
    micros: NDArray[Any] = steps // 1_000
    part = micros * 1_000 != steps
    if valid is not None:
        part &= valid
    if part.any():
        row = int(np.flatnonzero(part)[0])
        column = f"column `{name}`" if name else "a column"
        message = f"the time {int(steps[row])} ns in row {row} of {column} is no whole microsecond"
        helps = (
            'cast the column to int64 and say time_unit="ns": nothing is lost then',
            "cast it to timestamp[us] if rounding is fine",
        )
        raise DataError([Diagnostic("E514", message, helps=helps)])
    return micros
