"""Run SQL with MATCH_RECOGNIZE over Arrow tables and event stores, in process.

Anything beyond a simple SELECT needs Spark.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.events.arriving import as_table, form_of, in_form
from cepheid.events.files import content_of, find_files, read_all, schema_of_file
from cepheid.expressions.own import all_registered
from cepheid.jobs.why import WhyNot
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.bind_expressions import find_column
from cepheid.kinds.row_pattern.plan import MatchPlan, SearchBounds, misplaced_nulls
from cepheid.kinds.row_pattern.reach import describe_window
from cepheid.kinds.row_pattern.recognize import recognize, result_schema
from cepheid.kinds.row_pattern.rendered import Rendered
from cepheid.kinds.row_pattern.select_tree import (
    NotSimpleError,
    Select,
    parse_select,
    plain_source,
    tables_of,
)
from cepheid.kinds.row_pattern.simple_select import run_select
from cepheid.kinds.row_pattern.statement import Site, Statement, View, read_statement
from cepheid.kinds.row_pattern.store import plan_clause, read_whole, run_clause
from cepheid.kinds.row_pattern.why import why_clause
from cepheid.options import unused
from cepheid.runtimes.explain_replay import explain_replay
from cepheid.runtimes.files import PIECE_ROWS
from cepheid.store.reader import StoreReader
from cepheid.store.snapshot import Snapshot


def run_local_sql(
    text: str,
    tables: Mapping[str, Any],
    strategy: str | None = None,
    bounds: SearchBounds = SearchBounds(),  # noqa: B008  # It never changes.
) -> Any:
    """Run a SQL text over tables; the result is Arrow, or of the library of all data frames.

    Raises
    ------
    TypeError
        If a table is of no known kind.
    UnsupportedError
        E405 if a table is a streaming DataFrame.
    """
    statement = read_statement(text, all_registered())
    known = Known(tables)
    forms = {form_of(table) for table in tables.values()}
    try:
        parts = Parts(statement)
    except NotSimpleError:
        if strategy not in (None, "auto"):
            why = "Spark runs what is more than a SELECT over tables, and reads stores whole"
            unused("strategy", why, "leave it out")
        from cepheid.runtimes.spark.row_pattern import run_tables

        arrow = {name: known.table(name) for name in tables}
        result = run_tables(text, arrow, bounds)
    else:
        result = _run(parts, known, strategy, bounds)
    return in_form(forms.pop(), result) if len(forms) == 1 else result


def explain_local_sql(
    text: str,
    tables: Mapping[str, Any],
    strategy: str | None = None,
    bounds: SearchBounds = SearchBounds(),  # noqa: B008  # It never changes.
    *,
    analyze: bool = False,
) -> str:
    """Explain which part of each table the clauses of a text read, and why.

    ``analyze`` runs the text, and reports the rows that each clause reads and finds.
    """
    statement = read_statement(text, all_registered())
    known = Known(tables)
    try:
        parts = Parts(statement)
    except NotSimpleError:
        return "Spark runs this text, and reads stores as a whole"
    told = []
    for number, site in enumerate(statement.sites):
        source = parts.source(site)
        began = time.perf_counter()
        snapshot = known.snapshot(source)
        if snapshot is None:
            table = _select(source, known, statement.text)
            plan = bind_clause(site.clause, table.column_names, statement.text, bounds)
            told.append(f"clause {number + 1}  reads all rows of its table")
            told += [f"  {line}" for line in describe_window(plan)]
            if analyze:
                found = recognize(plan, table, threads=pa.cpu_count())
                told.append(f"  read  {len(table):,} rows, {table.nbytes:,} bytes")
            else:
                found = result_schema(plan, table.schema).empty_table()
        else:
            names = snapshot.manifest.schema.names
            plan = bind_clause(site.clause, names, statement.text, bounds)
            if analyze:
                run = run_clause(snapshot, plan, strategy)
                replay, effort, found = run.replay, run.effort, run.table
            else:
                replay, effort = plan_clause(snapshot, plan, strategy), None
                found = _schema_of(plan, snapshot).empty_table()
            told.append(f"clause {number + 1}  over a {explain_replay(replay, effort)}")
        if analyze:
            told.append(_found(found, time.perf_counter() - began))
        known.arrow[parts.add(plan)] = found
    if analyze:
        began = time.perf_counter()
        rows = _select(parts.outer(), known, statement.text)
        told.append(f"result\n{_found(rows, time.perf_counter() - began)}")
    return "\n".join(told)


def _found(rows: pa.Table, seconds: float) -> str:
    """Describe the rows that a part of a text has found, and how long that took."""
    return f"  rows  {len(rows):,} rows, {rows.nbytes:,} bytes; {seconds:.3f} seconds"


def why_local_sql(text: str, tables: Mapping[str, Any]) -> WhyNot:
    """Explain why the first clause of a text that finds nothing, or the last one, finds so little.

    Raises
    ------
    NotSimpleError
        If the text is more than a SELECT over tables and joins around its clauses.
    """
    statement, known = read_statement(text, all_registered()), Known(tables)
    parts = Parts(statement)
    answer = None
    for site in statement.sites:
        table = _select(parts.source(site), known, statement.text)
        plan = bind_clause(site.clause, table.column_names, statement.text)
        spans = {d.name: d.condition.span for d in site.clause.definitions}
        defined = {
            name: " ".join(statement.text[span.start : span.end].split())
            for name, span in spans.items()
        }
        answer = why_clause(plan, table, defined)
        if not answer.found:
            return answer
        known.arrow[parts.add(plan)] = recognize(plan, table, threads=pa.cpu_count())
    assert answer is not None, "a text has a clause"
    return answer


def _schema_of(plan: MatchPlan, snapshot: Snapshot) -> pa.Schema:
    schema = snapshot.manifest.schema
    return result_schema(plan, pa.schema([schema.field(name) for name in plan.read_columns]))


class Known:
    """Tables by name; a store is read as a whole only where SQL needs it."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._stores = {n: table for n, table in tables.items() if isinstance(table, StoreReader)}
        self._files = {
            name: find_files(fspath(table))
            for name, table in tables.items()
            if isinstance(table, str | PathLike)
        }
        self.arrow = {
            name: as_table(table)
            for name, table in tables.items()
            if name not in self._stores and name not in self._files
        }

    def snapshot(self, source: Select) -> Snapshot | None:
        """Open the store that ``SELECT * FROM store`` reads; None for any other query."""
        found = self._named(plain_source(source))
        return self._stores[found].snapshot() if found in self._stores else None

    def parquet(self, source: Select) -> list[Path] | None:
        """Return the Parquet files that ``SELECT * FROM table`` reads; None for any other query."""
        files = self._files.get(self._named(plain_source(source)) or "", [])
        every = all(content_of(file.name) == "parquet" for file in files)
        return files if files and every else None

    def _named(self, name: str | None) -> str | None:
        return name and find_column(name, [*self.arrow, *self._stores, *self._files])

    def table(self, name: str) -> pa.Table:
        """Return a table, or read all events of a store or of files."""
        if name in self._files and name not in self.arrow:
            self.arrow[name] = _read(self._files[name])
        if name not in self.arrow:
            self.arrow[name] = read_whole(self._stores[name].snapshot()).table
        return self.arrow[name]

    def read_all(self, select: Select) -> None:
        """Read the stores and files that a query names."""
        for source in tables_of(select):
            found = self._named(source)
            if found in self._stores or found in self._files:
                self.table(str(found))


def _read(files: list[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """Read files as one table; in few pieces, since each column is put together."""
    tables = read_all(files, columns, batch_rows=PIECE_ROWS)
    return pa.concat_tables(tables, promote_options="permissive")


class Parts:
    """A text as the inputs of its clauses and the query around them, all of which are simple.

    Raises
    ------
    NotSimpleError
        If one of them is more than a SELECT over tables and joins.
    """

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._views: list[View] = []
        views = [View(_view(number)) for number in range(len(statement.sites))]
        sites = enumerate(statement.sites)
        self.all = [self._parsed(statement.source_query(site, views[:i])) for i, site in sites]
        self.all.append(self._parsed(statement.outer_query(views)))

    def _parsed(self, query: Rendered) -> Select:
        return parse_select(query, self.statement.functions)

    def source(self, site: Site) -> Select:
        """Return the input of a clause, once those before it have become views."""
        return self._parsed(self.statement.source_query(site, self._views))

    def read_again(self, source: Select) -> bool:
        """Check whether a text reads the table of an input in another place, too."""
        names = [name.lower() for select in self.all for name in tables_of(select)]
        return any(names.count(name.lower()) > 1 for name in tables_of(source))

    def add(self, plan: MatchPlan) -> str:
        """Take the next clause as a view, and return its name."""
        self._views.append(View(_view(len(self._views)), plan.columns))
        return self._views[-1].name

    def outer(self) -> Select:
        """Return the query around all clauses."""
        return self._parsed(self.statement.outer_query(self._views))


def _view(number: int) -> str:
    return f"cepheid_match_{number}"


def _warn_of_nulls(plan: MatchPlan, table: pa.Table) -> None:
    """Warn of NULLs in a key of ORDER BY that does not say where they come (W209)."""
    for key in plan.order_by:
        unsaid = not key.stated and key.column in table.column_names
        if unsaid and table.column(key.column).null_count:
            # The line of the user who called ``cepheid.sql``.
            warnings.warn(misplaced_nulls(key), stacklevel=6)


def _run(parts: Parts, known: Known, strategy: str | None, bounds: SearchBounds) -> pa.Table:
    text = parts.statement.text
    for site in parts.statement.sites:
        source = parts.source(site)
        snapshot = known.snapshot(source)
        if snapshot is None:
            files = None if parts.read_again(source) else known.parquet(source)
            if files is not None:
                plan, table = _from_files(site, files, text, bounds)
            else:
                table = _select(source, known, text)
                plan = bind_clause(site.clause, table.column_names, text, bounds)
            # As many threads as Arrow itself has for its columns.
            found = recognize(plan, table, threads=pa.cpu_count())
            _warn_of_nulls(plan, table)
        else:
            plan = bind_clause(site.clause, snapshot.manifest.schema.names, text, bounds)
            found = run_clause(snapshot, plan, strategy).table
        known.arrow[parts.add(plan)] = found
    return _select(parts.outer(), known, text)


def _from_files(
    site: Site, files: list[Path], text: str, bounds: SearchBounds
) -> tuple[MatchPlan, pa.Table]:
    """Bind a clause to Parquet files, and read the columns that it names."""
    names = list(dict.fromkeys(n for file in files for n in schema_of_file(file, None).names))
    plan = bind_clause(site.clause, names, text, bounds)
    # A clause that names no column counts rows.
    return plan, _read(files, plan.read_columns or names[:1])


def _select(select: Select, known: Known, text: str) -> pa.Table:
    known.read_all(select)
    return run_select(select, known.arrow, text)


def table_names(text: str) -> list[str]:
    """List the names of the tables that a text reads, each once.

    Raises
    ------
    NotSimpleError
        If the text is more than a SELECT over tables and joins around its clauses.

    Examples
    --------
    >>> table_names("SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))")
    ['ticks']
    """
    statement = read_statement(text, all_registered())
    parts = Parts(statement).all
    views = {_view(number) for number in range(len(statement.sites))}
    names = [name for select in parts for name in tables_of(select)]
    local = {name for select in parts for name, _ in select.named}
    return list(dict.fromkeys(name for name in names if name not in views | local))
