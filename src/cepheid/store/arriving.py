"""Convert events of any supported container to a table that fits the store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.events.arriving import plain_table
from cepheid.store.times import Times, read_ticks


def plain(table: pa.Table) -> pa.Table:
    """Decode dictionary columns, whose codes would differ between segments."""
    table = plain_table(table)
    arrays: list[Any] = []
    for column in table.columns:
        kind = column.type
        arrays.append(column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column)
    return pa.table(arrays, names=table.column_names)


def fitted(table: pa.Table, schema: pa.Schema | None) -> tuple[pa.Table, pa.Schema]:
    """Cast events to the column types of the store, and merge new columns into its schema.

    Raises
    ------
    DataError
        E543 if a column has another type than the store's and cannot be cast.
    """
    table = plain(table)
    if schema is None:
        return table, table.schema.remove_metadata()
    arrays: list[Any] = []
    merged = list(schema)
    for field in table.schema:
        place = schema.get_field_index(field.name)
        column: Any = table.column(field.name)
        if place < 0:
            merged.append(field)
        elif pa.types.is_null(schema.field(place).type):
            merged[place] = field
        elif field.type != schema.field(place).type:
            column = _cast(column, schema.field(place))
        arrays.append(column)
    return pa.table(arrays, names=table.column_names), pa.schema(merged)


def merged_schema(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """Merge the schema of a store with the schema of files that already exist.

    Raises
    ------
    DataError
        E543 if a column has another type than the store's.
    """
    empty = schema.empty_table()
    types = {} if known is None else {field.name: field.type for field in known}
    for field in plain(empty).schema:
        kind = types.get(field.name, field.type)
        # Nothing is known yet of a column that has had nothing but NULL.
        if field.type != kind and not pa.types.is_null(kind):
            raise _misfit(field.name, field.type, kind)
    return fitted(empty, known)[1]


def _cast(column: Any, field: pa.Field[Any]) -> Any:
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise _misfit(field.name, column.type, field.type) from error


def _misfit(name: str, kind: pa.DataType, known: pa.DataType) -> DataError:
    message = f"column `{name}` is of type {kind}, and of type {known} in the store"
    helps = (f"convert it to {known}, or rename it",)
    return DataError([Diagnostic("E543", message, helps=helps)])


def in_order(table: pa.Table, time: str) -> tuple[pa.Table, Times]:
    """Sort events by time, stable for equal times, and return them with their times."""
    times = read_ticks(table, time)
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        return table.take(order), times[order]
    return table, times
