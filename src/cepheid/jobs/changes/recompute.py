"""Any query over a table that changes: what a change touches is computed anew (§18.6).

The rows before and after a change are computed over a part of the table: the events that share the
keys of the changed ones and are near them in time. The same part is cut out of the table before and
after, so rows that lack events at its edges are equal in both, and say nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.changes.engine import Answer, Came, Left, Numbers
from cepheid.jobs.changes.hashing import hash_rows
from cepheid.jobs.changes.near import near
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.ordering import ordered
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.plans.plan import Plan

PLACE = "__place"
"""The place of an event among all changes, which orders events of one time."""


class Touched(NamedTuple):
    """The keys and times that select the events to recompute after a change."""

    keys: NDArray[np.uint64] | None
    times: Numbers
    reach: int | None

    def mark(self, names: tuple[str, ...], events: pa.Table, times: Numbers) -> NDArray[np.bool_]:
        """Mark events that have a touched key and are near a touched time."""
        found = np.ones(len(events), np.bool_)
        if self.keys is not None:
            found &= np.isin(_keys(events, names), self.keys)
        if self.reach is not None and len(self.times):
            after = np.searchsorted(self.times, times)
            last = len(self.times) - 1
            later = self.times[np.minimum(after, last)] - times
            earlier = times - self.times[np.maximum(after - 1, 0)]
            found &= (np.abs(later) <= self.reach) | (np.abs(earlier) <= self.reach)
        return found


class Recomputes:
    """The rows of any query; the state is the current table."""

    def __init__(self, plan: Plan, schema: pa.Schema) -> None:
        self.plan, self.schema, self.job = plan, schema, local_job(plan)
        self.names, self.reach = near(plan)
        self.events = schema.append(pa.field(PLACE, pa.int64())).empty_table()
        self._begun = False

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return self.job.nothing(self.schema)

    def change(self, left: Left, came: Came) -> Answer:
        """Apply changes; return rows before and after; events need no notes."""
        leaves = np.isin(self.events[PLACE].to_numpy(), left.places)
        gone = self.events.filter(pa.array(leaves))
        new = came.events.append_column(PLACE, pa.array(came.places)).cast(self.events.schema)
        stays = self.events.filter(pa.array(~leaves))
        now = pa.concat_tables([stays, new]).combine_chunks()
        now = ordered(now, self.plan)
        changed = pa.concat_tables([gone, new])
        keys = _keys(changed, self.names) if self.names else None
        times = np.unique(np.concatenate([left.times, came.times]))
        touched = Touched(None if keys is None else np.unique(keys), times, self.reach)
        # Some queries have a row where there is no event; it has not been told yet.
        before = self._answer(self.events, touched) if self._begun else self.nothing()
        after = self._answer(now, touched)
        self.events, self._begun = now, True
        return Answer(np.zeros(len(came.events), np.int64), before, after)

    def _answer(self, events: pa.Table, touched: Touched) -> pa.Table:
        times = read_times(Columns(events), self.plan.time)
        part = events.filter(pa.array(touched.mark(self.names, events, times)))
        part = part.drop_columns([PLACE]).combine_chunks()
        return self.job.answer_table(part, self.job.batch_rows)

    def forget(self, until: int) -> None:
        """Forget events that no later change can meet in a row."""
        if self.reach is not None:
            times = read_times(Columns(self.events), self.plan.time)
            # Parts are cut so far around a change, and rows in them are whole that are as near.
            self.events = self.events.filter(pa.array(times >= until - 2 * self.reach))

    def to_bytes(self) -> bytes:
        """Serialize the events."""
        return pack_table(self.events) if self._begun else b""

    def read(self, data: bytes) -> None:
        """Deserialize what ``to_bytes`` wrote."""
        if data:
            self.events, self._begun = unpack_table(data), True


def _keys(events: pa.Table, names: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return a number for the key of every event; those that meet are computed together."""
    columns = Columns(events)
    return hash_rows([columns.arrow(name) for name in names], len(events))[0]
