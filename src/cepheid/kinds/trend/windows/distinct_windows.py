"""Evaluate windows that hold the same events once.

Few events lie in very many windows where SLIDE is short and WITHIN is long. Windows that hold the
same events are consecutive and have the same rows, so each distinct one is evaluated once. The cost
then depends on the events; only the size of the result depends on the number of windows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.kinds.trend.program.results import time_array
from cepheid.memory_limits import check_rows
from cepheid.patterns.segments import (
    EXPANDED_ROWS,
    distinct_windows,
    repeated_rows,
    rows_of_windows,
)
from cepheid.plans.plan import Partition, TrendPlan, WindowKind, WindowPlan

EVENTS_MAX = 1 << 16
WINDOWS_MIN = 1 << 12
EDGES = ("window_start", "window_end")

Numbers = NDArray[np.int64]


class FewWindows(NamedTuple):
    """A plan and events that yield the rows of distinct windows, each as a separate group."""

    plan: TrendPlan
    events: pa.Table
    start: Numbers
    repeats: Numbers
    window: WindowPlan

    def spread(self, rows: pa.Table) -> pa.Table:
        """Expand the rows to all windows, in order.

        Raises
        ------
        DataError
            E518 if there are too many to collect.
        """
        starts = np.asarray(rows[EDGES[0]].cast(pa.int64()))
        place = np.searchsorted(self.start, starts)
        first = np.flatnonzero(np.diff(place, prepend=-1))
        sizes, count = np.diff(first, append=len(place)), self.repeats[place[first]]
        total = float((sizes * count.astype(np.float64)).sum())
        check_rows(total, rows.nbytes / max(len(rows), 1))
        taken, lap = repeated_rows(first, sizes, count)
        spread = rows.take(taken)
        start = starts[taken] + lap * self.window.slide
        for name, values in zip(EDGES, (start, start + self.window.within), strict=True):
            at, kind = spread.column_names.index(name), spread.field(name).type
            spread = spread.set_column(at, name, pa.array(values).cast(kind))
        names = [name for name in spread.column_names if name not in EDGES]
        groups = len(self.plan.partition.group_by) - len(EDGES)
        return spread.select([*names[:groups], *EDGES, *names[groups:]])


def few_windows(plan: TrendPlan, table: pa.Table) -> FewWindows | None:
    """Plan the evaluation of distinct windows; None if that is no gain.

    Events are in time order.
    """
    if plan.lists_matches or plan.skip is not None:
        # Matches are chosen over the whole stream, whatever their windows (§14).
        return None
    window = plan.window
    if window.kind is not WindowKind.SLIDING:
        return None
    if not 0 < len(table) <= EVENTS_MAX or window.overlap * 2 < WINDOWS_MIN:
        return None
    if plan.columns is not None:
        read = {plan.time, plan.type, *(name.partition(".")[0] for name in plan.columns)}
        read.update(plan.columns)
        table = table.select([name for name in table.column_names if name in read])
    if set(EDGES) & set(table.column_names):
        return None
    found = distinct_windows(read_times(Columns(table), plan.time), window.within, window.slide)
    lengths = found.end - found.begin
    expanded = int(lengths.sum())
    fewer = max(WINDOWS_MIN, expanded) <= found.repeats.sum(dtype=np.float64)
    if expanded > EXPANDED_ROWS or not fewer:
        return None
    owner = np.repeat(np.arange(len(lengths)), lengths)
    rows = rows_of_windows(found)
    order = np.argsort(rows, kind="stable")
    start = found.number * window.slide
    events = table.take(rows[order])
    for name, values in zip(EDGES, (start, start + window.within), strict=True):
        column: Any = time_array(values[owner[order]], plan.time, table.schema)
        events = events.append_column(name, column)
    return FewWindows(_by_window(plan), events, start, found.repeats, window)


def _by_window(plan: TrendPlan) -> TrendPlan:
    """Add the window to the partitions and groups of a plan."""
    old = plan.partition
    partition = Partition(
        (*EDGES, *old.attributes), old.partial, (*EDGES, *old.group_by), old.reason
    )
    window = WindowPlan(WindowKind.NONE, reason=plan.window.reason)
    columns = None if plan.columns is None else (*plan.columns, *EDGES)
    return msgspec.structs.replace(plan, partition=partition, window=window, columns=columns)
