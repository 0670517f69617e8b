"""JSON records of topics as tables of events; records that do not fit are counted and left out."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from cepheid.decoding import from_json
from cepheid.errors import DataError
from cepheid.events.arriving import plain_table
from cepheid.events.json_lines import read_typed
from cepheid.events.schema import ValueKind, kind_of
from cepheid.events.text_times import timed_schema, timed_table
from cepheid.events.time_formats import TextTimes
from cepheid.options import refuse

RECORD_BYTES_MAX = 1 << 20
"""Bytes of a record; larger ones are bad."""
READ_BYTES_MAX = 1 << 25
"""Bytes that Arrow reads at once."""
_TYPES: dict[ValueKind, pa.DataType] = {
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.DOUBLE: pa.float64(),
    ValueKind.TEXT: pa.string(),
    ValueKind.TIMESTAMP: pa.timestamp("us"),
}


class Records:
    """Converts records to events of certain columns, and counts those that do not fit."""

    def __init__(self, schema: pa.Schema, times: TextTimes) -> None:
        self._read, self._times = schema, times
        self.schema = timed_schema(schema, times)
        self.bad = 0

    def events(self, values: Sequence[bytes | None]) -> pa.Table:
        """Convert records; those without a time do not fit, either."""
        lines = valid_lines(values)
        found = [self.schema.empty_table(), *self._converted(lines)]
        table = pa.concat_tables(found)
        if self._times.column in table.column_names:
            table = table.filter(pc.is_valid(table.column(self._times.column)))
        self.bad += len(values) - len(table)
        return table

    def _converted(self, lines: list[bytes]) -> list[pa.Table]:
        """Convert lines at once; where one does not fit, its half is halved until it is found."""
        if not lines:
            return []
        if sum(map(len, lines)) <= READ_BYTES_MAX:
            try:
                return [timed_table(read_lines(lines, self._read), self._times)]
            except (pa.ArrowException, DataError):
                if len(lines) == 1:
                    return []
        half = len(lines) // 2
        return self._converted(lines[:half]) + self._converted(lines[half:])


def valid_lines(values: Iterable[bytes | None]) -> list[bytes]:
    r"""Keep the values that are JSON objects, each in one line.

    Examples
    --------
    >>> valid_lines([b'{"a":\n1}', b"[1]", None, b"{", b'{"a": "\xff"}'])
    [b'{"a": 1}']
    """
    found = []
    for value in values:
        if value is None or len(value) > RECORD_BYTES_MAX:
            continue
        try:
            value.decode()
            from_json(value, dict[str, msgspec.Raw])
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            continue
        # Texts of JSON have no line breaks, so these are between its words.
        found.append(value.replace(b"\n", b" ").replace(b"\r", b" "))
    return found


def read_lines(lines: Sequence[bytes], schema: pa.Schema | None = None) -> pa.Table:
    """Read lines of JSON; with a schema, other fields are left out and lacking ones are NULL."""
    data = b"\n".join(lines)
    reading = json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    parsing = json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
    )
    return plain_table(read_typed(io.BytesIO(data), reading, parsing))


def named_fields(text: str, time: str) -> pa.Schema:
    """Parse columns and their types, ``ts timestamp, type string, price double``.

    Raises
    ------
    OptionError
        E590 if a part is no name and type of JSON.
    """
    fields = []
    for part in text.split(","):
        name, _, kind = part.strip().partition(" ")
        found = _TYPES.get(kind_of(kind.strip()))
        if not name or not kind or found is None:
            message = f"--columns names columns and types, not {part.strip()!r}"
            refuse("E590", message, "write 'ts timestamp, type string, x double'")
        fields.append((name, found))
    return _settled(pa.schema(fields), time)


def inferred_fields(values: Iterable[bytes | None], time: str) -> pa.Schema:
    """Infer columns from records; where their types differ, most of them decide."""
    lines = valid_lines(values)
    try:
        found = read_lines(lines).schema
    except pa.ArrowException:
        found = _most_common(lines)
    return _settled(found, time)


def _most_common(lines: Iterable[bytes]) -> pa.Schema:
    counts: dict[str, Counter[Any]] = {}
    for line in lines:
        try:
            one = read_lines([line]).schema
        except pa.ArrowException:
            continue
        for field in one:
            if not pa.types.is_null(field.type):
                counts.setdefault(field.name, Counter())[field.type] += 1
    return pa.schema((name, _chosen(kinds)) for name, kinds in counts.items())


def _chosen(kinds: Counter[Any]) -> pa.DataType:
    if set(kinds) == {pa.int64(), pa.float64()}:
        return pa.float64()
    most: pa.DataType = kinds.most_common(1)[0][0]
    return most


def _settled(schema: pa.Schema, time: str) -> pa.Schema:
    """Choose types that later records fit, too: times that are text stay so until they are read."""
    return pa.schema((field.name, _type_of(field, time)) for field in schema)


def _type_of(field: Any, time: str) -> pa.DataType:
    if pa.types.is_null(field.type) or (field.name == time and not pa.types.is_integer(field.type)):
        return pa.string()
    return pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type
