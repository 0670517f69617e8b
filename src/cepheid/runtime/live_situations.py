"""A live query about situations: what is certain leaves at once, while situations still go on."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from cepheid.engine.situation_job import SituationJob
from cepheid.engine.situation_snapshot import situations_from_bytes, situations_to_bytes
from cepheid.engine.situations import (
    SituationState,
    forget_idle_partitions,
    step_situations,
)
from cepheid.planner.plan import SituationPlan
from cepheid.runtime.bucket import Arrived
from cepheid.runtime.microbatch import Size
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.work import Work


class LiveSituations(NamedTuple):
    """The job of a query about situations over a stream."""

    job: SituationJob
    work: Work
    kind: str = "a query about situations"

    @staticmethod
    def of(work: Work) -> LiveSituations:
        """Return the job of a plan of situations."""
        return LiveSituations(SituationJob(SituationPlan.from_json(work.plan)), work)

    @property
    def plan(self) -> SituationPlan:
        """Return the plan."""
        return self.job.plan

    def start(self) -> SituationState:
        """Return the state before the first event."""
        return SituationState.start(self.job)

    def read(self, data: bytes) -> SituationState:
        """Return the state that ``write`` wrote."""
        return situations_from_bytes(self.job, data)

    def write(self, state: SituationState) -> bytes:
        """Return a state as bytes."""
        return situations_to_bytes(self.job, state)

    def take(
        self, state: SituationState, events: pa.Table, since: int | None, until: int
    ) -> tuple[SituationState, list[pa.Table]]:
        """Take events before a watermark; return the rows that are certain by it."""
        del since, until
        found = []
        for part in slices(events, STEP_ROWS):
            state, rows = step_situations(self.job, state, part)
            found.append(rows)
        # No event before the watermark can come any more.
        empty = self.work.schema.empty_table()
        state, rows = step_situations(self.job, state, empty, complete=True)
        return state, [self.work.shown(table) for table in (*found, rows)]

    def nothing(self) -> pa.Table:
        """Return a result without rows."""
        return self.work.result_schema.empty_table()

    def forget(self, state: SituationState, until: int) -> SituationState:
        """Drop partitions without situations."""
        del until
        return forget_idle_partitions(state)

    def measure(self, state: SituationState, came: Arrived) -> Size:
        """Return how much a state holds."""
        del came
        return Size(len(state.keys), len(state.keys))
