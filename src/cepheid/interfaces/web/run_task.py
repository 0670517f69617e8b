"""Run a query for the workbench, and write its rows to a file; or say why it finds none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.api import CompiledQuery, query
from cepheid.interfaces.cli_input import WrongUseError, is_sql
from cepheid.interfaces.data_sets import STORE, Columns, DataSet
from cepheid.interfaces.reading import events_of, files_of
from cepheid.interfaces.web.requests import RunTask, WhyTask
from cepheid.kinds.row_pattern.select_tree import NotSimpleError
from cepheid.language.lexer import has_row_pattern
from cepheid.memory_limits import limits
from cepheid.runtimes.files import list_files, run_files
from cepheid.runtimes.sql import table_names, why_local_sql
from cepheid.statements import sql

RESULT = "result.arrow"
"""The file of the rows, in the folder of a run."""


def compiled(text: str, columns: Columns, schema: object = None) -> CompiledQuery:
    """Compile a query with the columns of the workbench."""
    return query(
        text,
        time=columns.time,
        type=columns.type or None,
        time_unit=columns.time_unit,
        time_format=columns.time_format,
        schema=schema,
    )


def is_statement(text: str) -> bool:
    """Check whether a text is SQL that is more than one query."""
    return is_sql(text) and not has_row_pattern(text)


def run_query(task: RunTask, progress: Callable[[int], None]) -> dict[str, Any]:
    """Run a query, write its first rows, and tell how many there are."""
    begun = time.perf_counter()
    seen = 0

    def read(events: int) -> None:
        nonlocal seen
        seen = events
        progress(events)

    table, more = _answer(task, read)
    while len(table) and table.nbytes > task.limits.bytes:
        table, more = table.slice(0, len(table) // 2), True
    path = str(Path(task.folder) / RESULT)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    seconds = time.perf_counter() - begun
    return {"rows": len(table), "more": more, "seconds": seconds, "events": seen or None}


def _answer(task: RunTask, read: Callable[[int], None]) -> tuple[pa.Table, bool]:
    """Run a query; return its first rows, and whether there are more."""
    most = task.limits.rows
    if is_statement(task.text):
        try:
            table = sql(task.text, tables=_tables(task, table_names(task.text)))
        except NotSimpleError:
            message = "this text is more than a SELECT over tables around its clauses: "
            message += "run it with `cepheid run --engine spark`"
            raise WrongUseError(message) from None
        return table.slice(0, most), len(table) > most
    asked = compiled(task.text, task.columns)
    names = list(dict.fromkeys(asked.plan.streams))
    if len(names) > 1:
        table = asked.run(_tables(task, names))
    elif asked.plan.lists_matches:
        return _first_matches(asked, task, read)
    elif task.data.kind == STORE:
        table = asked.run(events_of(task.data, task.columns))
    else:
        with limits(bytes=4 * task.limits.bytes):
            table = run_files(asked, files_of(task.data), read)
    return table.slice(0, most), len(table) > most


def _first_matches(
    asked: CompiledQuery, task: RunTask, read: Callable[[int], None]
) -> tuple[pa.Table, bool]:
    """List matches until there are as many as are kept: a pattern can have more than atoms."""
    if task.data.kind == STORE:
        reader = asked.matches(events_of(task.data, task.columns))
        schema = reader.schema
        tables: Iterator[pa.Table] = (pa.Table.from_batches([batch]) for batch in reader)
    else:
        schema, tables = list_files(asked, files_of(task.data), read)
    found, have, size = [schema.empty_table()], 0, 0
    for table in tables:
        found.append(table)
        have, size = have + len(table), size + table.nbytes
        if have > task.limits.rows or size > task.limits.bytes:
            break
    whole = pa.concat_tables(found)
    return whole.slice(0, task.limits.rows), have > task.limits.rows or size > task.limits.bytes


def _tables(task: RunTask | WhyTask, names: list[str]) -> dict[str, Any]:
    """Find the data sets of a query's tables by name; one table is the chosen data set."""
    if len(names) == 1:
        return {names[0]: events_of(_named(task, names[0]) or task.data, task.columns)}
    lacking = [name for name in names if _named(task, name) is None]
    if lacking:
        known = ", ".join(sorted(task.sets))
        message = f"the query reads {' and '.join(names)}, and there is no data set "
        raise WrongUseError(message + f"{lacking[0]}: there are {known}")
    return {name: events_of(found, task.columns) for name in names if (found := _named(task, name))}


def _named(task: RunTask | WhyTask, name: str) -> DataSet | None:
    return next((data for key, data in task.sets.items() if key.lower() == name.lower()), None)


def answer_why(task: WhyTask) -> dict[str, Any]:
    """Explain why a query finds no or few rows: sentences, and the steps of partial matches."""
    if is_statement(task.text):
        try:
            answer = why_local_sql(task.text, _tables(task, table_names(task.text)))
        except NotSimpleError:
            message = "this text is more than a SELECT over tables around its clauses"
            raise WrongUseError(message) from None
    else:
        asked = compiled(task.text, task.columns)
        names = list(dict.fromkeys(asked.plan.streams))
        several = len(names) > 1
        events = _tables(task, names) if several else events_of(task.data, task.columns)
        answer = asked.why_not(events)
    return {"why": answer.to_dict(), "text": str(answer)}
