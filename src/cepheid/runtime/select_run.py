"""SELECT in process: events in, a table out. Spark has ``spark_select``."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cepheid.engine.select_join import join_tables
from cepheid.engine.select_rows import filter_rows
from cepheid.engine.select_windows import Aggregation
from cepheid.options import METHODS, one_of
from cepheid.planner.plan import SelectPlan, select_plan
from cepheid.planner.select_plan import Extent, Selection, SelectKind
from cepheid.runtime.local import CompiledQueryLike, like, sort_events
from cepheid.runtime.select_sources import EventSource, named_streams, present, source_of
from cepheid.runtime.select_store import (
    IndexPlan,
    explain_sources,
    limit_sources,
    plan_index,
    run_index,
)
from cepheid.store.snapshot import Effort, Snapshot


def run_select(
    compiled: CompiledQueryLike, events: Any, *, spark: Any = None, strategy: str | None = None
) -> Any:
    """Run a SELECT over events, or over a dict of them by the names of streams.

    Raises
    ------
    DataError
        E561 if a stream has no events.
    TypeError
        If events are of no known kind.
    """
    plan = select_plan(compiled.plan)
    streams = named_streams(plan.select, events, plan.text)
    if spark is not None or any(map(is_frame, streams)):
        on_spark = importlib.import_module("cepheid.runtime.spark_select")
        return on_spark.run_frames(compiled, streams, spark, strategy)
    sources = _sources(streams)
    planned = with_schemas(compiled, [source.schema for source in sources])
    result = run_sources(planned, sources, strategy)
    values = list(events.values()) if isinstance(events, Mapping) else [events]
    return like(values[0], result) if len({type(v) for v in values}) == 1 else result


def _sources(streams: list[Any]) -> list[EventSource]:
    """Return streams as sources; one that is joined with itself is opened once."""
    opened = {id(stream): source_of(stream) for stream in streams}
    if len(opened) < len(streams) and isinstance(streams[0], pa.RecordBatchReader):
        opened[id(streams[0])] = source_of(streams[0].read_all())
    return [opened[id(stream)] for stream in streams]


def is_frame(events: Any) -> bool:
    """Return whether events are a DataFrame of Spark."""
    return type(events).__module__.partition(".")[0] == "pyspark"


def with_schemas(compiled: CompiledQueryLike, schemas: list[Any]) -> SelectPlan:
    """Return the plan of a query for the columns of its streams."""
    if len(schemas) == 1:
        return select_plan(compiled.with_schema(schemas[0]).plan)
    names = [stream.name for stream in select_plan(compiled.plan).select.streams]
    return select_plan(compiled.with_schema(dict(zip(names, schemas, strict=True))).plan)


def run_sources(
    plan: SelectPlan, sources: list[EventSource], strategy: str | None = None
) -> pa.Table:
    """Return the result of a SELECT over sources in process.

    Raises
    ------
    ValueError
        If there is no such strategy for stores.
    """
    select = plan.select
    method = _method(strategy)
    reads = [
        list(stream.reads or source.schema.names)
        for stream, source in zip(select.streams, sources, strict=True)
    ]
    if select.kind is SelectKind.JOIN:
        loaded = [_loaded(source, columns) for source, columns in zip(sources, reads, strict=True)]
        limited, _ = limit_sources(plan, loaded, method)
        tables = [
            _in_order(source.whole(columns), plan, columns)
            for source, columns in zip(limited, reads, strict=True)
        ]
        return join_tables(select, plan.time, tables)
    source, columns = sources[0], reads[0]
    if select.kind is SelectKind.AGGREGATE and isinstance(source.events, Snapshot):
        index = plan_index(plan, source, method)
        if isinstance(index, IndexPlan):
            return run_index(plan, source, index)
    (limited_source,), _ = limit_sources(plan, [source], method)
    if select.kind is SelectKind.FILTER:
        tables = [filter_rows(select, table) for table in limited_source.tables(columns)]
        return pa.concat_tables(tables, promote_options="permissive")
    return _aggregate(plan, select, limited_source, columns)


def _method(strategy: str | None) -> str:
    method = strategy or "auto"
    one_of("strategy", method, METHODS)
    return method


def _loaded(source: EventSource, columns: list[str]) -> EventSource:
    """Return files and readers as a table: a join looks at them twice."""
    if isinstance(source.events, Snapshot | pa.Table):
        return source
    return EventSource(source.schema, source.whole(columns))


def explain_select(compiled: CompiledQueryLike, stores: Any, *, analyze: bool = False) -> str:
    """Return what a SELECT reads of stores, in words; ``analyze`` runs it, to tell the cost."""
    plan = select_plan(compiled.plan)
    sources = _sources(named_streams(plan.select, stores, plan.text))
    planned = with_schemas(compiled, [source.schema for source in sources])
    limited, plans = limit_sources(planned, sources, "auto")
    index = None
    if plan.select.kind is SelectKind.AGGREGATE:
        index = plan_index(planned, sources[0], "auto")
    lines = explain_sources(planned, plans, index, limited)
    if analyze:
        for source in sources:
            source.events.effort = Effort()
        run_sources(planned, sources)
        for effort in {id(s.events): s.events.effort for s in sources}.values():
            lines.append(
                f"  read  {effort.groups:,} row groups, {effort.data_bytes:,} bytes; "
                f"{effort.entries:,} index entries, {effort.index_bytes:,} bytes"
            )
    return "\n".join(lines)


def _aggregate(
    plan: SelectPlan, select: Selection, source: EventSource, columns: list[str]
) -> pa.Table:
    aggregation = Aggregation(select, plan.time)
    if select.window.extent is Extent.EVENTS:
        aggregation.add(_in_order(source.whole(columns), plan, columns))
    else:
        for table in source.tables(columns):
            aggregation.add(table)
    return aggregation.result()


def _in_order(table: pa.Table, plan: SelectPlan, columns: list[str]) -> pa.Table:
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        found = sort_events(table.select(present(table.column_names, columns)), plan)
    for notice in notices:
        warnings.warn(str(notice.message), stacklevel=5)
    return found
