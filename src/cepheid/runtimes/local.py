"""Run a query in one process: Arrow events in, a result table out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from cepheid.events.arriving import as_table, like, plain_reader
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.local_jobs import LocalJob, local_job
from cepheid.jobs.ordering import put_together, sort_events, with_ties_ordered
from cepheid.jobs.prepared import KEPT_ROWS, Prepared, prepared_of
from cepheid.kinds.trend.local import LocalMatches, list_batches
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.options import refuse
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes.notices import watched, watched_tables


class CompiledQueryLike(Protocol):
    """The interface of a query that a runtime needs: its plan for a schema."""

    @property
    def plan(self) -> Plan:
        """Return the plan."""

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""

    def with_schema(self, schema: object) -> CompiledQueryLike:
        """Plan the query for a schema."""


def run_events(compiled: CompiledQueryLike, events: Any) -> Any:
    """Run a query over events in any supported container, and return the same kind of container.

    Raises
    ------
    TypeError
        If the container of the events is not supported.
    """
    if isinstance(events, pa.RecordBatchReader):
        reader = timed_reader(plain_reader(events), compiled.times)
        plan = compiled.with_schema(reader.schema).plan
        job = local_job(plan)
        batches: Iterable[pa.Table] = put_together(reader, job.batch_rows)
        if job.in_order:
            batches = with_ties_ordered(batches, plan)
        return watched(plan, lambda: job.answer(batches, reader.schema))
    table = timed_table(as_table(events), compiled.times)
    prepared = prepared_of(compiled.with_schema(table.schema))
    rows = watched(prepared.plan, lambda: _run_prepared(prepared, table), prepared)
    return like(events, rows)


def _run_prepared(prepared: Prepared, table: pa.Table) -> pa.Table:
    """Run a plan over a table; small tables leave what was built for them to the next."""
    if len(table) > KEPT_ROWS:
        return run_table(prepared.plan, table)
    job = prepared.take()
    rows = _run_job(job, prepared.plan, table)
    prepared.put_back(job)
    return rows


def run_table(plan: Plan, table: pa.Table, *, batch_rows: int | None = None) -> pa.Table:
    """Run a plan over a table; an unsorted table is sorted first."""
    return _run_job(local_job(plan), plan, table, batch_rows)


def _run_job(job: LocalJob, plan: Plan, table: pa.Table, batch_rows: int | None = None) -> pa.Table:
    ordered = sort_events(table, plan) if job.in_order else table
    return job.answer_table(ordered, batch_rows or job.batch_rows)


def run_batches(plan: Plan, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Run a plan over batches sorted by time."""
    return local_job(plan).answer(batches, schema)


def list_events(compiled: CompiledQueryLike, events: Any) -> pa.RecordBatchReader:
    """Open a reader that lists matches while it is read; see ``CompiledQuery.matches``.

    Raises
    ------
    TypeError
        If the container of the events is not supported.
    ValueError
        If the query returns aggregates.
    """
    if isinstance(events, pa.RecordBatchReader):
        events = timed_reader(plain_reader(events), compiled.times)
    else:
        events = timed_table(as_table(events), compiled.times)
    plan = check_lists(compiled.with_schema(events.schema).plan)
    job = LocalMatches(lower(plan))
    batches: Iterable[pa.Table]
    if isinstance(events, pa.Table):
        batches = job.cut(sort_events(events, plan), job.batch_rows)
    else:
        batches = with_ties_ordered(put_together(events, job.batch_rows), plan)
    schema = empty_matches(job.job, events.schema).schema
    return reader_of(schema, watched_tables(plan, list_batches(job.job, batches)))


def check_lists(plan: Plan) -> TrendPlan:
    """Return the plan of a query that lists matches; refuse every other query.

    Raises
    ------
    OptionError
        E592.
    """
    if not plan.lists_matches:
        refuse("E592", "this query lists no matches: use `run`")
    return TrendPlan.of(plan)


def reader_of(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Wrap a generator of tables in a reader, which pulls them on demand."""
    rows = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, rows)
