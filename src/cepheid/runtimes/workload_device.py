"""Run a workload in one process with a GPU: groups of queries as wide matrices, others singly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from cepheid.accelerator.device import Device, parse_device
from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import put_together, sort_events
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.planning.needs import why_not_on_device
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.kinds.workload import step as engine
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.sharing import Group, SharedPlan, share
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.device import BATCH_ROWS, SMALL_ROWS, refuse_query, wants_gpu

Tables = dict[str, pa.Table]


class Unit(Protocol):
    """A set of queries of a workload, to which every batch is fed."""

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""

    def finish(self) -> Tables:
        """Return the results by the names of the queries."""


def wants_device(name: str, events: Any) -> bool:
    """Check whether a workload uses a GPU, if it has queries for one.

    Raises
    ------
    ValueError
        If there is no device of this name.
    UnsupportedError
        E551 or E554 if a GPU was requested, and there is none or it does not work.
    """
    device = parse_device(name)
    small = isinstance(events, pa.Table) and len(events) < SMALL_ROWS
    return wants_gpu(device) and (device is Device.GPU or not small)


def run_on_device(
    shared: SharedPlan, events: pa.Table | pa.RecordBatchReader, name: str, *, merge: bool
) -> Tables | None:
    """Run a workload over a table or a reader; None if the device failed, and the CPU should run.

    Raises
    ------
    UnsupportedError
        If a GPU was requested: E552 if a query cannot run on it, E554 if it fails. With ``auto``,
        E554 if it fails after events of a reader were read.
    """
    forced = parse_device(name) is Device.GPU
    if forced:
        _all_fit(shared)
    try:
        with reporting_failures():
            return _run_units(shared, events, Place.GPU if forced else None, merge=merge)
    except DeviceError as error:
        if forced or not isinstance(events, pa.Table):
            raise
        warn_once(message_of(error))
        return None


def _run_units(
    shared: SharedPlan, events: pa.Table | pa.RecordBatchReader, place: Place | None, *, merge: bool
) -> Tables:
    batches: Iterable[pa.Table]
    if isinstance(events, pa.Table):
        batches = slices_of(sort_events(events, shared.plans[0]), BATCH_ROWS)
    else:
        batches = put_together(events, BATCH_ROWS)
    units = units_of(shared, events.schema, Scheduler(place), merge=merge)
    for batch in batches:
        for unit in units:
            unit.feed(batch)
    found: Tables = {}
    for unit in units:
        found |= unit.finish()
    return {name: found[name] for name in shared.names}


def _all_fit(shared: SharedPlan) -> None:
    for name, plan in zip(shared.names, shared.plans, strict=True):
        if why := why_not_on_device(plan):
            error = refuse_query(why, plan.text)
            error.file = name
            raise error


def units_of(
    shared: SharedPlan, schema: pa.Schema, scheduler: Scheduler, *, merge: bool
) -> list[Unit]:
    """Assign queries to units: groups and single queries on the device, the others on the CPU."""
    units: list[Unit] = []
    rest: list[int] = []
    for group in shared.groups:
        if any(why_not_on_device(shared.plans[n]) for n in group.members):
            rest += group.members
        else:
            units.append(GroupUnit(shared, group, schema, scheduler))
    for n in [*shared.alone, *(n for group in shared.looking for n in group.members)]:
        if why_not_on_device(shared.plans[n]):
            rest.append(n)
        else:
            units.append(LoneUnit(shared.names[n], shared.plans[n], schema, scheduler))
    if rest:
        names, plans = [shared.names[n] for n in rest], [shared.plans[n] for n in rest]
        units.append(CpuUnit(share(names, plans, merge=merge), schema))
    return units


class GroupUnit:
    """A group of queries on the device."""

    def __init__(
        self, shared: SharedPlan, group: Group, schema: pa.Schema, scheduler: Scheduler
    ) -> None:
        # Loads numba.cuda, which takes a moment.
        from cepheid.kinds.workload.device import GroupOnDevice

        self._names = [shared.names[n] for n in group.members]
        jobs = [lower(shared.plans[n]) for n in group.members]
        self._run = GroupOnDevice(SharedProgram(group), jobs, schema, scheduler)
        self._gate = Gate(group.plan)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""
        self._process(self._gate.admit(batch))

    def _process(self, ready: pa.Table | None) -> None:
        if ready is not None and len(ready):
            self._run.feed(ready)

    def finish(self) -> Tables:
        """Return the results by the names of the queries."""
        self._process(self._gate.rest())
        run = self._run
        return {
            name: build_table(job, rows, keys, run.schema)
            for name, job, (rows, keys) in zip(self._names, run.jobs, run.finish(), strict=True)
        }


class LoneUnit:
    """A query on the device that is not merged with others."""

    def __init__(self, name: str, plan: TrendPlan, schema: pa.Schema, scheduler: Scheduler) -> None:
        # Loads numba.cuda, which takes a moment.
        from cepheid.kinds.trend.device.run import DeviceRun

        self._name = name
        self._run = DeviceRun(lower(plan), schema, Scheduler(scheduler.forced))

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""
        self._run.feed(batch)

    def finish(self) -> Tables:
        """Return the result by the name of the query."""
        return {self._name: self._run.finish()}


class CpuUnit:
    """Queries that cannot run on the device."""

    def __init__(self, shared: SharedPlan, schema: pa.Schema) -> None:
        self._schema, self._shared = schema, shared
        self._job = engine.WorkloadJob(shared)
        self._state = engine.WorkloadState(self._job)
        self._found = engine.Found.nothing(self._job)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""
        self._found.add(engine.feed(self._job, self._state, batch))

    def finish(self) -> Tables:
        """Return the results by the names of the queries."""
        job = self._job
        self._found.add(engine.finish_workload(job, self._state))
        tables: dict[int, Any] = engine.build_tables(job, self._state, self._found, self._schema)
        for n in job.listing:
            empty = empty_matches(job.jobs[n], self._schema)
            tables[n] = pa.concat_tables([empty, *self._found.matches[n]])
        return {name: tables[n] for n, name in enumerate(self._shared.names)}
