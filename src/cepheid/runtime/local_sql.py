"""SQL with MATCH_RECOGNIZE over Arrow tables, in process; more than a simple SELECT is Spark's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cepheid.row_pattern.bind import bind_clause
from cepheid.row_pattern.recognize import recognize
from cepheid.row_pattern.select_tree import NotSimpleError, Select, parse_select
from cepheid.row_pattern.simple_select import run_select
from cepheid.row_pattern.statement import Statement, read_statement


def run_local_sql(text: str, tables: Mapping[str, Any]) -> Any:
    """Return the result of a SQL text over tables: Arrow, or pandas if all tables are pandas.

    Raises
    ------
    TypeError
        If a table is neither of Arrow nor of pandas.
    """
    statement = read_statement(text)
    arrow = {name: _arrow_table(name, table) for name, table in tables.items()}
    all_pandas = bool(tables) and not any(
        isinstance(table, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        for table in tables.values()
    )
    try:
        sources, outer = _simple_parts(statement)
    except NotSimpleError:
        spark_sql = importlib.import_module("cepheid.runtime.spark_row_pattern")
        result = spark_sql.run_tables(text, arrow)
    else:
        result = _run(statement, sources, outer, arrow)
    return result.to_pandas() if all_pandas else result


def _view(number: int) -> str:
    return f"cepheid_match_{number}"


def _simple_parts(statement: Statement) -> tuple[list[Select], Select]:
    """Return the inputs of all clauses and the query around them, if all are simple."""
    views = [_view(i) for i in range(len(statement.sites))]
    sources = [
        parse_select(statement.source_query(site, views[:i]))
        for i, site in enumerate(statement.sites)
    ]
    return sources, parse_select(statement.outer_query(views))


def _run(
    statement: Statement, sources: list[Select], outer: Select, tables: dict[str, pa.Table]
) -> pa.Table:
    known = dict(tables)
    for number, (site, source) in enumerate(zip(statement.sites, sources, strict=True)):
        table = run_select(source, known, statement.text)
        plan = bind_clause(site.clause, table.column_names, statement.text)
        # As many threads as Arrow itself has for its columns.
        known[_view(number)] = recognize(plan, table, threads=pa.cpu_count())
    return run_select(outer, known, statement.text)


def _arrow_table(name: str, table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if isinstance(table, pa.RecordBatchReader):
        return table.read_all()
    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        return pa.Table.from_pandas(table, preserve_index=False)
    message = f"table `{name}` is a pyarrow Table or pandas DataFrame, not {type(table)}"
    raise TypeError(message)
