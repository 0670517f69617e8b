"""Bytes of lines of JSON in, the places of their values out; values are read when asked for.

A scan finds where the value of each field stands, and of what kind it is, without a copy. Few rules
read more than a few fields of an event, so only the values of these become columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json

from cepheid.arrays.event_parts import Distinct, Places
from cepheid.errors import DataError, Diagnostic
from cepheid.events.json_lines import typed
from cepheid.kernels import json_lines as kernels
from cepheid.kernels import json_values as values_of

Bytes = NDArray[np.uint8]

NAMES_MAX = 1 << 16
"""Names of fields in all lines; lines with more have data in their names."""

_FIELD_BYTES, _LINE_BYTES = 24, 256
"""Bytes of a field and of a line, for the first guess of how many there are."""
_ROOM, _FIRST = 64, 16
_SLOTS = 1 << 10
_OFFSET_MAX = (1 << 31) - 1
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_TRUTH, _NUMBERS = 1 << kernels.TRUTH, 1 << kernels.WHOLE | 1 << kernels.NUMBER
_TEXTS, _NESTED = 1 << kernels.TEXT | 1 << kernels.ESCAPED, (1 << kernels.LIST, 1 << kernels.OBJECT)
_FAMILIES = (_TRUTH, _NUMBERS, _TEXTS, *_NESTED)


class Names:
    """The names of fields, numbered as they appear, and the kinds of values that they had."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._nested: dict[int, pa.DataType | pa.ArrowException] = {}
        self._room = 0
        self.bytes, self.ends = np.zeros(0, np.uint8), np.zeros(1, np.int64)
        self.slots = self.following = self.last = self.kinds = np.zeros(0, np.int64)
        self.dated = self.unsure = np.zeros(0, np.bool_)
        self._grow()

    def add(self, name: bytes) -> None:
        """Add a name.

        Raises
        ------
        DataError
            E501 if there are too many.
        """
        if len(self._names) == NAMES_MAX:
            message = f"the lines of JSON have more than {NAMES_MAX:,} names of fields"
            helps = ("let the values be values, and the names few: a list of objects",)
            raise DataError([Diagnostic("E501", message, helps=helps)])
        text = name.decode(errors="replace")
        self._texts.append(text)
        self._numbers.setdefault(text, len(self._names))
        self._names.append(name)
        if len(self._names) > self._room:
            self._grow()
        number = len(self._names) - 1
        begin = int(self.ends[number])
        end = begin + len(name)
        if end > len(self.bytes):
            self.bytes = np.append(self.bytes, np.zeros(len(self.bytes) + end, np.uint8))
        self.bytes[begin:end] = np.frombuffer(name, np.uint8)
        self.ends[number + 1] = end
        self._enter(number)

    def number(self, name: str) -> int:
        """Return the number of a name, -1 if no line has it."""
        return self._numbers.get(name, -1)

    def text(self, number: int) -> str:
        """Return a name by its number."""
        return self._texts[number]

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """List the names of values with their numbers."""
        seen = self.kinds.tolist()
        return ((number, name) for name, number in self._numbers.items() if seen[number])

    def __len__(self) -> int:
        """Count all names, also those that only odd lines have."""
        return len(self._names)

    def learn(self, number: int, texts: pa.Array[Any]) -> None:
        """Learn the type of lists or objects of a name, which may have more fields than before."""
        known = self._nested.get(number)
        if isinstance(known, pa.ArrowException):
            return
        try:
            kind = _read_nested(texts, None).type
            fields = [pa.schema([("_", one)]) for one in (known or kind, kind)]
            self._nested[number] = pa.unify_schemas(fields, promote_options="permissive").types[0]
        except pa.ArrowException as error:
            self._nested[number] = error  # Unless a later line makes a text of it.

    def schema(self) -> pa.Schema:
        """Return the columns of all lines so far; values of several types are texts.

        Raises
        ------
        ArrowException
            If the fields inside of an object change their type.
        """
        return pa.schema([(name, self._type(number)) for number, name in self])

    def _type(self, number: int) -> pa.DataType:
        kinds = int(self.kinds[number])
        seen = [some for some in _FAMILIES if kinds & some]
        if len(seen) > 1:
            return pa.string()
        match seen:
            case []:
                return pa.null()
            case [only] if only == _TRUTH:
                return pa.bool_()
            case [only] if only == _NUMBERS:
                return pa.float64() if kinds & 1 << kernels.NUMBER else pa.int64()
            case [only] if only == _TEXTS:
                return pa.timestamp("s") if self.dated[number] else pa.string()
            case _:
                known = self._nested[number]
                if isinstance(known, pa.ArrowException):
                    raise known
                found: pa.DataType = typed(known)
                return found

    def _grow(self) -> None:
        more = max(_ROOM, self._room)
        self._room += more
        self.slots = np.full(4 * self._room, -1, np.int64)
        self.following = np.append(self.following, np.full(more + 1, -1, np.int64))
        self.last = np.append(self.last, np.full(more, -1, np.int64))
        self.kinds = np.append(self.kinds, np.zeros(more, np.int64))
        self.dated = np.append(self.dated, np.ones(more, np.bool_))
        self.unsure = np.append(self.unsure, np.zeros(more, np.bool_))
        self.ends = np.append(self.ends, np.zeros(more, np.int64))
        for number in range(len(self._names) - 1):
            self._enter(number)

    def _enter(self, number: int) -> None:
        begin, end = int(self.ends[number]), int(self.ends[number + 1])
        slot = int(kernels.slot_of_name(self.bytes, begin, end, self.slots))
        while self.slots[slot] >= 0:
            slot = (slot + 1) % len(self.slots)
        self.slots[slot] = number


class Room:
    """Arrays for what a scan finds; memory that was used before is quicker to write."""

    def __init__(self) -> None:
        self.arrays: tuple[NDArray[Any], ...] = ()

    def reserve(self, size: int) -> None:
        """Have as much room as lines of so many bytes take, as a guess."""
        fields, lines = size // _FIELD_BYTES + _ROOM, size // _LINE_BYTES + _ROOM
        if not self.arrays or len(self.arrays[0]) < fields:
            self._make(fields, lines)

    def double(self) -> None:
        """Have twice the room, for what was found so far and more."""
        before = self.arrays
        self._make(2 * len(before[0]), 2 * len(before[4]))
        for old, new in zip(before, self.arrays, strict=True):
            new[: len(old)] = old

    def _make(self, fields: int, lines: int) -> None:
        kinds = (np.int32, np.int64, np.int64, np.int8, np.int64, np.int64, np.int64)
        sizes = (fields, fields, fields, fields, lines, lines, 2 * lines)
        pairs = zip(sizes, kinds, strict=True)
        self.arrays = tuple(np.empty(size, kind) for size, kind in pairs)


class Scan:
    """Some lines, and where the values of their fields are."""

    def __init__(self, data: Bytes, names: Names, room: Room | None = None) -> None:
        """Scan lines; those that are no objects are left out.

        ``room`` is for one scan at a time, which ends with the next one.
        """
        self.names = names
        self._room = room or Room()
        self.left_out: list[bytes] = []
        odd = self._scan(data)
        if not len(odd):
            return
        pieces, place = [], 0
        for begin, end in odd.reshape(-1, 2).tolist():
            line = data[begin:end].tobytes()
            plain = _plain_line(line)
            if plain is None:
                self.left_out.append(line)
            pieces += [data[place:begin].tobytes(), plain or b""]
            place = end
        pieces.append(data[place:].tobytes())
        data = np.frombuffer(b"".join(pieces), np.uint8)
        odd = self._scan(data)
        self.left_out += [data[begin:end].tobytes() for begin, end in odd.reshape(-1, 2).tolist()]

    def _scan(self, data: Bytes) -> Places:
        """Scan lines; return where odd ones begin and end."""
        names = self.names
        names.last[:] = -1
        room, state = self._room, np.zeros(kernels.STATE, np.int64)
        room.reserve(len(data))
        while True:
            why = kernels.scan_lines(
                data, len(data), names.bytes, names.ends, names.slots, names.following, names.last,
                names.kinds, names.dated, names.unsure, *room.arrays, state
            )  # fmt: skip
            if why == kernels.DONE:
                break
            if why == kernels.NEW_NAME:
                begin, end = state[kernels.BEGIN], state[kernels.END]
                names.add(data[begin:end].tobytes())
            else:
                room.double()
        numbers, begins, stops, found, firsts, lines, odd = room.arrays
        count, rows = int(state[kernels.FIELDS]), int(state[kernels.ROWS])
        self.data, self.rows = data, rows
        self.numbers, self.found = numbers[:count], found[:count]
        self.begins, self.stops = begins[:count], stops[:count]
        self.firsts, self.lines = firsts[: rows + 1], lines[: rows + 1]
        return odd[: 2 * int(state[kernels.ODD])]

    def __len__(self) -> int:
        """Count the rows."""
        return self.rows

    def distinct(self, name: str, kind: pa.DataType, rows: Places | None = None) -> Distinct:
        """Return the distinct values of a field in all rows or in some, as values of a type."""
        all_or_some = np.arange(self.rows) if rows is None else rows
        fields = self._fields(self.names.number(name), all_or_some)
        count = int(np.count_nonzero(fields >= 0))
        codes = np.full(len(fields), -1, np.int64)
        if not count:
            return Distinct(_nulls(0, kind), codes)
        first, state = np.empty(count, np.int64), np.zeros(2, np.int64)
        size, done = _SLOTS, False
        while not done:
            slots = np.full(size, -1, np.int64)
            done = values_of.tell_values_apart(
                self.data, self.begins, self.stops, self.found, fields, slots, codes, first, state
            )
            size *= 8
        different = int(state[1])
        if not different:
            return Distinct(_nulls(0, kind), codes)
        return Distinct(self._values(first[:different], kind), codes)

    def column(self, name: str, kind: pa.DataType, rows: Places | None = None) -> pa.Array[Any]:
        """Return the values of a field in all rows or in some."""
        all_or_some = np.arange(self.rows) if rows is None else rows
        fields = self._fields(self.names.number(name), all_or_some)
        valid = fields >= 0
        valid[valid] = self.found[fields[valid]] != kernels.NULL
        if not valid.any():
            return _nulls(len(fields), kind)
        values = self._values(fields[valid], kind)
        if len(values) == len(fields):
            return values
        return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def _fields(self, number: int, rows: Places) -> Places:
        """Find the field of a name in each row, -1 where there is none."""
        fields = np.empty(len(rows), np.int64)
        values_of.find_fields(self.numbers, self.firsts, rows, number, fields)
        return fields

    def present(self, rows: Places | None = None) -> set[str]:
        """Find the names of the fields that all rows or some have."""
        if rows is None:
            return {name for _, name in self.names}
        seen = np.zeros(len(self.names), np.bool_)
        values_of.find_names(self.numbers, self.firsts, rows, seen)
        return {self.names.text(number) for number in np.flatnonzero(seen).tolist()}

    def lines_of(self, rows: Places) -> bytes:
        """Return the lines of some rows."""
        begins, ends = self.lines[rows].tolist(), self.lines[rows + 1].tolist()
        # Blank and odd lines may follow before the next row.
        lines = (
            self.data[begin:end].tobytes().partition(b"\n")[0]
            for begin, end in zip(begins, ends, strict=True)
        )
        return b"\n".join(lines)

    def _values(self, fields: Places, kind: pa.DataType) -> pa.Array[Any]:
        """Read the values of fields that are not NULL."""
        texts: Any = self._texts(fields)
        if pa.types.is_nested(kind):
            nested: pa.Array[Any] = _read_nested(texts, kind).combine_chunks()
            return nested
        if pa.types.is_string(kind):
            kinds = self.found[fields]
            plain = (kinds == kernels.TEXT) | (kinds == kernels.ESCAPED)
            return texts if plain.all() else _as_texts(texts, plain)
        if pa.types.is_timestamp(kind):
            texts = read_seconds(texts)
            assert texts is not None, "the type was told by all values"
        values: pa.Array[Any] = texts.cast(kind)
        return values

    def _raw(self, number: int) -> pa.Array[Any]:
        """Return the values of a field as they stand, without NULL."""
        fields = self._fields(number, np.arange(self.rows))
        fields = fields[fields >= 0]
        return self._texts(fields[self.found[fields] != kernels.NULL])

    def _texts(self, fields: Places) -> pa.Array[Any]:
        size = int((self.stops[fields] - self.begins[fields]).sum())
        offsets, out = np.empty(len(fields) + 1, np.int64), np.empty(size, np.uint8)
        used = values_of.copy_texts(
            self.data, self.begins, self.stops, self.found, fields, offsets, out
        )
        wide = used > _OFFSET_MAX
        kind = pa.large_string() if wide else pa.string()
        held: list[Any] = [offsets if wide else offsets.astype(np.int32), out[:used]]
        buffers = [None, *map(pa.py_buffer, held)]
        return pa.Array.from_buffers(kind, len(fields), buffers)

    def learn_types(self) -> None:
        """Learn what Arrow alone can tell: which texts are times, and what is in lists."""
        names = self.names
        kinds = names.kinds[: len(names)]
        dated = names.dated[: len(names)] & names.unsure[: len(names)]
        for number in np.flatnonzero(dated).tolist():
            texts = self._raw(number)
            names.dated[number] = all(
                read_seconds(some) is not None for some in (texts.slice(0, _FIRST), texts)
            )
        names.unsure[:] = False
        plain = kinds & ~(1 << kernels.NULL)
        for number in np.flatnonzero((plain == _NESTED[0]) | (plain == _NESTED[1])).tolist():
            texts = self._raw(number)
            if len(texts):
                names.learn(number, texts)


_ZONED = r"^.{11,}(?:Z|[+-]\d\d(?::?\d\d)?)$"


def read_seconds(texts: Any) -> Any:
    """Read texts as Arrow's reader of JSON reads times, of seconds; None if one is no time."""
    try:
        return texts.cast(pa.timestamp("s"))
    except pa.ArrowInvalid:
        zoned = pc.match_substring_regex(texts, _ZONED)
    seconds = np.empty(len(texts), np.int64)
    try:
        for zone, chosen in ((None, pc.invert(zoned)), ("UTC", zoned)):
            some = texts.filter(chosen).cast(pa.timestamp("s", zone)).cast(pa.int64())
            seconds[chosen.to_numpy(zero_copy_only=False)] = some.to_numpy()
    except pa.ArrowInvalid:
        return None
    return pa.array(seconds).cast(pa.timestamp("s"))


def _read_nested(texts: Any, kind: pa.DataType | None) -> Any:
    """Read lists and objects of JSON as a type; without one only the type counts.

    Of names that an object repeats, which Arrow refuses, the last one counts.
    """
    written: list[str] = texts.to_pylist()
    try:
        return _read_written(written, kind)
    except pa.ArrowInvalid:
        return _read_written([_encode(_decode(text)).decode() for text in written], kind)


def _read_written(texts: list[str], kind: pa.DataType | None) -> Any:
    data: Any = pa.py_buffer("".join(f'{{"_":{text}}}\n' for text in texts).encode())
    blocks = json.ReadOptions(block_size=max(data.size, 1))
    fields = None if kind is None else pa.schema([("_", kind)])
    form: Any = json.ParseOptions(explicit_schema=fields)
    source: Any = pa.BufferReader(data)
    return json.read_json(source, blocks, form).column(0)


def _nulls(count: int, kind: Any) -> pa.Array[Any]:
    nothing: pa.Array[Any] = pa.nulls(count, kind)
    return nothing


def _as_texts(texts: pa.Array[Any], plain: NDArray[np.bool_]) -> pa.Array[Any]:
    """Write values that are no texts as JSON."""
    written: list[Any] = texts.to_pylist()
    for place in np.flatnonzero(~plain).tolist():
        written[place] = _encode(_decode(written[place])).decode()
    return pa.array(written, pa.string())


def _plain_line(line: bytes) -> bytes | None:
    """Write an odd line as a plain one; None if it is no object."""
    try:
        row = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _encode(row) if isinstance(row, dict) else None
