"""Run a workload in one process with a GPU: groups as wide matrices, other queries singly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Protocol

import pyarrow as pa

from cepheid.accelerator.device import Device, parse_device
from cepheid.accelerator.failures import (
    DeviceError,
    message_of,
    refuse_query,
    reporting_failures,
    warn_once,
)
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import put_together, sort_events
from cepheid.kinds.trend.ordered_input import Gate
from cepheid.kinds.trend.planning.needs import why_not_on_device
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.workload.answer import WorkloadAnswer
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.sharing import Group, SharedPlan, share
from cepheid.plans.plan import Plan
from cepheid.runtimes.device import BATCH_ROWS, SMALL_ROWS, fits, wants_gpu

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
            return _run(shared, events, forced=forced, merge=merge)
    except DeviceError as error:
        if forced or not isinstance(events, pa.Table):
            raise
        warn_once(message_of(error))
        return None


def _run(
    shared: SharedPlan, events: pa.Table | pa.RecordBatchReader, *, forced: bool, merge: bool
) -> Tables:
    """Run groups batch by batch, other queries over the whole table, and the rest on the CPU."""
    groups = [group for group in shared.groups if _runs_as_group(shared, group)]
    if (
        isinstance(events, pa.RecordBatchReader)
        and forced
        and len(_members(groups)) < len(shared.all_plans)
    ):
        events = events.read_all()
    found: Tables = {}
    if isinstance(events, pa.Table):
        events = sort_events(events, shared.first)
        found = _run_alone(shared, events, _names(shared, _members(groups)), forced=forced)
    units = units_of(shared, groups, set(found), events.schema, forced=forced, merge=merge)
    batches: Iterable[pa.Table]
    if isinstance(events, pa.Table):
        batches = slices_of(events, BATCH_ROWS)
    else:
        batches = put_together(events, BATCH_ROWS)
    for batch in batches if units else ():
        for unit in units:
            unit.feed(batch)
    for unit in units:
        found |= unit.finish()
    return found


def _members(groups: Sequence[Group]) -> set[int]:
    return {n for group in groups for n in group.members}


def _names(shared: SharedPlan, members: Set[int]) -> set[str]:
    return {shared.names[n] for n in members}


def _runs_as_group(shared: SharedPlan, group: Group) -> bool:
    return not any(why_not_on_device(shared.plans[n]) for n in group.members)


def plans_alone(shared: SharedPlan) -> dict[str, Plan]:
    """Return the plan by which each query would run if it were the only one."""
    found: dict[str, Plan] = dict(zip(shared.names, shared.plans, strict=True))
    for name, plan in shared.beside.items():
        found[name] = plan.stages[0].plan if len(plan.stages) == 1 else plan
    return found


def _all_fit(shared: SharedPlan) -> None:
    for name, plan in plans_alone(shared).items():
        if why := kind_of(plan).why_not_on_device(plan):
            error = refuse_query(why, plan.text)
            error.file = name
            raise error


def _run_alone(shared: SharedPlan, events: pa.Table, grouped: Set[str], *, forced: bool) -> Tables:
    """Run the queries outside groups that the device takes, one after the other."""
    found: Tables = {}
    for name, plan in plans_alone(shared).items():
        if name in grouped or not fits(plan, forced=forced, rows=len(events)):
            continue
        rows = kind_of(plan).device_job(plan).answer(events, forced=forced)
        if rows is not None:
            found[name] = rows
    return found


def units_of(
    shared: SharedPlan, groups: Sequence[Group], done: Set[str], schema: pa.Schema,
    *, forced: bool, merge: bool,
) -> list[Unit]:  # fmt: skip
    """Make units of the queries without rows: groups on the device, others on the CPU."""
    scheduler = Scheduler(Place.GPU if forced else None)
    units: list[Unit] = [GroupUnit(shared, group, schema, scheduler) for group in groups]
    done = done | _names(shared, _members(groups))
    rest = [(n, plan) for n, plan in zip(shared.names, shared.plans, strict=True) if n not in done]
    beside = {name: plan for name, plan in shared.beside.items() if name not in done}
    if rest or beside:
        names, plans = [name for name, _ in rest], [plan for _, plan in rest]
        units.append(CpuUnit(share(names, plans, merge=merge, beside=beside), schema))
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


class CpuUnit:
    """Queries that stay on the CPU."""

    def __init__(self, shared: SharedPlan, schema: pa.Schema) -> None:
        self._answer = WorkloadAnswer(shared, schema)

    def feed(self, batch: pa.Table) -> None:
        """Process a batch; batches arrive sorted by time."""
        self._answer.feed(batch)

    def finish(self) -> Tables:
        """Return the results by the names of the queries."""
        return self._answer.finish()
