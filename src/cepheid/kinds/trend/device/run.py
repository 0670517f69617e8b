"""Run a query with a GPU: batches become matrices there, and these become rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.accelerator.schedule import MOST_ROWS, Pace, Place, Scheduler
from cepheid.arrays.columns import KeyTable
from cepheid.jobs.ordering import put_together
from cepheid.kinds.trend.device import columns, split, trends
from cepheid.kinds.trend.device.summaries import DeviceSummariser
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer
from cepheid.plans.plan import TrendPlan


class DeviceTrends:
    """A pattern query on a device."""

    def __init__(self, plan: TrendPlan) -> None:
        self._job = lower(plan)

    @property
    def in_order(self) -> bool:
        """Take events in time order."""
        return True

    @property
    def whole(self) -> bool:
        """Need whole windows where events are compared with earlier ones."""
        return bool(self._job.looks_back)

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over events in time order."""
        job = self._job
        if not isinstance(events, pa.Table):
            return run_split(job.plan, put_together(events, MOST_ROWS), events.schema, forced)
        if job.looks_back:
            return trends.run_trends(job, events, forced=forced)
        result = count_whole(job, events)
        return run_split(job.plan, [events], events.schema, forced) if result is None else result

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


def run_split(
    plan: TrendPlan,
    batches: Iterable[pa.Table],
    schema: pa.Schema,
    forced: bool,  # noqa: FBT001
) -> pa.Table:
    """Distribute batches over the lanes of the GPU and, unless it is forced, of the CPU."""
    places = [Place.GPU] if forced else [*split.LANES]
    pace = Pace({place: split.LANES[place] for place in places})
    return split.run_split(plan, batches, schema, pace)


def count_whole(job: Job, table: pa.Table) -> pa.Table | None:
    """Run a job whose columns the device reads directly; return None if it cannot."""
    summary = columns.count_table(job, table) if columns.reads_types_only(job) else None
    if summary is None:
        return None
    composer = Composer(job)
    keys = KeyTable(())
    composer.add(key_table(keys, np.arange(1), table.schema), [summary])
    return build_table(job, composer.finish(), composer.keys, table.schema)


def run_batches(
    job: Job, batches: Iterable[pa.Table], schema: pa.Schema, scheduler: Scheduler
) -> pa.Table:
    """Run a job over batches sorted by time."""
    run = DeviceRun(job, schema, scheduler)
    for batch in batches:
        run.feed(batch)
    return run.finish()


class DeviceRun:
    """One query over batches sorted by time."""

    def __init__(self, job: Job, schema: pa.Schema, scheduler: Scheduler) -> None:
        self.job, self.schema = job, schema
        self._summariser = DeviceSummariser(job, scheduler)
        self._composer = Composer(job)
        self._gate = Gate(job.plan)
        self._known = -1
        self._names: Any = None

    def feed(self, batch: pa.Table) -> None:
        """Process a batch."""
        self._process(self._gate.admit(batch))

    def finish(self) -> pa.Table:
        """Return the result."""
        self._process(self._gate.rest())
        composer = self._composer
        return build_table(self.job, composer.finish(), composer.keys, self.schema)

    def _process(self, ready: pa.Table | None) -> None:
        if ready is None or not len(ready):
            return
        self._summariser.feed(ready, last=True)
        summaries = self._summariser.take()
        keys = self._summariser.state.keys
        if len(keys) != self._known:
            self._known = len(keys)
            self._names = key_table(keys, np.arange(self._known), self.schema)
        self._composer.add(self._names, summaries)
