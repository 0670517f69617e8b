"""Write rows as JSON, column by column: no Python object for each row, and one for equal values."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_rows(rows: pa.Table) -> pa.Array[Any]:
    """Write every row as JSON; a time beyond the years of Python becomes text.

    Examples
    --------
    >>> json_rows(pa.table({"key": ["a", None], "n": [1.5, 2.0]})).to_pylist()
    ['{"key":"a","n":1.5}', '{"key":null,"n":2.0}']
    """
    if not len(rows) or not rows.num_columns:
        return pa.array(["{}"] * len(rows), pa.string())
    try:
        written = [_values(column) for column in rows.columns]
    except (ValueError, OverflowError):
        fields = [
            field.with_type(pa.string()) if pt.is_timestamp(field.type) else field
            for field in rows.schema
        ]
        written = [_values(column) for column in rows.cast(pa.schema(fields)).columns]
    parts: list[Any] = []
    for name, values in zip(rows.column_names, written, strict=True):
        parts += [f"{',' if parts else '{'}{_encode(name).decode()}:", values]
    # The last argument is what stands between the others.
    joined: pa.Array[Any] = pc.binary_join_element_wise(
        *parts, "}", "", null_handling="replace", null_replacement="null"
    )
    return joined


def _values(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Write the values of a column as JSON; NULL stays NULL, or is written as such."""
    kind: Any = column.type
    if pt.is_floating(kind) or pt.is_integer(kind) or pt.is_boolean(kind):
        # No comma stands in a number.
        return pa.array(_encode(column.to_pylist()).decode()[1:-1].split(","), pa.string())
    if pt.is_nested(kind):
        return pa.array([_encode(value).decode() for value in column.to_pylist()], pa.string())
    if pt.is_dictionary(kind):
        column = column.cast(kind.value_type)
    encoded: Any = column.combine_chunks().dictionary_encode()
    found: pa.Array[Any] = pa.array(_distinct(encoded.dictionary), pa.string())
    return found.take(encoded.indices)


def _distinct(values: pa.Array[Any]) -> list[str]:
    """Write values one by one, or texts at once if there is no quote in them."""
    found = values.to_pylist()
    if found and pt.is_string(values.type):
        written = _encode(found).decode()
        if '\\"' not in written:
            return [f'"{text}"' for text in written[2:-2].split('","')]
    return [_encode(value).decode() for value in found]
