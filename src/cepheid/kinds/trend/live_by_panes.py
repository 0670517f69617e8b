"""A live query without partitions: each bucket has its own panes, and emits their matrices.

The output of a bucket is no result yet: in the micro-batch in which windows close, all buckets emit
the matrices of these windows, and one task multiplies them.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pyarrow as pa

from cepheid.jobs.bucket import Arrived
from cepheid.jobs.microbatch import Size
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live import open_windows
from cepheid.kinds.trend.planning.needs import live_pane
from cepheid.kinds.trend.program.job import Job, job_of
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.panes import LivePanes, closing
from cepheid.plans.plan import TrendPlan

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("since", pa.int64()),
    ("until", pa.int64()),
    ("events", pa.binary()),
    ("matrices", pa.binary()),
    ("plan", pa.binary()),
    ("columns", pa.binary()),
]
CLOSED = pa.schema(_FIELDS)
"""The output of a bucket for windows that close, with the plan that its state was made for."""


class LiveByPanes(NamedTuple):
    """The job of a bucket that has some panes of every window."""

    job: Job
    work: Work
    kind: str = "panes of a query"

    @staticmethod
    def of(work: Work) -> LiveByPanes:
        """Create the job of a plan."""
        return LiveByPanes(job_of(work.plan), work)

    def with_work(self, work: Work) -> LiveByPanes:
        """Create the same job for other work."""
        return LiveByPanes.of(work)

    @property
    def plan(self) -> TrendPlan:
        """Return the plan."""
        return self.job.plan

    def start(self) -> LivePanes:
        """Create the state before the first event."""
        return LivePanes.start(self.job, live_pane(self.plan), self.work.schema)

    def read(self, data: bytes) -> LivePanes:
        """Deserialize a state that ``write`` wrote."""
        return LivePanes.read(self.start(), data)

    def write(self, state: LivePanes) -> bytes:
        """Serialize a state."""
        return state.to_bytes()

    def take(
        self, state: LivePanes, events: pa.Table, since: int | None, until: int
    ) -> tuple[LivePanes, list[pa.Table]]:
        """Process events before a watermark; return the matrices of the windows that it closes."""
        # Only tasks of Spark have panes.
        from cepheid.kinds.trend.tasks_on_gpu import summariser_of

        state = state.feed(events, summariser_of)
        ending = closing(self.plan.window, since, until)
        if ending is None:
            return state, []
        found = []
        given = state.between(ending.begin, ending.end)
        if len(given):
            about = self.work.plan, self.work.events
            row = (ending.since, ending.until, *given.parts(), *about)
            found = [pa.Table.from_arrays([pa.array([v]) for v in row], schema=CLOSED)]
        return state.between(ending.kept), found

    def nothing(self) -> pa.Table:
        """Create an empty result."""
        return CLOSED.empty_table()

    def forget(self, state: LivePanes, until: int) -> LivePanes:
        """Keep the state: ``take`` has dropped the panes of closed windows."""
        del until
        return state

    def measure(self, state: LivePanes, came: Arrived) -> Size:
        """Measure the size of a state."""
        opened = open_windows(self.plan.window, came.until, came.lag, 1)
        return Size(int(len(state) > 0), opened)


def rows_of_panes(work: Work, closed: list[pa.Table]) -> pa.Table:
    """Compute the rows of closed windows from the matrices of all buckets."""
    given = pa.concat_tables(closed)
    plan, columns = given["plan"][0].as_py(), given["columns"][0].as_py()
    work = msgspec.structs.replace(work, plan=plan, events=columns)
    job = job_of(work.plan)
    # All buckets receive the same times, so they have the same watermarks.
    since, until = given["since"][0].as_py(), given["until"][0].as_py()
    parts = [(row["events"], row["matrices"]) for row in given.to_pylist()]
    panes = LivePanes.of_parts(job, live_pane(job.plan), work.schema, parts)
    rows, keys = panes.rows(since, until)
    return work.shown(build_table(job, rows, keys, work.schema))
