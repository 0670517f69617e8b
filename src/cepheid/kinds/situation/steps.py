"""Situations as a step function: matches are emitted as soon as they are final."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import STEP_ROWS
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.results import empty_rows
from cepheid.kinds.situation.snapshot import situations_from_bytes, situations_to_bytes
from cepheid.kinds.situation.step import (
    SituationState,
    finish_situations,
    forget_idle_partitions,
    step_situations,
)
from cepheid.kinds.situation.stretches import Cutting, cut
from cepheid.plans.plan import SituationPlan


class SituationSteps(NamedTuple):
    """A query about situations over events of a schema."""

    job: SituationJob
    schema: pa.Schema
    cutting: Cutting = cut

    @staticmethod
    def of(plan: SituationPlan, schema: pa.Schema, cutting: Cutting = cut) -> SituationSteps:
        """Create the step function of a plan."""
        return SituationSteps(SituationJob(plan), schema, cutting)

    @property
    def plan(self) -> SituationPlan:
        """Return the plan."""
        return self.job.plan

    @property
    def batch_rows(self) -> int:
        """Return the number of events in one step."""
        return STEP_ROWS

    def start(self) -> SituationState:
        """Create the state before the first event."""
        return SituationState.start(self.job)

    def step(self, state: SituationState, events: pa.Table) -> tuple[SituationState, pa.Table]:
        """Process events; return the rows that are final."""
        return step_situations(self.job, state, events, cutting=self.cutting)

    def advance(self, state: SituationState, until: int) -> tuple[SituationState, pa.Table]:
        """Process the events that waited for others of the same time."""
        del until
        nothing = self.schema.empty_table()
        return step_situations(self.job, state, nothing, complete=True, cutting=self.cutting)

    def step_until(
        self, state: SituationState, events: pa.Table, until: int
    ) -> tuple[SituationState, pa.Table]:
        """Process events before a time; none of them waits for others of its time."""
        del until
        return step_situations(self.job, state, events, complete=True, cutting=self.cutting)

    def finish(self, state: SituationState) -> tuple[SituationState, pa.Table]:
        """End all situations."""
        return finish_situations(self.job, state, self.schema)

    def forget(self, state: SituationState, until: int) -> SituationState:
        """Drop partitions without situations."""
        del until
        return forget_idle_partitions(self.job, state)

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return empty_rows(self.job, self.schema)

    def read(self, data: bytes) -> SituationState:
        """Deserialize a state; E524 if it belongs to another query."""
        return situations_from_bytes(self.job, data)

    def write(self, state: SituationState) -> bytes:
        """Serialize a state."""
        return situations_to_bytes(self.job, state)

    def size(self, state: SituationState) -> Size:
        """Count the partitions."""
        return Size(len(state.keys), len(state.keys))
