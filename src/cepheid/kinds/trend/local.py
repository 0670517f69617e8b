"""Trends over bounded input: aggregates of all windows, or all matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.jobs import local_jobs
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.jobs.side_by_side import answer_side_by_side, is_one_range
from cepheid.kinds.trend.planning.needs import judged_by_window, needs_of_trends
from cepheid.kinds.trend.program.exact import are_exact, small_counts
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.partials import owned_rows
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.steps import TrendSteps
from cepheid.kinds.trend.windows.distinct_windows import few_windows
from cepheid.kinds.trend.windows.last_step import rows_at_once
from cepheid.kinds.trend.windows.list_step import (
    empty_matches,
    finish_matches,
    is_enough,
    step_matches,
)
from cepheid.kinds.trend.windows.marker import Marker
from cepheid.kinds.trend.windows.match_tables import MATCH_ID
from cepheid.kinds.trend.windows.one_event import list_one_event, lists_one_event
from cepheid.kinds.trend.windows.plain_windows import counts_plainly, plain_windows, shares_cache
from cepheid.kinds.trend.windows.step import PartitionState, close, feed
from cepheid.memory_limits import Gathered, collect
from cepheid.plans.plan import OutputKind, WindowKind


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
        one = len(table) <= rows and is_one_range(len(table), heavy=self.is_heavy)
        if few is None and one and not counts_plainly(self.job, len(table)):
            return self._answer_at_once(table)
        if few is None:
            return self.answer(slices_of(table, rows), table.schema)
        once = LocalTrends(lower(few.plan))
        return few.spread(once.answer(slices_of(few.events, rows), few.events.schema))

    def _answer_at_once(self, table: pa.Table) -> pa.Table:
        """Run over all events in one step, in this thread: no event waits for later ones."""
        state = PartitionState(self.job)
        return build_table(self.job, rows_at_once(self.job, state, table), state.keys, table.schema)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return TrendSteps(self.job, schema).nothing()

    @property
    def reach(self) -> tuple[int, int] | None:
        """Compute the overlap of time windows with the next range; None without time windows."""
        return _reach_of(self.job)

    @property
    def stride(self) -> int:
        """Return the distance of windows that do not overlap, 1 for others."""
        return _stride_of(self.job)

    @property
    def is_heavy(self) -> bool:
        """Check whether events look back, or are processed again by every trailing window."""
        return self.job.looks_back or self.job.plan.window.kind is WindowKind.TRAILING

    def fresh(self) -> LocalTrends:
        """Create the same query for another thread: steps write to buffers of the job."""
        return LocalTrends(self.job.fresh())

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """Aggregate all windows; threads share large inputs."""
        batches = iter(batches)
        first = list(islice(batches, 1))
        every = chain(first, batches)
        try:
            if first and not shares_cache(self.job, first[0]):
                return self.answer_owned(every, schema, EVERYTHING)
            return answer_side_by_side(self, every, schema, self.job.plan.time)
        finally:
            # A query keeps its job, and it should not keep memory for a million keys.
            self.job.spare.clear()

    def answer_owned(
        self, batches: Iterable[pa.Table], schema: pa.Schema, owned: Owned
    ) -> pa.Table:
        """Aggregate the windows of a range.

        The rows come at the end, because count-based windows close in no common order.
        """
        state = PartitionState(self.job)
        found: list[list[Rows]] = [[] for _ in range(self.job.outputs)]
        windows = plain_windows(self.job)
        if windows is not None:
            batches = iter(batches)
            rest = windows.feed_all(batches)
            if rest is None:
                return windows.table(schema, owned)
            state, counted = windows.hand_over()
            found, batches = owned_rows(self.job, [counted], owned), chain([rest], batches)
        for batch in batches:
            rows = owned_rows(self.job, feed(self.job, state, batch), owned)
            for all_rows, new in zip(found, rows, strict=True):
                all_rows += new
        rows = owned_rows(self.job, close(self.job, state), owned)
        everything = [[*all_rows, *new] for all_rows, new in zip(found, rows, strict=True)]
        return build_table(self.job, everything, state.keys, schema)


class LocalMatches(NamedTuple):
    """Matches of events, one by one.

    ``gathered`` counts what all threads of a run have listed: they share its limits.
    """

    job: Job
    gathered: Gathered | None = None

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
        if lists_one_event(self.job, table.schema, len(table)):
            tables = collect([list_one_event(self.job, table)], self.gathered)
            return pa.concat_tables([self.nothing(table.schema), *tables])
        return self.answer(self.cut(table, rows), table.schema)

    def nothing(self, schema: pa.Schema) -> pa.Table:
        """Compute the result over no events of a schema."""
        return empty_matches(self.job, schema)

    @property
    def reach(self) -> tuple[int, int] | None:
        """Compute the overlap of time windows with the next range; None if one thread lists."""
        plan = self.job.plan
        if plan.output.limit is not None:
            # What a range lists depends on how many matches came before it.
            return None
        if plan.window.kind is WindowKind.TRAILING and judged_by_window(plan):
            # Matches of one time have the order of keys, which is that of the whole stream.
            return None
        return _reach_of(self.job)

    @property
    def stride(self) -> int:
        """Return the distance of windows that do not overlap, 1 for others."""
        return _stride_of(self.job)

    @property
    def is_heavy(self) -> bool:
        """Return true: to build a match costs more than to count an event."""
        return True

    def fresh(self) -> LocalMatches:
        """Create the same query for another thread: steps write to buffers of the job."""
        return LocalMatches(self.job.fresh(), self.gathered)

    def answer(self, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
        """List all matches, until LIMIT is reached; threads share large inputs."""
        counted = self._replace(gathered=Gathered())
        found = answer_side_by_side(counted, batches, schema, self.job.plan.time)
        return _numbered(self.job, found)

    def answer_owned(
        self, batches: Iterable[pa.Table], schema: pa.Schema, owned: Owned
    ) -> pa.Table:
        """List the matches of the windows of a range, in the order of their last events."""
        tables = collect(list_batches(self.job, batches, owned), self.gathered)
        return pa.concat_tables(tables) if tables else self.nothing(schema)


def _reach_of(job: Job) -> tuple[int, int] | None:
    """Compute the overlap of time windows with the next range; None without time windows."""
    needs, stride = needs_of_trends(job.plan), _stride_of(job)
    if needs.not_by_time or needs.from_start:
        return None
    past, horizon = needs.reach
    # Windows that begin where ranges do end there, too.
    return past, horizon - (stride if stride > 1 else 0)


def _stride_of(job: Job) -> int:
    """Return the distance of windows that do not overlap, 1 for others."""
    window = job.plan.window
    return window.within if window.kind is WindowKind.TUMBLING else 1


def _numbered(job: Job, matches: pa.Table) -> pa.Table:
    """Assign numbers to the matches of all ranges, one after the other."""
    if job.plan.output.kind is not OutputKind.MATCHES:
        return matches
    numbers = pa.array(np.arange(1, len(matches) + 1, dtype=np.int64))
    return matches.set_column(matches.column_names.index(MATCH_ID), MATCH_ID, numbers)


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
