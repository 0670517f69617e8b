"""Convert events of any supported container to tables with plain column encodings.

Texts may come as views, keys as dictionaries of any type, columns as run-end encodings. Not every
Arrow function accepts all of these, so they are decoded here, once, for all readers of events.
Dictionaries of text stay: they are fast, and every function accepts them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import DataError, Diagnostic
from cepheid.options import IN_PROCESS, is_frame, refuse


def form_of(events: object) -> str:
    """Name the library of the result for these events: ``pandas``, ``polars`` or ``pyarrow``."""
    return type(events).__module__.partition(".")[0] if is_frame(events) else "pyarrow"


def like(events: Any, result: pa.Table) -> Any:
    """Convert a result to the kind of container in which the events came."""
    if isinstance(events, pa.Table):
        return result
    return in_form(form_of(events), result)


def in_form(form: str, result: pa.Table) -> Any:
    """Convert a result to a DataFrame of pandas or Polars, or leave it as Arrow.

    Events of Polars can only come if Polars is loaded, so nothing is imported here.
    """
    if form == "polars":
        return sys.modules["polars"].from_arrow(result)
    return result.to_pandas() if form == "pandas" else result


def as_table(events: Any) -> pa.Table:
    """Convert events in this process to a plain table.

    Supported are Arrow tables, batches, readers, lists of batches, datasets and scanners, lists of
    dicts, pandas, and objects that export an Arrow stream (``__arrow_c_stream__``): Polars, DuckDB
    relations, Ibis tables.

    Raises
    ------
    OptionError
        E592 if the container of the events is not supported.
    DataError
        E501 if the values of a column in dicts have no common type, E516 if two columns have one
        name.

    Examples
    --------
    >>> as_table([{"ts": 1, "type": "A"}, {"ts": 2, "type": "B", "price": 1.5}]).to_pylist()[0]
    {'ts': 1, 'type': 'A', 'price': None}
    """
    if isinstance(events, pa.Table):
        return plain_table(events)
    if isinstance(events, pa.RecordBatch):
        return plain_table(pa.Table.from_batches([events]))
    if isinstance(events, pa.RecordBatchReader):
        return plain_table(events.read_all())
    if form_of(events) == "pandas":
        refuse_twice(map(str, events.columns))
        return plain_table(pa.Table.from_pandas(events, preserve_index=False))
    if isinstance(events, list | tuple):
        return plain_table(_from_list(events))
    if type(events).__module__.startswith("pyarrow.") and hasattr(events, "to_table"):
        return plain_table(events.to_table())  # A dataset, or a scanner of one.
    if form_of(events) == "polars" and hasattr(events, "collect"):
        events = events.collect()  # A lazy frame.
    if not hasattr(events, "__arrow_c_stream__"):
        refuse("E592", f"events are {IN_PROCESS}, not {type(events).__name__}")
    return plain_table(_from_stream(events))


def _from_stream(events: Any) -> pa.Table:
    """Read what exports a stream of Arrow; one of single arrays has no columns."""
    try:
        return pa.RecordBatchReader.from_stream(events).read_all()
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        message = f"a {type(events).__name__} is no stream of rows: {reason}"
        helps = ("give it named columns, as `pa.table({'ts': ..., 'type': ...})` does",)
        raise DataError([Diagnostic("E501", message, helps=helps)]) from error
    except Exception as error:  # Of the library that holds the events, whatever it raises.
        reason = (str(error) or type(error).__name__).splitlines()[0]
        message = f"the events of a {type(events).__name__} cannot be read: {reason}"
        raise DataError([Diagnostic("E501", message)]) from error


def _from_list(events: Sequence[Any]) -> pa.Table:
    """Build a table of batches, or of dicts; a dict without a column has NULL in it."""
    if not events:
        help_ = "use `schema.empty_table()` of pyarrow for no events at all"
        refuse("E592", "an empty list names no columns", help_)
    if all(isinstance(one, pa.RecordBatch) for one in events):
        return pa.Table.from_batches(list(events))
    if not all(isinstance(one, Mapping) for one in events):
        odd = next(type(one).__name__ for one in events if not isinstance(one, Mapping))
        refuse("E592", f"a list of events has dicts, or batches of pyarrow, and no {odd}")
    columns: dict[str, list[Any]] = {str(name): [] for row in events for name in row}
    for name, values in columns.items():
        values.extend(row.get(name) for row in events)
    arrays = {name: _column(name, values) for name, values in columns.items()}
    return pa.table(arrays)


def _column(name: str, values: list[Any]) -> Any:
    """Build the column of values out of dicts."""
    try:
        return pa.array(values)
    except UnicodeEncodeError as error:
        message = f"a text of `{name}` is no Unicode: it has half of a surrogate pair"
        helps = ("decode texts with errors='replace', or leave such events out",)
        raise DataError([Diagnostic("E501", message, helps=helps)]) from error
    except (pa.ArrowException, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"the values of `{name}` have no common type: {reason}"
        helps = ("give all events the same kind of value there, or None",)
        raise DataError([Diagnostic("E501", message, helps=helps)]) from error


_TEXT_TYPES = (pa.string(), pa.large_string())
_PLAIN = frozenset(
    kind.id
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
        pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
        pa.date32(), pa.date64(), pa.timestamp("us"), pa.duration("us"),
    )
)  # fmt: skip
"""Kinds of types that are plain, whatever their units and zones."""


def plain_table(table: pa.Table) -> pa.Table:
    """Decode the columns of a table; a plain table is returned unchanged.

    Raises
    ------
    DataError
        E516 if two columns have the same name.

    Examples
    --------
    >>> column = pa.array([5, 6, 5]).dictionary_encode()
    >>> plain_table(pa.table({"x": column})).schema.field("x").type
    DataType(int64)
    """
    refuse_twice(table.column_names)
    for place, field in enumerate(table.schema):
        if field.type.id in _PLAIN:
            continue
        kind = plain_type(field.type)
        if kind != field.type or _has_null_entry(table.column(place)):
            chunks = [_plain(chunk) for chunk in table.column(place).chunks]
            column: Any = pa.chunked_array(chunks, kind)  # type: ignore[call-overload]
            table = table.set_column(place, field.with_type(kind), column)
    return table


def plain_reader(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Wrap a reader so that its columns are plain."""
    schema = plain_schema(reader.schema)
    if schema == reader.schema:
        return reader
    batches = (
        batch
        for read in reader
        for batch in plain_table(pa.Table.from_batches([read])).cast(schema).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Compute the schema that ``plain_table`` produces."""
    return plain_table(schema.empty_table()).schema


_TEXTS: dict[bytes | str, bytes | str] = {b"cepheid": b"texts"}
"""The metadata of a column of texts that was read as a dictionary."""


def with_texts(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Mark dictionaries as texts of the input: rows that show them show texts."""
    if not names:
        return table
    # Of the named columns, only strings are read as dictionaries: no large ones.
    coded = {f.name for f in table.schema if pa.types.is_dictionary(f.type)} & set(names)
    fields = [f.with_metadata(_TEXTS) if f.name in coded else f for f in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields))


def shown_as_texts(field: pa.Field[Any]) -> bool:
    """Check whether a column is a dictionary only because that is quick to read.

    Examples
    --------
    >>> table = pa.table({"type": pa.array(["A", "A"]).dictionary_encode()})
    >>> shown_as_texts(table.field("type")), shown_as_texts(with_texts(table, ["type"]).field(0))
    (False, True)
    """
    return field.metadata is not None and _TEXTS.items() <= field.metadata.items()


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Compute the plain type of an encoded type."""
    types = pa.types
    if types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_dictionary(kind):
        if kind.value_type in _TEXT_TYPES:
            return kind
        values = plain_type(kind.value_type)
        text = types.is_string(values) or types.is_large_string(values)
        coded: Any = pa.dictionary  # The stubs want types that are known when they are checked.
        return coded(kind.index_type, values, kind.ordered) if text else values
    if types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind.fields])
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.float16():
        return pa.float32()
    return pa.large_binary() if kind == pa.binary_view() else kind


def _plain(array: Any) -> Any:
    kind = array.type
    if pa.types.is_run_end_encoded(kind):
        decode: Any = pc.run_end_decode  # type: ignore[attr-defined]  # the stubs lack it
        return _plain(decode(array))
    if pa.types.is_dictionary(kind):
        values, indices = _plain(array.dictionary), array.indices
        if values.null_count:
            # NULL is no text, so it has no entry.
            indices = pc.if_else(pc.is_null(values.take(indices)), None, indices)
            values = values.fill_null("") if pa.types.is_dictionary(plain_type(kind)) else values
        coded = pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
        # Not every dictionary can be undone, but every plain one.
        return coded if pa.types.is_dictionary(plain_type(kind)) else coded.dictionary_decode()
    if pa.types.is_struct(kind) and plain_type(kind) != kind:
        fields = [f.with_type(plain_type(f.type)) for f in kind.fields]
        parts = [_plain(part) for part in array.flatten()]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    return array if plain_type(kind) == kind else array.cast(plain_type(kind))


def _has_null_entry(column: pa.ChunkedArray[Any]) -> bool:
    if not pa.types.is_dictionary(column.type):
        return False
    chunks: Any = column.chunks
    return any(chunk.dictionary.null_count for chunk in chunks)


def refuse_twice(names: Iterable[str]) -> None:
    """Refuse duplicate column names, because a query could mean either column.

    Raises
    ------
    DataError
        E516
    """
    names, seen = list(names), set[str]()
    if len(set(names)) == len(names):
        return
    for name in names:
        if name in seen:
            helps = ("give one of them another name, or leave it out",)
            message = f"two columns are called `{name}`"
            raise DataError([Diagnostic("E516", message, helps=helps)])
        seen.add(name)
