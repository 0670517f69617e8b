"""The rows of a funnel: for each step, how many keys reach it and how long they take (§12.4).

The chains of partitions become a table of *reached* levels: a row for each key of a group and
window, with its level and the times of its steps. Such tables of several tasks can be put together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.events.nanoseconds import type_of_times
from cepheid.kinds.funnel.chains import Chains
from cepheid.plans.plan import FunnelPlan

MEDIAN, P90 = 50, 90
WINDOW, LEVEL = "window", "level"
"""Columns of a table of reached levels, beside g0, g1, ... k0, k1, ... and t0, t1, ..."""


def result_schema(plan: FunnelPlan, schema: pa.Schema) -> pa.Schema:
    """Name the columns of a funnel and their types."""
    time = type_of_times(schema.field(plan.time).type)
    length = pa.duration(time.unit) if pa.types.is_timestamp(time) else pa.int64()
    empty = Columns(schema.empty_table())
    fields = [(name, empty.arrow(name).type) for name in plan.partition.group_by]
    if plan.funnel.slide:
        fields += [("window_start", time), ("window_end", time)]
    fields += [("step", pa.int64()), ("variable", pa.string()), ("keys", pa.int64())]
    fields += [("share_of_first", pa.float64()), ("share_of_previous", pa.float64())]
    return pa.schema([*fields, ("median_time", length), ("p90_time", length)])


def reached_levels(
    plan: FunnelPlan, keys: KeyTable, chains: Chains, window: int = 0
) -> pa.Table | None:
    """Collect the level and times of every partition that has reached step 1; None without any."""
    used = np.flatnonzero(chains.level > 0)
    if not len(used):
        return None
    values = dict(zip(keys.names, keys.arrays(), strict=True))
    taken = pa.array(used)
    columns: dict[str, Any] = {WINDOW: np.full(len(used), window), LEVEL: chains.level[used]}
    for letter, names in (("g", plan.partition.group_by), ("k", plan.funnel.keys)):
        columns |= {f"{letter}{n}": values[name].take(taken) for n, name in enumerate(names)}
    columns |= {f"t{n}": chains.best[used, n] for n in range(chains.best.shape[1])}
    return pa.table(columns)


def rows_of(plan: FunnelPlan, schema: pa.Schema, reached: pa.Table | None) -> pa.Table:
    """Build the rows of all windows and groups of a table of reached levels."""
    shown, steps = result_schema(plan, schema), len(plan.funnel.steps)
    if reached is None:
        if plan.partition.group_by or plan.funnel.slide:
            return shown.empty_table()
        counts = np.zeros((1, steps), np.int64)
        none = pa.nulls(steps, pa.int64())
        columns = _step_columns(plan, counts) | {"median_time": none, "p90_time": none}
        return _shown(columns, shown)
    cell_names = [WINDOW, *(f"g{n}" for n in range(len(plan.partition.group_by)))]
    best = _best_of_keys(plan, cell_names, reached)
    cells = KeyTable(cell_names)
    cell = Columns(best).numbers(cells)
    level = np.asarray(best[LEVEL])
    times = np.stack([np.asarray(best[f"t{n}"]) for n in range(steps)], axis=1)
    counts = np.stack(
        [np.bincount(cell[level > k], minlength=len(cells)) for k in range(steps)], axis=1
    ).astype(np.int64)
    values = dict(zip(cell_names, cells.arrays(), strict=True))
    by: Any = [(name, "ascending") for name in cell_names]
    order = np.asarray(pc.sort_indices(pa.table(values), sort_keys=by)).astype(np.int64)
    repeated = pa.array(np.repeat(order, steps))
    columns = {
        name: values[f"g{n}"].take(repeated) for n, name in enumerate(plan.partition.group_by)
    }
    starts = np.asarray(values[WINDOW].take(repeated))
    columns |= {"window_start": starts, "window_end": starts + plan.funnel.within}
    columns |= _step_columns(plan, counts[order])
    took = _times_taken(level, cell, times)
    for name, percent in (("median_time", MEDIAN), ("p90_time", P90)):
        ranked, known = _quantiles(took, counts, percent)
        columns[name] = pa.array(ranked[order].ravel(), mask=~known[order].ravel())
    return _shown(columns, shown)


def _shown(columns: dict[str, Any], shown: pa.Schema) -> pa.Table:
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in shown]
    return pa.Table.from_arrays(arrays, schema=shown)


def _best_of_keys(plan: FunnelPlan, cell_names: list[str], reached: pa.Table) -> pa.Table:
    """Choose the chain of every key: highest level, reached first, then begun last (§12.3)."""
    if set(plan.partition.attributes) <= {*plan.partition.group_by, *plan.funnel.keys}:
        # A key is one partition of its group.
        return reached
    counted = KeyTable([*cell_names, *(f"k{n}" for n in range(len(plan.funnel.keys)))])
    key = Columns(reached).numbers(counted)
    level = np.asarray(reached[LEVEL])
    start = np.asarray(reached["t0"])
    reach = start.copy()
    for n in range(1, len(plan.funnel.steps)):
        there = level == n + 1
        reach[there] = np.asarray(reached[f"t{n}"])[there]
    order = np.lexsort((-start, reach, -level, key))
    return reached.take(order[np.flatnonzero(np.diff(key[order], prepend=-1))])


def _step_columns(plan: FunnelPlan, counts: NDArray[np.int64]) -> dict[str, Any]:
    """Build the columns of numbers, one row for each cell and step."""
    cells, steps = counts.shape
    first = np.repeat(counts[:, :1], steps, axis=1)
    before = np.concatenate([counts[:, :1], counts[:, :-1]], axis=1)

    def share(of: NDArray[np.int64]) -> Any:
        shares = (counts / np.maximum(of, 1)).ravel()
        return pa.array(shares, mask=(of == 0).ravel())

    return {
        "step": pa.array(np.tile(np.arange(1, steps + 1), cells)),
        "variable": pa.array([step.variable for step in plan.funnel.steps] * cells, pa.string()),
        "keys": pa.array(counts.ravel()),
        "share_of_first": share(first),
        "share_of_previous": share(before),
    }


def _times_taken(
    level: NDArray[np.int64], cell: NDArray[np.int64], times: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Sort the times from the step before, of each step but the first, by cell."""
    found = []
    for k in range(1, times.shape[1]):
        there = level > k
        took, of = (times[:, k] - times[:, k - 1])[there], cell[there]
        found.append(took[np.lexsort((took, of))] if of.any() else np.sort(took))
    return found


def _quantiles(
    took: list[NDArray[np.int64]], counts: NDArray[np.int64], percent: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find a quantile of the time from the step before, by nearest rank; and where there is one."""
    values = np.zeros(counts.shape, np.int64)
    known = counts > 0
    known[:, 0] = False
    for k, ranked in enumerate(took, start=1):
        number = counts[:, k]
        rank = np.cumsum(number) - number + (number * percent + 99) // 100 - 1
        values[known[:, k], k] = ranked[rank[known[:, k]]]
    return values, known
