"""Run SELECT over two streams in process, and explain its reads from stores."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cepheid.events.arriving import form_of, in_form
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.sources import EventSource, source_of
from cepheid.jobs.streams import named_streams
from cepheid.kinds.selection.local import LocalSelect
from cepheid.kinds.selection.store import (
    explain_sources,
    limit_sources,
    plan_index,
)
from cepheid.options import METHODS, one_of
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import SelectKind
from cepheid.runtimes.device import join_on
from cepheid.runtimes.local import CompiledQueryLike
from cepheid.runtimes.notices import watched
from cepheid.runtimes.store import run_snapshot
from cepheid.store.snapshot import Effort, Snapshot


def run_streams(
    compiled: CompiledQueryLike, streams: list[Any], strategy: str | None, device: str
) -> Any:
    """Join two streams in process; the result has the container of the events, if both agree."""
    sources = _sources(streams, compiled.times)
    planned = with_schemas(compiled, [source.schema for source in sources])
    result = watched(planned, lambda: join_sources(planned, sources, strategy, device))
    forms = {form_of(stream) for stream in streams}
    return in_form(forms.pop(), result) if len(forms) == 1 else result


def _sources(streams: list[Any], times: TextTimes) -> list[EventSource]:
    """Open streams as sources; one that is joined with itself is opened once."""
    opened = {id(stream): source_of(stream, times) for stream in streams}
    if len(opened) < len(streams) and isinstance(streams[0], pa.RecordBatchReader):
        opened[id(streams[0])] = source_of(streams[0].read_all(), times)
    return [opened[id(stream)] for stream in streams]


def with_schemas(compiled: CompiledQueryLike, schemas: list[Any]) -> SelectPlan:
    """Plan a query for the columns of its streams."""
    if len(schemas) == 1:
        return SelectPlan.of(compiled.with_schema(schemas[0]).plan)
    named = dict(zip(compiled.plan.streams, schemas, strict=True))
    return SelectPlan.of(compiled.with_schema(named).plan)


def join_sources(
    plan: SelectPlan, sources: list[EventSource], strategy: str | None = None, device: str = "cpu"
) -> pa.Table:
    """Join sources in process.

    Raises
    ------
    ValueError
        If the strategy is unknown for stores.
    """
    method = strategy or "auto"
    one_of("strategy", method, METHODS)
    pairs = zip(plan.select.streams, sources, strict=True)
    reads = [list(stream.reads or source.schema.names) for stream, source in pairs]
    loaded = [_loaded(source, columns) for source, columns in zip(sources, reads, strict=True)]
    limited, _ = limit_sources(plan, loaded, method)
    tables = [source.whole(names) for source, names in zip(limited, reads, strict=True)]
    found = None if device == "cpu" else join_on(plan, tables, device)
    return LocalSelect(plan).answer_streams(tables) if found is None else found


def _loaded(source: EventSource, columns: list[str]) -> EventSource:
    """Load files and readers into a table, because a join reads them twice."""
    if isinstance(source.events, Snapshot | pa.Table):
        return source
    return EventSource(source.schema, source.whole(columns))


def explain_select(compiled: CompiledQueryLike, stores: Any, *, analyze: bool = False) -> str:
    """Explain the reads of a SELECT from stores; ``analyze`` runs it, to report the cost."""
    plan = SelectPlan.of(compiled.plan)
    sources = _sources(named_streams(plan, stores), compiled.times)
    planned = with_schemas(compiled, [source.schema for source in sources])
    limited, plans = limit_sources(planned, sources, "auto")
    index = None
    if plan.select.kind is SelectKind.AGGREGATE:
        index = plan_index(planned, sources[0], "auto")
    lines = explain_sources(planned, plans, index, limited)
    if analyze:
        for source in sources:
            source.events.effort = Effort()
        _run(planned, sources)
        for effort in {id(s.events): s.events.effort for s in sources}.values():
            lines.append(
                f"  read  {effort.groups:,} row groups, {effort.data_bytes:,} bytes; "
                f"{effort.entries:,} index entries, {effort.index_bytes:,} bytes"
            )
    return "\n".join(lines)


def _run(plan: SelectPlan, sources: list[EventSource]) -> pa.Table:
    """Run a SELECT over stores, to measure the cost."""
    if len(sources) > 1:
        return join_sources(plan, sources)
    return run_snapshot(plan, sources[0].events, "auto").table
