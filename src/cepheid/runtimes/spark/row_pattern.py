"""Run SQL with MATCH_RECOGNIZE on Spark: clauses become DataFrames, Spark runs the rest.

One shuffle by the keys of PARTITION BY (``row_shuffle.py``) brings the rows of a partition to one
task, which sorts and matches them with the same code as in process. A clause over a stream becomes
a streaming DataFrame.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cepheid.events.arriving import as_table, form_of
from cepheid.expressions.own import all_registered
from cepheid.jobs.analysis import LIVE
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.bind_expressions import find_column
from cepheid.kinds.row_pattern.computed import with_derived
from cepheid.kinds.row_pattern.plan import MatchPlan, SearchBounds
from cepheid.kinds.row_pattern.reach import describe_window
from cepheid.kinds.row_pattern.recognize import recognize_parts, result_schema
from cepheid.kinds.row_pattern.select_tree import NotSimpleError, parse_select, plain_source
from cepheid.kinds.row_pattern.statement import View, read_statement
from cepheid.kinds.row_pattern.store import STRETCH, plan_clause
from cepheid.options import LiveOptions, unused
from cepheid.runtimes.explain_replay import explain_replay
from cepheid.runtimes.scan import find_paths
from cepheid.runtimes.spark.latency import with_goal
from cepheid.runtimes.spark.live_sql import describe_stream, live_frame
from cepheid.runtimes.spark.row_shuffle import describe_ways, run_by_keys
from cepheid.runtimes.spark.scan import read_frame
from cepheid.runtimes.spark.store import clause_frame, store_frame
from cepheid.runtimes.spark.texts import run_text
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.records import event_columns
from cepheid.spark.versions import arrow_schema, spark_schema
from cepheid.spark.worker import begin_task
from cepheid.store.event_store import EventStore

OUTPUT_ROWS = 1 << 16
"""Rows of a batch that goes back to Spark."""


def run_spark_sql(
    spark: SparkSession,
    text: str,
    tables: Mapping[str, Any] | None = None,
    bounds: SearchBounds = SearchBounds(),  # noqa: B008  # It never changes.
    live: LiveOptions | None = None,
) -> Any:
    """Run a SQL text and return its result as a DataFrame.

    Parameters
    ----------
    spark
        The session whose tables and views the text names.
    text
        The SQL text.
    tables
        Further tables by name: Arrow tables, pandas or Spark DataFrames, event stores.
    bounds
        The limits of the search.
    live
        The options of a stream; None without a watermark.

    Returns
    -------
    DataFrame, or two of them
        The rows and, with ``bad="side"``, the bad records of a stream.

    Raises
    ------
    UnsupportedError
        E405 if a clause reads a stream and cannot be live.
    """
    statement = read_statement(text, all_registered())
    known = {name: _data_frame(spark, table) for name, table in (tables or {}).items()}
    run = uuid.uuid4().hex
    frames: dict[str, DataFrame] = {}
    views: list[View] = []
    bad: list[DataFrame] = []
    for number, site in enumerate(statement.sites):
        source = statement.source_query(site, views).text
        store = _store_of(source, tables or {})
        if store is None:
            frame = run_text(spark, source, frames, known, statement)
            plan = bind_clause(site.clause, event_columns(frame), text, bounds)
        else:
            plan = bind_clause(site.clause, store.schema.names, text, bounds)
            frame, plan = clause_frame(store, spark, plan)
        name = f"cepheid_match_{run}_{number}_"
        if frame.isStreaming:
            frames[name], wrong = live_frame(frame, statement, plan, live)
            bad.append(wrong)
        else:
            frames[name] = match_frame(frame, plan).drop(STRETCH)
        views.append(View(name, plan.columns))
    if live is not None and not bad:
        unused("watermark", "no clause reads a stream", "leave it out")
    rows = run_text(spark, statement.outer_query(views).text, frames, known, statement)
    found = (rows, bad[0]) if live is not None and live.bad == "side" else rows
    return with_goal(found, None if live is None else live.latency)


def explain_spark_sql(
    spark: SparkSession,
    text: str,
    tables: Mapping[str, Any] | None = None,
    bounds: SearchBounds = SearchBounds(),  # noqa: B008  # It never changes.
    *,
    analyze: bool = False,
) -> str:
    """Explain how each clause of a text runs on Spark, and its state on a stream, or why not.

    ``analyze`` runs the text, unless it reads a stream, and counts its rows.
    """
    statement = read_statement(text, all_registered())
    known = {name: _data_frame(spark, table) for name, table in (tables or {}).items()}
    run = uuid.uuid4().hex
    frames: dict[str, DataFrame] = {}
    views: list[View] = []
    told, lives = [], False
    for number, site in enumerate(statement.sites):
        source = statement.source_query(site, views).text
        store = _store_of(source, tables or {})
        frame = run_text(spark, source, frames, known, statement)
        plan = bind_clause(site.clause, frame.columns, text, bounds)
        if store is not None:
            replay = plan_clause(store.snapshot(), plan, by_key=False)
            how = [f"over a {explain_replay(replay, None)}", f"  {_spread(plan)}"]
        elif frame.isStreaming:
            described = describe_stream(frame, statement, plan)
            how = ["over a stream", *(f"  {line}" for line in described)]
        else:
            how = ["over a table: all its rows are read", f"  {_spread(plan, frame)}"]
        how += [f"  {line}" for line in describe_window(plan)]
        told.append("\n".join([f"clause {number + 1}  {how[0]}", *how[1:]]))
        name = f"cepheid_match_{run}_{number}_"
        frames[name] = match_frame(frame, plan)
        views.append(View(name, plan.columns))
        if analyze and not frame.isStreaming:
            told.append(f"  read  {frame.count():,} rows")
        lives = lives or frame.isStreaming
    if analyze and lives:
        told.append(LIVE)
    elif analyze:
        began = time.perf_counter()
        rows = run_spark_sql(spark, text, tables, bounds).count()
        told.append(f"result\n  rows  {rows:,} rows; {time.perf_counter() - began:.3f} seconds")
    return "\n".join(told)


def _spread(plan: MatchPlan, frame: DataFrame | None = None) -> str:
    if plan.partition_by and frame is not None and set(plan.partition_by) <= set(frame.columns):
        return describe_ways(_needed(frame, plan), tuple(plan.partition_by))
    if plan.partition_by:
        return f"one shuffle by {', '.join(plan.partition_by)}"
    return "one task: without PARTITION BY all rows are one partition"


def _data_frame(spark: SparkSession, table: Any) -> DataFrame:
    if isinstance(table, EventStore):
        return store_frame(table, spark)
    if isinstance(table, str | os.PathLike):
        return read_frame(spark, find_paths(os.fspath(table)))
    if isinstance(table, DataFrame):
        return table
    return spark.createDataFrame(table if form_of(table) == "pandas" else as_table(table))


def _store_of(source: str, tables: Mapping[str, Any]) -> EventStore | None:
    """Find the store that a query reads unchanged; None if it reads something else."""
    stores = {name: table for name, table in tables.items() if isinstance(table, EventStore)}
    if not stores:
        return None
    try:
        name = plain_source(parse_select(source))
    except NotSimpleError:
        return None
    found = None if name is None else find_column(name, list(tables))
    return None if found is None else stores.get(found)


def run_tables(text: str, tables: Mapping[str, pa.Table], bounds: SearchBounds) -> pa.Table:
    """Run a SQL text over Arrow tables with a Spark session."""
    rows: DataFrame = run_spark_sql(_session(), text, tables, bounds)
    return rows.toArrow()


def _session() -> SparkSession:
    """Return the active session, or start a local one."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # Otherwise tasks would run with whatever `python3` is, without this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.master("local[*]").appName("cepheid").getOrCreate()


def match_frame(frame: DataFrame, plan: MatchPlan) -> DataFrame:
    """Run a clause over a DataFrame."""
    ship_kernels(frame.sparkSession)
    needed = _needed(frame, plan)
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    schema = result_schema(plan, arrow_schema(needed.schema, zone))
    task, columns = _task(plan, schema), spark_schema(schema)
    if set(plan.partition_by) <= set(needed.columns):
        return run_by_keys(needed, tuple(plan.partition_by), task, columns)
    return _spread_by_computed(needed, plan, zone).mapInArrow(task, columns)


def _needed(frame: DataFrame, plan: MatchPlan) -> DataFrame:
    """Select the columns that a clause reads."""
    return frame.select(*(_quoted(name) for name in plan.read_columns))


def _spread_by_computed(frame: DataFrame, plan: MatchPlan, zone: str | None) -> DataFrame:
    """Bring the rows of a partition together, where its keys are computed first."""
    before = arrow_schema(frame.schema, zone)
    # A column of Spark is found by its name, in which a dot would be a field.
    keys = {f"__cepheid_key_{i}": name for i, name in enumerate(plan.partition_by)}

    def keyed(table: pa.Table) -> pa.Table:
        computed = with_derived(plan, table)
        columns = [*table.columns, *(computed.column(name) for name in keys.values())]
        return pa.table(columns, names=[*table.column_names, *keys])

    schema = keyed(before.empty_table()).schema

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for batch in batches:
            yield from keyed(pa.Table.from_batches([batch])).cast(schema).to_batches()

    return frame.mapInArrow(run, spark_schema(schema)).repartition(*keys).drop(*keys)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _task(
    plan: MatchPlan, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Build the task that matches the rows of its partitions."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        first = next(batches, None)
        if first is None:
            return
        # Each column is read several times, so it is put together once.
        table = pa.Table.from_batches([first, *batches]).combine_chunks()
        for part in recognize_parts(plan, table):
            yield from part.cast(schema).to_batches(OUTPUT_ROWS)

    return run
