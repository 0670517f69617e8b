"""Compute rows from the stretches of successive time ranges; join situations across ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.step import SituationState, check_order, step_stretches
from cepheid.kinds.situation.stretches import (
    TIME,
    Cutting,
    cut,
    stretches_from_table,
    stretches_to_table,
)

COMPOSE_ROWS = 1 << 18
"""Stretches of one step, which touches every situation of the window."""


def summarise_events(job: SituationJob, batch: pa.Table, cutting: Cutting = cut) -> pa.Table:
    """Compute the stretches of a batch of events, which is in time order.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or unfit, E509 if the batch is not in order.
    """
    columns = Columns(batch)
    times = read_times(columns, job.plan.time)
    check_order(job, times, None)
    keys = KeyTable(job.plan.partition.attributes)
    return stretches_to_table(keys, cutting(job, keys, columns, times), batch.schema)


def compose(job: SituationJob, tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Compute the rows of stretches, which come in time order.

    Parameters
    ----------
    schema
        The columns of the events.
    """
    state = SituationState.start(job)
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= COMPOSE_ROWS:
            # Stretches of the latest time may continue in the next table.
            whole = pa.concat_tables(waiting)
            times = np.asarray(whole[TIME])
            ready = int(np.searchsorted(times, times[-1], side="left"))
            state, found = _step(job, state, whole.slice(0, ready), schema)
            yield found
            waiting, rows = [whole.slice(ready)], len(whole) - ready
    if waiting:
        yield _step(job, state, pa.concat_tables(waiting), schema)[1]


def _step(
    job: SituationJob, state: SituationState, table: pa.Table, schema: pa.Schema
) -> tuple[SituationState, pa.Table]:
    keys = state.keys.copy()
    stretches = stretches_from_table(job, keys, table)
    return step_stretches(job, state._replace(keys=keys), stretches, schema)
