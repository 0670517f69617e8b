"""Arrow batch in, arrays of a kernel out: times, keys, classes, weights and value keys.

Everything here is a handful of passes over whole columns; nothing is done event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.expression_code import true_mask
from cepheid.engine.vectors import Vector, vector_of
from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.schema import ValueKind
from cepheid.kernels.columns import look_up, look_up_shifted, mark_shifted, order_keys
from cepheid.language import tree
from cepheid.planner.plan import Plan
from cepheid.planner.symbols import without_variable

DENSE_CODES_MAX = 1 << 22
"""Combined codes up to here are numbered through a table; beyond, by sorting."""

NO_VALUE = np.iinfo(np.int64).max
_NAN_KEY = NO_VALUE - 1


class EventArrays(NamedTuple):
    """The events of a batch that belong to a partition, in the order of time."""

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    bits: NDArray[Any]
    weights: NDArray[Any]
    values: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> EventArrays:
        """Return some of the events."""
        return EventArrays(
            self.ts[rows],
            self.key[rows],
            self.bits[rows],
            self.weights[:, rows],
            self.values[:, rows],
        )


class Columns:
    """The columns of a batch as vectors, each made once; dotted names reach into structures."""

    def __init__(self, batch: pa.Table) -> None:
        self.batch = batch
        self._vectors: dict[str, Vector] = {}
        self._masks: dict[tree.Expression, NDArray[np.bool_]] = {}
        self._encoded: dict[str, Any] = {}
        self._numbers: dict[int, tuple[KeyTable, NDArray[np.int64]]] = {}

    def vector(self, name: str) -> Vector:
        """Return a column as a vector, or say which columns there are."""
        if name not in self._vectors:
            self._vectors[name] = vector_of(self.arrow(name), name=name)
        return self._vectors[name]

    def mask(self, expression: tree.Expression) -> NDArray[np.bool_]:
        """Return for which events a local predicate is true; queries that share columns ask once.

        What the variable is called must not matter (``planner.symbols.without_variable``).
        """
        if expression not in self._masks:

            def lookup(attribute: tree.Attribute) -> Vector:
                return self.vector(attribute.attribute.text)

            self._masks[expression] = true_mask(expression, lookup, len(self.batch))
        return self._masks[expression]

    def encoded(self, name: str) -> Any:
        """Return a column as texts with a dictionary."""
        if name not in self._encoded:
            column: Any = self.arrow(name)
            if not pa.types.is_dictionary(column.type):
                column = column.cast(pa.string()).dictionary_encode()
            self._encoded[name] = column
        return self._encoded[name]

    def numbers(self, keys: KeyTable) -> NDArray[np.int64]:
        """Return the number of every event's key; queries that share columns and keys ask once."""
        if id(keys) not in self._numbers:
            self._numbers[id(keys)] = (keys, keys.number(self))
        return self._numbers[id(keys)][1]

    def arrow(self, name: str) -> pa.ChunkedArray[Any]:
        """Return a column as it came."""
        if name in self.batch.column_names:
            return self.batch.column(name)
        outer, _, inner = name.partition(".")
        if inner and outer in self.batch.column_names:
            flat = self.batch.select([outer]).flatten()
            for _ in inner.split(".")[1:]:
                flat = flat.flatten()
            if name in flat.column_names:
                return flat.column(name)
        helps = (suggest_names(name, self.batch.column_names, owner="the input"),)
        raise DataError([Diagnostic("E505", f"the input has no column `{name}`", helps=helps)])


def read_times(columns: Columns, name: str) -> NDArray[np.int64]:
    """Return the times of a batch in microseconds; whole numbers are microseconds already."""
    vector = columns.vector(name)
    known = (ValueKind.TIMESTAMP, ValueKind.DATE, ValueKind.INTEGER)
    if vector.kind not in known and len(columns.batch):
        message = f"the time column `{name}` is of kind {vector.kind.value}, not a time"
        helps = ("use a timestamp, a date, or whole microseconds",)
        raise DataError([Diagnostic("E506", message, helps=helps)])
    if vector.valid is not None and not vector.valid.all():
        row = int(np.flatnonzero(~vector.valid)[0])
        message = f"the time column `{name}` is NULL in row {row}"
        helps = ("leave out events without a time",)
        raise DataError([Diagnostic("E506", message, helps=helps)])
    return np.asarray(vector.data, np.int64)


def read_bits(columns: Columns, plan: Plan, variables: list[str], types: list[str]) -> NDArray[Any]:
    """Return for every event the set of variables that it may take, as bits (§2.4, §4.1)."""
    length = len(columns.batch)
    local: dict[str, list[tree.Expression]] = {name: [] for name in variables}
    for predicate in plan.local:
        for name in [predicate.variable] if predicate.variable else variables:
            local[name].append(without_variable(predicate.expression))
    bits = type_bits(columns, plan.type, types, length)
    for number, name in enumerate(variables):
        for expression in local[name]:
            bits[~columns.mask(expression)] &= ~bits.dtype.type(1 << number)
    return bits


def type_bits(
    columns: Columns, type_column: str | None, types: list[str], length: int
) -> NDArray[Any]:
    """Return the variables that fit an event's type; without types, all of them (§1.2)."""
    every = (1 << len(types)) - 1
    # Few variables fit into a byte, and bytes are quick to read.
    dtype = np.uint8 if len(types) <= 8 else np.int64
    if type_column is None or type_column not in columns.batch.column_names:
        return np.full(length, every, dtype)
    bits = np.zeros(length, dtype)

    def fits(name: str) -> int:
        return sum(1 << n for n, t in enumerate(types) if t == name)

    look_up_types(columns.encoded(type_column), fits, bits)
    return bits


def look_up_types(column: Any, number: Callable[[str], int], out: NDArray[Any]) -> None:
    """Give every event the number of its type, 0 where it has none."""
    offset = 0
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        table = np.array([*(number(str(name)) for name in names), 0], out.dtype)
        indices = chunk.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(names))
        end = offset + len(chunk)
        look_up(indices.to_numpy(zero_copy_only=False), table, out[offset:end])
        offset = end


class KeyTable:
    """Numbers the values of the partition attributes, densely, as they appear."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.values: list[tuple[Any, ...]] = [] if self.names else [()]
        self._numbers: dict[tuple[Any, ...], int] = {} if self.names else {(): 0}

    def __len__(self) -> int:
        return len(self.values)

    def copy(self) -> KeyTable:
        """Return a table that can grow on its own."""
        other = KeyTable(self.names)
        other.values, other._numbers = list(self.values), dict(self._numbers)
        return other

    def restore(self, values: Iterable[tuple[Any, ...]]) -> None:
        """Give keys their numbers again, in the order in which they had them before."""
        for key in values:
            self._number_key(tuple(_canonical(part) for part in key))

    def number(self, columns: Columns) -> NDArray[np.int64]:
        """Return the number of every event's key, -1 where a value is NULL (§4.2)."""
        length = len(columns.batch)
        if not self.names:
            return np.zeros(length, np.int64)
        if len(self.names) == 1:
            quick = self._number_integers(columns.arrow(self.names[0]))
            if quick is not None:
                return quick
        combined = np.zeros(length, np.int64)
        known = np.ones(length, np.bool_)
        dictionaries: list[list[Any]] = []
        for name in self.names:
            codes, values, valid = _codes_of(columns.arrow(name))
            combined = combined * max(len(values), 1) + codes
            known &= valid
            dictionaries.append(values)
        numbers = np.full(length, -1, np.int64)
        numbers[known] = self._densify(combined[known], dictionaries)
        return numbers

    def _number_integers(self, column: pa.ChunkedArray[Any]) -> NDArray[np.int64] | None:
        """Look up whole numbers of a small range in a table, or return None."""
        if not pa.types.is_integer(column.type) or column.null_count or not len(column):
            return None
        values = np.asarray(_one_array(column))
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest >= DENSE_CODES_MAX or highest >= 2**63:
            return None
        seen = np.zeros(highest - lowest + 1, np.bool_)
        mark_shifted(values, lowest, seen)
        table = np.zeros(len(seen), np.int64)
        present = np.flatnonzero(seen)
        table[present] = [self._number_key((int(value) + lowest,)) for value in present]
        numbers = np.empty(len(values), np.int64)
        look_up_shifted(values, lowest, table, numbers)
        return numbers

    def _densify(
        self, combined: NDArray[np.int64], dictionaries: list[list[Any]]
    ) -> NDArray[np.int64]:
        space = int(np.prod([max(len(values), 1) for values in dictionaries], dtype=np.float64))
        if space <= DENSE_CODES_MAX:
            seen = np.flatnonzero(np.bincount(combined, minlength=1))
            table = np.zeros(int(seen[-1]) + 1 if len(seen) else 1, np.int64)
            table[seen] = [self._number_of(int(code), dictionaries) for code in seen]
            return table[combined]
        unique, inverse = np.unique(combined, return_inverse=True)
        table = np.array([self._number_of(int(c), dictionaries) for c in unique], np.int64)
        return table[inverse]

    def _number_of(self, code: int, dictionaries: list[list[Any]]) -> int:
        parts = []
        for values in reversed(dictionaries):
            code, here = divmod(code, len(values))
            parts.append(values[here])
        return self._number_key(tuple(_canonical(part) for part in reversed(parts)))

    def _number_key(self, key: tuple[Any, ...]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(key)
        return number


def _codes_of(
    column: pa.ChunkedArray[Any],
) -> tuple[NDArray[np.int64], list[Any], NDArray[np.bool_]]:
    """Return dense codes of a column, the values that they stand for, and where it is not NULL."""
    if pa.types.is_dictionary(column.type):
        encoded = column.unify_dictionaries()
    else:
        encoded = column.dictionary_encode()
    array = _one_array(encoded)
    valid = np.asarray(array.is_valid())
    codes = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, array.dictionary.to_pylist(), valid


def _one_array(column: pa.ChunkedArray[Any]) -> Any:
    """Return a column as one array; Arrow gives a chunked one back where there is no chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)  # Combining one chunk would copy it.
    array: Any = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks else pa.array([], column.type)
    return array


def _canonical(value: Any) -> Any:
    """Return a value that equals what it should equal (§4.6): one NaN, one zero."""
    if isinstance(value, float):
        return _NAN if value != value else value + 0.0
    return value


_NAN = float("nan")
"""One object, so that a tuple with it equals itself."""


def value_keys(vector: Vector, *, largest: bool) -> NDArray[np.int64]:
    """Return whole numbers in the order of a vector's values, NO_VALUE for NULL.

    For the largest value the order is turned round, so that a kernel looks for the least only.
    """
    if vector.numbers.dtype == np.float64:
        keys = np.empty(len(vector.numbers), np.int64)
        order_keys(np.ascontiguousarray(vector.numbers).view(np.int64), largest, keys)
    else:
        keys = np.asarray(vector.numbers, np.int64)
        keys = ~keys if largest else keys
    return keys if vector.valid is None else np.where(vector.valid, keys, np.int64(NO_VALUE))


def values_of_keys(keys: NDArray[np.int64], *, largest: bool, double: bool) -> NDArray[Any]:
    """Return the values that keys stand for; NO_VALUE gives anything."""
    plain = ~keys if largest else keys
    if not double:
        return plain
    raw = np.where(plain < 0, plain ^ np.int64(NO_VALUE), plain)
    return np.where(plain == _NAN_KEY, np.nan, raw.view(np.float64))
