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

from cepheid.errors import DataError, Diagnostic
from cepheid.kernels.columns import look_up_shifted, mark_shifted

DENSE_CODES_MAX = 1 << 22
"""Codes up to here are numbered through a table; beyond, by hashing or sorting."""

_LOW = (1 << 32) - 1


class KeyValues:
    """The distinct values of a column so far; the place of a value is its number."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.known: Any = None

    def __len__(self) -> int:
        return 0 if self.known is None else len(self.known)

    def copy(self) -> KeyValues:
        """Return values that can grow on their own."""
        other = KeyValues(self.name)
        other.known = self.known
        return other

    def number(self, column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
        """Return the number of every value of a column, -1 for NULL."""
        if column.null_count == len(column):
            return np.full(len(column), -1, np.int64)
        quick = self._number_range(column)
        if quick is not None:
            return quick
        encoded = _one_array(
            column.unify_dictionaries()
            if pa.types.is_dictionary(column.type)
            else column.dictionary_encode()
        )
        values = encoded.dictionary
        table = np.full(len(values) + 1, -1, np.int64)
        table[:-1] = self.add(values)
        codes = encoded.indices
        if codes.null_count:
            codes = codes.cast(pa.int64()).fill_null(len(values))
        return np.asarray(table[codes.to_numpy(zero_copy_only=False)])

    def add(self, values: Any) -> NDArray[np.int64]:
        """Return the number of every value of an array, -1 for NULL; new ones get numbers."""
        values = _canonical(values)
        if self.known is None:
            self.known = values.slice(0, 0)
        values = self._fit(values)
        found = pc.index_in(values, value_set=self.known)
        if found.null_count:
            new = pc.unique(values.filter(pc.is_null(found))).drop_null()
            self.known = pa.concat_arrays([self.known, new])
            found = pc.index_in(values, value_set=self.known)
        return np.asarray(found.fill_null(-1)).astype(np.int64)

    def add_pairs(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of every pair of numbers, -1 where one of them is negative."""
        numbers = np.full(len(left), -1, np.int64)
        known = (left >= 0) & (right >= 0)
        left, right = left[known], right[known]
        if not len(left):
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
        values = np.asarray(_one_array(column))
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest >= DENSE_CODES_MAX:
            return None
        seen = np.zeros(highest - lowest + 1, np.bool_)
        mark_shifted(values, lowest, seen)
        table = np.zeros(len(seen), np.int64)
        present = np.flatnonzero(seen)
        table[present] = self.add(pa.array(present + lowest))
        numbers = np.empty(len(values), np.int64)
        look_up_shifted(values, lowest, table, numbers)
        return numbers

    def _fit(self, values: Any) -> Any:
        """Return values in the type of those before them, or all in one that holds them exactly."""
        if values.type == self.known.type:
            return values
        if not len(self.known):
            self.known = values.slice(0, 0)
            return values
        numeric = (pa.int64(), pa.uint64(), pa.float64())
        if values.type in numeric and self.known.type in numeric:
            whole = pa.float64() not in (values.type, self.known.type)
            for kind in [pa.int64(), pa.uint64()] if whole else [pa.float64()]:
                # A key that another type cannot hold would meet one that is not the same.
                with contextlib.suppress(pa.ArrowInvalid):
                    self.known, values = self.known.cast(kind), values.cast(kind)
                    return values
        message = (
            f"the column `{self.name}` changed its type from {self.known.type} to {values.type}"
        )
        raise DataError([Diagnostic("E506", message)])


def join(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs of numbers as single ones."""
    return (left << 32) | right


def take_apart(pairs: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the two sides of pairs."""
    codes = np.asarray(pairs, np.int64)
    return codes >> 32, codes & _LOW


def _one_array(column: pa.ChunkedArray[Any]) -> Any:
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
