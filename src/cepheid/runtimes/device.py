"""Run a query in one process with a GPU: batches become matrices there, and these become rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.accelerator.device import Device, Found, find_device, parse_device, require_device
from cepheid.accelerator.schedule import MOST_ROWS, Pace, Place, Scheduler
from cepheid.arrays.columns import KeyTable
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.events.arriving import as_table, like, plain_reader
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import put_together, sort_events
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer
from cepheid.plans.plan import Plan, TrendPlan
from cepheid.runtimes import local

BATCH_ROWS = 1 << 24
"""Events of one step on the device: enough for all of its lanes."""

SMALL_ROWS = 1 << 20
"""Tables up to this size stay on the CPU unless the device is requested."""


def explain_device(plan: Plan) -> str:
    """Explain in a line where a plan runs with ``device="auto"``, and why."""
    found, name = find_device()
    why = kind_of(plan).why_not_on_device(plan)
    if why:
        return f"device  cpu: {why}"
    if found is not Found.GPU:
        return f"device  cpu: {name}"
    return f"device  gpu: {name}; tables of fewer than {SMALL_ROWS:,} events stay on the cpu"


def run_on(compiled: local.CompiledQueryLike, events: Any, name: str) -> Any:
    """Run a query over events on the requested device.

    Raises
    ------
    ValueError
        If there is no device of this name.
    UnsupportedError
        E551 if there is no GPU, E552 if the query cannot run on it; only if it was asked for.
    """
    device = parse_device(name)
    if device is Device.CPU:
        return local.run_events(compiled, events)
    if device is Device.GPU:
        require_device()
    elif find_device()[0] is not Found.GPU:
        return local.run_events(compiled, events)
    if isinstance(events, pa.RecordBatchReader):
        events = timed_reader(plain_reader(events), compiled.times)
        reader: Any = events
    else:
        reader = timed_table(as_table(events), compiled.times)
    plan = compiled.with_schema(reader.schema).plan
    why = kind_of(plan).why_not_on_device(plan)
    if why and device is Device.GPU:
        helps = ('use device="auto", which runs such queries on the CPU',)
        message = f"this query does not run on a GPU: {why}"
        raise UnsupportedError([Diagnostic("E552", message, helps=helps)], plan.text)
    small = isinstance(reader, pa.Table) and len(reader) < SMALL_ROWS
    if why or (small and device is Device.AUTO):
        return like(events, local.run_events(compiled, reader))
    job = lower(TrendPlan.of(plan))
    if job.looks_back:
        return like(events, run_trends(job, reader, forced=device is Device.GPU))
    if isinstance(reader, pa.Table):
        result = count_whole(job, reader)
        if result is not None:
            return like(events, result)
    return like(events, _run_split(job.plan, reader, device))


def _run_split(plan: TrendPlan, reader: Any, device: Device) -> pa.Table:
    """Distribute batches over the lanes of the GPU and, with ``auto``, of the CPU."""
    from cepheid.runtimes import device_split as split

    batches: Iterable[pa.Table] = (
        [sort_events(reader, plan)]
        if isinstance(reader, pa.Table)
        else put_together(reader, MOST_ROWS)
    )
    places = [Place.GPU] if device is Device.GPU else [*split.LANES]
    pace = Pace({place: split.LANES[place] for place in places})
    return split.run_split(plan, batches, reader.schema, pace)


def run_trends(job: Job, reader: Any, *, forced: bool) -> pa.Table:
    """Run a query with an edge predicate, which needs whole windows."""
    from cepheid.kinds.trend.device import trends

    table = reader if isinstance(reader, pa.Table) else reader.read_all()
    ordered = sort_events(table, job.plan)
    result = trends.run_trends(job, ordered, forced=forced)
    return local.run_table(job.plan, ordered) if result is None else result


def count_whole(job: Job, table: pa.Table) -> pa.Table | None:
    """Run a job whose columns the device reads directly; return None if it cannot."""
    from cepheid.kinds.trend.device import columns

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
        # Loads numba.cuda, which takes a moment.
        from cepheid.kinds.trend.device.summaries import DeviceSummariser

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
