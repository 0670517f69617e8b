"""Run queries over a stretch of history in one pass."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import sort_events, with_ties_ordered
from cepheid.jobs.sources import EventSource
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.answer import batch_rows
from cepheid.kinds.workload.filters import Filters, is_filter
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.plans.plan import Plan, SelectPlan, TrendPlan
from cepheid.runtimes.workload import run_workload_batches
from cepheid.store.snapshot import Cover, Interval, Snapshot

Tell = Callable[[int], None]
Filtering = Mapping[str, SelectPlan]


class Pass(NamedTuple):
    """The rows of all queries, and what reading the events took; times are in ticks."""

    rows: dict[str, pa.Table]
    events: int
    first: int | None
    last: int | None
    seconds: float


def run_pass(plans: Mapping[str, Plan], source: EventSource, span: Interval, tell: Tell) -> Pass:
    """Run queries together over the events of a stretch of time.

    Parameters
    ----------
    plans
        Plans for the columns of the source, by name.
    source
        Events of files or of a store.
    span
        The times of the events that are read.
    tell
        Called with the number of events that have been read.

    Raises
    ------
    DataError
        E509 if the events are not in order, and too many to sort.
    """
    trends = {name: TrendPlan.of(plan) for name, plan in plans.items() if plan.shares_passes}
    others = {name: plan for name, plan in plans.items() if name not in trends}
    filters = {
        name: plan
        for name, plan in others.items()
        if isinstance(plan, SelectPlan) and is_filter(plan)
    }
    if len(filters) == len(plans):
        filters.pop(next(iter(filters)))  # A workload has a query.
    beside = {name: as_pipeline(plan) for name, plan in others.items() if name not in filters}
    shared = share(tuple(trends), list(trends.values()), beside=beside)
    wanted = {shared.first.time, *shared.first.tiebreak}
    read = [plan.columns for plan in (*shared.all_plans, *filters.values())]
    wanted |= {name for columns in read for name in columns or source.schema.names}
    began, seen = clock.perf_counter(), _Seen(shared, span, tell)
    within = source
    if isinstance(source.events, Snapshot):
        within = source._replace(cover=Cover.of(span))
    try:
        tables = seen.in_order(within.tables(sorted(wanted)))
        rows = _run(shared, filters, with_ties_ordered(tables, shared.first), source.schema)
    except _OutOfOrderError:
        seen = _Seen(shared, span, tell)
        whole = pa.concat_tables(
            seen.within(within.tables(sorted(wanted))), promote_options="permissive"
        )
        rows = _run(shared, filters, [sort_events(whole, shared.first)], source.schema)
    seconds = clock.perf_counter() - began
    found = {name: rows[name] for name in plans}
    return Pass(found, seen.read, seen.first, seen.last, seconds)


def _run(
    shared: SharedPlan, filters: Filtering, tables: Iterable[pa.Table], schema: pa.Schema
) -> dict[str, pa.Table]:
    beside = Filters(filters, schema)

    def parts() -> Iterator[pa.Table]:
        for table in tables:
            for part in slices_of(table, batch_rows(shared)):
                beside.add(part)
                yield part

    return run_workload_batches(shared, parts(), schema) | beside.end()


class _OutOfOrderError(Exception):
    """Times go back, so all events have to be sorted first.

    Queries beside the trends would drop late events in silence, and not complain.
    """


class _Seen:
    """Cuts events to a stretch of time, and counts them."""

    def __init__(self, shared: SharedPlan, span: Interval, tell: Tell) -> None:
        self._time, self._span, self._tell = shared.first.time, span, tell
        self.read = 0
        self.first: int | None = None
        self.last: int | None = None

    def in_order(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Cut events to the stretch; stop where the time goes back."""
        last: int | None = None
        for table in self.within(tables):
            times = read_times(Columns(table), self._time)
            if len(times):
                if (last is not None and times[0] < last) or np.any(times[1:] < times[:-1]):
                    raise _OutOfOrderError
                last = int(times[-1])
            yield table

    def within(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Cut events to the stretch, and count those that were read."""
        for table in tables:
            times = read_times(Columns(table), self._time)
            self.read += len(table)
            self._tell(self.read)
            held: Any = np.ones(len(times), np.bool_)
            if self._span.begin is not None:
                held &= times >= self._span.begin
            if self._span.end is not None:
                held &= times < self._span.end
            kept = times[held]
            if len(kept):
                low, high = int(kept.min()), int(kept.max())
                self.first = low if self.first is None else min(low, self.first)
                self.last = high if self.last is None else max(high, self.last)
            yield table if held.all() else table.filter(pa.array(held))
