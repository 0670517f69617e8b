"""One process with a GPU: batches become matrices on the device, and these become rows here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.accelerator.device import Device, Found, find_device, parse_device, require_device
from cepheid.accelerator.schedule import Place, Scheduler
from cepheid.engine.events import KeyTable
from cepheid.engine.job import Job, lower
from cepheid.engine.partials import key_table
from cepheid.engine.results import build_table
from cepheid.engine.step import admit_events, waits
from cepheid.engine.summaries import Composer
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.planner.plan import OutputKind, Plan
from cepheid.planner.strategies import why_not_composed
from cepheid.runtime import local

BATCH_ROWS = 1 << 24
"""Events of one step on the device: enough for all of its lanes."""

SMALL_ROWS = 1 << 20
"""Tables up to here stay on the CPU unless the device is asked for."""


def why_not_on_device(plan: Plan) -> str:
    """Return why a plan cannot run on a device, or nothing if it can."""
    other = plan.situations is not None or plan.select is not None
    if other or plan.output.kind is not OutputKind.AGGREGATES:
        return "only aggregates of matches run on a GPU"
    return why_not_composed(plan)


def explain_device(plan: Plan) -> str:
    """Return in a line where a plan runs with ``device="auto"``, and why."""
    found, name = find_device()
    why = why_not_on_device(plan)
    if why:
        return f"device  cpu: {why}"
    if found is not Found.GPU:
        return f"device  cpu: {name}"
    return f"device  gpu: {name}; tables of fewer than {SMALL_ROWS:,} events stay on the cpu"


def run_on(compiled: local.CompiledQueryLike, events: Any, name: str) -> Any:
    """Run a query over events on the device that was asked for.

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
    reader = events if isinstance(events, pa.RecordBatchReader) else local.as_table(events)
    plan = compiled.with_schema(reader.schema).plan
    why = why_not_on_device(plan)
    if why and device is Device.GPU:
        helps = ('use device="auto", which runs such queries on the CPU',)
        message = f"this query does not run on a GPU: {why}"
        raise UnsupportedError([Diagnostic("E552", message, helps=helps)], plan.text)
    small = isinstance(reader, pa.Table) and len(reader) < SMALL_ROWS
    if why or (small and device is Device.AUTO):
        return local.run_events(compiled, events)
    job = lower(plan)
    if isinstance(reader, pa.Table):
        result = count_whole(job, reader)
        if result is not None:
            return local.like(events, result)
        ordered = local.sort_events(reader, plan)
        batches: Iterable[pa.Table] = local.slices_of(ordered, BATCH_ROWS)
    else:
        batches = local.tables_of(reader, BATCH_ROWS)
    scheduler = Scheduler(Place.GPU if device is Device.GPU else None)
    result = run_batches(job, batches, reader.schema, scheduler)
    return local.like(events, result)


def count_whole(job: Job, table: pa.Table) -> pa.Table | None:
    """Return the result of a job whose columns the device reads itself, None if it cannot."""
    from cepheid.accelerator import columns

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
    """Return the result of a job over batches in the order of time."""
    # Loads numba.cuda, which takes a moment.
    from cepheid.accelerator.summaries import DeviceSummariser

    summariser = DeviceSummariser(job, scheduler)
    composer = Composer(job)
    held: pa.Table | None = None
    last: int | None = None
    known = -1
    names = None

    def compose() -> None:
        nonlocal known, names
        summaries = summariser.take()
        keys = summariser.state.keys
        if names is None or len(keys) != known:
            known = len(keys)
            names = key_table(keys, np.arange(known), schema)
        composer.add(names, summaries)

    for batch in batches:
        ready, held, last = admit_events(
            batch, held, last, job.plan.time, whole_times=waits(job.plan)
        )
        if ready is not None and len(ready):
            summariser.feed(ready, last=True)
            compose()
    if held is not None and len(held):
        summariser.feed(held, last=True)
        compose()
    return build_table(job, composer.finish(), composer.keys, schema)
