"""A pipeline on a GPU: stages take their steps there, and the host hands rows to the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.accelerator.room import events_at_once
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.steps import Steps, run_steps
from cepheid.kinds.pipeline.steps import PipelineSteps
from cepheid.memory_limits import collect
from cepheid.plans.plan import PipelinePlan, Plan

BATCH_ROWS = 1 << 24
"""Events that are on the device at once."""


class DevicePipeline:
    """A pipeline whose stages can all run live on a device."""

    in_order = True
    whole = True

    def __init__(self, plan: PipelinePlan) -> None:
        self._plan = plan

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over events in time order."""
        assert isinstance(events, pa.Table), "all events are there"

        def steps_there(plan: Plan, schema: pa.Schema) -> Steps[Any]:
            made: Steps[Any] = kind_of(plan).device_steps(plan, schema, forced=forced)
            return made

        job = PipelineSteps.of(self._plan, events.schema, steps_there)
        batches = slices_of(events, events_at_once(BATCH_ROWS))
        return pa.concat_tables([job.nothing(), *collect(run_steps(job, batches))])

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pipeline is about one stream."""
        raise AssertionError(tables)
