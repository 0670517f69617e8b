"""Bounded input in one step: all events in, the rows of all windows out."""

from __future__ import annotations

import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.windows.step import PartitionState, check_order, close


def rows_at_once(job: Job, state: PartitionState, table: pa.Table) -> list[list[Rows]]:
    """Return the rows of all windows, as ``feed`` and ``close`` do; no event waits for later ones.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or has a wrong type, E509 if the table is not in order.
    """
    columns = Columns(table)
    times = read_times(columns, job.plan.time)
    check_order(times, None, job.plan.time, 0)
    if not len(times):
        return close(job, state)
    state.last = int(times[-1])
    if job.marked is not None:
        state.held = table
        if job.plan.columns is not None:
            state.held = table.select([name for name in table.column_names if job.reads(name)])
        return close(job, state)
    return close(job, state, columns)
