"""Run queries over a stretch of history in one pass, and date their rows (§15.3)."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, UnsupportedError
from cepheid.jobs.derived import TIME
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.jobs.ordering import SORT_ROWS_MAX, sort_events, with_ties_ordered
from cepheid.jobs.sources import EventSource
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.plans.plan import PipelinePlan, Plan, TrendPlan
from cepheid.runtimes.workload import batch_rows, run_workload_batches
from cepheid.store.snapshot import Cover, Interval, Snapshot

Tell = Callable[[int], None]


class Dated(NamedTuple):
    """A query whose rows have a time: the largest of some columns, plus a delay in ticks.

    Without columns the rows have no time; ``hidden`` columns are no part of the result.
    """

    plan: Plan
    times: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    delay: int = 0

    def read(self, rows: pa.Table, end: int) -> NDArray[np.int64] | None:
        """Return the times of rows in ticks; of those that last beyond all events, ``end``."""
        if not self.times:
            return None
        found = [_ticks(rows, name, end) for name in self.times]
        latest: NDArray[np.int64] = np.max(found, axis=0) + self.delay
        return latest

    def shown(self, rows: pa.Table) -> pa.Table:
        """Leave out the columns that only tell the time."""
        return rows.drop_columns([name for name in self.hidden if name.startswith(TIME)])


def _ticks(rows: pa.Table, name: str, end: int) -> NDArray[np.int64]:
    known = rows[name].is_valid().to_numpy()
    found = np.full(len(rows), end, np.int64)
    if known.any():
        valid = rows.select([name]).filter(pa.array(known))
        found[known] = read_times(Columns(valid), name)
    return found


def dated(plan: Plan) -> Dated:
    """Plan a query so that its rows tell their times, if they have any."""
    if isinstance(plan, PipelinePlan):
        *before, last = plan.stages
        own = dated(last.plan)
        stage = msgspec.structs.replace(last, plan=own.plan)
        return own._replace(plan=msgspec.structs.replace(plan, stages=(*before, stage)))
    # Rows before LIMIT have times like all others.
    limit = plan.output.limit if isinstance(plan, TrendPlan) else None
    try:
        found = kind_of(plan).derive(_limited(plan, None))
    except UnsupportedError:
        return Dated(plan)
    return Dated(_limited(found.plan, limit), found.times, found.hidden, found.delay)


def _limited(plan: Plan, limit: int | None) -> Plan:
    if not isinstance(plan, TrendPlan):
        return plan
    return msgspec.structs.replace(plan, output=msgspec.structs.replace(plan.output, limit=limit))


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
    beside = {name: as_pipeline(plan) for name, plan in plans.items() if name not in trends}
    shared = share(tuple(trends), list(trends.values()), beside=beside)
    wanted = {shared.first.time, *shared.first.tiebreak}
    wanted |= {name for plan in shared.all_plans for name in plan.columns or source.schema.names}
    began, seen = clock.perf_counter(), _Seen(shared, span, tell)
    within = source
    if isinstance(source.events, Snapshot):
        within = source._replace(cover=Cover.of(span))
    try:
        tables = seen.within(within.tables(sorted(wanted)))
        rows = _run(shared, with_ties_ordered(tables, shared.first), source.schema)
    except DataError as error:
        if error.diagnostics[0].code != "E509" or seen.read > SORT_ROWS_MAX:
            raise
        seen = _Seen(shared, span, tell)
        whole = pa.concat_tables(
            seen.within(within.tables(sorted(wanted))), promote_options="permissive"
        )
        rows = _run(shared, [sort_events(whole, shared.first)], source.schema)
    seconds = clock.perf_counter() - began
    found = {name: rows[name] for name in plans}
    return Pass(found, seen.read, seen.first, seen.last, seconds)


def _run(shared: SharedPlan, tables: Iterable[pa.Table], schema: pa.Schema) -> dict[str, pa.Table]:
    parts = (part for table in tables for part in slices_of(table, batch_rows(shared)))
    return run_workload_batches(shared, parts, schema)


class _Seen:
    """Cuts events to a stretch of time, and counts them."""

    def __init__(self, shared: SharedPlan, span: Interval, tell: Tell) -> None:
        self._time, self._span, self._tell = shared.first.time, span, tell
        self.read = 0
        self.first: int | None = None
        self.last: int | None = None

    def within(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
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
