"""Serialized tables: plain for transport, packed for states.

A state is written and read with every micro-batch, so its size bounds the latency of live queries.
Packed tables have narrower columns, without loss: times are delta-encoded, integers are stored as
offsets from the minimum, and text columns with few values are dictionary-encoded. Tables that are
compressed afterwards have distances to the value before, up or down, in integers: those of ids and
times are mostly small, which makes them a fifth as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

KINDS_MAX = 128
"""Text columns with more distinct values are not encoded."""

_SHAPE, _FIRST, _WHOLE = b"shape", b"first", b"schema"
_STEPS, _DISTANCES, _JUMPS = b"steps", b"distances", b"jumps"
_JUMP_MAX = 1 << 31
"""Jumps of smaller numbers, with a bit for down, fit 32 bits."""
Width = type[np.uint8] | type[np.uint16] | type[np.uint32]
_NARROW: tuple[Width, ...] = (np.uint8, np.uint16, np.uint32)


def table_to_bytes(table: pa.Table) -> bytes:
    """Serialize a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def table_from_bytes(data: bytes) -> pa.Table:
    """Deserialize an Arrow stream; the columns are views of the bytes."""
    return pa.ipc.open_stream(data).read_all()


def pack_table(table: pa.Table, *, jumps: bool = False) -> bytes:
    """Serialize a table as an Arrow stream of narrower columns; O(values).

    With ``jumps``, integers become distances to the one before, for a table to be compressed.
    """
    names = table.column_names
    packed = [_pack_column(n, c, jumps=jumps) for n, c in zip(names, table.columns, strict=True)]
    schema = pa.schema([field for field, _ in packed])
    whole = schema.with_metadata({_WHOLE: table.schema.serialize().to_pybytes()})
    return table_to_bytes(pa.Table.from_arrays([array for _, array in packed], schema=whole))


def unpack_table(data: bytes) -> pa.Table:
    """Deserialize a table that ``pack_table`` packed."""
    packed = table_from_bytes(data)
    metadata = packed.schema.metadata or {}
    schema = pa.ipc.read_schema(pa.py_buffer(metadata[_WHOLE]))
    fields = zip(packed.schema, packed.columns, schema, strict=True)
    columns = [_unpack_column(field, column, kept.type) for field, column, kept in fields]
    return pa.Table.from_arrays(columns, schema=schema)


def _pack_column(
    name: str, column: pa.ChunkedArray[Any], *, jumps: bool
) -> tuple[pa.Field[Any], Any]:
    kind = column.type
    same = (pa.field(name, kind), column)
    if not len(column) or column.null_count:
        return same
    if pt.is_string(kind) or pt.is_large_string(kind):
        numbered: Any = column.combine_chunks().dictionary_encode()
        if len(numbered.dictionary) > KINDS_MAX:
            return same
        indices = numbered.indices.cast(pa.int8())
        narrow = pa.DictionaryArray.from_arrays(indices, numbered.dictionary)
        return pa.field(name, narrow.type), narrow
    if not _is_integer(kind):
        return same
    values = _integers(column)
    shape, first, width = _narrowest(values)
    if width is None or np.dtype(width).itemsize >= kind.bit_width // 8:
        return same
    numbers = np.diff(values, prepend=first) if shape == _STEPS else values - first
    if jumps and shape == _DISTANCES and int(numbers.max()) < _JUMP_MAX:
        shape, width = _JUMPS, np.uint32
        numbers = np.diff(numbers, prepend=0)
        numbers = (numbers << 1) ^ (numbers >> 63)
    narrow = pa.array(numbers.astype(width))
    return pa.field(name, narrow.type, metadata={_SHAPE: shape, _FIRST: b"%d" % first}), narrow


def _is_integer(kind: pa.DataType) -> bool:
    """Check whether a type is stored as a signed integer of at most 64 bits."""
    if pt.is_uint64(kind):
        return False
    return pt.is_integer(kind) or pt.is_timestamp(kind) or pt.is_duration(kind)


def _integers(column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    kind = column.type
    plain = column if pt.is_integer(kind) else column.cast(pa.int64())
    return np.asarray(plain.to_numpy()).astype(np.int64, copy=False)


def _narrowest(
    values: NDArray[np.int64],
) -> tuple[bytes, int, Width | None]:
    """Choose the shortest encoding of integers: the shape, the first value, and the width."""
    first = int(values[0])
    steps = np.diff(values)
    # Differences of distant values overflow: they are negative, or do not sum to the last value.
    if len(steps) and steps.min() >= 0 and values[-1] >= first:
        width = _width(int(steps.max()))
        if width is not None and width is not np.uint32:
            return _STEPS, first, width
    least = int(values.min())
    return _DISTANCES, least, _width(int(values.max()) - least)


def _width(largest: int) -> Width | None:
    return next((kind for kind in _NARROW if largest <= np.iinfo(kind).max), None)


def _unpack_column(field: pa.Field[Any], column: pa.ChunkedArray[Any], kind: pa.DataType) -> Any:
    metadata = field.metadata or {}
    if _SHAPE not in metadata:
        return column if column.type == kind else column.cast(kind)
    first = int(metadata[_FIRST])
    numbers = np.asarray(column.to_numpy()).astype(np.int64)
    if metadata[_SHAPE] == _JUMPS:
        numbers = np.cumsum((numbers >> 1) ^ -(numbers & 1))
    elif metadata[_SHAPE] == _STEPS:
        numbers = np.cumsum(numbers)
    numbers += first
    return pa.array(numbers).cast(pa.int64() if not pt.is_integer(kind) else kind).cast(kind)


def with_columns(events: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert events to the columns of a schema; those that they lack are NULL.

    A query that was changed, or a rule that was added, may read columns that earlier events lack.
    """
    if events.schema.equals(schema):
        return events
    known = set(events.column_names)
    columns = [
        events[field.name] if field.name in known else pa.nulls(len(events), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
