"""Large arrays in Arrow's memory pool: a length and a type in, an array without content out.

NumPy gives large arrays back to the system, whose new pages cost more than a loop over them. The
pool keeps its memory: what a batch of events took serves the next, and then the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LARGE = 1 << 16
"""Bytes from which an array is taken from the pool."""


def empty(length: int, dtype: Any = np.int64) -> NDArray[Any]:
    """Return an array that holds anything."""
    kind = np.dtype(dtype)
    size = length * kind.itemsize
    if size < LARGE:
        return np.empty(length, kind)
    buffer: Any = pa.allocate_buffer(size)
    return np.frombuffer(buffer, kind)


def taken(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Select values by their places, which lie inside."""
    # With another mode, NumPy would write to an array of its own first.
    return np.take(values, rows, out=empty(len(rows), values.dtype), mode="clip")
