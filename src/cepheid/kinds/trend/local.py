"""Trends over bounded input: aggregates of all windows, or all matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from cepheid.jobs import local_jobs
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.jobs.side_by_side import answer_side_by_side
from cepheid.kinds.trend.planning.needs import needs_of_trends
from cepheid.kinds.trend.program.exact import are_exact, small_counts
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.partials import owned_rows
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.steps import TrendSteps
from cepheid.kinds.trend.windows.distinct_windows import few_windows
from cepheid.kinds.trend.windows.list_step import (
    empty_matches,
    finish_matches,
    is_enough,
    step_matches,
)
from cepheid.kinds.trend.windows.marker import Marker
from cepheid.kinds.trend.windows.step import PartitionState, close, feed
from cepheid.memory_limits import collect
from cepheid.plans.plan import WindowKind


class LocalTrends(NamedTuple):
    """Aggregates of trends."""

    job: Job

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        if self.job.looks_back:
            return local_jobs.LOOK_BACK_ROWS
        # Every step processes the events of the trailing window again.
        trailing = self.job.plan.window.kind is WindowKind.TRAILING
        return (4 if trailing else 1) * local_jobs.BATCH_ROWS

    @property
    def in_order(self) -> bool:
        """Require events in time order."""
        return True

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table; windows that hold the same events are evaluated once."""
        if self.job.marked is not None:
            inner = LocalTrends(lower(self.job.plan))
            return inner.answer_table(Marker(self.job.marked).mark(table), rows)
        small = small_counts(self.job.plan)
        if small is not None:
            found = LocalTrends(lower(small)).answer_table(table, rows)
            if are_exact(found, self.job.plan):
                return found.cast(self.nothing(table.schema).schema)
        few = few_windows(self.job.plan, table)
        if few is None:
            return self.answer(slices_of(table, rows), table.schema)
        once = LocalTrends(lower(few.plan))
        return few.spread(once.answer(slices_of(few.events, rows), few.events.schema))

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return TrendSteps(self.job, schema).nothing()

    @property
    def reach(self) -> tuple[int, int] | None:
        """Compute the overlap of time windows with the next range; None without time windows."""
        needs = needs_of_trends(self.job.plan)
        return None if needs.not_by_time or needs.from_start else needs.reach

    def fresh(self) -> LocalTrends:
        """Create the same query for another thread: steps write to buffers of the job."""
        return LocalTrends(self.job.fresh())

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Aggregate all windows; threads share large inputs."""
        return answer_side_by_side(self, batches, schema, self.job.plan.time)

    def answer_owned(
        self, batches: Iterable[pa.Table], schema: pa.Schema, owned: Owned
    ) -> pa.Table:
        """Aggregate the windows of a range.

        The rows come at the end, because count-based windows close in no common order.
        """
        state = PartitionState(self.job)
        found: list[list[Rows]] = [[] for _ in range(self.job.outputs)]
        for batch in batches:
            rows = owned_rows(self.job, feed(self.job, state, batch), owned)
            for all_rows, new in zip(found, rows, strict=True):
                all_rows += new
        rows = owned_rows(self.job, close(self.job, state), owned)
        everything = [[*all_rows, *new] for all_rows, new in zip(found, rows, strict=True)]
        return build_table(self.job, everything, state.keys, schema)


class LocalMatches(NamedTuple):
    """Matches of events, one by one."""

    job: Job

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return local_jobs.LOOK_BACK_ROWS

    @property
    def in_order(self) -> bool:
        """Require events in time order."""
        return True

    def cut(self, table: pa.Table, rows: int) -> Iterator[pa.Table]:
        """Slice a table into batches, of growing size if all events are kept."""
        whole = not self.job.plan.window.within
        return _growing_slices(table, rows) if whole else slices_of(table, rows)

    def answer_table(self, table: pa.Table, rows: int) -> pa.Table:
        """Run over a table, in steps of about ``rows`` rows."""
        if self.job.marked is not None:
            inner = LocalMatches(lower(self.job.plan))
            return inner.answer_table(Marker(self.job.marked).mark(table), rows)
        return self.answer(self.cut(table, rows), table.schema)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return empty_matches(self.job, schema)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """List all matches, until LIMIT is reached."""
        tables = list_batches(self.job, batches)
        return pa.concat_tables([self.nothing(schema), *collect(tables)])


def list_batches(
    job: Job, batches: Iterable[pa.Table], owned: Owned = EVERYTHING
) -> Iterator[pa.Table]:
    """List the matches as they are found, batch by batch; LIMIT stops early."""
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
    """Slice a table into pieces that double in size, since every step reads all events again."""
    offset = 0
    while offset < len(table) or offset == 0:
        size = max(offset, rows)
        left = len(table) - offset
        size = left if left <= 2 * size else size
        yield table.slice(offset, size)
        offset += max(size, 1)
