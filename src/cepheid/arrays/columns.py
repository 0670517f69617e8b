"""Arrow batch in, arrays of a kernel out: times, keys, classes, weights and value keys.

Everything here is a handful of passes over whole columns; nothing is done event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Never, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.key_values import KeyValues, join, one_array, take_apart
from cepheid.arrays.noticing import current
from cepheid.arrays.pool import MANY_ROWS, keep_freed_memory
from cepheid.arrays.sharing import is_shared, once
from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.nanoseconds import is_nanoseconds
from cepheid.events.schema import ValueKind
from cepheid.events.temporal import TIME_MAX
from cepheid.expressions.evaluate import true_mask
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.kernels.columns import look_up, look_up_texts, order_keys
from cepheid.language import tree
from cepheid.language.variables import without_variable
from cepheid.plans.plan import TrendPlan

Value = TypeVar("Value")

NO_VALUE = np.iinfo(np.int64).max
FEW_ROWS = 1 << 10
"""For fewer events, the call of a kernel takes longer than NumPy."""
_NAN_KEY = NO_VALUE - 1
_MICROSECONDS, _TEXT = pa.timestamp("us"), pa.string()


class EventArrays(NamedTuple):
    """The events of a batch that belong to a partition, in the order of time."""

    ts: NDArray[np.int64]
    key: NDArray[np.int64]
    bits: NDArray[Any]
    weights: NDArray[Any]
    values: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> EventArrays:
        """Return some of the events."""
        # Kernels are compiled for rows that lie one after another, as indexing leaves them not.
        placed = isinstance(rows, np.ndarray) and rows.dtype == np.int64
        chosen: Any = rows if placed else np.arange(len(self.ts))[rows]
        return EventArrays(
            self.ts[rows],
            self.key[rows],
            self.bits[rows],
            np.take(self.weights, chosen, axis=1),
            np.take(self.values, chosen, axis=1),
        )


class Columns:
    """The columns of a batch as vectors, each made once; dotted names reach into structures."""

    def __init__(self, batch: pa.Table) -> None:
        if len(batch) >= MANY_ROWS:
            keep_freed_memory()
        self.batch = batch
        self._names = frozenset(batch.column_names)
        self._vectors: dict[str, Vector] = {}
        self._ticks: dict[str, Vector] = {}
        self._times: dict[str, NDArray[np.int64]] = {}
        self._masks: dict[tree.Expression, NDArray[np.bool_]] = {}
        self._encoded: dict[str, Any] = {}
        self._numbers: dict[int, tuple[KeyTable, NDArray[np.int64]]] = {}
        self._bits: dict[int, tuple[object, NDArray[Any]]] = {}
        self._joined: dict[str, pa.ChunkedArray[Any]] = {}

    def append(self, name: str, column: pa.Array[Any]) -> None:
        """Add a column; vectors of the others stay."""
        self.batch = self.batch.append_column(name, column)
        self._names = frozenset(self.batch.column_names)

    def vector(self, name: str) -> Vector:
        """Return a column as a vector, or say which columns there are."""
        if name not in self._vectors:
            self._vectors[name] = vector_of(self.arrow(name), name=name)
        return self._vectors[name]

    def ticks(self, name: str) -> Vector:
        """Return a column of times as a vector of whole numbers, nanoseconds as such."""
        column = self.arrow(name)
        if not is_nanoseconds(column.type):
            return self.vector(name)
        if name not in self._ticks:
            self._ticks[name] = vector_of(column.cast(pa.int64()))._replace(
                kind=ValueKind.TIMESTAMP
            )
        return self._ticks[name]

    def plain_times(self, name: str) -> NDArray[np.int64] | None:
        """Return times that need no look at anything but their range; None for all others."""
        if name in self._times:
            return self._times[name]
        column = self.arrow(name)
        one = column.num_chunks == 1 and len(column) > 0
        if column.type != _MICROSECONDS or column.null_count or not one:
            return None
        chunk: Any = column.chunk(0)
        # Arrow's own way looks at the zone with the help of pandas.
        times = np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), 8 * chunk.offset)
        if not (times.min() >= -TIME_MAX and times.max() <= TIME_MAX):
            return None
        self._times[name] = times
        return times

    def mask(self, expression: tree.Expression) -> NDArray[np.bool_]:
        """Return for which events a local predicate is true; queries that share columns ask once.

        What the variable is called must not matter (``without_variable``).
        """
        if expression not in self._masks:
            nodes = tree.walk(expression)
            named = {n.attribute.text for n in nodes if isinstance(n, tree.Attribute)}
            places = [self.arrow(name) for name in sorted(named)] if is_shared() else []
            self._masks[expression] = once(
                ("mask", expression, len(self.batch)),
                places,
                lambda: true_mask(expression, self._compared, len(self.batch)),
            )
        return self._masks[expression]

    def _compared(self, attribute: tree.Attribute) -> Vector:
        """Return a column for a condition; texts that several queries read have a dictionary."""
        name = attribute.attribute.text
        if is_shared() and pa.types.is_string(self.arrow(name).type):
            return vector_of(self.encoded(name), name=name)
        return self.vector(name)

    def encoded(self, name: str) -> Any:
        """Return a column as texts with a dictionary."""
        if name not in self._encoded:
            column: Any = self.arrow(name)
            if pa.types.is_nested(column.type):
                message = f"types of events are texts, and `{name}` is of type {column.type}"
                helps = ("name another column: `cepheid.query(..., type=...)`",)
                raise DataError([Diagnostic("E216", message, helps=helps)])
            if not pa.types.is_dictionary(column.type):
                column = once("texts", [column], column.cast(pa.string()).dictionary_encode)
            self._encoded[name] = column
        return self._encoded[name]

    def numbers(self, keys: KeyTable) -> NDArray[np.int64]:
        """Return the number of every event's key; queries that share columns and keys ask once."""
        if id(keys) not in self._numbers:
            self._numbers[id(keys)] = (keys, keys.number(self))
        return self._numbers[id(keys)][1]

    def bits(self, job: object, find: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the variables of every event for a job, which are found once."""
        if id(job) not in self._bits:
            self._bits[id(job)] = (job, find())
        return self._bits[id(job)][1]

    def take(self, name: str, rows: Any) -> Any:
        """Select rows of a column; Arrow would look at each for NULL, and join chunks each time."""
        words = self.words(name) if isinstance(rows, np.ndarray) else None
        if words is not None:
            return self.of_words(name, gather(words, rows))
        return one_array(self._one_chunk(name).take(pa.array(rows)))

    def words(self, name: str) -> NDArray[np.int64] | None:
        """Return a column without NULL whose values have 64 bits as such; None for all others."""
        column = self._one_chunk(name)
        kind = column.type
        if column.num_chunks != 1 or column.null_count or not pa.types.is_primitive(kind):
            return None
        if kind.bit_width != 64:
            return None
        chunk: Any = column.chunk(0)
        return np.frombuffer(chunk.buffers()[1] or b"", np.int64, len(chunk), 8 * chunk.offset)

    def of_words(self, name: str, words: NDArray[np.int64]) -> Any:
        """Return words as values of a column."""
        values: Any = words
        kind = self.arrow(name).type
        return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(values)])

    def _one_chunk(self, name: str) -> pa.ChunkedArray[Any]:
        """Return a column, whose chunks are joined once if it has numbers."""
        column = self.arrow(name)
        if column.num_chunks <= 1 or not pa.types.is_primitive(column.type):
            return column
        if name not in self._joined:
            self._joined[name] = pa.chunked_array([column.combine_chunks()])
        return self._joined[name]

    def arrow(self, name: str) -> pa.ChunkedArray[Any]:
        """Return a column as it came."""
        if name in self._names:
            return self.batch.column(name)
        outer, _, inner = name.partition(".")
        if inner and outer in self._names:
            flat = self.batch.select([outer]).flatten()
            for _ in inner.split(".")[1:]:
                flat = flat.flatten()
            if name in flat.column_names:
                return flat.column(name)
        helps = (suggest_names(name, self.batch.column_names, owner="the input"),)
        raise DataError([Diagnostic("E505", f"the input has no column `{name}`", helps=helps)])


def gather(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return values[rows]."""
    found = np.empty(len(rows), values.dtype)
    look_up_codes(rows, values, found)
    return found


def read_times(columns: Columns, name: str) -> NDArray[np.int64]:
    """Return the times of a batch: microseconds, or nanoseconds or whole numbers as they came."""
    plain = columns.plain_times(name)
    if plain is not None:
        return plain
    vector = columns.ticks(name)
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
    times = np.asarray(vector.data, np.int64)
    if not len(times):
        return times
    least, largest = int(times.min()), int(times.max())
    noticed = current()
    if noticed is not None and vector.kind is ValueKind.INTEGER:
        noticed.add_times(least, largest, len(times))
    if not (least >= -TIME_MAX and largest <= TIME_MAX):
        row = int(np.flatnonzero((times < -TIME_MAX) | (times > TIME_MAX))[0])
        message = f"the time {times[row]} in row {row} of `{name}` is too far from 1970"
        helps = ("use a coarser unit of time, or leave such events out",)
        raise DataError([Diagnostic("E517", message, helps=helps)])
    return times


def read_bits(
    columns: Columns, plan: TrendPlan, variables: list[str], types: list[str]
) -> NDArray[Any]:
    """Return for every event the set of variables that it may take, as bits (§2.4, §4.1)."""
    length = len(columns.batch)
    local: dict[str, list[tree.Expression]] = {name: [] for name in variables}
    for predicate in plan.local:
        for name in [predicate.variable] if predicate.variable else variables:
            local[name].append(without_variable(predicate.expression))
    bits = type_bits(columns, plan.type, types, length)
    for number, name in enumerate(variables):
        for expression in local[name]:
            keep_where(bits, number, columns.mask(expression))
    return bits


def keep_where(bits: NDArray[Any], number: int, mask: NDArray[np.bool_]) -> None:
    """Clear a bit where a mask is false; without branches, which random masks make slow."""
    bit = bits.dtype.type(1 << number)
    bits &= mask * bit | ~bit


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

    places: dict[str, int] = {}
    for place, name in enumerate(types):
        places[name] = places.get(name, 0) + (1 << place)
    column = columns.arrow(type_column)
    if current() is None and not is_shared() and _are_texts(column):
        _look_up_names(column, places, bits)
    else:
        look_up_types(columns.encoded(type_column), lambda name: places.get(name, 0), bits)
    every_type = sum(1 << n for n, t in enumerate(types) if t == tree.ANY_TYPE)
    return np.bitwise_or(bits, dtype(every_type)) if every_type else bits


def _are_texts(column: Any) -> bool:
    """Check whether many plain texts come without NULL, so that each is compared with a few."""
    return column.type == _TEXT and len(column) >= FEW_ROWS and not column.null_count


def _look_up_names(column: Any, places: dict[str, int], out: NDArray[Any]) -> None:
    """Give every event the number of its type; a dictionary would be made and thrown away."""
    texts = [name.encode() for name in places]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    names = np.frombuffer(b"".join(texts) or b" ", np.uint8)
    table, offset = np.array(list(places.values()), out.dtype), 0
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        if len(chunk):
            begins = np.frombuffer(offsets, np.int32, len(chunk) + 1, 4 * chunk.offset)
            content = np.frombuffer(data or b" ", np.uint8)
            look_up_texts(begins, content, ends, names, table, out[offset : offset + len(chunk)])
        offset += len(chunk)


def look_up_types(column: Any, number: Callable[[str], int], out: NDArray[Any]) -> None:
    """Give every event the number of its type, 0 where it has none."""
    offset = 0
    noticed = current()
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        if noticed is not None:
            noticed.add_types(map(str, names))
        table = np.array([*(number(str(name)) for name in names), 0], out.dtype)
        indices = chunk.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(names))
        end = offset + len(chunk)
        look_up_codes(indices.to_numpy(zero_copy_only=False), table, out[offset:end])
        offset = end


def look_up_codes(codes: NDArray[Any], table: NDArray[Any], out: NDArray[Any]) -> None:
    """Set out[i] = table[codes[i]]; to call a kernel for a few codes takes longer."""
    if len(codes) < FEW_ROWS:
        out[:] = table[codes]
    else:
        look_up(codes, table, out)


def notice_types(columns: Columns, type_column: str | None) -> None:
    """Notice the types of a batch, where nothing else looks at them."""
    noticed = current()
    if noticed is None or type_column is None or type_column not in columns.batch.column_names:
        return
    for chunk in columns.encoded(type_column).chunks:
        noticed.add_types(map(str, chunk.dictionary.to_pylist()))


class KeyTable:
    """Numbers the values of the partition attributes, densely, as they appear."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._columns = [KeyValues(name) for name in self.names]
        # Keys of several attributes are pairs: the number of those so far, and of the next.
        self._pairs = [KeyValues() for _ in self.names[1:]]
        self._known: dict[Hashable, tuple[int, Any]] = {}

    def known(self, what: Hashable, find: Callable[[], Value]) -> Value:
        """Derive a value from the keys so far, or return the one derived from as many keys."""
        found = self._known.get(what)
        if found is None or found[0] != len(self):
            found = self._known[what] = len(self), find()
        value: Value = found[1]
        return value

    def __len__(self) -> int:
        if not self.names:
            return 1
        return len(self._pairs[-1] if self._pairs else self._columns[0])

    def copy(self) -> KeyTable:
        """Return a table that can grow on its own."""
        other = KeyTable(self.names)
        other._columns = [column.copy() for column in self._columns]
        other._pairs = [pairs.copy() for pairs in self._pairs]
        other._known = dict(self._known)
        return other

    def arrays(self) -> list[Any]:
        """Return for every attribute the values of all keys, in the order of their numbers."""
        if not self.names or not len(self):
            return [pa.array([]) for _ in self.names]
        places = []
        if not self._pairs:
            return [self._columns[0].known]
        number = np.arange(len(self))
        for pairs in reversed(self._pairs):
            left, right = take_apart(pairs.known)
            places.append(right[number])
            number = left[number]
        places.append(number)
        return [
            column.known.take(pa.array(place))
            for column, place in zip(self._columns, reversed(places), strict=True)
        ]

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Return all keys as Python objects, for where there are few."""
        if not self.names:
            return [()]
        return list(zip(*(array.to_pylist() for array in self.arrays()), strict=True))

    def take(self, numbers: NDArray[np.int64]) -> KeyTable:
        """Return a table of some of the keys, which get their places in this list as numbers."""
        other = KeyTable(self.names)
        other.restore([array.take(pa.array(numbers)) for array in self.arrays()])
        return other

    def restore(self, arrays: Iterable[Any]) -> None:
        """Give keys their numbers again, in the order in which they had them before."""
        numbers = [c.add(array) for c, array in zip(self._columns, arrays, strict=True)]
        for pairs, right in zip(self._pairs, numbers[1:], strict=True):
            numbers[0] = pairs.add(pa.array(join(numbers[0], right)))

    def number(self, columns: Columns) -> NDArray[np.int64]:
        """Return the number of every event's key, -1 where a value is NULL (§4.2)."""
        if not self.names:
            return np.zeros(len(columns.batch), np.int64)
        number = self._columns[0].number(columns.arrow(self.names[0]))
        for pairs, column in zip(self._pairs, self._columns[1:], strict=True):
            number = pairs.add_pairs(number, column.number(columns.arrow(column.name)))
        return number


def value_keys(
    vector: Vector, *, largest: bool, bound: Callable[[], NDArray[np.bool_]] | None = None
) -> NDArray[np.int64]:
    """Return whole numbers in the order of a vector's values, NO_VALUE for NULL.

    For the largest value the order is turned round, so that a kernel looks for the least only.
    ``bound`` tells which events can be in a match, if others do not count.

    Raises
    ------
    DataError
        E504 if a whole number would be taken for NULL.
    """
    if vector.numbers.dtype == np.float64:
        keys = np.empty(len(vector.numbers), np.int64)
        order_keys(np.ascontiguousarray(vector.numbers).view(np.int64), largest, keys)
    else:
        keys = np.asarray(vector.numbers, np.int64)
        keys = ~keys if largest else keys
        taken = keys == NO_VALUE
        if vector.valid is not None:
            taken &= vector.valid
        if taken.any() and (bound is None or (taken & bound()).any()):
            _refuse_no_value(largest=largest)
    return keys if vector.valid is None else np.where(vector.valid, keys, np.int64(NO_VALUE))


def _refuse_no_value(*, largest: bool) -> Never:
    name, number = ("MAX", "-2^63") if largest else ("MIN", "2^63 - 1")
    message = f"{name} cannot distinguish the value {number} from NULL"
    helps = ("leave such events out, or cast the column to DOUBLE",)
    raise DataError([Diagnostic("E504", message, helps=helps)])


def values_of_keys(keys: NDArray[np.int64], *, largest: bool, double: bool) -> NDArray[Any]:
    """Return the values that keys stand for; NO_VALUE gives anything."""
    plain = ~keys if largest else keys
    if not double:
        return plain
    raw = np.where(plain < 0, plain ^ np.int64(NO_VALUE), plain)
    return np.where(plain == _NAN_KEY, np.nan, raw.view(np.float64))
