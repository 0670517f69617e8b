"""Run a query in one process with a GPU, or with the CPU where there is none or it fails."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cepheid.accelerator.device import Device, Found, find_device, parse_device, require_device
from cepheid.accelerator.experience import FAR, NEAR, Experience
from cepheid.accelerator.failures import (
    DeviceError,
    message_of,
    refuse_query,
    reporting_failures,
    warn_once,
)
from cepheid.accelerator.room import takes_fewer
from cepheid.accelerator.schedule import FEW_THREADS, Place, Scheduler
from cepheid.events.arriving import as_table, like, plain_reader
from cepheid.events.files import names_read
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.jobs.kind import kind_of
from cepheid.jobs.ordering import sort_events
from cepheid.jobs.sources import source_of
from cepheid.kinds.selection.operators import ON_CPU, Operators
from cepheid.plans.plan import (
    Evaluator,
    PipelinePlan,
    Plan,
    RowPatternPlan,
    SelectPlan,
    SituationPlan,
    TrendPlan,
    WindowKind,
)
from cepheid.plans.selection import Extent
from cepheid.plans.sweep import SweepPlan
from cepheid.runtimes import local

BATCH_ROWS = 1 << 24
"""Events of one step on the device: enough for all of its lanes."""

SMALL_ROWS = 1 << 20
"""Tables up to this size stay on the CPU unless the device is requested."""

SMALL_PATTERN = 1 << 19
"""The same for patterns, for which the CPU does more."""

SMALL_EDGES = 1 << 17
"""The same for patterns with edge predicates or NOT, for which the CPU does still more."""

SMALL_SUMS = 1 << 16
"""The same for sums, minima and maxima of windows without SLIDE."""

SMALL_SLIDING = 1 << 19
"""The same for aggregates of SELECT in windows that overlap."""

SMALL_JOIN = 1 << 14
"""The same for joins, which look at many candidates for an event, and for sweeps."""

NEVER = 1 << 62
"""No table has so many events: the CPU was faster, or nobody has measured it."""

_EXPERIENCE = Experience()
"""The times of runs with ``device="auto"`` in this process."""


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
    if stays_by_keys(plan):
        return "device  cpu: with keys, its threads are faster than a GPU whose events they read"
    if isinstance(plan, SituationPlan | RowPatternPlan):
        return "device  cpu: it was faster than a GPU, beside which the host builds the rows"
    if least_rows(plan) == NEVER:
        return "device  cpu: whether a GPU is faster was not measured"
    few = f"tables of fewer than {least_rows(plan):,} events"
    return f"device  gpu: {name}; {few} stay on the cpu, unless runs show that they should not"


def stays_by_keys(plan: Plan) -> bool:
    """Check whether a pattern has keys, by which the host would sort events for a GPU."""
    return (
        isinstance(plan, TrendPlan)
        and bool(plan.partition.attributes)
        and plan.choice.evaluator is Evaluator.LINEAR
        and plan.window.kind is not WindowKind.TRAILING
        and pa.cpu_count() > FEW_THREADS
    )


def least_rows(plan: Plan) -> int:
    """Find the number of events from which on a query usually runs on a GPU, with ``auto``."""
    if isinstance(plan, SweepPlan):
        return SMALL_JOIN if plan.thresholds else NEVER
    if isinstance(plan, TrendPlan):
        return _least_of_pattern(plan)
    if isinstance(plan, SituationPlan | RowPatternPlan | PipelinePlan):
        return NEVER
    if not isinstance(plan, SelectPlan):
        return SMALL_PATTERN
    if len(plan.streams) > 1:
        return SMALL_JOIN if len(plan.streams) == 2 else NEVER
    window = plan.select.window
    overlap = window.extent is Extent.TIME and window.slide < window.within
    return SMALL_SLIDING if overlap else SMALL_ROWS


def _least_of_pattern(plan: TrendPlan) -> int:
    """Find the number of events for a pattern: the more the CPU does for each, the fewer."""
    counts = all(one.function in ("COUNT", "LOG2") for one in plan.output.aggregates)
    if plan.window.kind is WindowKind.TRAILING and not counts and not plan.lists_matches:
        return SMALL_SUMS
    guarded = any(pattern.guards for pattern in plan.patterns)
    if plan.choice.evaluator is Evaluator.INDEXED and len(plan.edges) > 1:
        return NEVER
    if guarded or plan.choice.evaluator is Evaluator.INDEXED:
        return SMALL_EDGES
    return SMALL_PATTERN


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
    forced = device is Device.GPU
    if not fits(plan, None, forced=forced):
        return like(events, local.run_events(compiled, source))
    if forced or rows is None:
        return like(events, _answer(compiled, plan, source, forced=forced))
    return like(events, _answer_where_faster(compiled, plan, source))


def _answer_where_faster(
    compiled: local.CompiledQueryLike, plan: Plan, table: pa.Table
) -> pa.Table:
    """Run a query that a GPU can run on the processor that took less time for it so far."""
    rows = len(table)
    # Whether the CPU or a GPU lists matches faster depends on how many there are.
    near = FAR if isinstance(plan, TrendPlan) and plan.lists_matches else NEAR
    place = _EXPERIENCE.choose(plan.text, rows, least_rows(plan), near)
    begun = time.perf_counter()
    if place is Place.CPU:
        found: pa.Table = local.run_events(compiled, table)
    else:
        found = _answer(compiled, plan, table, forced=False)
    _EXPERIENCE.note(plan.text, rows, place, time.perf_counter() - begun)
    return found


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
    fits(plan, None, forced=True)
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
    forced = device is Device.GPU
    if not wants_gpu(device) or not fits(plan, sum(map(len, tables)), forced=forced):
        return None
    try:
        with reporting_failures():
            return kind_of(plan).device_job(plan).answer_streams(tables)
    except DeviceError as error:
        if forced:
            raise
        warn_once(message_of(error))
    return None


def live_steps_on(plan: Plan, schema: pa.Schema, name: str) -> Any:
    """Create the step function of a live query on the requested device; None for the CPU's.

    Raises
    ------
    UnsupportedError
        E551 if there is no GPU, E552 if the query cannot use it live, E554 if it does not work;
        only if it was asked for.
    """
    device, kind = parse_device(name), kind_of(plan)
    if not wants_gpu(device):
        return None
    forced, why = device is Device.GPU, kind.why_not_live_on_device(plan)
    if why and forced:
        raise refuse_query(why, plan.text)
    if why:
        return None
    try:
        with reporting_failures():
            return kind.device_steps(plan, schema, forced=forced)
    except DeviceError as error:
        if forced:
            raise
        warn_once(message_of(error))
    return None


def pairs_on(name: str) -> Operators:
    """Create the operators of a live join on the requested device.

    Raises
    ------
    UnsupportedError
        E551 or E554 if a GPU was requested, and there is none or it does not work.
    """
    device = parse_device(name)
    if not wants_gpu(device):
        return ON_CPU
    # Loads numba.cuda, which takes a moment.
    from cepheid.kinds.selection.device_live import PlacedPairs

    return PlacedPairs(Scheduler(Place.GPU if device is Device.GPU else None))


def fits(plan: Plan, rows: int | None, *, forced: bool) -> bool:
    """Check whether a query runs on the GPU; refuse one for which it was asked (E552)."""
    why = kind_of(plan).why_not_on_device(plan)
    if forced and why:
        raise refuse_query(why, plan.text)
    return forced or (not why and (rows is None or rows >= least_rows(plan)))


def _answer(
    compiled: local.CompiledQueryLike, plan: Plan, source: Any, *, forced: bool
) -> pa.Table:
    """Run a query that fits the device; the CPU takes over if this fails or would be slower."""
    result = None
    again = True
    while again:
        again = False
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
            whole = isinstance(source, pa.Table)
            again = whole and error.is_full and takes_fewer(len(source))
            if not again:
                if forced or not whole:
                    raise
                warn_once(message_of(error))
    if result is None:
        table: pa.Table = local.run_events(compiled, source)
        return table
    return result
