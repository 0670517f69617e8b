"""Queries over events that are all there: batches in the order of time in, one table out.

A kind of query is a job here; ``local_job`` is the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa

from cepheid.engine.job import Job, lower
from cepheid.engine.linear_state import Rows
from cepheid.engine.listing import (
    EVERYTHING,
    Owned,
    empty_matches,
    finish_matches,
    is_enough,
    step_matches,
)
from cepheid.engine.results import build_table
from cepheid.engine.situation_job import SituationJob
from cepheid.engine.situation_results import empty_rows
from cepheid.engine.situations import SituationState, finish_situations, step_situations
from cepheid.engine.step import PartitionState, finish, step
from cepheid.memory_limits import collect
from cepheid.planner.plan import Plan, SituationPlan, TrendPlan, situation_plan, trend_plan

BATCH_ROWS = 1 << 18
"""Events of one step: large enough to hide the cost of a step, small enough for the caches."""

LOOK_BACK_ROWS = 1 << 22
"""The same for queries that keep the events of open windows, which each step reads again."""

SITUATION_ROWS = 1 << 20
"""The same for situations, whose steps touch every situation of the window."""


class LocalJob(Protocol):
    """A query over events that are all there."""

    @property
    def batch_rows(self) -> int:
        """Return how many events one step takes."""

    def cut(self, table: pa.Table, rows: int) -> Iterator[pa.Table]:
        """Yield a table in batches of about so many rows, at least one."""

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Return the result over no events of a schema."""

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Return the result over batches in the order of time."""


class LocalTrends(NamedTuple):
    """Aggregates of trends."""

    job: Job

    @property
    def batch_rows(self) -> int:
        """Return how many events one step takes."""
        return LOOK_BACK_ROWS if self.job.looks_back else BATCH_ROWS

    def cut(self, table: pa.Table, rows: int) -> Iterator[pa.Table]:
        """Yield a table in batches of so many rows."""
        return slices_of(table, rows)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Return the result over no events of a schema."""
        rows: list[list[Rows]] = [[] for _ in range(self.job.outputs)]
        return build_table(self.job, rows, PartitionState(self.job).keys, schema).slice(0, 0)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Return the aggregates of all windows.

        They come at the end, because windows counted in events close in no common order.
        """
        state = PartitionState(self.job)
        found: list[list[Rows]] = [[] for _ in range(self.job.outputs)]
        for batch in batches:
            state, rows = step(self.job, state, batch)
            for all_rows, new in zip(found, rows, strict=True):
                all_rows += new
        state, rows = finish(self.job, state)
        everything = [[*all_rows, *new] for all_rows, new in zip(found, rows, strict=True)]
        return build_table(self.job, everything, state.keys, schema)


class LocalMatches(NamedTuple):
    """Matches of events, one by one."""

    job: Job

    @property
    def batch_rows(self) -> int:
        """Return how many events one step takes."""
        return LOOK_BACK_ROWS

    def cut(self, table: pa.Table, rows: int) -> Iterator[pa.Table]:
        """Yield a table in batches; larger and larger ones where all events are kept."""
        whole = not self.job.plan.window.within
        return _growing_slices(table, rows) if whole else slices_of(table, rows)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Return the result over no events of a schema."""
        return empty_matches(self.job, schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Return all matches, as far as limits allow."""
        tables = list_batches(self.job, batches)
        return pa.concat_tables([self.nothing(schema), *collect(tables)])


class LocalSituations(NamedTuple):
    """Situations, and how they lie to each other."""

    job: SituationJob

    @property
    def batch_rows(self) -> int:
        """Return how many events one step takes."""
        return SITUATION_ROWS

    def cut(self, table: pa.Table, rows: int) -> Iterator[pa.Table]:
        """Yield a table in batches of so many rows."""
        return slices_of(table, rows)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Return the result over no events of a schema."""
        return empty_rows(self.job, schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Return all rows, as far as limits allow."""
        found = collect(self._rows(batches, schema))
        return pa.concat_tables([self.nothing(schema), *found])

    def _rows(self, batches: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of each batch, and what the end of the stream brings."""
        state = SituationState.start(self.job)
        for batch in batches:
            state, rows = step_situations(self.job, state, batch)
            yield rows
        yield finish_situations(self.job, state, schema)[1]


def _trends(plan: Plan) -> LocalJob:
    job = lower(trend_plan(plan))
    return LocalMatches(job) if plan.lists_matches else LocalTrends(job)


def _situations(plan: Plan) -> LocalJob:
    return LocalSituations(SituationJob(situation_plan(plan)))


JOBS: dict[type[Plan], Callable[[Plan], LocalJob]] = {
    TrendPlan: _trends,
    SituationPlan: _situations,
}


def local_job(plan: Plan) -> LocalJob:
    """Return the job of a query with a pattern.

    Raises
    ------
    UnsupportedError
        E404 if the query cannot be run.
    """
    return JOBS[type(plan)](plan)


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
