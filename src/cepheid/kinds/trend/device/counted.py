"""Windows counted in events on the GPU: windows of time, where time is an event's number (§6.6).

The events of a partition are numbered from 0. By these numbers, windows of n events are windows of
n ticks, so whatever runs windows of time runs them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.kernels.derive import sort_by_key
from cepheid.kinds.trend.device.run import DeviceTrends, has_ties
from cepheid.kinds.trend.planning.needs import PLACE, by_places
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan, WindowKind


class DeviceCounted:
    """A pattern query with windows counted in events."""

    in_order = True
    whole = True

    def __init__(self, plan: TrendPlan) -> None:
        self._plan, self._placed = plan, by_places(plan)
        self._inner = DeviceTrends(self._placed)

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over the events by their numbers; None if events of a key have the same time."""
        assert isinstance(events, pa.Table), "all events are there"
        plan = self._plan
        if plan.ties is tree.Ties.STRICT and has_ties(plan, events):
            return None
        found = self._inner.answer(with_places(plan, events), forced=forced)
        if found is None or self._placed.window.kind is not WindowKind.SLIDING:
            return found
        # The first window begins with the first event.
        starts = np.asarray(found["window_start"])
        return found.filter(pa.array(starts >= 0))

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


def with_places(plan: TrendPlan, events: pa.Table) -> pa.Table:
    """Add the number of every event in its partition, and sort by it; others are dropped (§4.2)."""
    attributes = plan.partition.attributes
    if not attributes:
        return events.append_column(PLACE, pa.array(np.arange(len(events))))
    keys = KeyTable(attributes)
    key = Columns(events).numbers(keys)
    rows = np.flatnonzero(key >= 0)
    key = key[rows]
    order, _ = sort_by_key(key, len(keys))
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    place = np.empty(len(key), np.int64)
    place[order] = np.arange(len(key)) - np.repeat(starts, np.diff(starts, append=len(key)))
    by_place = np.argsort(place, kind="stable")
    taken = events.take(rows[by_place])
    return taken.append_column(PLACE, pa.array(place[by_place]))
