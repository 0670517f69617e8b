"""Combine the results of many queries into one table, with a column that names the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic

QUERY = "query"

EXACT_MAX = 2**53
"""Doubles hold every whole number up to it."""

HELPS = ("rename one of them: `COUNT(*) AS n`", "or pass `separate=True`")


def united_schema(schemas: Mapping[str, pa.Schema], *, widen: bool = True) -> pa.Schema:
    """Merge the columns of all queries, in order of first appearance.

    Columns of one name of which some are whole numbers and some doubles are doubles, unless
    ``widen`` is false.

    Raises
    ------
    DataError
        E531 if columns of one name have other different types, or one is called ``query``.
    """
    kinds: dict[str, pa.DataType] = {}
    owner: dict[str, str] = {}
    for name, schema in schemas.items():
        for field in schema:
            kind = kinds.setdefault(field.name, field.type)
            owner.setdefault(field.name, name)
            if widen and {kind, field.type} == {pa.int64(), pa.float64()}:
                kinds[field.name] = pa.float64()
                continue
            if field.name == QUERY:
                message = f"`{name}` returns a column `{QUERY}`, which holds the name of the query"
                raise DataError([_conflict(message)])
            if kind != field.type:
                message = (
                    f"`{owner[field.name]}` returns `{field.name}` as {kind} and `{name}` as "
                    f"{field.type}, which do not fit into one column"
                )
                raise DataError([_conflict(message)])
    return pa.schema([(QUERY, pa.string()), *kinds.items()])


def _conflict(message: str) -> Diagnostic:
    return Diagnostic("E531", message, helps=HELPS)


def rounds(name: str) -> str:
    """Say that the doubles of another query would round the numbers of a column."""
    return f"`{name}` has whole numbers above 2^53, which the doubles of another query would round"


def unite(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Combine all results in one table; NULL where a query has no such column."""
    schema = united_schema({name: table.schema for name, table in tables.items()})
    found = [_named(name, table, schema) for name, table in tables.items() if len(table)]
    return pa.concat_tables([schema.empty_table(), *found])


def _named(name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [
        pa.array([name], pa.string()).take(pa.array([0] * len(table), pa.int32()))
    ]
    for field in list(schema)[1:]:
        has = field.name in table.column_names
        column = table[field.name] if has else pa.nulls(len(table), field.type)
        columns.append(widened(column, field))
    return pa.table(columns, schema=schema)


def widened(column: Any, field: pa.Field[Any]) -> Any:
    """Convert a column to the type that the queries share.

    Raises
    ------
    DataError
        E531 if a double would round a whole number.
    """
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid:
        raise DataError([_conflict(rounds(field.name))]) from None
