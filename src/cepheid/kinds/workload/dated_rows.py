"""Date the rows of queries: the time at which a row is certain (§15.3)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import UnsupportedError
from cepheid.jobs.derived import TIME
from cepheid.jobs.kind import kind_of
from cepheid.plans.plan import PipelinePlan, Plan, TrendPlan


class Dated(NamedTuple):
    """A query whose rows have a time: the largest of some columns, plus a delay in ticks.

    Without columns the rows have no time; ``hidden`` columns are no part of the result.
    """

    plan: Plan
    times: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    delay: int = 0

    def read(self, rows: pa.Table, end: int) -> NDArray[np.int64] | None:
        """Return the times of rows in ticks; of those that last beyond all events, ``end``."""
        if not self.times:
            return None
        found = [_ticks(rows, name, end) for name in self.times]
        latest: NDArray[np.int64] = np.max(found, axis=0) + self.delay
        return latest

    def shown(self, rows: pa.Table) -> pa.Table:
        """Leave out the columns that only tell the time."""
        return rows.drop_columns([name for name in self.hidden if name.startswith(TIME)])


def _ticks(rows: pa.Table, name: str, end: int) -> NDArray[np.int64]:
    known = rows[name].is_valid().to_numpy()
    found = np.full(len(rows), end, np.int64)
    if known.any():
        valid = rows.select([name]).filter(pa.array(known))
        found[known] = read_times(Columns(valid), name)
    return found


def dated(plan: Plan) -> Dated:
    """Plan a query so that its rows tell their times, if they have any."""
    if isinstance(plan, PipelinePlan):
        *before, last = plan.stages
        own = dated(last.plan)
        stage = msgspec.structs.replace(last, plan=own.plan)
        return own._replace(plan=msgspec.structs.replace(plan, stages=(*before, stage)))
    # Rows before LIMIT have times like all others.
    limit = plan.output.limit if isinstance(plan, TrendPlan) else None
    try:
        found = kind_of(plan).derive(_limited(plan, None))
    except UnsupportedError:
        return Dated(plan)
    return Dated(_limited(found.plan, limit), found.times, found.hidden, found.delay)


def _limited(plan: Plan, limit: int | None) -> Plan:
    if not isinstance(plan, TrendPlan):
        return plan
    return msgspec.structs.replace(plan, output=msgspec.structs.replace(plan.output, limit=limit))
