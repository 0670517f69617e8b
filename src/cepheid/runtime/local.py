"""One process, one loop: events as Arrow in, a result table out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cepheid.engine.events import Columns, read_times
from cepheid.engine.job import Job
from cepheid.engine.results import build_table
from cepheid.engine.step import State, finish, step
from cepheid.planner.plan import Plan

BATCH_ROWS = 1 << 20
"""Events of one step: large enough to hide the cost of a step, small enough for the caches."""

SORT_ROWS_MAX = 50_000_000
"""Unordered tables up to here are sorted in memory, with a notice."""


def run_table(plan: Plan, table: pa.Table, *, batch_rows: int = BATCH_ROWS) -> pa.Table:
    """Return the result of a plan over a table; an unordered table is sorted first."""
    ordered = sort_events(table, plan)
    schema = table.schema
    return run_batches(plan, _slices(ordered, batch_rows), schema)


def run_batches(plan: Plan, batches: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the result of a plan over batches in the order of time."""
    job = Job(plan)
    state = State(job)
    tables = []
    for batch in batches:
        state, rows = step(job, state, batch)
        tables.append(build_table(job, rows[0], state.keys, schema))
    state, rows = finish(job, state)
    tables.append(build_table(job, rows[0], state.keys, schema))
    filled = [t for t in tables if len(t)]
    return pa.concat_tables(filled, promote_options="permissive") if filled else tables[-1]


def sort_events(table: pa.Table, plan: Plan) -> pa.Table:
    """Return the events in the order of time; tie-breakers count, then the order of arrival."""
    times = read_times(Columns(table), plan.time)
    ordered = bool((times[1:] >= times[:-1]).all())
    if ordered and not plan.tiebreak:
        return table
    if not ordered:
        row = int(np.flatnonzero(times[1:] < times[:-1])[0]) + 1
        message = f"the events are not in the order of `{plan.time}` (row {row}); they were sorted"
        warnings.warn(message, stacklevel=4)
    keys: list[Any] = [np.arange(len(table))]
    for name in reversed(plan.tiebreak):
        encoded = Columns(table).arrow(name).combine_chunks().rank("ascending", tiebreaker="dense") \
            if hasattr(pa.Array, "rank") else None
        keys.append(np.asarray(encoded) if encoded is not None else np.asarray(Columns(table).vector(name).data))
    keys.append(times)
    return table.take(pa.array(np.lexsort(keys)))


def _slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    for offset in range(0, max(len(table), 1), rows):
        yield table.slice(offset, rows)
