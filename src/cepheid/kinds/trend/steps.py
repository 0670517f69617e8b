"""Trends as step functions: rows of closed windows, or complete matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from cepheid.jobs.local_jobs import LOOK_BACK_ROWS
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.jobs.spill import Spilling
from cepheid.jobs.tables import with_columns
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.partials import RowsOfRuns
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.key_expiry import forget_idle_keys
from cepheid.kinds.trend.windows.list_step import (
    advance_matches,
    empty_matches,
    finish_matches,
    step_matches,
)
from cepheid.kinds.trend.windows.marker import Marker
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import (
    PartitionState,
    advance,
    finish,
    step,
    step_until,
)
from cepheid.plans.plan import TrendPlan, WindowKind

Stepped = tuple[PartitionState, pa.Table]


class TrendSteps(NamedTuple):
    """Aggregates of trends over events of a schema."""

    job: Job
    schema: pa.Schema

    @property
    def plan(self) -> TrendPlan:
        """Return the plan."""
        return self.job.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return LOOK_BACK_ROWS if self.job.looks_back else STEP_ROWS

    def start(self) -> PartitionState:
        """Create the state before the first event."""
        return PartitionState(self.job)

    def step(self, state: PartitionState, events: pa.Table) -> Stepped:
        """Process events; return the rows of windows that they close."""
        return self._table(*step(self.job, state, events))

    def advance(self, state: PartitionState, until: int) -> Stepped:
        """Close the windows that end by a time."""
        return self._table(*advance(self.job, state, until))

    def finish(self, state: PartitionState) -> Stepped:
        """Close all windows."""
        return self._table(*finish(self.job, state))

    def _table(self, state: PartitionState, rows: RowsOfRuns) -> Stepped:
        return state, build_table(self.job, rows, state.keys, self.schema)

    def next_rows(self, until: int) -> int:
        """Return the first watermark above a given one at which rows can leave."""
        window = self.plan.window
        if window.kind not in (WindowKind.TUMBLING, WindowKind.SLIDING) or self.plan.skip:
            return until + 1
        passed = until - self.job.horizon - window.within
        return (passed // window.slide + 1) * window.slide + window.within + self.job.horizon

    def forget(self, state: PartitionState, until: int) -> PartitionState:
        """Drop keys whose windows have closed."""
        return forget_idle_keys(self.job, state, until)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        rows: RowsOfRuns = [[] for _ in range(self.job.outputs)]
        return build_table(self.job, rows, self.start().keys, self.schema).slice(0, 0)

    def read(self, data: bytes) -> PartitionState:
        """Deserialize a state; E524 if it belongs to another query."""
        state = state_from_bytes(self.job, data)
        # The source may have more columns than when the events were kept. Events that wait for
        # others of their time have all of them, those of open windows only what the query reads.
        schema = self.schema
        marker = None if self.job.marked is None else Marker(self.job.marked)
        read = pa.schema([field for field in schema if self.job.reads(field.name)])
        if state.held is not None:
            state.held = with_columns(state.held, schema if marker is None else read)
        if state.past is not None and marker is not None:
            state.past = with_columns(state.past, marker.narrow(read.empty_table()).schema)
        if state.events is not None:
            kept = read if marker is None else marker.marked_schema(read)
            state.events = with_columns(state.events, kept)
        return state

    def write(self, state: PartitionState) -> bytes:
        """Serialize a state."""
        return state_to_bytes(self.job, state)

    def size(self, state: PartitionState) -> Size:
        """Count the partitions, which have a window each."""
        return Size(len(state.keys), len(state.keys))


class AggregateSteps(TrendSteps):
    """Aggregates of trends, whose last events before a time are processed in one pass."""

    def step_until(self, state: PartitionState, events: pa.Table, until: int) -> Stepped:
        """Process events before a time, and close the windows that end by it."""
        return self._table(*step_until(self.job, state, events, until))


class MatchSteps(TrendSteps):
    """Matches of events, one by one, over events of a schema."""

    def next_rows(self, until: int) -> int:
        """Expect rows at every watermark: a match leaves with its last event."""
        return until + 1

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return LOOK_BACK_ROWS

    def step(self, state: PartitionState, events: pa.Table) -> Stepped:
        """Process events; return the matches that are complete."""
        return self._counted(*step_matches(self.job, state, events))

    def advance(self, state: PartitionState, until: int) -> Stepped:
        """Return the matches that waited for a time to pass."""
        return self._counted(*advance_matches(self.job, state, until))

    def finish(self, state: PartitionState) -> Stepped:
        """Return the matches that waited for the end of the stream."""
        return self._counted(*finish_matches(self.job, state))

    def _counted(self, state: PartitionState, tables: Iterable[pa.Table]) -> Stepped:
        """Collect matches, many of them on disk; a table counts its matches when it is read."""
        found = Spilling()
        found.add(self.nothing())
        for table in tables:
            found.add(table)
        return state, pa.concat_tables(found.tables())

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return empty_matches(self.job, self.schema)
