"""Values in, numbers out: every distinct value gets the next number when it appears.

Values stay Arrow arrays: a Python object for each of a hundred thousand keys would cost more, in
every micro-batch of a stream, than all its events.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.key_index import Index, index_of
from cepheid.arrays.pool import empty
from cepheid.arrays.sharing import once
from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.columns import MARKED, look_up_shifted, mark_shifted
from cepheid.kernels.distinct import distinct

DENSE_CODES_MAX = 1 << 22
"""Codes up to here are numbered through a table; beyond, by hashing or sorting."""

INDEX_FROM = 1 << 12
"""With so many values a hash table of them is kept; one for each batch would cost more."""

SPARSE_MAX = 8
"""A table of marks this many times as long as the values is quicker than hashing or sorting."""

FEW_ROWS = 1 << 10
"""So many values are sorted rather than looked up in a table, if they are the first."""

_LOW = (1 << 32) - 1
_NO_RANGE: tuple[int, NDArray[np.int64]] = (0, np.zeros(0, np.int64))


class KeyValues:
    """The distinct values of a column so far; the place of a value is its number.

    Two caches make the cost follow the events: an index of all values once there are many, and a
    table for whole numbers of a small range. Copies hand both on to the newer copy, because nearly
    always only that one is used.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        # The values are an array, or the first ones of an index that may have more by now.
        self._array: Any = None
        self._index: Index | None = None
        self._count = 0
        self._owns_index = False
        self._range: tuple[int, NDArray[np.int64]] = _NO_RANGE
        # A dictionary that was numbered, and its numbers: slices of one table share it.
        self._dictionary: tuple[Any, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def known(self) -> Any:
        """Return the distinct values as an array, None before the first."""
        return self._array if self._index is None else self._index.values(self._count)

    def copy(self) -> KeyValues:
        """Return values that can grow on their own."""
        other = KeyValues(self.name)
        other._array, other._index, other._count = self._array, self._index, self._count
        other._owns_index, self._owns_index = self._owns_index, False
        other._range, self._range = self._range, _NO_RANGE
        other._dictionary = self._dictionary
        return other

    def number(self, column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
        """Return the number of every value of a column, -1 for NULL."""
        if column.null_count == len(column):
            return np.full(len(column), -1, np.int64)
        quick = self._number_range(column)
        if quick is not None:
            return quick
        words = self._words(column)
        if words is not None:
            return self._add_to_index(words)
        encoded = once("encoded", [column], lambda: _encoded(column))
        table = self._number_dictionary(encoded.dictionary)
        codes = encoded.indices
        if codes.null_count:
            codes = codes.cast(pa.int64()).fill_null(len(encoded.dictionary))
        return np.asarray(table[codes.to_numpy(zero_copy_only=False)])

    def _number_dictionary(self, values: Any) -> NDArray[np.int64]:
        """Return the numbers of a dictionary, and -1 at the end, for NULL."""
        if self._dictionary is not None and _is_same(self._dictionary[0], values):
            return self._dictionary[1]
        table = np.full(len(values) + 1, -1, np.int64)
        table[:-1] = self.add(values)
        self._dictionary = (values, table)
        return table

    def add(self, values: Any) -> NDArray[np.int64]:
        """Return the number of every value of an array, -1 for NULL; new ones get numbers."""
        values = _canonical(values)
        if self._array is None:
            self._array = values.slice(0, 0)
        values = self._fit(values)
        if max(self._count, len(values)) >= INDEX_FROM:
            self._use_index(values.type)
        if self._owns_index:
            return self._add_to_index(values)
        if not self._count:
            return self._add_first(values)
        found = pc.index_in(values, value_set=self.known)
        if found.null_count:
            new = pc.unique(values.filter(pc.is_null(found))).drop_null()
            self._array, self._index = pa.concat_arrays([self.known, new]), None
            self._count = len(self._array)
            found = pc.index_in(values, value_set=self._array)
        return np.asarray(found.fill_null(-1)).astype(np.int64)

    def _add_first(self, values: Any) -> NDArray[np.int64]:
        """Return the number of every value of an array before which there were none."""
        known = pc.unique(values)
        known = known.drop_null() if known.null_count else known
        self._array, self._index, self._count = known, None, len(known)
        if len(known) == len(values):
            return np.arange(len(values))
        return np.asarray(pc.index_in(values, value_set=known).fill_null(-1)).astype(np.int64)

    def _use_index(self, kind: pa.DataType) -> None:
        """Keep an index of the values from now on, if their type has one."""
        if not self._owns_index and (not self._count or self.known.type == kind):
            self._index = index_of(self.known if self._count else pa.array([], kind))
            self._owns_index = self._index is not None

    def _words(self, column: pa.ChunkedArray[Any]) -> Any:
        """Return whole numbers as the index has them, or None."""
        if not (self._owns_index and pa.types.is_integer(column.type)):
            return None
        values = _canonical(one_array(column))
        return values if self._index is not None and values.type == self._index.kind else None

    def _add_to_index(self, values: Any) -> NDArray[np.int64]:
        assert self._index is not None, "an index that is owned exists"
        numbers = np.full(len(values), -1, np.int64)
        known = np.asarray(values.is_valid()) if values.null_count else slice(None)
        numbers[known] = self._index.number(values.drop_null() if values.null_count else values)
        self._count = self._index.count
        return numbers

    def add_pairs(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of every pair of numbers, -1 where one of them is negative."""
        numbers = np.full(len(left), -1, np.int64)
        known = (left >= 0) & (right >= 0)
        left, right = left[known], right[known]
        if not len(left):
            return numbers
        if self._owns_index:
            numbers[known] = self.add(pa.array(join(left, right)))
            return numbers
        width = int(right.max()) + 1
        place = left * width + right
        if (int(left.max()) + 1) * width <= DENSE_CODES_MAX:
            seen = np.flatnonzero(np.bincount(place))
            table = np.zeros(int(seen[-1]) + 1, np.int64)
            table[seen] = self.add(pa.array(join(seen // width, seen % width)))
            numbers[known] = table[place]
        else:
            seen, inverse = np.unique(place, return_inverse=True)
            numbers[known] = self.add(pa.array(join(seen // width, seen % width)))[inverse]
        return numbers

    def _number_range(self, column: pa.ChunkedArray[Any]) -> NDArray[np.int64] | None:
        """Look up whole numbers of a small range in a table, or return None."""
        kind = column.type
        if not pa.types.is_integer(kind) or kind == pa.uint64():
            return None
        if column.null_count:
            return None
        values = np.asarray(one_array(column))
        if not self._count and len(values) < FEW_ROWS:
            return self._number_first(values)
        numbers = empty(len(values))
        missing = self._look_up(values, numbers)
        if not missing:
            return numbers
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest >= DENSE_CODES_MAX:
            return None
        before = self._range
        if not self._make_range(lowest, highest):
            return None
        # A longer table covers all values; one that has just been made has no number yet.
        if self._range is not before and len(before[1]):
            missing = self._look_up(values, numbers)
        if missing:
            self._number_new(values, numbers, missing)
        return numbers

    def _number_first(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the numbers of a few whole numbers before which there were none."""
        known = distinct(values)
        self._array, self._count = pa.array(known.astype(np.int64)), len(known)
        self._index, self._range = None, _NO_RANGE
        return np.searchsorted(known, values)

    def _number_new(self, values: NDArray[Any], numbers: NDArray[np.int64], missing: int) -> None:
        """Give numbers to the values of the table's range that have none, so many of them."""
        first, table = self._range
        # With 64 bits, so that the difference of narrow numbers does not wrap.
        lowest = np.int64(first)
        dense = len(table) <= SPARSE_MAX * missing
        # The first values of a table are told apart by it alone.
        if min(missing, len(table)) >= INDEX_FROM and (self._count or not dense):
            self._use_index(pa.int64())
        if dense:
            mark_shifted(values, lowest, table)
            places = np.flatnonzero(table == MARKED)
            table[places] = self._add_new(places + lowest)
            self._look_up(values, numbers)
            return
        rows: Any = slice(None) if missing == len(values) else np.flatnonzero(numbers < 0)
        unknown = values[rows]
        new = unknown if self._owns_index else np.unique(unknown)
        table[new - lowest] = self.add(pa.array(new))
        numbers[rows] = table[unknown - lowest]

    def _add_new(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of distinct values, which are new if there were none before."""
        if self._count:
            return self.add(pa.array(values))
        self._array, self._count = pa.array(values), len(values)
        self._index, self._owns_index = None, False
        return np.arange(len(values))

    def _look_up(self, values: NDArray[Any], numbers: NDArray[np.int64]) -> int:
        """Fill the numbers of values from the table; return how many have none there."""
        first, table = self._range
        if not len(table):
            return len(values)
        return int(look_up_shifted(values, np.int64(first), table, numbers))

    def _make_range(self, lowest: int, highest: int) -> bool:
        """Let the table of numbers cover a range; return False if it would be too long."""
        first, table = self._range
        if not len(table):
            self._range = (lowest, np.full(highest - lowest + 1, -1, np.int64))
            return True
        last = first + len(table) - 1
        if lowest >= first and highest <= last:
            return True
        lowest, highest = min(lowest, first), max(highest, last)
        if highest - lowest >= DENSE_CODES_MAX:
            return False
        # Twice the range, so that values that rise or fall slowly do not copy it every time.
        size = highest - lowest + 1
        spare = min(size, DENSE_CODES_MAX - size)
        highest += spare * (highest > last)
        lowest = max(lowest - spare * (lowest < first), -(2**63))
        longer = np.full(highest - lowest + 1, -1, np.int64)
        longer[first - lowest :][: len(table)] = table
        self._range = (lowest, longer)
        return True

    def _fit(self, values: Any) -> Any:
        """Return values in the type of those before them, or all in one that holds them exactly."""
        before = self._array.type if self._index is None else self._index.kind
        if values.type == before:
            return values
        if not self._count:
            self._array = values.slice(0, 0)
            return values
        numeric = (pa.int64(), pa.uint64(), pa.float64())
        if values.type in numeric and before in numeric:
            whole = pa.float64() not in (values.type, before)
            for kind in [pa.int64(), pa.uint64()] if whole else [pa.float64()]:
                # A key that another type cannot hold would meet one that is not the same.
                with contextlib.suppress(pa.ArrowInvalid):
                    array, values = self.known.cast(kind), values.cast(kind)
                    self._array, self._index, self._owns_index = array, None, False
                    return values
        message = f"the column `{self.name}` changed its type from {before} to {values.type}"
        raise DataError([Diagnostic("E506", message)])


def join(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs of numbers as single ones."""
    return (left << 32) | right


def take_apart(pairs: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two sides of pairs."""
    codes = np.asarray(pairs, np.int64)
    return codes >> 32, codes & _LOW


def _is_same(first: Any, second: Any) -> bool:
    """Check whether two arrays are the same memory."""
    if (len(first), first.offset, first.type) != (len(second), second.offset, second.type):
        return False
    places = (
        [buffer and buffer.address for buffer in array.buffers()] for array in (first, second)
    )
    return next(places) == next(places)


def _encoded(column: pa.ChunkedArray[Any]) -> Any:
    """Return a column as one array with a dictionary."""
    if pa.types.is_dictionary(column.type):
        return one_array(column.unify_dictionaries())
    return one_array(column.dictionary_encode())


def one_array(column: pa.ChunkedArray[Any]) -> Any:
    """Return a column as one array; Arrow gives a chunked one back where there is no chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)  # Combining one chunk would copy it.
    array: Any = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks else pa.array([], column.type)
    return array


def _canonical(values: Any) -> Any:
    """Return values of which equal ones are the same (§4.6): one type, one NaN, one zero."""
    kind = values.type
    if pa.types.is_integer(kind) and kind not in (pa.int64(), pa.uint64()):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        plain = values.cast(pa.float64())
        doubles = plain.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        doubles = np.where(np.isnan(doubles), np.nan, doubles)
        return pa.array(doubles, mask=np.asarray(plain.is_null()))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.binary())
    return values
