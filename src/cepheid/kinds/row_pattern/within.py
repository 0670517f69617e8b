"""WITHIN of a clause in ticks of the column of times."""

from __future__ import annotations

import math

import pyarrow as pa

from cepheid.events.nanoseconds import is_nanoseconds
from cepheid.kinds.row_pattern import tree

_TICKS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1.0}
"""Ticks in a unit of the column."""
_DAY_US = 86_400_000_000


def ticks_of(within: tree.Duration | tree.Literal | None, kind: pa.DataType) -> int | None:
    """Return WITHIN in ticks of a column of times, rounded up; None without WITHIN."""
    if within is None:
        return None
    whole = pa.types.is_integer(kind)
    if isinstance(within, tree.Duration):
        # A whole number counts seconds.
        unit = 1e-6 if whole else 1e3 if is_nanoseconds(kind) else 1.0
        ticks = within.microseconds * unit
    else:
        assert isinstance(within.value, int | float), "WITHIN takes an interval or a number"
        unit = 1.0 if whole else _TICKS.get(getattr(kind, "unit", ""), float(_DAY_US))
        ticks = within.value * unit
    return math.ceil(ticks) + 1
