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


def answer_workload(shared: SharedPlan, batches: Iterable[pa.Table], schema: pa.Schema) -> Tables:
    """Run a workload over batches sorted by time."""
    job = WorkloadJob(shared)
    state = WorkloadState(job)
    found = Found.nothing(job)
    add, end = run_beside(shared.beside, schema)
    for batch in batches:
        if shared.plans:
            found.add(feed(job, state, batch))
        add(batch)
    if shared.plans:
        found.add(finish_workload(job, state))
    tables: dict[int, Any] = build_tables(job, state, found, schema)
    for n in job.listing:
        tables[n] = pa.concat_tables([empty_matches(job.jobs[n], schema), *found.matches[n]])
    return {name: tables[n] for n, name in enumerate(shared.names)} | end()
