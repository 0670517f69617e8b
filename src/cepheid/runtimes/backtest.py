"""Run queries over a stretch of history in one pass."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, read_times
from cepheid.arrays.event_parts import EventPart, TablePart
from cepheid.events.files import present
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import sort_events, with_ties_ordered
from cepheid.jobs.sources import EventSource
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.answer import batch_rows
from cepheid.kinds.workload.beside import Tables
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
    beside = {name: as_pipeline(plan) for name, plan in others.items() if name not in filters}
    alone = len(filters) == len(plans)
    if alone:
        name = next(iter(filters))  # A workload has a query, which tells of the order of events.
        beside[name] = as_pipeline(filters[name])
    shared = share(tuple(trends), list(trends.values()), beside=beside)
    run = _Run(shared, filters, source, span, tell)
    began = clock.perf_counter()
    rows = run.filtered() if alone else run.together()
    seconds = clock.perf_counter() - began
    found = {name: rows[name] for name in plans}
    return Pass(found, run.seen.read, run.seen.first, run.seen.last, seconds)


class _Run:
    """A pass over events: filters read parts of them, and the others tables."""

    def __init__(
        self,
        shared: SharedPlan,
        filters: Filtering,
        source: EventSource,
        span: Interval,
        tell: Tell,
    ) -> None:
        self._shared, self._filters = shared, filters
        within = source
        if isinstance(source.events, Snapshot):
            within = source._replace(cover=Cover.of(span))
        self._source, self._span, self._tell = within, span, tell
        names = source.schema.names
        first = {shared.first.time, *shared.first.tiebreak}
        read = [plan.columns for plan in shared.all_plans]
        asked = first.union(*(columns or names for columns in read))
        self._columns = present(names, sorted(asked)) or names[:1]
        read += [plan.columns for plan in filters.values()]
        self._all = sorted(first.union(*(columns or names for columns in read)))
        self.seen = _Seen(shared, span, tell)

    def filtered(self) -> Tables:
        """Run filters alone, which take events in any order."""
        beside = Filters(self._filters, self._source.schema)
        for part in self._parts():
            beside.add(part)
        return beside.end(self._shared.first)

    def together(self) -> Tables:
        """Run filters, and queries that take events in the order of time."""
        first = self._shared.first
        try:
            return self._beside(lambda tables: with_ties_ordered(self.seen.in_order(tables), first))
        except _OutOfOrderError:
            self.seen = _Seen(self._shared, self._span, self._tell)
            return self._beside(lambda tables: [sort_events(_put_together(tables), first)])

    def _beside(self, arranged: Callable[[Iterable[pa.Table]], Iterable[pa.Table]]) -> Tables:
        beside = Filters(self._filters, self._source.schema)

        def tables() -> Iterator[pa.Table]:
            for part in self._parts():
                if self._filters:
                    beside.add(part)
                yield part.table(self._columns)

        def parts() -> Iterator[pa.Table]:
            for table in arranged(tables()):
                yield from slices_of(table, batch_rows(self._shared))

        rows = run_workload_batches(self._shared, parts(), self._source.schema)
        return rows | beside.end(self._shared.first)

    def _parts(self) -> Iterator[EventPart]:
        return self.seen.within(self._source.parts(self._all))


def _put_together(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive")


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
        """Yield tables; stop where the time goes back."""
        last: int | None = None
        for table in tables:
            times = read_times(Columns(table), self._time)
            if len(times):
                if (last is not None and times[0] < last) or np.any(times[1:] < times[:-1]):
                    raise _OutOfOrderError
                last = int(times[-1])
            yield table

    def within(self, parts: Iterable[EventPart]) -> Iterator[EventPart]:
        """Cut events to the stretch, and count those that were read."""
        for part in parts:
            times = read_times(Columns(part.table([self._time])), self._time)
            self.read += len(part)
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
            yield part if held.all() else TablePart(part.take(np.flatnonzero(held)))
