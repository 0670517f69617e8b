"""Dispatch table: which module runs a query for each kind of input; modules load on first use.

Parsing and explaining a query needs neither numba nor Arrow, so nothing is imported at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from os import fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from cepheid.jobs.kind import TaskKind, kind_of
from cepheid.kinds import table as _kinds  # noqa: F401  # makes all kinds known
from cepheid.options import (
    DEVICES,
    Held,
    LiveOptions,
    holder_of,
    is_running,
    one_of,
    refuse,
    unused,
)
from cepheid.plans.needs import LIVE_ON_DEVICE, NO_CHANGES_ON_DEVICE

if TYPE_CHECKING:
    from cepheid.api import CompiledQuery
    from cepheid.jobs.why import WhyNot
    from cepheid.workloads import Workload


class Place(StrEnum):
    """Where a query runs, by the container of its events and by the engine."""

    PROCESS = "this process"
    DEVICE = "a GPU"
    FILES = "files"
    STORE = "an event store"
    FRAME = "a DataFrame of Spark"
    SPARK_FILES = "files that Spark reads"
    SPARK_STORE = "an event store that Spark reads"


class Request(NamedTuple):
    """A query, its events, and its validated options."""

    query: Any
    events: Any
    spark: Any = None
    strategy: str | None = None
    device: str = "cpu"
    separate: bool = False
    changes: object = None
    """The columns of a changelog, if the events are one."""

    @property
    def place(self) -> Place:
        """Choose the runtime by the container of the events."""
        match holder_of(self.events):
            case Held.FRAME:
                return Place.FRAME
            case Held.FILES:
                return Place.FILES if self.spark is None else Place.SPARK_FILES
            case Held.STORE:
                return Place.STORE if self.spark is None else Place.SPARK_STORE
        return Place.PROCESS if self.device == "cpu" else Place.DEVICE


Runner = Callable[[Request], Any]

# ---------------------------------------------------------------------------------------
# Queries


def _in_process(asked: Request) -> Any:
    from cepheid.runtimes.local import run_events

    return run_events(asked.query, asked.events)


def _on_device(asked: Request) -> Any:
    from cepheid.runtimes.device import run_on

    return run_on(asked.query, asked.events, asked.device)


def _over_files(asked: Request) -> Any:
    if asked.device == "gpu":
        return _read_for_device(asked)
    from cepheid.runtimes.files import run_path

    return run_path(asked.query, fspath(asked.events))


def _read_for_device(asked: Request) -> Any:
    from cepheid.runtimes.device import run_read

    return run_read(asked.query, asked.events)


def _over_store(asked: Request) -> Any:
    if asked.device == "gpu":
        return _read_for_device(asked)
    from cepheid.runtimes.store import run_store

    return run_store(asked.query, asked.events, asked.strategy)


def _over_frame(asked: Request) -> Any:
    from cepheid.runtimes.spark.batch import run_frame

    return run_frame(asked.query, asked.events, strategy=asked.strategy)


def _files_on_spark(asked: Request) -> Any:
    from cepheid.runtimes.spark.scan import run_path

    path = fspath(asked.events)
    return run_path(asked.query, path, asked.spark, strategy=asked.strategy)


def _store_on_spark(asked: Request) -> Any:
    from cepheid.runtimes.spark.store import run_store

    return run_store(asked.query, asked.events, asked.spark, asked.strategy)


RUNS: dict[Place, Runner] = {
    Place.PROCESS: _in_process,
    Place.DEVICE: _on_device,
    Place.FILES: _over_files,
    Place.STORE: _over_store,
    Place.FRAME: _over_frame,
    Place.SPARK_FILES: _files_on_spark,
    Place.SPARK_STORE: _store_on_spark,
}
"""Runs a query over one stream, for every place."""


def run(asked: Request) -> Any:
    """Run a query with the runtime for its input."""
    from cepheid.jobs.streams import named_streams

    if asked.changes is not None:
        return _over_changes(asked)
    kind = kind_of(asked.query.plan)
    streams = named_streams(asked.query.plan, asked.events)
    held = {holder_of(events) for events in streams}
    on_spark = asked.spark is not None or Held.FRAME in held
    if on_spark and not isinstance(kind, TaskKind):
        from cepheid.runtimes.spark.selection.frames import run_frames

        return run_frames(asked.query, streams, asked.spark, asked.strategy)
    if len(streams) > 1:
        from cepheid.runtimes.two_streams import run_streams

        return run_streams(asked.query, streams, asked.strategy, asked.device)
    one = asked._replace(events=streams[0])
    return RUNS[one.place](one)


def _over_changes(asked: Request) -> Any:
    """Run a query over the current table of a changelog, in the container of the changelog."""
    from cepheid.jobs.changes.asked import Changes
    from cepheid.runtimes.changes import current_events

    changes, spark = Changes.of(asked.changes), asked.spark
    assert changes is not None, "there is a changelog"
    now = current_events(asked.query, asked.events, spark, changes)
    found = run(asked._replace(events=now, spark=None, changes=None))
    if holder_of(asked.events) is not Held.TABLE:
        return found
    from cepheid.events.arriving import like

    return like(asked.events, found)


# ---------------------------------------------------------------------------------------
# Lists of matches


def _list_in_process(asked: Request) -> Any:
    from cepheid.runtimes.local import list_events

    return list_events(asked.query, asked.events)


def _list_files(asked: Request) -> Any:
    from cepheid.runtimes.files import list_path

    return list_path(asked.query, fspath(asked.events))


def _list_store(asked: Request) -> Any:
    from cepheid.runtimes.store import list_store

    return list_store(asked.query, asked.events)


MATCHES: dict[Place, Runner] = {
    Place.PROCESS: _list_in_process,
    Place.FILES: _list_files,
    Place.STORE: _list_store,
}
"""Lists matches one by one, for every place; a DataFrame of Spark is not in this process."""


# ---------------------------------------------------------------------------------------
# Workloads


def _workload_in_process(asked: Request) -> Any:
    from cepheid.runtimes.workload import run_workload

    events = fspath(asked.events) if asked.place is Place.FILES else asked.events
    return run_workload(
        asked.query, events, spark=None, separate=asked.separate, device=asked.device
    )


def _workload_over_store(asked: Request) -> Any:
    from cepheid.runtimes.store import run_workload

    return run_workload(
        asked.query, asked.events, spark=None, separate=asked.separate, device=asked.device
    )


def _workload_on_spark(asked: Request) -> Any:
    from cepheid.runtimes.spark.workload import run_workload

    events = fspath(asked.events) if asked.place is Place.SPARK_FILES else asked.events
    return run_workload(asked.query, events, spark=asked.spark, separate=asked.separate)


def _workload_of_stored_frame(asked: Request) -> Any:
    from cepheid.runtimes.spark.store import store_frame

    frame = store_frame(asked.events, asked.spark)
    return _workload_on_spark(asked._replace(events=frame))


WORKLOADS: dict[Place, Runner] = {
    Place.PROCESS: _workload_in_process,
    Place.DEVICE: _workload_in_process,
    Place.FILES: _workload_in_process,
    Place.STORE: _workload_over_store,
    Place.FRAME: _workload_on_spark,
    Place.SPARK_FILES: _workload_on_spark,
    Place.SPARK_STORE: _workload_of_stored_frame,
}
"""Runs several queries in one pass, for every place."""


# ---------------------------------------------------------------------------------------
# Live streams


class Past(NamedTuple):
    """The start of a live query: a store of earlier events, and the time that divides them."""

    store: Any = None
    since: Any = None
    changes: object = None


def with_past(query: CompiledQuery, events: Any, past: Past) -> Any:
    """Begin a stream at a time, or with the events of a store before it."""
    if past.store is None and past.since is None:
        return events
    if past.changes is not None:
        refuse("E591", "`backfill` and `since` are for events, and a changelog has no such past")
    from cepheid.runtimes.spark.backfill import backfilled, events_since
    from cepheid.runtimes.spark.stream import check_stream

    if query.plan.streams and len(set(query.plan.streams)) > 1:
        refuse("E591", "`backfill` and `since` are for queries over one stream")
    if past.since is None:
        refuse("E592", "`backfill` needs `since`: the time from which on events are live")
    check_stream(events, LiveOptions("0 seconds"))
    time = query.plan.time
    if past.store is None:
        return events_since(events, time, past.since)
    return backfilled(events, past.store, time, past.since)


def stream(query: CompiledQuery, events: Any, asked: LiveOptions) -> Any:
    """Run a query over a Spark stream."""
    from cepheid.runtimes.spark.latency import with_goal

    if asked.latency is not None and isinstance(events, Mapping):
        unused("latency", "a query of several streams has several limits", "it is for one stream")
    return with_goal(_stream(query, events, asked), asked.latency)


def _stream(query: CompiledQuery, events: Any, asked: LiveOptions) -> Any:
    from cepheid.jobs.streams import named_streams
    from cepheid.runtimes.spark.stream import stream_frame

    if asked.changes is not None or _follows_late_events(query, asked):
        from cepheid.runtimes.spark.live_changes import stream_changes

        return stream_changes(query, events, asked)
    kind, streams = kind_of(query.plan), named_streams(query.plan, events)
    if kind.lives_as_stage(query.plan):
        from cepheid.runtimes.staged import Staged

        return stream_frame(Staged(query), streams[0], asked)
    if not isinstance(kind, TaskKind):
        from cepheid.runtimes.spark.selection.stream import stream_select

        return stream_select(query, streams, asked)
    return stream_frame(query, streams[0], asked)


def _follows_late_events(query: CompiledQuery, asked: LiveOptions) -> bool:
    """Check whether late events change rows as any change does, since rows have no versions."""
    plan, kind = query.plan, kind_of(query.plan)
    if asked.late != "correct" or len(plan.streams) > 1:
        return False
    return not isinstance(kind, TaskKind) or bool(kind.why_no_versions(plan))


def stream_workload(queries: Workload, events: Any, asked: LiveOptions) -> Any:
    """Run several queries over a Spark stream."""
    from cepheid.runtimes.spark import rules as spark_rules
    from cepheid.runtimes.spark.latency import with_goal

    return with_goal(spark_rules.stream_workload(queries, events, asked), asked.latency)


def live(
    query: CompiledQuery, schema: Any, watermark: str | None, state: bytes | None, changes: object,
    device: str,
) -> Any:  # fmt: skip
    """Run a query over a stream, or over a table that changes, in this process."""
    from cepheid.jobs.changes.asked import Changes
    from cepheid.runtimes.live_query import LiveQuery
    from cepheid.runtimes.staged import Staged

    asked = Changes.of(changes)
    one_of("device", device, DEVICES)
    as_stage = kind_of(query.plan).lives_as_stage(query.plan)
    if device == "gpu" and (asked is not None or as_stage):
        from cepheid.accelerator.failures import refuse_query

        why = LIVE_ON_DEVICE if asked is None else NO_CHANGES_ON_DEVICE
        raise refuse_query(why, query.plan.text)
    if asked is None and len(query.plan.streams) > 1 and not as_stage:
        from cepheid.runtimes.live_streams import LiveStreams

        apart = isinstance(schema, Mapping)
        schemas = {n: _columns(s) for n, s in schema.items()} if apart else _columns(schema)
        return LiveStreams(query, schemas, watermark or "0 seconds", state, device)
    if asked is None:
        staged = Staged(query) if as_stage else query
        return LiveQuery(staged, _columns(schema), watermark or "0 seconds", state, device)
    from cepheid.runtimes.live_changes import LiveChanges

    return LiveChanges(query, _columns(schema), watermark, state, asked)


def _columns(schema: Any) -> Any:
    """Return an Arrow schema, or that of a table."""
    columns = getattr(schema, "schema", schema)
    if not hasattr(columns, "empty_table"):
        message = f"schema is an Arrow schema or has one, not {type(schema).__name__}"
        refuse("E592", message)
    return columns


def live_workload(queries: Workload, schema: Any) -> Any:
    """Run several queries over a stream in this process."""
    from cepheid.runtimes.live_rules import LiveRules

    return LiveRules(queries, _columns(schema))


# ---------------------------------------------------------------------------------------
# Plans in words


def explain_store(query: CompiledQuery, store: Any, *, analyze: bool) -> str:
    """Explain which part of a store a query reads, and why."""
    from cepheid.runtimes import store as store_run

    if query.plan.streams:
        from cepheid.runtimes.two_streams import explain_select

        return explain_select(query, store, analyze=analyze)
    return store_run.explain_store(query, store, analyze=analyze)


def explain_device(query: CompiledQuery) -> str:
    """Explain whether a query runs on a GPU; this looks for one, which loads numba."""
    from cepheid.runtimes import device as local_device

    return local_device.explain_device(query.plan)


def explain_costs(query: CompiledQuery, events: Any, spark: Any) -> str:
    """Explain which strategy Spark gets for events, by estimated seconds."""
    from cepheid.runtimes.spark import explain_costs as costs

    return costs.explain_costs(query, events, spark)


def analyze_query(query: CompiledQuery, events: Any, spark: Any) -> str:
    """Run a query, and describe what it did in words."""
    from cepheid.jobs.streams import named_streams

    if is_running(events):
        from cepheid.runtimes.spark.analyze import analyze_running

        return analyze_running(events)
    streams = named_streams(query.plan, events)
    if spark is not None or Held.FRAME in map(holder_of, streams):
        from cepheid.runtimes.spark.analyze import analyze_on_spark

        return str(analyze_on_spark(query, streams, spark))
    from cepheid.runtimes.analyze import analyze_in_process

    return str(analyze_in_process(query, streams))


def analyze_workload(queries: Workload, events: Any, spark: Any) -> str:
    """Run several queries together, and describe what they did in words."""
    if spark is not None or holder_of(events) is Held.FRAME:
        from cepheid.runtimes.spark.analyze import analyze_workload_on_spark

        return str(analyze_workload_on_spark(queries, events, spark))
    from cepheid.runtimes import analyze as local

    return str(local.analyze_workload(queries, events))


def why_not(query: CompiledQuery, events: Any, spark: Any) -> WhyNot:
    """Explain why a query finds no or few rows."""
    from cepheid.jobs.streams import named_streams

    streams = named_streams(query.plan, events)
    if spark is not None or Held.FRAME in map(holder_of, streams):
        from cepheid.runtimes.spark.why import why_on_spark

        return why_on_spark(query, streams, spark)
    from cepheid.runtimes.why import why_in_process

    return why_in_process(query, streams)


# ---------------------------------------------------------------------------------------
# SQL


class SqlRequest(NamedTuple):
    """A SQL text with MATCH_RECOGNIZE, its tables, and the limits of the search."""

    text: str
    tables: Any
    strategy: str | None
    steps: int | None
    states: int | None
    live: LiveOptions | None = None


def run_sql(spark: Any, asked: SqlRequest) -> Any:
    """Run SQL on Spark or, without a session, in this process."""
    from cepheid.kinds.row_pattern.plan import SearchBounds

    bounds = SearchBounds(asked.steps, asked.states)
    if spark is None:
        from cepheid.runtimes.sql import run_local_sql

        return run_local_sql(asked.text, asked.tables or {}, asked.strategy, bounds)
    from cepheid.runtimes.spark.row_pattern import run_spark_sql

    return run_spark_sql(spark, asked.text, asked.tables, bounds, asked.live)


def explain_sql(spark: Any, asked: SqlRequest, *, analyze: bool) -> str:
    """Explain how the clauses of a text run: reads of event stores, and state of streams."""
    from cepheid.kinds.row_pattern.plan import SearchBounds

    bounds = SearchBounds(asked.steps, asked.states)
    if spark is not None:
        from cepheid.runtimes.spark.row_pattern import explain_spark_sql

        return explain_spark_sql(spark, asked.text, asked.tables, bounds, analyze=analyze)
    from cepheid.runtimes.sql import explain_local_sql

    tables = asked.tables or {}
    return explain_local_sql(asked.text, tables, asked.strategy, bounds, analyze=analyze)
