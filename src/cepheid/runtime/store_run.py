"""Queries over an event store: a snapshot in, a result table out."""

from __future__ import annotations

import pyarrow as pa

from cepheid.planner.plan import Plan
from cepheid.runtime.local import CompiledQueryLike, run_batches
from cepheid.store.event_store import EventStore
from cepheid.store.snapshot import Interval, Snapshot


def run_store(compiled: CompiledQueryLike, store: EventStore) -> pa.Table:
    """Run a query over all events of a store."""
    snapshot = store.snapshot()
    schema = snapshot.manifest.schema
    plan = compiled.with_schema(schema).plan
    return replay(plan, snapshot)


def replay(plan: Plan, snapshot: Snapshot) -> pa.Table:
    """Return the result of a plan over all events."""
    schema = snapshot.manifest.schema
    tables = snapshot.scan(Interval(), columns_of(plan, snapshot))
    return run_batches(plan, tables, schema)


def columns_of(plan: Plan, snapshot: Snapshot) -> list[str]:
    """Return the columns that a plan reads; parts of a structure come with the whole."""
    names = snapshot.manifest.schema.names
    if plan.columns is None:
        return list(names)
    wanted = {name if name in names else name.partition(".")[0] for name in plan.columns}
    return [name for name in names if name in wanted]
