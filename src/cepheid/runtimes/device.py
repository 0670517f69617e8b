"""Run a query in one process with a GPU, or with the CPU where there is none or it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.accelerator.device import Device, Found, find_device, parse_device, require_device
from cepheid.accelerator.failures import DeviceError, message_of, reporting_failures, warn_once
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.events.arriving import as_table, like, plain_reader
from cepheid.events.files import names_read
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import sort_events
from cepheid.jobs.sources import source_of
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.runtimes import local

BATCH_ROWS = 1 << 24
"""Events of one step on the device: enough for all of its lanes."""

SMALL_ROWS = 1 << 20
"""Tables up to this size stay on the CPU unless the device is requested."""

SMALL_PATTERN = 1 << 19
"""The same for patterns, for which the CPU does more."""

SMALL_JOIN = 1 << 14
"""The same for joins, which look at many candidates for an event."""


def explain_device(plan: Plan) -> str:
    """Explain in a line where a plan runs with ``device="auto"``, and why."""
    found, name = find_device()
    why = kind_of(plan).why_not_on_device(plan)
    if why:
        return f"device  cpu: {why}"
    if found is Found.BROKEN:
        return f"device  cpu: the GPU does not work: {name}"
    if found is not Found.GPU:
        return f"device  cpu: {name}"
    return f"device  gpu: {name}; tables of fewer than {least_rows(plan):,} events stay on the cpu"


def least_rows(plan: Plan) -> int:
    """Find the number of events from which on a query runs on a GPU that is not requested."""
    if not isinstance(plan, SelectPlan):
        return SMALL_PATTERN
    return SMALL_JOIN if len(plan.streams) > 1 else SMALL_ROWS


def wants_gpu(device: Device) -> bool:
    """Check whether a run uses a GPU, if the query can run there.

    Raises
    ------
    UnsupportedError
        E551 or E554 if a GPU was requested, and there is none or it does not work.
    """
    if device is Device.GPU:
        require_device()
        return True
    if device is Device.CPU:
        return False
    found, name = find_device()
    if found is Found.BROKEN:
        warn_once(f"the GPU does not work: {name}")
    return found is Found.GPU


def refuse_query(why: str, text: str) -> UnsupportedError:
    """Build the diagnostic of a query that a GPU cannot run."""
    helps = ('use device="auto", which runs such queries on the CPU',)
    message = f"this query does not run on a GPU: {why}"
    return UnsupportedError([Diagnostic("E552", message, helps=helps)], text)


def run_on(compiled: local.CompiledQueryLike, events: Any, name: str) -> Any:
    """Run a query over events on the requested device.

    Raises
    ------
    ValueError
        If there is no device of this name.
    UnsupportedError
        E551 if there is no GPU, E552 if the query cannot run on it, E554 if it fails; only if it
        was asked for. With ``auto``, E554 if it fails after events of a reader were read.
    """
    device = parse_device(name)
    if not wants_gpu(device):
        return local.run_events(compiled, events)
    if isinstance(events, pa.RecordBatchReader):
        events = timed_reader(plain_reader(events), compiled.times)
        source: Any = events
    else:
        source = timed_table(as_table(events), compiled.times)
    plan = compiled.with_schema(source.schema).plan
    rows = len(source) if isinstance(source, pa.Table) else None
    if not _fits(plan, device, rows):
        return like(events, local.run_events(compiled, source))
    forced = device is Device.GPU
    return like(events, _answer(compiled, plan, source, forced=forced))


def run_read(compiled: local.CompiledQueryLike, events: Any) -> pa.Table:
    """Read files or an event store into a table, and run a query over it on a GPU.

    Raises
    ------
    UnsupportedError
        As of ``run_on`` with a GPU.
    """
    wants_gpu(Device.GPU)
    source = source_of(events, compiled.times)
    plan = compiled.with_schema(source.schema).plan
    _fits(plan, Device.GPU, None)
    table = source.whole(names_read(plan.columns, source.schema) or source.schema.names)
    return _answer(compiled, plan, table, forced=True)


def join_on(plan: SelectPlan, tables: Sequence[pa.Table], name: str) -> pa.Table | None:
    """Join streams on the requested device; None if the CPU should do it.

    Raises
    ------
    UnsupportedError
        As of ``run_on``.
    """
    device = parse_device(name)
    if not wants_gpu(device) or not _fits(plan, device, sum(map(len, tables))):
        return None
    try:
        with reporting_failures():
            return kind_of(plan).device_job(plan).answer_streams(tables)
    except DeviceError as error:
        if device is Device.GPU:
            raise
        warn_once(message_of(error))
    return None


def _fits(plan: Plan, device: Device, rows: int | None) -> bool:
    """Check whether a query runs on the GPU; refuse one for which it was asked (E552)."""
    why = kind_of(plan).why_not_on_device(plan)
    if device is Device.GPU:
        if why:
            raise refuse_query(why, plan.text)
        return True
    return not why and (rows is None or rows >= least_rows(plan))


def _answer(
    compiled: local.CompiledQueryLike, plan: Plan, source: Any, *, forced: bool
) -> pa.Table:
    """Run a query that fits the device; the CPU takes over if this fails or would be slower."""
    result = None
    try:
        with reporting_failures():
            # Loads numba.cuda, which takes a moment.
            job = kind_of(plan).device_job(plan)
            if job.whole and not isinstance(source, pa.Table):
                source = source.read_all()
            if job.in_order and isinstance(source, pa.Table):
                source = sort_events(source, plan)
            result = job.answer(source, forced=forced)
    except DeviceError as error:
        if forced or not isinstance(source, pa.Table):
            raise
        warn_once(message_of(error))
    if result is None:
        table: pa.Table = local.run_events(compiled, source)
        return table
    return result
