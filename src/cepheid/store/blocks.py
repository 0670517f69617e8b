"""The lightweight index: count, minimum, maximum and sum of each block of a sorted table.

ChronicleDB keeps such entries in the inner nodes of its TAB+-tree (Körber, section 3.2.1). Here the
entries of all blocks of a segment are arrays in one small file beside it (``block_tree``). A block
never crosses a row group, which is the smallest unit that can be read. If events are frequent, it
also never crosses a round time (a minute, an hour): windows usually begin and end at such times,
and then no event has to be read. For text, the index keeps a prefix of the minimum and the maximum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.store.times import Times, one_array, ticks_of

BLOCK_ROWS = 1_024
"""Events of a block, at most: few, so that windows with short slides find their edges in the index,
and enough, so that the index stays small beside the events."""

ALIGNED_ROWS_MIN = 128
"""Blocks are cut at round times if each keeps at least this many events."""

_SECOND = 1_000_000
ROUND_TIMES = tuple(
    _SECOND * seconds
    for seconds in (1, 5, 10, 15, 30, 60, 300, 900, 1_800, 3_600, 21_600, 43_200, 86_400)
)
"""Lengths that divide the day, and that people use for windows."""

STATISTICS = ("known", "least", "largest", "sum")


_FIRST_BYTES = np.array([2**64 - 2 ** (8 * (8 - n)) for n in range(9)], np.uint64)
"""The first n bytes of eight."""


class Summary(NamedTuple):
    """The statistics of one attribute in each block; ``known`` is 0 where all values are NULL.

    NaN is larger than every number: ``largest`` is NaN where a block has one, and ``least`` only
    where it has nothing else. ``sum`` is None if an integer sum overflows 64 bits.
    """

    known: NDArray[np.int64]
    least: NDArray[Any]
    largest: NDArray[Any]
    sum: NDArray[Any] | None


class Blocks(NamedTuple):
    """The blocks of a segment, in order."""

    begins: NDArray[np.int64]
    rows: NDArray[np.int64]
    group: NDArray[np.int64]
    first: Times
    last: Times
    attributes: dict[str, Summary]


def group_offsets(rows: int, group_rows: int) -> NDArray[np.int64]:
    """Compute the start offsets of row groups of equal length, and the end of the last."""
    return np.append(np.arange(0, rows, group_rows, dtype=np.int64), rows)


def block_offsets(times: Times, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the start offsets of the blocks of sorted events, and the end of the last."""
    cuts = [groups]
    sizes = np.diff(groups)
    for begin, size in zip(groups[:-1], sizes, strict=True):
        if size > BLOCK_ROWS:
            cuts.append(np.arange(begin, begin + size, BLOCK_ROWS, dtype=np.int64))
    period = aligned_period(times)
    if period:
        marks = np.arange(-(-int(times[0]) // period), int(times[-1]) // period + 1) * period
        cuts.append(np.searchsorted(times, marks, side="left"))
    offsets: NDArray[np.int64] = np.unique(np.concatenate(cuts))
    return offsets


def aligned_period(times: Times) -> int:
    """Choose the round period at whose multiples blocks end; 0 if events are too sparse."""
    span = int(times[-1]) - int(times[0]) if len(times) else 0
    if span <= 0:
        return 0
    wanted = [p for p in ROUND_TIMES if len(times) * p <= BLOCK_ROWS * span]
    if not wanted or len(times) * wanted[-1] < ALIGNED_ROWS_MIN * span:
        return 0
    return wanted[-1]


def is_summed(kind: pa.DataType) -> bool:
    """Check whether the index keeps minimum, maximum and sum for columns of a type."""
    types = pa.types
    whole = types.is_integer(kind) and kind != pa.uint64()
    temporal = types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind)
    return whole or temporal or types.is_floating(kind)


def is_text(kind: pa.DataType) -> bool:
    """Check whether the index keeps a prefix of the smallest and the largest text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_summarised(kind: pa.DataType) -> bool:
    """Check whether the index keeps any statistics for columns of a type."""
    return is_summed(kind) or is_text(kind)


def text_key(text: str) -> int:
    """Encode the first eight bytes of a text as an integer that keeps the order of texts.

    Examples
    --------
    >>> text_key("a") < text_key("b") <= text_key("b and more")
    True
    """
    return int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big") >> 1


def text_keys(column: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Encode texts as keys, with a mask of those that are not NULL."""
    array = one_array(column)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    ends, data = (np.frombuffer(b or b"", np.uint8) for b in array.buffers()[1:])  # type: ignore[arg-type]  # a buffer has bytes
    offsets = ends.view(wide)[array.offset : array.offset + len(array) + 1]
    part = data[int(offsets[0]) : int(offsets[-1])] if len(array) else data[:0]
    padded = np.concatenate([part, np.zeros(8, np.uint8)])
    # Eight bytes from every place on, without those behind the end of a text.
    words = np.ndarray(len(part) + 1, ">u8", padded, strides=(1,))
    lengths = np.minimum(np.diff(offsets), 8)
    begins = offsets[:-1] - offsets[0] if len(array) else offsets[:0]
    keys = words[begins].astype(np.uint64) & _FIRST_BYTES[lengths]
    return (keys >> np.uint64(1)).view(np.int64), valid


def summary_of(column: Any, offsets: NDArray[np.int64]) -> Summary:
    """Compute the statistics of a column between consecutive offsets; text has no sum."""
    if is_text(column.type):
        return summarise(*text_keys(column), offsets)._replace(sum=None)
    return summarise(*values_of(column), offsets)


def values_of(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Convert a column to int64 or float64, with a mask of values that are not NULL."""
    array = one_array(column)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    if pa.types.is_floating(array.type):
        filled = array.fill_null(0) if array.null_count else array
        return filled.to_numpy(zero_copy_only=False).astype(np.float64, copy=False), valid
    return ticks_of(array), valid


def summarise(
    values: NDArray[Any], valid: NDArray[np.bool_] | None, offsets: NDArray[np.int64]
) -> Summary:
    """Compute the statistics of the values between consecutive offsets."""
    begins = offsets[:-1]
    if not len(begins):
        none = np.zeros(0, values.dtype)
        return Summary(np.zeros(0, np.int64), none, none, none)
    if values.dtype == np.float64:
        # The least of NaN and anything is the other one, if fmin compares.
        low: Any = np.nan
        high: Any = -np.inf
    else:
        low, high = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    count = np.diff(offsets)
    small = large = values
    if valid is not None:
        small, large = np.where(valid, values, low), np.where(valid, values, high)
        count = np.add.reduceat(valid.astype(np.int64), begins)
        values = np.where(valid, values, values.dtype.type(0))
    with np.errstate(invalid="ignore", over="ignore"):
        least = np.fmin.reduceat(small, begins)
        largest = np.maximum.reduceat(large, begins)
        total = np.add.reduceat(values, begins)
    return Summary(count, least, largest, total if _fits(values, least, largest, count) else None)


def _fits(
    values: NDArray[Any], least: NDArray[Any], largest: NDArray[Any], count: NDArray[np.int64]
) -> bool:
    if values.dtype == np.float64:
        return True
    some = count > 0
    extreme = np.maximum(np.abs(least[some].astype(float)), np.abs(largest[some].astype(float)))
    return bool((extreme * count[some] < 2.0**62).all())


def index_table(table: pa.Table, times: Times, groups: NDArray[np.int64]) -> Blocks:
    """Build the blocks of a table sorted by time, with row groups at the given offsets."""
    if not len(times):
        none = np.zeros(0, np.int64)
        return Blocks(none, none, none, none, none, {})
    offsets = block_offsets(times, groups)
    begins, ends = offsets[:-1], offsets[1:]
    attributes = {
        field.name: summary_of(table.column(field.name), offsets)
        for field in table.schema
        if is_summarised(field.type)
    }
    group = np.searchsorted(groups, begins, side="right") - 1
    return Blocks(begins, ends - begins, group, times[begins], times[ends - 1], attributes)
