"""Number the distinct keys of columns; NULL is a key like others (§10.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Codes = NDArray[np.int64]

DENSE_MAX = 4
"""Codes up to this multiple of the rows are counted in a table instead of sorted."""


def group_codes(arrays: Sequence[Any], length: int) -> tuple[Codes, Codes]:
    """Assign a number to the key of every row, and find the first row of each key.

    Examples
    --------
    >>> codes, rows = group_codes([pa.array(["b", None, "b"])], 3)
    >>> codes.tolist(), rows.tolist()
    ([0, 1, 0], [0, 1])
    """
    codes = np.zeros(length, np.int64)
    size = min(length, 1)
    for array in arrays:
        encoded = canonical_array(array).dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        count = len(encoded.dictionary)
        codes, size = _dense(codes * count + own, size * count)
    rows = np.zeros(size, np.int64)
    # Written in reverse, so that the first row of each key remains.
    rows[codes[::-1]] = np.arange(length - 1, -1, -1)
    return codes, rows


def plain_array(column: Any) -> pa.Array[Any]:
    """Convert a column to one array without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not isinstance(column, pa.ChunkedArray):
        found: pa.Array[Any] = column
        return found
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def canonical_array(array: Any) -> Any:
    """Normalise an array so that equal values have equal bits: one NaN, one zero."""
    one = plain_array(array)
    if not pa.types.is_floating(one.type):
        return one
    nan, zero = (pa.scalar(value, one.type) for value in (float("nan"), 0.0))
    positive = pc.call_function("add", [one, zero])
    return pc.if_else(pc.call_function("is_nan", [one]), nan, positive)


def _dense(codes: Codes, size: int) -> tuple[Codes, int]:
    """Renumber codes without gaps, and count them."""
    if size <= DENSE_MAX * len(codes):
        present = np.zeros(size, np.bool_)
        present[codes] = True
        numbers = np.cumsum(present) - 1
        return numbers[codes], int(present.sum())
    values, inverse = np.unique(codes, return_inverse=True)
    return inverse.astype(np.int64), len(values)


def stable_order(codes: Codes) -> Codes:
    """Sort rows by their codes, stably; small codes sort in O(n)."""
    narrow = len(codes) > 0 and int(codes.max()) < 1 << 16
    return np.argsort(codes.astype(np.uint16) if narrow else codes, kind="stable")
