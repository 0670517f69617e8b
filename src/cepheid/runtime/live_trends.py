"""A live query of events: the rows of windows that the watermark closes, or matches as they end."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from cepheid.engine.events import Columns, KeyTable
from cepheid.engine.job import Job
from cepheid.engine.key_expiry import forget_idle_keys
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.results import build_table
from cepheid.engine.snapshot import state_from_bytes, state_to_bytes
from cepheid.engine.step import PartitionState, advance, finish, step
from cepheid.planner.plan import TrendPlan, WindowKind, WindowPlan
from cepheid.runtime.bucket import Arrived
from cepheid.runtime.local_jobs import LOOK_BACK_ROWS
from cepheid.runtime.microbatch import Size
from cepheid.runtime.ordering import STEP_ROWS, slices
from cepheid.runtime.stream_matches import list_until
from cepheid.runtime.work import Work


class LiveTrends(NamedTuple):
    """The job of a pattern of events over a stream."""

    job: Job
    work: Work
    kind: str = "a query"

    @staticmethod
    def of(work: Work) -> LiveTrends:
        """Return the job of a plan of events."""
        return LiveTrends(work.job(), work)

    @property
    def plan(self) -> TrendPlan:
        """Return the plan."""
        return self.job.plan

    def start(self) -> PartitionState:
        """Return the state before the first event."""
        return PartitionState(self.job)

    def read(self, data: bytes) -> PartitionState:
        """Return the state that ``write`` wrote."""
        return state_from_bytes(self.job, data)

    def write(self, state: PartitionState) -> bytes:
        """Return a state as bytes."""
        return state_to_bytes(self.job, state)

    def take(
        self, state: PartitionState, events: pa.Table, since: int | None, until: int
    ) -> tuple[PartitionState, list[pa.Table]]:
        """Take events before a watermark; return the rows that are certain by it."""
        del since
        answer = list_until if self.plan.lists_matches else _answer_until
        state, rows = answer(self.job, state, events, until, self.work.schema)
        return state, [self.work.shown(rows)]

    def nothing(self) -> pa.Table:
        """Return a result without rows."""
        return self.work.result_schema.empty_table()

    def forget(self, state: PartitionState, until: int) -> PartitionState:
        """Drop keys whose windows have closed."""
        return forget_idle_keys(self.job, state, until)

    def measure(self, state: PartitionState, came: Arrived) -> Size:
        """Return how much a state holds."""
        partitions = len(state.keys)
        opened = open_windows(self.plan.window, came.until, came.lag, partitions)
        return Size(partitions, opened)

    def so_far(self, data: bytes, came: Arrived) -> list[pa.Table]:
        """Return what is known of open windows, of the groups of which events came (§6.7).

        What waits goes through a copy of the state, with a job of its own: programs learn.
        """
        if not self.plan.emits_early or not len(came.on_time):
            return []
        job = self.work.job()
        state = state_from_bytes(job, data)
        rows: RowsOfRuns = [[] for _ in range(job.outputs)]
        for part in slices(came.waiting, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
            state, found = step(job, state, part)
            _add(rows, found)
        state, found = finish(job, state)
        _add(rows, found)
        table = build_table(job, rows, state.keys, self.work.schema)
        groups = KeyTable(job.plan.partition.group_by)
        groups.number(Columns(came.on_time))
        count = len(groups)
        changed = groups.number(Columns(table)) < count
        return [self.work.shown(table.filter(pa.array(changed)))]


def open_windows(window: WindowPlan, until: int | None, lag: int, partitions: int) -> int:
    """Return how many windows have begun by the latest event and are not closed.

    Windows that go with the events of a partition are one for each partition.
    """
    if window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return partitions
    if until is None:
        return 0
    slide = window.slide or window.within
    first = (until - window.within) // slide + 1
    return int((until + lag) // slide - first + 1)


def _answer_until(
    job: Job, state: PartitionState, events: pa.Table, until: int, schema: pa.Schema
) -> tuple[PartitionState, pa.Table]:
    """Return the results of the windows that end by a time, after events before it."""
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    for part in slices(events, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
        state, found = step(job, state, part)
        _add(rows, found)
    state, found = advance(job, state, until)
    _add(rows, found)
    return state, build_table(job, rows, state.keys, schema)


def _add(rows: RowsOfRuns, found: RowsOfRuns) -> None:
    for mine, new in zip(rows, found, strict=True):
        mine += new
