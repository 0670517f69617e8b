"""Run a query to report what it did: events read and kept, state, rows, seconds and bytes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid import runtimes
from cepheid.errors import CepheidError
from cepheid.events.arriving import as_table
from cepheid.jobs.analysis import LIVE, Analysis
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import slices, sort_events
from cepheid.jobs.sources import EventSource, source_of
from cepheid.jobs.why import Question, count_events
from cepheid.options import Held, holder_of
from cepheid.runtimes.row_groups import groups_read
from cepheid.runtimes.why import LocalCounting, question_of

STATE_EVENTS_MAX = 2_000_000
"""The state of more events is not measured: that takes a run of its own."""


def analyze_in_process(query: Any, streams: Sequence[Any]) -> Analysis:
    """Run a query over events that this process reads, and report what it did."""
    began = time.perf_counter()
    opened = {id(one): _again(one) for one in streams}
    given = [opened[id(one)] for one in streams]
    sources = [source_of(one, query.times) for one in given]
    question = question_of(query, [source.schema for source in sources])
    planned = time.perf_counter() - began
    began = time.perf_counter()
    read = [_read(source, question) for source in dict.fromkeys(map(_ByIdentity, sources))]
    reading = time.perf_counter() - began
    names = query.plan.streams
    many = len(set(names)) > 1
    whole = dict(zip(names, given, strict=True)) if many else given[0]
    began = time.perf_counter()
    rows, row_bytes = _run(query, whole, many=many)
    running = time.perf_counter() - began
    counting = LocalCounting(whole, query.times)
    events = sum(count for count, _ in read)
    return Analysis(
        place="in this process",
        events=events,
        kept=kept_events(question, counting),
        event_bytes=sum(size for _, size in read),
        reads=(*_store_reads(query, given), *_file_reads(query, sources)),
        partial=tuple(kind_of(question.plan).partial_results(question, counting)),
        state=(*_state(question, sources, events), LIVE),
        rows=(("", rows),),
        row_bytes=row_bytes,
        seconds=(("plan", planned), ("read", reading), ("run", running)),
    )


class _ByIdentity:
    """A source that is read once, also where a stream is joined with itself."""

    def __init__(self, source: EventSource) -> None:
        self.source = source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.source.events is self.source.events

    def __hash__(self) -> int:
        return id(self.source.events)


def kept_events(question: Question, counting: Any) -> tuple[tuple[str, int], ...]:
    """Count the events that pass the conditions of a query, one after the other."""
    filters = kind_of(question.plan).event_filters(question)
    found = count_events(question, counting, filters) if filters else None
    return tuple(found.items()) if found is not None else ()


def _again(events: Any) -> Any:
    return as_table(events) if holder_of(events) is Held.TABLE else events


def _read(held: _ByIdentity, question: Question) -> tuple[int, int]:
    """Read the columns of a query once; return the events and their bytes."""
    source = held.source
    columns = question.plan.columns or source.schema.names
    events = size = 0
    for table in source.tables(columns):
        kept = [name for name in table.column_names if name in columns]
        events += len(table)
        size += table.select(kept).nbytes
    return events, size


def _run(query: Any, events: Any, *, many: bool) -> tuple[int, int]:
    """Run a query; matches are counted as they are found, however many there are."""
    with warnings.catch_warnings(action="ignore"):
        asked = runtimes.Request(query, events)
        if query.plan.lists_matches and not many:
            rows = size = 0
            for batch in runtimes.MATCHES[asked.place](asked):
                rows += len(batch)
                size += batch.nbytes
            return rows, size
        table: pa.Table = runtimes.run(asked)
    return len(table), table.nbytes


def _store_reads(query: Any, given: Sequence[Any]) -> tuple[str, ...]:
    """Tell what was read of a store, and why."""
    if {holder_of(one) for one in given} != {Held.STORE}:
        return ()
    stores = dict(zip(query.plan.streams, given, strict=True)) if query.plan.streams else given[0]
    return tuple(runtimes.explain_store(query, stores, analyze=True).split("\n"))


def _file_reads(query: Any, sources: Sequence[EventSource]) -> tuple[str, ...]:
    """Tell how many row groups of Parquet files are read, if some cannot have an event for it."""
    if len(sources) != 1 or not isinstance(sources[0].events, list):
        return ()
    read, total = groups_read(query.with_schema(sources[0].schema).plan, sources[0].events)
    if read == total:
        return ()
    return (f"{read:,} of {total:,} row groups; the others have no event that fits a condition",)


def _state(question: Question, sources: Sequence[EventSource], events: int) -> tuple[str, ...]:
    """Measure what a query keeps when all events have been read, before its windows close."""
    plan = question.plan
    if len(sources) > 1 or events > STATE_EVENTS_MAX:
        return ()
    try:
        job = kind_of(plan).stepped(plan, sources[0].schema)
        if job is None:
            return ()
        table = sources[0].whole(plan.columns or sources[0].schema.names)
        state = job.start()
        with warnings.catch_warnings(action="ignore"):
            for part in slices(sort_events(table, plan), job.batch_rows):
                state, _ = job.step(state, part)
        size, data = job.size(state), len(job.write(state))
    except CepheidError:
        return ()
    parts = f"{size.partitions:,} partition{'' if size.partitions == 1 else 's'}"
    return (f"{data:,} bytes when all events are read, for {parts}",)


def analyze_workload(workload: Any, events: Any) -> Analysis:
    """Run a workload in this process, and report what it did."""
    again = _again(events)
    source = source_of(again, workload.times)
    began = time.perf_counter()
    shared = workload.shared(source.schema)
    planned = time.perf_counter() - began
    began = time.perf_counter()
    wanted = {name for plan in shared.all_plans for name in plan.columns or source.schema.names}
    count = size = 0
    for table in source.tables(sorted(wanted)):
        count += len(table)
        size += table.select([name for name in table.column_names if name in wanted]).nbytes
    reading = time.perf_counter() - began
    asked = runtimes.Request(workload, again, separate=True)
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        tables = runtimes.WORKLOADS[asked.place](asked)
    running = time.perf_counter() - began
    return Analysis(
        place="in this process, all queries in one pass",
        events=count,
        kept=(),
        event_bytes=size,
        reads=(),
        partial=(),
        state=(LIVE,),
        rows=tuple((name, len(table)) for name, table in tables.items()),
        row_bytes=sum(table.nbytes for table in tables.values()),
        seconds=(("plan", planned), ("read", reading), ("run", running)),
    )
