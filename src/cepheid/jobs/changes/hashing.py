"""Arrow columns in, 128 bits for every row out: the same for equal rows, in every process.

Equal is meant as keys are (§4.6): one NaN, one zero, whole numbers of any width alike. Everything
is done for whole columns: the bytes of a text, and the items of a list, are summed, each times a
number of its place, which is a universal hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

Lane = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0x6A09E667F3BCC908)
_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))


def hash_rows(columns: Sequence[Any], length: int) -> tuple[Lane, Lane]:
    """Compute two numbers of 64 bits for every row of some columns.

    Examples
    --------
    >>> one, _ = hash_rows([pa.array([1, 2, 1]), pa.array(["a", "b", "a"])], 3)
    >>> bool(one[0] == one[2]), bool(one[0] == one[1])
    (True, False)
    """
    arrays = [_plain(column) for column in columns]
    lanes = []
    for seed in _SEEDS:
        total = np.full(length, seed, np.uint64)
        for array in arrays:
            total = _mixed(total * _GOLDEN + _lane(array, seed))
        lanes.append(total)
    return lanes[0], lanes[1]


def texts_of(lanes: tuple[Lane, Lane]) -> Any:
    """Write the 128 bits of every row as a text of 32 hexadecimal digits."""
    raw = np.stack(lanes, axis=1).astype(">u8").view(np.uint8)
    digits = np.stack([raw >> 4, raw & 15], axis=-1).reshape(-1)
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)[digits]
    offsets = np.arange(len(raw) + 1, dtype=np.int32) * np.int32(32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def _plain(column: Any) -> Any:
    """Return a column as one array, without a dictionary."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays([*column.chunks, pa.array([], column.type)])
    return column


def _mixed(values: Lane) -> Lane:
    """Spread the bits of numbers (the finisher of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def _lane(array: Any, seed: np.uint64) -> Lane:
    kind = array.type
    if pt.is_null(kind):
        return np.full(len(array), _NULL, np.uint64)
    if pt.is_struct(kind):
        found = np.full(len(array), seed, np.uint64)
        for field in array.flatten():
            found = _mixed(found * _GOLDEN + _lane(_plain(field), seed))
    elif pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        found = _lane_of_lists(array, seed)
    elif pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind):
        found = _lane_of_bytes(array.cast(pa.large_binary()), seed)
    else:
        found = _mixed(_words(array) + seed)
    if array.null_count:
        found = np.where(np.asarray(array.is_null()), _NULL, found)
    return found


def _words(array: Any) -> Lane:
    """Return values of at most 64 bits as numbers."""
    kind = array.type
    if pt.is_floating(kind):
        doubles = np.asarray(array.cast(pa.float64()).fill_null(0.0)) + 0.0
        return np.where(np.isnan(doubles), np.nan, doubles).view(np.uint64)
    if pt.is_boolean(kind):
        return np.asarray(array.cast(pa.int8()).fill_null(0)).astype(np.uint64)
    if pt.is_uint64(kind):
        return np.asarray(array.fill_null(0))
    if pt.is_integer(kind) or pt.is_temporal(kind):
        narrow = pt.is_date32(kind) or pt.is_time32(kind)
        plain = array.cast(pa.int32()) if narrow else array
        return np.asarray(plain.cast(pa.int64()).fill_null(0)).view(np.uint64)
    # Decimals and whatever else there is have a text.
    return _lane_of_bytes(array.cast(pa.string()).cast(pa.large_binary()), np.uint64(1))


def _lane_of_bytes(array: Any, seed: np.uint64) -> Lane:
    """Hash texts: the sum of their bytes, each times the number of its place."""
    filled = array.fill_null(b"") if array.null_count else array
    _, offset_buffer, data_buffer = filled.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[filled.offset :][: len(filled) + 1]
    if not len(filled) or offsets[-1] == offsets[0]:
        return _mixed(np.full(len(filled), seed, np.uint64))
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return _summed(data.astype(np.uint64) + np.uint64(1), offsets - offsets[0], seed)


def _lane_of_lists(array: Any, seed: np.uint64) -> Lane:
    """Hash lists: the sum of their items' numbers, each times the number of its place."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    values = _plain(array.values).slice(offsets[0], offsets[-1] - offsets[0])
    return _summed(_lane(values, seed), offsets - offsets[0], seed)


def _summed(items: Lane, offsets: NDArray[np.int64], seed: np.uint64) -> Lane:
    lengths = np.diff(offsets)
    place = np.arange(len(items)) - np.repeat(offsets[:-1], lengths)
    multipliers = _mixed(np.arange(int(lengths.max(initial=0))).astype(np.uint64) + seed)
    totals = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(items * (multipliers | np.uint64(1))[place], out=totals[1:])
    sums = totals[offsets[1:]] - totals[offsets[:-1]]
    return _mixed(sums + lengths.astype(np.uint64) * _GOLDEN + seed)
