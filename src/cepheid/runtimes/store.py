"""Run queries over an event store.

Row groups that the indexes of the store rule out are not read; the rest goes through the ordinary
engine, as one stream with gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import local_job, slices_of
from cepheid.jobs.ordering import ordered
from cepheid.kinds.trend.local import list_batches
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.replay import plan_replay
from cepheid.kinds.trend.windows.list_step import empty_matches
from cepheid.kinds.workload.answer import batch_rows
from cepheid.kinds.workload.combine_results import unite
from cepheid.options import METHODS, one_of
from cepheid.plans.plan import Plan
from cepheid.runtimes.explain_replay import explain_replay
from cepheid.runtimes.local import CompiledQueryLike, check_lists, reader_of
from cepheid.runtimes.notices import watched_store, watched_tables
from cepheid.runtimes.workload import WorkloadLike, run_workload_batches
from cepheid.runtimes.workload import run_workload as run_local
from cepheid.store.event_store import EventStore
from cepheid.store.replay_plan import ReplayPlan, full_replay
from cepheid.store.snapshot import Effort, Interval, Snapshot


class StoreRun(NamedTuple):
    """A result, its replay plan and its I/O cost."""

    table: pa.Table
    replay: ReplayPlan
    effort: Effort


def run_store(
    compiled: CompiledQueryLike, store: EventStore, method: str | None = None
) -> pa.Table:
    """Run a query over a store; ``method`` is "auto", "index" or "replay"."""
    one_of("strategy", method or "auto", METHODS)
    snapshot = store.snapshot()
    plan = compiled.with_schema(snapshot.manifest.schema).plan

    def answer() -> tuple[pa.Table, bool]:
        run = run_snapshot(plan, snapshot, method or "auto")
        return run.table, run.replay.cover is None and run.replay.keys is None

    return watched_store(plan, snapshot, answer)


def measure_store(compiled: CompiledQueryLike, store: EventStore, method: str = "auto") -> StoreRun:
    """Run a query over a store and report the I/O cost.

    Raises
    ------
    ValueError
        If there is no such method.
    """
    one_of("strategy", method, METHODS)
    snapshot = store.snapshot()
    return run_snapshot(compiled.with_schema(snapshot.manifest.schema).plan, snapshot, method)


def run_snapshot(plan: Plan, snapshot: Snapshot, method: str) -> StoreRun:
    """Run a plan over a version of a store, from its index or by a replay."""
    kind, schema = kind_of(plan), snapshot.manifest.schema
    table = kind.from_index(plan, snapshot, method)
    replay = kind.replay(plan, snapshot, method)
    if table is None:
        if replay.apart:
            # More around the intervals turned out to matter than may be read.
            replay = full_replay(snapshot, "situations near each other may have begun long before")
        table = local_job(plan).answer(events_of(snapshot, plan, replay), schema)
    return StoreRun(table, replay, snapshot.effort)


def list_store(compiled: CompiledQueryLike, store: EventStore) -> pa.RecordBatchReader:
    """Open a reader that lists matches while it is read.

    Raises
    ------
    ValueError
        If the query returns aggregates.
    """
    snapshot = store.snapshot()
    plan = check_lists(compiled.with_schema(snapshot.manifest.schema).plan)
    job = lower(plan)
    replay = plan_replay(snapshot, plan)
    tables = list_batches(job, events_of(snapshot, plan, replay))
    if replay.cover is None and replay.keys is None:
        tables = watched_tables(plan, tables)
    return reader_of(empty_matches(job, snapshot.manifest.schema).schema, tables)


def explain_store(compiled: CompiledQueryLike, store: EventStore, *, analyze: bool = False) -> str:
    """Explain how a query reads a store; ``analyze`` runs it, to report the cost."""
    if analyze:
        run = measure_store(compiled, store)
        replay, effort = run.replay, run.effort
    else:
        snapshot = store.snapshot()
        plan = compiled.with_schema(snapshot.manifest.schema).plan
        replay = kind_of(plan).replay(plan, snapshot, "auto")
        effort = None
    return explain_replay(replay, effort)


def run_workload(
    workload: WorkloadLike, events: EventStore, *, spark: object, separate: bool, device: str
) -> pa.Table | dict[str, pa.Table]:
    """Run a workload over a store: all its events, in one pass.

    Queries cannot share their replay intervals: if a query got the partial windows that another
    query reads, a contiguous pattern could take events for neighbours that are not.
    """
    assert spark is None, "Spark has a runtime of its own"
    if device != "cpu":
        table = events.scan().read_all()
        return run_local(workload, table, spark=None, separate=separate, device=device)  # type: ignore[no-any-return]  # a table in gives tables
    snapshot = events.snapshot()
    schema = snapshot.manifest.schema
    shared = workload.shared(schema)
    wanted = {name for plan in shared.all_plans for name in columns_of(plan, snapshot)}
    scanned = snapshot.scan(Interval(), [name for name in schema.names if name in wanted])
    first = shared.first  # All have the same tie-breakers.
    tables = _with_ties_in_order(scanned, first) if first.tiebreak else scanned
    parts = (part for table in tables for part in slices_of(table, batch_rows(shared)))
    tables_of = run_workload_batches(shared, parts, schema)
    found = {name: tables_of[name] for name in workload.names}
    return found if separate else unite(found)


def events_of(snapshot: Snapshot, plan: Plan, replay: ReplayPlan) -> Iterator[pa.Table]:
    """Yield the events that a query needs, in order."""
    wanted = Interval() if replay.cover is None else replay.cover
    tables = snapshot.scan(wanted, columns_of(plan, snapshot))
    return _with_ties_in_order(tables, plan) if plan.tiebreak else tables


def _with_ties_in_order(tables: Iterator[pa.Table], plan: Plan) -> Iterator[pa.Table]:
    """Sort events of equal time by the tie-breakers, also across two tables."""
    waiting: list[pa.Table] = []
    for table in tables:
        whole = pa.concat_tables([*waiting, table])
        times = read_times(Columns(whole), plan.time)
        cut = int(np.searchsorted(times, times[-1], side="left"))
        if cut:
            yield ordered(whole.slice(0, cut), plan)
        waiting = [whole.slice(cut)]
    if waiting:
        yield ordered(pa.concat_tables(waiting), plan)


def columns_of(plan: Plan, snapshot: Snapshot) -> list[str]:
    """List the columns that a plan reads; a field of a structure comes with the whole.

    The time column is always included.
    """
    names = snapshot.manifest.schema.names
    if plan.columns is None:
        return list(names)
    wanted = {name if name in names else name.partition(".")[0] for name in plan.columns}
    return [name for name in names if name in wanted or name == snapshot.manifest.time]
