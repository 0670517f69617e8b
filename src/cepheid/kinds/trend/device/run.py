"""Run a query with a GPU: batches become matrices there, and these become rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.accelerator.schedule import FEW_THREADS, MOST_ROWS, Pace, Place
from cepheid.arrays.columns import Columns, KeyTable, read_times
from cepheid.jobs.ordering import put_together, sort_events
from cepheid.kernels.columns import scan_times
from cepheid.kinds.trend.device import columns, split, trend_columns, trends
from cepheid.kinds.trend.planning.needs import sees_ties_together
from cepheid.kinds.trend.program.job import Job, lower
from cepheid.kinds.trend.program.partials import key_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.summaries import Composer
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan


class DeviceTrends:
    """A pattern query on a device."""

    def __init__(self, plan: TrendPlan) -> None:
        # Where no two events have one time, each is seen alone, as under TIES arrival.
        self._untied = plan.ties is tree.Ties.STRICT
        self._apart = self._untied and sees_ties_together(plan)
        if self._apart:
            plan = msgspec.structs.replace(plan, ties=tree.Ties.ARRIVAL)
        self._job = lower(plan)

    @property
    def in_order(self) -> bool:
        """Take events in any order, and sort them if need be."""
        return False

    @property
    def whole(self) -> bool:
        """Need all events to compare them with earlier ones, and to look for ties."""
        return bool(self._job.looks_back) or self._apart

    def answer(self, events: pa.Table | pa.RecordBatchReader, *, forced: bool) -> pa.Table | None:
        """Run over events."""
        job = self._job
        if not isinstance(events, pa.Table):
            return run_split(job.plan, put_together(events, MOST_ROWS), events.schema, forced)
        if not job.looks_back:
            result = run_columns(job, events, untied=self._untied)
        else:
            result = run_trend_columns(job, events, forced=forced)
        if result is not None:
            return result
        ordered = sort_events(events, job.plan)
        if job.looks_back:
            return trends.run_trends(job, ordered, forced=forced)
        if not forced and job.plan.partition.attributes and pa.cpu_count() > FEW_THREADS:
            # The host would put events side by side by key, which takes longer than the rest.
            return None
        if self._apart and has_ties(job.plan, ordered):
            return None
        return run_split(job.plan, [ordered], ordered.schema, forced)

    def answer_streams(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Refuse: a pattern is about one stream."""
        raise AssertionError(tables)


def has_ties(plan: TrendPlan, ordered: pa.Table) -> bool:
    """Check whether two events of one key have the same time."""
    read = Columns(ordered)
    times = read_times(read, plan.time)
    if not scan_times(times)[1]:
        return False
    key = read.numbers(KeyTable(plan.partition.attributes))
    order = np.argsort(key, kind="stable")
    times, key = times[order], key[order]
    return bool(((times[1:] == times[:-1]) & (key[1:] == key[:-1])).any())


def run_split(
    plan: TrendPlan,
    batches: Iterable[pa.Table],
    schema: pa.Schema,
    forced: bool,  # noqa: FBT001
) -> pa.Table:
    """Distribute batches over the lanes of the GPU and, unless it is forced, of the CPU."""
    places = [Place.GPU] if forced else [*split.LANES]
    pace = Pace({place: split.LANES[place] for place in places})
    return split.run_split(plan, batches, schema, pace)


def run_trend_columns(job: Job, table: pa.Table, *, forced: bool) -> pa.Table | None:
    """Run a job with an edge predicate whose columns the device reads; None if it cannot."""
    read = trend_columns.read_columns(job, table)
    if read is None:
        return None
    keys = KeyTable(())
    keys.number(Columns(table.slice(0, 1)))
    return trends.table_of(job, read, keys, table.schema, forced=forced)


def run_columns(job: Job, table: pa.Table, *, untied: bool) -> pa.Table | None:
    """Run a job whose columns the device reads directly; None if it cannot.

    ``untied`` if no two events may have one time.
    """
    if not len(table) or not columns.reads_directly(job):
        return None
    composer = Composer(job)
    names = key_table(KeyTable(()), np.arange(1), table.schema)
    for summary in columns.TableOnDevice(job, untied=untied).summaries(table):
        if summary is None:
            return None
        composer.add(names, [summary])
    return build_table(job, composer.finish(), composer.keys, table.schema)
