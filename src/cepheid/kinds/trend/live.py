"""A live pattern query: check that it can run, and report open windows early."""

from __future__ import annotations

import pyarrow as pa

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.jobs.bucket import Arrived
from cepheid.jobs.microbatch import Size
from cepheid.jobs.ordering import slices
from cepheid.jobs.steps import LiveSteps
from cepheid.jobs.work import Work
from cepheid.kinds.trend.planning.needs import needs_no_window
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.kinds.trend.program.job import job_of, lower
from cepheid.kinds.trend.program.partials import RowsOfRuns, is_whole
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.stepping import steps_of
from cepheid.kinds.trend.steps import TrendSteps
from cepheid.kinds.trend.windows.snapshot import state_from_bytes
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.plans.plan import TrendPlan, WindowKind, WindowPlan
from cepheid.plans.template import UNLIMITED


class LiveTrends(LiveSteps):
    """The job of a pattern query over a stream, which may also emit open windows early."""

    @staticmethod
    def of(work: Work) -> LiveTrends:
        """Create the job of a plan."""
        return LiveTrends(work, steps_of(job_of(work.plan), work.schema))

    def measure(self, state: PartitionState, came: Arrived) -> Size:
        """Count the partitions, and the windows that have begun."""
        partitions = len(state.keys)
        window = TrendPlan.of(self.plan).window
        return Size(partitions, open_windows(window, came.until, came.lag, partitions))

    def so_far(self, data: bytes, came: Arrived) -> list[pa.Table]:
        """Compute early rows of open windows, for the groups that had new events (§6.7).

        Buffered events run through a copy of the state, with its own job, because programs change.
        """
        if not self.plan.emits_early or not len(came.on_time):
            return []
        job = job_of(self.work.plan)
        state = state_from_bytes(job, data)
        rows: RowsOfRuns = [[] for _ in range(job.outputs)]
        for part in slices(came.waiting, TrendSteps(job, self.work.schema).batch_rows):
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


def check_windows(plan: TrendPlan) -> None:
    """Reject queries whose windows never close on a stream.

    Raises
    ------
    UnsupportedError
        E405, or E404 if the query cannot be run at all.
    """
    job = lower(plan)
    if plan.limit is not None:
        message = "`LIMIT` cannot stop a live query"
        helps = ("leave LIMIT out, and stop the query when you have enough matches",)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    if plan.window.kind is WindowKind.NONE and not needs_no_window(plan):
        message = "without a window, a query over a stream has no result before its end"
        helps = ("add `WITHIN 10 minutes SLIDE 10 minutes`",)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    if max(reach_of(plan)) >= UNLIMITED:
        message = "`NOT NEXT` asks for the next event of a partition, which may never come"
        helps = ("say how long it matters: `NOT NEXT B b WITHIN 10 minutes`",)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    apart = plan.lists_matches or is_whole(job)
    if plan.window.kind is WindowKind.COUNT and not apart:
        message = (
            "windows counted in events close at different times in each partition, so a group "
        )
        message += "of several partitions is never complete"
        helps = ("add all equivalence attributes to GROUP-BY",)
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)


def open_windows(window: WindowPlan, until: int | None, lag: int, partitions: int) -> int:
    """Count the windows that have begun by the latest event and are not closed.

    Windows that depend on the events of a partition count once per partition.
    """
    if window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return partitions
    if until is None:
        return 0
    slide = window.slide or window.within
    first = (until - window.within) // slide + 1
    return int((until + lag) // slide - first + 1)


def _add(rows: RowsOfRuns, found: RowsOfRuns) -> None:
    for mine, new in zip(rows, found, strict=True):
        mine += new
