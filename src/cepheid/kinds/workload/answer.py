"""Run a workload over bounded input: batches in time order in, a table for every query out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cepheid.jobs.local_jobs import BATCH_ROWS, LOOK_BACK_ROWS
from cepheid.kinds.trend.planning.granularity import looks_back
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.kinds.workload.beside import Tables, run_beside
from cepheid.kinds.workload.sharing import SharedPlan
from cepheid.kinds.workload.step import (
    Found,
    WorkloadJob,
    WorkloadState,
    build_tables,
    feed,
    finish_workload,
)


def batch_rows(shared: SharedPlan) -> int:
    """Choose the number of events of one step."""
    back = shared.looking or any(looks_back(shared.plans[n]) for n in shared.alone)
    return LOOK_BACK_ROWS if back else BATCH_ROWS


class WorkloadAnswer:
    """The results of a workload over bounded input, which arrives batch by batch."""

    def __init__(self, shared: SharedPlan, schema: pa.Schema) -> None:
        self._shared, self._schema = shared, schema
        self._job = WorkloadJob(shared)
        self._state = WorkloadState(self._job)
        self._found = Found.nothing(self._job)
        self._feed_beside, self._finish_beside = run_beside(shared.beside, schema)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""
        if self._shared.plans:
            self._found.add(feed(self._job, self._state, batch))
        self._feed_beside(batch)

    def finish(self) -> Tables:
        """Return the results by the names of the queries."""
        job, schema = self._job, self._schema
        if self._shared.plans:
            self._found.add(finish_workload(job, self._state))
        tables: dict[int, Any] = build_tables(job, self._state, self._found, schema)
        for n in job.listing:
            empty = empty_matches(job.jobs[n], schema)
            tables[n] = pa.concat_tables([empty, *self._found.matches[n]])
        names = enumerate(self._shared.names)
        return {name: tables[n] for n, name in names} | self._finish_beside()


def answer_workload(shared: SharedPlan, batches: Iterable[pa.Table], schema: pa.Schema) -> Tables:
    """Run a workload over batches sorted by time."""
    answer = WorkloadAnswer(shared, schema)
    for batch in batches:
        answer.feed(batch)
    return answer.finish()
