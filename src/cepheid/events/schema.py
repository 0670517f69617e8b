"""The columns of an event stream: names and kinds of values, whatever library they come from.

Arrow and Spark schemas are read through the printed names of their types, so neither library is
imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from cepheid.options import is_frame, refuse


class ValueKind(StrEnum):
    """The kind of an attribute or expression; UNKNOWN without a schema, or if all are NULL."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    TIMESTAMP = "timestamp"
    DATE = "date"
    DURATION = "duration"
    OTHER = "other"
    UNKNOWN = "unknown"


NUMERIC = frozenset({ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.DECIMAL})
TEMPORAL = frozenset({ValueKind.TIMESTAMP, ValueKind.DATE})

_KINDS = {
    "bool": ValueKind.BOOLEAN,
    "boolean": ValueKind.BOOLEAN,
    "int": ValueKind.INTEGER,
    "integer": ValueKind.INTEGER,
    "uint": ValueKind.INTEGER,
    "bigint": ValueKind.INTEGER,
    "smallint": ValueKind.INTEGER,
    "tinyint": ValueKind.INTEGER,
    "long": ValueKind.INTEGER,
    "short": ValueKind.INTEGER,
    "byte": ValueKind.INTEGER,
    "double": ValueKind.DOUBLE,
    "float": ValueKind.DOUBLE,
    "halffloat": ValueKind.DOUBLE,
    "real": ValueKind.DOUBLE,
    "decimal": ValueKind.DECIMAL,
    "numeric": ValueKind.DECIMAL,
    "string": ValueKind.TEXT,
    "str": ValueKind.TEXT,
    "utf": ValueKind.TEXT,
    "large_string": ValueKind.TEXT,
    "string_view": ValueKind.TEXT,
    "text": ValueKind.TEXT,
    "char": ValueKind.TEXT,
    "character": ValueKind.TEXT,
    "varchar": ValueKind.TEXT,
    "timestamp": ValueKind.TIMESTAMP,
    "timestamp_ntz": ValueKind.TIMESTAMP,
    "timestamp_ltz": ValueKind.TIMESTAMP,
    "datetime": ValueKind.TIMESTAMP,
    "date": ValueKind.DATE,
    "duration": ValueKind.DURATION,
    "timedelta": ValueKind.DURATION,
    "interval day": ValueKind.DURATION,
    "interval hour": ValueKind.DURATION,
    "interval minute": ValueKind.DURATION,
    "interval second": ValueKind.DURATION,
    "null": ValueKind.UNKNOWN,
    "void": ValueKind.UNKNOWN,
}
"""Names of types in Arrow, Spark, pandas and queries, without width and parameters.

An interval of months or years has no fixed length, so it is no duration.
"""

_ENCODED = re.compile(r"(?:dictionary<values=|run_end_encoded<run_ends: \w+, values: )(.*)")
_WHOLE_DECIMAL = re.compile(r"(?:decimal\d*|numeric)\(\s*\d+\s*(?:,\s*0\s*)?\)")
_NANOSECONDS = re.compile(r"(?:timestamp|datetime64)\[ns\b|datetime\(time_unit='ns'")
_FIRST_WORD = re.compile(r"(interval \w+|[a-z_]+)\d*(?![\w<]|\[\d*\])")


def kind_of(type_name: str) -> ValueKind:
    """Parse the kind of a type from its printed name.

    Examples
    --------
    >>> kind_of("timestamp[us, tz=UTC]").value, kind_of("bigint").value, kind_of("list<int>").value
    ('timestamp', 'integer', 'other')

    Decimals of scale 0 are integers (docs/semantics.md §4.10).

    >>> kind_of("decimal(18,0)").value, kind_of("decimal128(10, 2)").value
    ('integer', 'decimal')
    """
    name = type_name.strip().lower()
    encoded = _ENCODED.match(name)
    inner = encoded.group(1) if encoded else name
    if _WHOLE_DECIMAL.match(inner):
        return ValueKind.INTEGER
    word = _FIRST_WORD.match(inner)
    return _KINDS.get(word.group(1), ValueKind.OTHER) if word else ValueKind.OTHER


class Column(msgspec.Struct, frozen=True):
    """One column of a stream; a field of a structure has a dotted name."""

    name: str
    kind: ValueKind
    nanoseconds: bool = False
    """Whether times are counted in nanoseconds, which only Arrow and pandas do."""

    @staticmethod
    def of(name: str, type_name: str) -> Column:
        """Build a column from the printed name of its type."""
        kind = kind_of(type_name)
        exact = kind is ValueKind.TIMESTAMP and bool(_NANOSECONDS.search(type_name.lower()))
        return Column(name, kind, exact)


class EventSchema(msgspec.Struct, frozen=True, dict=True):
    """The columns of a stream, in order; thousands of rules may ask the same one."""

    columns: tuple[Column, ...]

    def __hash__(self) -> int:
        """Hash the columns, once."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in reversed(self.columns)}

    def kind(self, name: str) -> ValueKind | None:
        """Look up the kind of a column; None if there is no such column."""
        found = self._by_name.get(name)
        return None if found is None else found.kind

    @cached_property
    def is_unique(self) -> bool:
        """Check that no two columns have the same name."""
        return len(self._by_name) == len(self.columns)

    def in_nanoseconds(self, name: str) -> bool:
        """Check whether a column holds times in nanoseconds."""
        return name in self._nanoseconds

    @cached_property
    def _nanoseconds(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns if column.nanoseconds)


def fixed_columns(source: object) -> object | None:
    """Return columns that cannot change and that `==` compares, for what was planned for them.

    They are an EventSchema or an Arrow schema. None for a description that may change.

    Examples
    --------
    >>> import pyarrow as pa
    >>> fixed_columns(pa.table({"ts": [1]})), fixed_columns({"ts": "int"})
    (ts: int64, None)
    """
    found = getattr(source, "schema", source)
    kind = type(found)
    is_arrow = kind.__module__ == "pyarrow.lib" and kind.__name__ == "Schema"
    return found if is_arrow or isinstance(found, EventSchema) else None


def read_schema(source: object) -> EventSchema | None:
    """Read a schema from any supported description of columns; None stays None.

    Parameters
    ----------
    source
        A mapping from names to type names, an EventSchema, an Arrow schema or anything with an
        Arrow ``schema`` (Table, RecordBatchReader, Dataset), a Spark ``StructType`` or DataFrame, a
        DataFrame of pandas or Polars.

    Raises
    ------
    TypeError
        If it is none of these.

    Examples
    --------
    >>> read_schema({"ts": "timestamp", "price": "double"}).names
    ('ts', 'price')
    """
    if source is None or isinstance(source, EventSchema):
        return source
    if isinstance(source, Mapping):
        return EventSchema(tuple(Column.of(str(n), str(t)) for n, t in source.items()))
    fields = _fields_of(_first_rows(source) if is_frame(source) else source)
    if fields is None:
        helps = ("use a dict of type names by column, an Arrow schema or table, or a DataFrame",)
        refuse("E592", f"no columns can be read from a {type(source).__name__}", *helps)
    return EventSchema(tuple(_columns(fields)))


def _fields_of(source: Any) -> Iterable[Any] | None:
    """Find the fields of an Arrow or Spark schema, or of an object that has or exports one."""
    inner = getattr(source, "schema", source)
    if hasattr(inner, "fields"):  # Spark's StructType
        return list(inner.fields)
    if hasattr(inner, "names") and hasattr(inner, "field"):  # Arrow's Schema
        return list(inner)
    if hasattr(source, "__arrow_c_schema__"):
        import pyarrow as pa

        return list(pa.schema(source))
    return None


def _first_rows(frame: Any) -> Any:
    """Convert the first rows of a data frame to Arrow: pandas tells texts by values alone."""
    # Whoever has a data frame waits for more than Arrow.
    from cepheid.events.arriving import as_table

    return as_table(frame.head(1000))


def _columns(fields: Iterable[Any], prefix: str = "") -> Iterator[Column]:
    """Yield the columns of fields; the fields of a structure follow it under dotted names."""
    for field in fields:
        data_type = getattr(field, "dataType", None)
        inner = data_type if data_type is not None else field.type
        spark_name = getattr(inner, "simpleString", None)
        type_name = spark_name() if spark_name is not None else str(inner)
        name = prefix + field.name
        yield Column.of(name, type_name)
        if type_name.startswith("struct<"):
            parts = getattr(inner, "fields", None)
            nested = (
                parts if parts is not None else [inner.field(i) for i in range(inner.num_fields)]
            )
            yield from _columns(nested, f"{name}.")
