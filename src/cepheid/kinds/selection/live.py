"""A live SELECT over windows of events: the watermark fixes the number of an event (§10.7).

The job receives the events for which WHERE is true, and emits the rows of the windows they fill.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from cepheid.jobs.bucket import Arrived
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS, slices
from cepheid.jobs.work import Work
from cepheid.kinds.selection.counted import (
    CountedJob,
    CountedState,
    count_open,
    step_counted,
)
from cepheid.kinds.selection.counted_snapshot import counted_from_bytes, counted_to_bytes
from cepheid.plans.plan import SelectPlan


class LiveSelect(NamedTuple):
    """The job of windowed aggregates over a stream."""

    job: CountedJob
    work: Work
    kind: str = "a SELECT over windows of events"

    @staticmethod
    def of(work: Work) -> LiveSelect:
        """Create the job of a SELECT."""
        return LiveSelect(CountedJob.of(SelectPlan.from_json(work.plan), work.schema), work)

    @property
    def plan(self) -> SelectPlan:
        """Return the plan."""
        return self.job.plan

    def with_work(self, work: Work) -> LiveSelect:
        """Create the same job for other work."""
        return LiveSelect.of(work)

    def start(self) -> CountedState:
        """Create the state before the first event."""
        return CountedState.start(self.job)

    def read(self, data: bytes) -> CountedState:
        """Deserialize a state that ``write`` wrote."""
        return counted_from_bytes(self.job, data)

    def write(self, state: CountedState) -> bytes:
        """Serialize a state."""
        return counted_to_bytes(self.job, state)

    def take(
        self, state: CountedState, events: pa.Table, since: int | None, until: int
    ) -> tuple[CountedState, list[pa.Table]]:
        """Process events before a watermark; return the rows of full windows."""
        del since, until
        found = []
        for part in slices(events, STEP_ROWS):
            state, rows = step_counted(self.job, state, part)
            found.append(self.work.shown(rows))
        return state, found

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.work.result_schema.empty_table()

    def forget(self, state: CountedState, until: int) -> CountedState:
        """Keep everything: a group continues its count."""
        del until
        return state

    def measure(self, state: CountedState, came: Arrived) -> Size:
        """Measure the size of a state."""
        del came
        return Size(len(state.seen), count_open(self.job, state))
