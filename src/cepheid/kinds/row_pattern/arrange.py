"""A table in, its rows by partition and order out."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import Table

from cepheid.arrays.pool import MANY_ROWS, empty, keep_freed_memory
from cepheid.errors import BindError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.arrow import Value, pa, pc
from cepheid.expressions.vectors import Vector
from cepheid.kernels.columns import scan_times
from cepheid.kernels.segments import (
    first_of_codes,
    mark_outside,
    order_by_code,
    scatter,
    scatter_rows,
)
from cepheid.kinds.row_pattern.plan import OrderKey

Rows = NDArray[np.int64]

CODE_MAX = (1 << 31) - 1
"""Codes that follow from the values themselves fit 32 bits: they are read several times."""


NEAR = 8
"""Rows before and behind an arranged column, so that neighbours are a part of the same memory."""

SHORT = 1 << 31
"""Places of fewer rows are of 32 bits."""


class Codes(NamedTuple):
    """A number for every row, equal for equal values and in their order."""

    data: NDArray[Any]
    value_count: int


class ArrangedRows:
    """The rows of a table by partition, and in each partition in the order of ORDER BY.

    Attributes
    ----------
    bounds
        The rows of partition p are ``bounds[p]`` up to ``bounds[p + 1]``.
    """

    def __init__(
        self, table: Table, partition_by: tuple[str, ...], order_by: tuple[OrderKey, ...]
    ) -> None:
        if len(table) >= MANY_ROWS:
            keep_freed_memory()
        self._table = table
        self._columns: dict[str, Value] = {}
        self._padded: dict[str, NDArray[Any]] = {}
        self._inside: dict[int, NDArray[np.bool_]] = {}
        self._moved: tuple[Value, int, Value] | None = None
        self._lock = Lock()  # Threads ask for the same columns.
        self._partition_by = partition_by
        self.row_count = len(table)
        self._destination, self.bounds, self._leading = _arrange(table, partition_by, order_by)

    @cached_property
    def order(self) -> Rows | None:
        """Return the rows of the table in their new order, or None if it is the old one."""
        if self._destination is None:
            return None
        order = empty(self.row_count)
        scatter_rows(self._destination, order)
        return order

    def column(self, name: str) -> Value:
        """Return a column, its rows arranged; dictionaries are decoded."""
        with self._lock:
            if name not in self._columns:
                array = _one_array(self._table.column(name))
                if pa.types.is_dictionary(array.type):
                    array = array.cast(array.type.value_type)
                if pa.types.is_string_view(array.type):
                    array = array.cast(pa.large_string())  # Few functions of Arrow take views.
                self._columns[name] = self._arranged(name, array)
            return self._columns[name]

    def _arranged(self, name: str, array: Value) -> Value:
        if self._destination is None:
            return array
        if array.null_count == 0 and _is_plain(array.type):
            values = array.to_numpy()
            padded = empty(len(values) + 2 * NEAR, values.dtype)
            padded[:NEAR] = padded[NEAR + len(values) :] = 0
            out = padded[NEAR : NEAR + len(values)]
            scatter(values, self._destination, out)
            self._padded[name] = padded
            return pa.array(out)
        return array.take(pa.array(self.order))

    def raw_column(self, name: str, rows: Rows) -> Value:
        """Return some rows of a column as the table has it; rows of a partition are together."""
        if name in self._partition_by and self._leading is not None:
            # One value a partition: to look it up for every row costs more than all the rest.
            array = _one_array(self._table.column(name))
            count = np.diff(np.searchsorted(rows, self.bounds))
            return array.take(pa.array(np.repeat(self._leading, count)))
        if name in self._columns and not pa.types.is_dictionary(
            self._table.schema.field(name).type
        ):
            return self._columns[name].take(pa.array(rows))
        array = _one_array(self._table.column(name))
        places = rows if self.order is None else self.order[rows]
        return array.take(pa.array(places))

    def schema_field(self, name: str) -> Value:
        """Return name and type of a column of the table."""
        return self._table.schema.field(name)

    def neighbours(self, name: str, shift: int) -> Vector | None:
        """Return for every row the value of a column so many rows further, without a copy.

        None if the column has other values than plain numbers, or the rows are too far away.
        """
        column = self.column(name)
        padded = self._padded.get(name)
        kinds = {np.dtype(np.int64): ValueKind.INTEGER, np.dtype(np.float64): ValueKind.DOUBLE}
        if padded is None or padded.dtype not in kinds or abs(shift) > NEAR:
            return None
        data = padded[NEAR + shift : NEAR + shift + len(column)]
        return Vector(data, self._is_inside(shift) if shift else None, kinds[padded.dtype])

    def _is_inside(self, shift: int) -> NDArray[np.bool_]:
        """Find where the row so many rows further is in the same partition."""
        if shift not in self._inside:
            outside = np.zeros(self.row_count, np.bool_)
            mark_outside(self.bounds, shift, outside)
            self._inside[shift] = np.logical_not(outside, out=outside)
        return self._inside[shift]

    def shifted(self, array: Value, shift: int) -> Value:
        """Return for every row the value so many rows further in its partition, or NULL."""
        if shift == 0 or self.row_count == 0:
            return array
        # Conditions ask for the same neighbour one after the other.
        if self._moved is None or self._moved[0] is not array or self._moved[1] != shift:
            self._moved = array, shift, self._shift(array, shift)
        return self._moved[2]

    def _shift(self, array: Value, shift: int) -> Value:
        length = self.row_count
        outside = ~self._is_inside(shift)
        if array.null_count == 0 and _is_plain(array.type):
            data = array.to_numpy()
            moved = np.zeros(length, data.dtype)
            if abs(shift) < length:
                if shift < 0:
                    moved[-shift:] = data[:shift]
                else:
                    moved[:-shift] = data[shift:]
            return pa.array(moved, array.type, mask=outside)
        places = np.arange(shift, length + shift)
        return array.take(pa.array(np.where(outside, 0, places), mask=outside))


def _is_plain(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float64(kind) or pa.types.is_float32(kind))


def _one_array(column: Value) -> Value:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes > 2**31 - 1:
        column = column.cast(pa.large_string())
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], column.type)
    return found


def _arrange(
    table: Table, partition_by: tuple[str, ...], order_by: tuple[OrderKey, ...]
) -> tuple[Rows | None, Rows, Rows | None]:
    """Find where each row goes (None: it stays), the bounds of the partitions, and a row of each.

    Without PARTITION BY no row is looked for.
    """
    for name in (*partition_by, *(key.column for key in order_by)):
        refuse_nested(name, table.schema.field(name).type)
    length = len(table)
    order = _sorted(table, order_by)
    destination = empty(length, np.int32 if length < SHORT else np.int64)
    if order is not None:
        scatter_rows(order, destination)
    if not partition_by:
        bounds = np.array([0, length] if length else [0], np.int64)
        return None if order is None else destination, bounds, None
    codes = _partition_codes(table, partition_by)
    ends = np.zeros(codes.value_count + 1, np.int64)
    if order is None:
        order_by_code(codes.data, ends, destination)
    else:
        grouped = np.empty_like(destination)
        order_by_code(codes.data[order], ends, grouped)
        destination = grouped[destination]
    bounds = np.unique(ends)
    leading = np.full(codes.value_count, -1, np.int64)
    first_of_codes(codes.data, len(bounds) - 1, leading)
    leading = leading[leading >= 0]
    return None if len(bounds) <= 2 and order is None else destination, bounds, leading


def refuse_nested(name: str, kind: Any) -> None:
    """Raise E609 for lists, structures and maps: Arrow neither sorts nor groups by them."""
    if pa.types.is_nested(kind):
        message = f"rows cannot be ordered or grouped by `{name}`, which is of type {kind}"
        helps = ("use a part of it that is a number, a text or a time",)
        raise BindError([Diagnostic("E609", message, helps=helps)])


def _sorted(table: Table, order_by: tuple[OrderKey, ...]) -> Rows | None:
    keys = [_sort_key(_one_array(table.column(key.column)), key) for key in order_by]
    if not keys or len(table) < 2:
        return None
    if len(keys) == 1 and keys[0].dtype == np.int64 and scan_times(keys[0])[0] < 0:
        return None
    # Later keys count only where all earlier ones are equal.
    equal = np.ones(len(table) - 1, np.bool_)
    ordered = True
    for key in keys:
        before, after = key[:-1], key[1:]
        ordered = ordered and not bool((equal & (after < before)).any())
        equal &= before == after
    return None if ordered else np.lexsort(keys[::-1])


def _sort_key(array: Value, key: OrderKey) -> NDArray[Any]:
    """Return numbers in the order of a key."""
    if not key.descending and array.null_count == 0:
        numbers = as_whole(array)
        if numbers is not None:
            return numbers
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    direction = "descending" if key.descending else "ascending"
    ranks = _ranks(array, direction)
    if key.nulls_first and array.null_count:
        ranks[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return ranks


def _ranks(array: Value, direction: str = "ascending") -> Rows:
    """Return numbers from 1 in the order of values; NULLs come last."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    found = pc.rank(array, sort_keys=direction, tiebreaker="dense")
    return np.asarray(found).astype(np.int64)


def as_whole(array: Value) -> Rows | None:
    """Return a column without NULLs as int64 in the same order, or None if its type has no such."""
    numbers = _whole_numbers(array)
    return None if numbers is None else numbers.astype(np.int64, copy=False)


def _whole_numbers(array: Value) -> NDArray[Any] | None:
    """Return a column without NULLs as integers in the same order, or None if there are none."""
    types, kind = pa.types, array.type
    if types.is_date32(kind):
        array = array.view(pa.int32())
    elif types.is_timestamp(kind) or types.is_duration(kind) or types.is_date64(kind):
        array = array.view(pa.int64())
    elif not types.is_integer(kind) or types.is_uint64(kind):
        return None
    numbers: NDArray[Any] = array.to_numpy()
    return numbers


def _partition_codes(table: Table, partition_by: tuple[str, ...]) -> Codes:
    first, *others = (_codes(_one_array(table.column(name))) for name in partition_by)
    found = _close_codes(first, len(table))
    for codes in others:
        combined = found.data.astype(np.int64) * codes.value_count + codes.data
        both = Codes(combined, found.value_count * codes.value_count)
        found = _close_codes(both, len(table))
    return found


def _close_codes(codes: Codes, length: int) -> Codes:
    """Give rows new numbers if most codes have no row."""
    if codes.value_count <= 4 * length + 1024:
        return codes
    values, data = np.unique(codes.data, return_inverse=True)
    return Codes(data, len(values))


def equal_codes(array: Value) -> Rows:
    """Return a number for every row, equal for equal values."""
    return _codes(array).data


def _codes(array: Value) -> Codes:
    if len(array) == 0:
        return Codes(np.zeros(0, np.int64), 1)
    if array.null_count == 0 and not pa.types.is_dictionary(array.type):
        numbers = _whole_numbers(array)
        if numbers is not None:
            low, high = int(numbers.min()), int(numbers.max())
            if high - low <= min(4 * len(array) + 1024, CODE_MAX):
                codes = empty(len(numbers), np.int32)
                np.subtract(numbers, np.int64(low), out=codes, casting="unsafe")
                return Codes(codes, high - low + 1)
    encoded: Any = array
    if not pa.types.is_dictionary(array.type):
        encoded = array.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary
    if not len(values):
        return Codes(np.zeros(len(array), np.int64), 1)
    # Equal entries of a dictionary get equal ranks, and NULL the rank 0 wherever it stands.
    ranks = _ranks(values)
    ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0
    codes = ranks[encoded.indices.fill_null(0).to_numpy()]
    if encoded.indices.null_count:
        codes[encoded.indices.is_null().to_numpy(zero_copy_only=False)] = 0
    return Codes(codes, len(values) + 1)
