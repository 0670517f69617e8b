"""Number the distinct keys of columns; NULL is a key like others (§10.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.kernels.segments import first_of_codes

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
    codes, rows = np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    for array in arrays:
        own, count = _numbered(canonical_array(array))
        codes = codes * count + own if len(rows) > 1 else own
        codes, rows = _dense(codes, len(rows) * count)
    return codes, rows


def by_key(arrays: Sequence[Any], codes: Codes, rows: Codes) -> tuple[Codes, Codes]:
    """Renumber the keys of ``group_codes``, in the order of their values."""
    if not arrays or len(rows) < 2:
        return codes, rows
    names = [str(number) for number in range(len(arrays))]
    keys = pa.table([plain_array(array).take(rows) for array in arrays], names)
    order = np.asarray(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    return numbers[codes], rows[order]


def _numbered(array: Any) -> tuple[Codes, int]:
    """Assign a number to every value of an array, below the limit that is returned, too."""
    if pa.types.is_signed_integer(array.type) and len(array) and not array.null_count:
        values = array.to_numpy()
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest < DENSE_MAX * len(values):
            # With 64 bits, so that the difference of narrow numbers does not wrap.
            return np.subtract(values, lowest, dtype=np.int64), highest - lowest + 1
    encoded = array.dictionary_encode(null_encoding="encode")
    own = encoded.indices.to_numpy(zero_copy_only=False)
    return own.astype(np.int64), len(encoded.dictionary)


def plain_array(column: Any) -> pa.Array[Any]:
    """Convert a column to one array without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not isinstance(column, pa.ChunkedArray):
        found: pa.Array[Any] = column
        return found
    chunks: list[pa.Array[Any]] = column.chunks
    # Concatenating one chunk would copy it.
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays([*chunks, pa.array([], column.type)])


def canonical_array(array: Any) -> Any:
    """Normalise an array so that equal values have equal bits: one NaN, one zero."""
    one = plain_array(array)
    if not pa.types.is_floating(one.type):
        return one
    nan, zero = (pa.scalar(value, one.type) for value in (float("nan"), 0.0))
    positive = pc.call_function("add", [one, zero])
    return pc.if_else(pc.call_function("is_nan", [one]), nan, positive)


def _dense(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """Renumber codes without gaps, and find the first row of each."""
    if size > DENSE_MAX * len(codes):
        values, inverse = np.unique(codes, return_inverse=True)
        codes = inverse.astype(np.int64)
        return codes, _first_rows(codes, len(values))
    rows = _first_rows(codes, size)
    present = rows >= 0
    if present.all():
        return codes, rows
    numbers = np.cumsum(present) - 1
    return numbers[codes], rows[present]


def _first_rows(codes: Codes, size: int) -> Codes:
    """Find the first row of every code, -1 if it has none."""
    rows = np.full(size, -1, np.int64)
    first_of_codes(codes, size, rows)
    return rows


def stable_order(codes: Codes) -> Codes:
    """Sort rows by their codes, stably; codes of a small range sort in O(n)."""
    lowest, highest = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if highest - lowest < 1 << 16:
        codes = (codes - lowest).astype(np.uint16)
    return np.argsort(codes, kind="stable")
