"""One process, one loop: events as Arrow in, a result table out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from cepheid.engine.distinct_windows import few_windows
from cepheid.engine.events import Columns, read_times
from cepheid.engine.job import Job, looks_back, lower
from cepheid.engine.listing import (
    EVERYTHING,
    Owned,
    empty_matches,
    finish_matches,
    is_enough,
    step_matches,
)
from cepheid.engine.results import build_table
from cepheid.engine.runs import Rows
from cepheid.engine.situation_job import SituationJob
from cepheid.engine.situation_results import empty_rows
from cepheid.engine.situations import SituationState, finish_situations, step_situations
from cepheid.engine.step import PartitionState, finish, step
from cepheid.errors import DataError, Diagnostic
from cepheid.events.arriving import as_table, is_pandas, plain_reader
from cepheid.kernels.columns import scan_times
from cepheid.memory_limits import collect
from cepheid.options import refuse
from cepheid.planner.plan import (
    PatternPlan,
    Plan,
    SituationsPlan,
    TrendPlan,
    pattern_plan,
)
from cepheid.runtime.ordering import order_of, with_ties_ordered


class CompiledQueryLike(Protocol):
    """What a runtime needs of a query: its plan for events of a schema."""

    @property
    def plan(self) -> Plan:
        """Return the plan."""

    def with_schema(self, schema: object) -> CompiledQueryLike:
        """Return the query planned for a schema."""


BATCH_ROWS = 1 << 18
"""Events of one step: large enough to hide the cost of a step, small enough for the caches."""

LOOK_BACK_ROWS = 1 << 22
"""The same for queries that keep the events of open windows, which each step reads again."""

SITUATION_ROWS = 1 << 20
"""The same for situations, whose steps touch every situation of the window."""

SORT_ROWS_MAX = 50_000_000
"""Unordered tables up to here are sorted in memory, with a notice."""


def run_events(compiled: CompiledQueryLike, events: Any) -> Any:
    """Run a query over whatever holds events, and return the result in the same form.

    Raises
    ------
    TypeError
        If the events are of no known kind.
    """
    if isinstance(events, pa.RecordBatchReader):
        reader = plain_reader(events)
        plan = pattern_plan(compiled.with_schema(reader.schema).plan)
        batches = with_ties_ordered(tables_of(reader, _batch_rows(plan)), plan)
        return run_batches(plan, batches, reader.schema)
    table = as_table(events)
    result = run_table(pattern_plan(compiled.with_schema(table.schema).plan), table)
    return like(events, result)


def like(events: Any, result: pa.Table) -> Any:
    """Return a result in the form in which the events came."""
    return result.to_pandas() if is_pandas(events) else result


def tables_of(reader: pa.RecordBatchReader, rows: int) -> Iterator[pa.Table]:
    """Yield the batches of a reader, small ones put together."""
    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(map(len, waiting)) >= rows:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def run_table(plan: PatternPlan, table: pa.Table, *, batch_rows: int | None = None) -> pa.Table:
    """Return the result of a plan over a table; an unordered table is sorted first."""
    ordered = sort_events(table, plan)
    rows = batch_rows or _batch_rows(plan)
    few = few_windows(plan, ordered)
    if few is not None:
        batches = slices_of(few.events, rows)
        return few.spread(run_batches(few.plan, batches, few.events.schema))
    return run_batches(plan, _slices(plan, ordered, rows), table.schema)


def _batch_rows(plan: PatternPlan) -> int:
    if isinstance(plan, SituationsPlan):
        return SITUATION_ROWS
    return LOOK_BACK_ROWS if looks_back(plan) else BATCH_ROWS


def run_batches(plan: PatternPlan, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the result of a plan over batches in the order of time."""
    if isinstance(plan, SituationsPlan):
        return run_situations(plan, batches, schema)
    job = lower(plan)
    if plan.lists_matches:
        tables = list_batches(job, batches)
        return pa.concat_tables([empty_matches(job, schema), *collect(tables)])
    state = PartitionState(job)
    found: list[list[Rows]] = [[] for _ in range(job.outputs)]
    for batch in batches:
        state, rows = step(job, state, batch)
        for all_rows, new in zip(found, rows, strict=True):
            all_rows += new
    state, rows = finish(job, state)
    # One table at the end, because windows counted in events close in no common order.
    everything = [[*all_rows, *new] for all_rows, new in zip(found, rows, strict=True)]
    return build_table(job, everything, state.keys, schema)


def run_situations(
    plan: SituationsPlan, batches: Iterable[pa.Table], schema: pa.Schema
) -> pa.Table:
    """Return the rows of a query about situations over batches in the order of time."""
    job = SituationJob(plan)
    found = collect(_list_situations(job, batches, schema))
    return pa.concat_tables([empty_rows(job, schema), *found])


def _list_situations(
    job: SituationJob, batches: Iterable[pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield the rows of each batch, and what the end of the stream brings."""
    state = SituationState.start(job)
    for batch in batches:
        state, rows = step_situations(job, state, batch)
        yield rows
    yield finish_situations(job, state, schema)[1]


def list_events(compiled: CompiledQueryLike, events: Any) -> pa.RecordBatchReader:
    """Return a reader that lists matches as it is read; see ``CompiledQuery.matches``.

    Raises
    ------
    TypeError
        If the events are of no known kind.
    ValueError
        If the query returns aggregates.
    """
    reader = isinstance(events, pa.RecordBatchReader)
    events = plain_reader(events) if reader else as_table(events)
    plan = check_lists(compiled.with_schema(events.schema).plan)
    batches: Iterable[pa.Table]
    if isinstance(events, pa.Table):
        batches = _slices(plan, sort_events(events, plan), LOOK_BACK_ROWS)
    else:
        batches = with_ties_ordered(tables_of(events, LOOK_BACK_ROWS), plan)
    job = lower(plan)
    schema = empty_matches(job, events.schema).schema
    return reader_of(schema, list_batches(job, batches))


def check_lists(plan: Plan) -> TrendPlan:
    """Return the plan of a query that lists matches; refuse one that returns something else.

    Raises
    ------
    OptionError
        E592.
    """
    if not isinstance(plan, TrendPlan):
        refuse("E592", "matches of situations are not listed one by one: use `run`")
    if not plan.lists_matches:
        refuse("E592", "this query returns aggregates, not matches: use `run`")
    return plan


def reader_of(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Return tables as a reader, which asks for one when it is read."""
    rows = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, rows)


def list_batches(
    job: Job, batches: Iterable[pa.Table], owned: Owned = EVERYTHING
) -> Iterator[pa.Table]:
    """Yield the matches in batches of events, as they are found; LIMIT stops early."""
    state = PartitionState(job)
    last: pa.Table | None = None
    for batch in batches:
        if last is not None:
            state, tables = step_matches(job, state, last, owned)
            yield from tables
            if is_enough(job, state):
                return
        last = batch
    state, tables = finish_matches(job, state, last, owned)
    yield from tables


def sort_events(table: pa.Table, plan: Plan) -> pa.Table:
    """Return the events in the order of time; tie-breakers count, then the order of arrival."""
    rows = order_of(table, plan)
    if rows is None:
        return table
    back, _ = scan_times(read_times(Columns(table), plan.time))
    if back >= 0:
        row = int(back)
        if len(table) > SORT_ROWS_MAX:
            message = f"the events are not in the order of `{plan.time}`, from row {row} on"
            helps = (f"sort them first: {len(table):,} events are more than {SORT_ROWS_MAX:,}",)
            raise DataError([Diagnostic("E509", message, helps=helps)])
        message = f"the events are not in the order of `{plan.time}` (row {row}); they were sorted"
        warnings.warn(message, stacklevel=4)
    return table.take(rows)


def _slices(plan: PatternPlan, table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield a table in pieces of so many rows, larger and larger ones where all events are kept."""
    if isinstance(plan, TrendPlan) and plan.lists_matches and not plan.window.within:
        return _growing_slices(table, rows)
    return slices_of(table, rows)


def _growing_slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield pieces as large as all before, since every step looks at all events again."""
    offset = 0
    while offset < len(table) or offset == 0:
        size = max(offset, rows)
        left = len(table) - offset
        size = left if left <= 2 * size else size
        yield table.slice(offset, size)
        offset += max(size, 1)


def slices_of(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield a table in pieces of at most so many rows, at least one."""
    for offset in range(0, max(len(table), 1), rows):
        yield table.slice(offset, rows)
