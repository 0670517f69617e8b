"""Live situations without partitions: each bucket cuts panes of its own, and one task pairs.

A match that becomes certain at a time has no situation that began more than a window before. So in
every micro-batch a bucket sends the stretches of its panes, the new ones and those of a window
before them, and the task that pairs them needs no state of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.errors import DataError
from cepheid.jobs.bucket import Arrived
from cepheid.jobs.microbatch import Size
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, unpack_table
from cepheid.jobs.work import Work
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.needs import live_pane, live_reach
from cepheid.kinds.situation.pane_stretches import cut_panes, merge_stretches, since_lead_in
from cepheid.kinds.situation.results import empty_rows
from cepheid.kinds.situation.step import SituationState, absorb_stretches, step_stretches
from cepheid.kinds.situation.stretches import TIME, stretches_from_table
from cepheid.plans.plan import SituationPlan

FORMAT = Format("stretches", 1, "a query about situations")

_FIELDS: list[tuple[str, pa.DataType]] = [("left", pa.binary()), ("fresh", pa.binary())]
SENT = pa.schema(_FIELDS)
"""The output of a bucket: the stretches whose rows have left, and those of this micro-batch."""


class _Snapshot(Meant):
    """The stretches of a bucket, as they are stored in its state."""

    stretches: bytes


class SituationPanes(NamedTuple):
    """The job of a bucket that has some panes of a stream; its state is a table of stretches."""

    job: SituationJob
    work: Work
    pane: int
    reach: int
    kind: str = "panes of a query about situations"

    @staticmethod
    def of(work: Work) -> SituationPanes:
        """Create the job of a plan."""
        plan = SituationPlan.from_json(work.plan)
        reach = live_reach(plan)
        assert reach is not None, "the needs of the query say that panes are apart"
        return SituationPanes(SituationJob(plan), work, live_pane(plan), reach)

    def with_work(self, work: Work) -> SituationPanes:
        """Create the same job for other work."""
        return SituationPanes.of(work)

    @property
    def plan(self) -> SituationPlan:
        """Return the plan."""
        return self.job.plan

    def start(self) -> pa.Table:
        """Create the state before the first event."""
        return cut_panes(self.job, self.pane, self.work.schema.empty_table())

    def read(self, data: bytes) -> pa.Table:
        """Deserialize a state; E524 if it belongs to another query, E546 if it is damaged."""
        texts = (*text_of(self.plan), str(self.pane))
        saved = read_own(FORMAT, data, _Snapshot, self._meaning(), texts)
        return unpack_table(saved.stretches) if saved.stretches else self.start()

    def write(self, state: pa.Table) -> bytes:
        """Serialize a state."""
        return write_state(FORMAT, _Snapshot(self._meaning(), _packed(state)))

    def _meaning(self) -> tuple[str, ...]:
        return meaning_of(self.plan), str(self.pane)

    def take(
        self, state: pa.Table, events: pa.Table, since: int | None, until: int
    ) -> tuple[pa.Table, list[pa.Table]]:
        """Process events before a watermark; return the stretches that matches may need."""
        if since == until:
            return state, []
        fresh = cut_panes(self.job, self.pane, events)
        sent = []
        if len(state) or len(fresh):
            parts = [pa.array([_packed(part)]) for part in (state, fresh)]
            sent = [pa.Table.from_arrays(parts, schema=SENT)]
        merged = merge_stretches(self.job, self.pane, pa.concat_tables([state, fresh]))
        return since_lead_in(merged, until - self.reach), sent

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return SENT.empty_table()

    def forget(self, state: pa.Table, until: int) -> pa.Table:
        """Keep the state: ``take`` has dropped what is older than a window."""
        del until
        return state

    def measure(self, state: pa.Table, came: Arrived) -> Size:
        """Count one partition if there are stretches."""
        del came
        return Size(int(len(state) > 0), int(len(state) > 0))


def _packed(stretches: pa.Table) -> bytes:
    return pack_table(stretches) if len(stretches) else b""


def rows_of_panes(work: Work, sent: list[pa.Table]) -> pa.Table:
    """Pair the situations of all buckets; return the rows that are certain in this micro-batch."""
    job, schema = SituationJob(SituationPlan.from_json(work.plan)), work.schema
    given = pa.concat_tables(sent)
    fresh = _in_order(given["fresh"])
    rows = [empty_rows(job, schema)]
    if fresh is not None:
        state = SituationState.start(job)
        left = _in_order(given["left"])
        if left is not None:
            state = absorb_stretches(job, state, stretches_from_table(job, state.keys, left))
        rows += _step_in_halves(job, state, fresh, schema)[1]
    return work.shown(pa.concat_tables(rows))


def _in_order(parts: pa.ChunkedArray[Any]) -> pa.Table | None:
    """Sort the stretches of all buckets by time; those of one time are from one bucket."""
    tables = [unpack_table(part) for part in parts.to_pylist() if part]
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    return whole.take(np.argsort(np.asarray(whole[TIME]), kind="stable"))


def _step_in_halves(
    job: SituationJob, state: SituationState, table: pa.Table, schema: pa.Schema
) -> tuple[SituationState, list[pa.Table]]:
    """Process stretches in one step, or in two if one step needs too much memory (E519)."""
    try:
        stretches = stretches_from_table(job, state.keys, table)
        state, rows = step_stretches(job, state, stretches, schema)
    except DataError as error:
        times = np.asarray(table[TIME])
        # Stretches of one time stay together.
        middle = int(np.searchsorted(times, times[len(times) // 2]))
        if error.diagnostics[0].code != "E519" or not middle:
            raise
    else:
        return state, [rows]
    state, first = _step_in_halves(job, state, table.slice(0, middle), schema)
    state, second = _step_in_halves(job, state, table.slice(middle), schema)
    return state, [*first, *second]
