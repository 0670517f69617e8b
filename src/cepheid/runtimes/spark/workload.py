"""Run workloads over Spark DataFrames and files: queries with the same keys share one shuffle.

Queries whose rows are complete in one task of a key shuffle run together: the DataFrame is read
once, events are shuffled once, and a task runs the merged systems of the workload. All other
queries run separately, and their results are appended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.errors import CepheidError, DataError
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.spark_numbers import refused
from cepheid.jobs.blobs import BLOB_DDL, Batches, blobs_of
from cepheid.jobs.kind import TaskKind, kind_of
from cepheid.jobs.work import Work
from cepheid.kinds.trend.planning.needs import shuffle_attributes
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.spark_filter import event_filter
from cepheid.kinds.trend.tasks import needs_merge
from cepheid.kinds.workload.combine_results import (
    EXACT_MAX,
    HELPS,
    QUERY,
    rounds,
    unite,
    united_schema,
)
from cepheid.kinds.workload.sharing import share
from cepheid.kinds.workload.step import (
    Found,
    WorkloadJob,
    WorkloadState,
    build_tables,
    feed,
    finish_workload,
)
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.scan import find_paths
from cepheid.runtimes.spark import tasks
from cepheid.runtimes.spark.batch import exchange, noticed, parallelism, run_frame
from cepheid.runtimes.spark.key_spread import canonical
from cepheid.runtimes.spark.scan import read_frame
from cepheid.runtimes.spark.selection.frames import run_frames
from cepheid.spark.batches import BUCKET, REPORT_ROWS, in_task, merged_events
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.schema import (
    alias_of,
    arrow_schema_of,
    columns_of,
    result_schema_of,
    spark_schema_of,
)
from cepheid.spark.text_times import timed_frame
from cepheid.spark.whole_frames import refuse_stream_of_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.runtimes.local import CompiledQueryLike


class SparkWorkloadLike(Protocol):
    """The interface of a workload that this runtime needs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the queries."""

    @property
    def queries(self) -> tuple[CompiledQueryLike, ...]:
        """Return the queries."""

    @property
    def merge(self) -> bool:
        """Check whether queries are merged where possible."""

    @property
    def times(self) -> TextTimes:
        """Return the format of text times."""


class SharedWork(msgspec.Struct, frozen=True):
    """The task description of a shared shuffle; ``work`` has the columns of all queries."""

    names: tuple[str, ...]
    plans: tuple[bytes, ...]
    merge: bool
    work: Work


def run_workload(
    workload: SparkWorkloadLike, events: Any, *, spark: Any, separate: bool
) -> DataFrame | dict[str, DataFrame]:
    """Run a workload over a DataFrame, or over files with a session.

    Raises
    ------
    DataError
        E501 if there is no such file, E531 if the results do not fit one table.
    UnsupportedError
        E405 if the DataFrame is a stream.
    """
    times = workload.times
    frame = read_frame(spark, find_paths(events), times) if isinstance(events, str) else events
    refuse_stream_of_query(frame, "")
    frame = timed_frame(frame, times)
    plans: dict[str, TrendPlan] = {}
    parts: dict[str, DataFrame] = {}
    for name, query in zip(workload.names, workload.queries, strict=True):
        try:
            plan = query.with_schema(frame.schema).plan
            if not isinstance(plan, TrendPlan):
                parts[name] = run_alone(query, frame)
                continue
            plans[name] = plan
            lower(plan)
        except CepheidError as error:
            error.file = name
            raise
    schemas = {name: arrow_schema_of(rows, rows.columns) for name, rows in parts.items()}
    together, alone = _shuffles(plans)
    shared: list[tuple[list[str], DataFrame]] = []
    for names in together:
        try:
            own = {name: plans[name] for name in names}
            shared.append((names, _run_together(workload, own, frame, widen=not separate)))
        except DataError:
            if not separate:
                raise
            alone += names
    for name in alone:
        query = workload.queries[workload.names.index(name)]
        parts[name] = run_frame(query, frame)
    if separate:
        for names, rows in shared:
            for name in names:
                mine = rows.filter(sf.col(QUERY) == sf.lit(name))
                columns = result_schema_of(plans[name], _schema(frame, plans[name])).names
                parts[name] = mine.select(*(sf.col(f"`{c}`") for c in columns))
        return {name: parts[name] for name in workload.names}
    for name, plan in plans.items():
        schemas[name] = result_schema_of(plan, _schema(frame, plan))
    schema = united_schema({name: schemas[name] for name in workload.names})
    frames = [rows for _, rows in shared]
    frames += [rows.withColumn(QUERY, sf.lit(name)) for name, rows in parts.items()]
    widened = [_widen(rows, schema) for rows in frames]
    united = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), widened)
    return united.select(*(sf.col(f"`{name}`") for name in schema.names))


def run_alone(query: CompiledQueryLike, frame: DataFrame) -> DataFrame:
    """Run a query that is no trend; Spark reads the DataFrame again."""
    if isinstance(kind_of(query.plan), TaskKind):
        return run_frame(query, frame)
    return run_frames(query, [frame] * max(len(query.plan.streams), 1), None, None)


def _widen(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """Convert whole numbers to doubles where another query has doubles; none is rounded."""
    kinds = dict(rows.dtypes)
    doubles = [f.name for f in schema if pa.types.is_floating(f.type) and f.name in kinds]
    for name in (name for name in doubles if kinds[name] == "bigint"):
        column = sf.col(f"`{name}`")
        fits = column.between(-EXACT_MAX, EXACT_MAX) | column.isNull()
        refusal = refused("E531", rounds(name), HELPS[0])
        rows = rows.withColumn(name, sf.when(fits, column.cast("double")).otherwise(refusal))
    return rows


def _schema(frame: DataFrame, plan: TrendPlan) -> pa.Schema:
    columns = columns_of(frame, plan)
    projected = frame.select(*(column.alias(alias_of(n)) for n, (column, _) in columns.items()))
    return arrow_schema_of(projected, columns)


def _shuffles(plans: dict[str, TrendPlan]) -> tuple[list[list[str]], list[str]]:
    """Group the queries by shuffle, and list those that run separately."""
    found: dict[tuple[str, ...], list[str]] = {}
    alone: list[str] = []
    for name, plan in plans.items():
        keys = tuple(sorted(shuffle_attributes(plan)))
        if not keys or plan.lists_matches or needs_merge(lower(plan)):
            alone.append(name)
        else:
            found.setdefault(keys, []).append(name)
    together = [names for names in found.values() if len(names) > 1]
    return together, alone + [names[0] for names in found.values() if len(names) == 1]


def _run_together(
    workload: SparkWorkloadLike, plans: dict[str, TrendPlan], frame: DataFrame, *, widen: bool
) -> DataFrame:
    """Shuffle the events of several queries once, and run all of them on every bucket."""
    first = next(iter(plans.values()))
    columns = {name: c for plan in plans.values() for name, c in columns_of(frame, plan).items()}
    filters = [event_filter(plan, columns) for plan in plans.values()]
    known = [condition for condition in filters if condition is not None]
    kept = frame
    if len(known) == len(filters):
        kept = frame.filter(reduce(lambda a, b: a | b, known))
    projected = kept.select(*(column.alias(alias_of(n)) for n, (column, _) in columns.items()))
    events = arrow_schema_of(projected, columns)
    schemas = {name: result_schema_of(plan, events) for name, plan in plans.items()}
    results = united_schema(schemas, widen=widen)
    ship_kernels(frame.sparkSession)
    buckets = parallelism(frame.sparkSession)
    keys = [canonical(projected, name) for name in sorted(shuffle_attributes(first))]
    routed = projected.withColumn(BUCKET, sf.pmod(sf.hash(*keys), sf.lit(buckets)))
    work = SharedWork(
        tuple(plans),
        tuple(plan.to_json() for plan in plans.values()),
        workload.merge,
        Work.of(first, events, results, buckets).calling(plans.values()),
    )
    sent = routed.mapInArrow(tasks.send_events(work.work), BLOB_DDL)
    arrived = exchange(sent, buckets)
    task = noticed(arrived, run_bucket(work), list(plans.values()), buckets)
    return arrived.mapInArrow(task, spark_schema_of(results))


def run_bucket(shared: SharedWork) -> Callable[[Batches], Batches]:
    """Build the task that runs a workload over the events of its bucket."""

    def run(batches: Batches) -> Batches:
        plans = [TrendPlan.from_json(data) for data in shared.plans]
        job = WorkloadJob(share(shared.names, plans, merge=shared.merge))
        state = WorkloadState(job)
        found = Found.nothing(job)
        for table in merged_events(plans[0], blobs_of(batches)):
            found.add(feed(job, state, table))
        found.add(finish_workload(job, state))
        tables = build_tables(job, state, found, shared.work.schema)
        named = {name: tables[n] for n, name in enumerate(shared.names)}
        rows = shared.work.shown(unite(named))
        yield from rows.combine_chunks().to_batches(REPORT_ROWS)

    return in_task(run)
