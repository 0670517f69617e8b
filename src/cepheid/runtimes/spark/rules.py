"""Workloads over streaming DataFrames: one stateful operator for all rules.

    events --mapInArrow--> blobs by class and bucket --stateful operator--> rows of all rules

Rules whose groups have the same attributes form a *class*: they get the same events, in the same
buckets. The bucket numbers of a class depend on its attributes alone, so a rule finds its state
after a restart even if other rules were added or removed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import CepheidError, Diagnostic, UnsupportedError
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.microbatch import turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.watermarks import MILLISECOND, in_microseconds, in_ticks
from cepheid.jobs.work import Work
from cepheid.kinds.trend.live import check_windows
from cepheid.kinds.trend.match_tasks import number_matches
from cepheid.kinds.trend.planning.needs import live_attributes
from cepheid.kinds.workload.combine_results import united_schema
from cepheid.kinds.workload.live import LiveWorkload, RulesWork
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.batch import canonical
from cepheid.runtimes.spark.stream import (
    buckets_of,
    check_stream,
    delay_of,
    late_events,
    partitions_of,
    rows_of_turns,
    set_up,
)
from cepheid.runtimes.spark.workload import SparkWorkloadLike
from cepheid.spark.batches import BUCKET, chunks, in_task, partition_id, with_names
from cepheid.spark.schema import alias_of, arrow_schema_of, columns_of, result_schema_of
from cepheid.spark.text_times import timed_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLASS_BITS, BUCKET_BITS = 16, 15
"""A bucket number is composed of its class, and of its position in the class."""

Attributes = tuple[str, ...]


class Class(NamedTuple):
    """Rules whose groups have the same attributes, and their buckets."""

    attributes: Attributes
    buckets: tuple[int, ...]
    work: RulesWork


def stream_workload(
    workload: SparkWorkloadLike, frame: DataFrame, *, watermark: str, late: str
) -> DataFrame | tuple[DataFrame, DataFrame]:
    """Build the DataFrame of closed-window rows of all rules and, if requested, of late events.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or ``late`` is unknown.
    UnsupportedError
        E405 if the windows of a query never close, or its rows change.
    """
    check_stream(frame, late)
    frame = timed_frame(frame, workload.times)
    plans = {
        name: _plan_of(name, query, frame)
        for name, query in zip(workload.names, workload.queries, strict=True)
    }
    set_up(frame.sparkSession)
    rows = _rows(frame, plans, watermark, merge=workload.merge)
    if late == "drop":
        return rows
    return rows, late_events(frame, next(iter(plans.values())), watermark)


def _plan_of(name: str, query: Any, frame: DataFrame) -> TrendPlan:
    try:
        plan: TrendPlan = query.with_schema(frame.schema).plan
        check_windows(plan)
        if plan.window.emit_early:
            message = "rows of `EMIT EARLY` change later, but those of other rules are final"
            helps = ("start this query on its own with `q.stream`",)
            raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    except CepheidError as error:
        error.file = name
        raise
    return plan


def _rows(
    frame: DataFrame, plans: dict[str, TrendPlan], watermark: str, *, merge: bool
) -> DataFrame:
    spark = frame.sparkSession
    found = {name: c for plan in plans.values() for name, c in columns_of(frame, plan).items()}
    # In one order whatever rules there are: they keep events between micro-batches.
    columns = {name: found[name] for name in sorted(found)}
    projected = frame.select(*(column.alias(alias_of(n)) for n, (column, _) in columns.items()))
    schema = arrow_schema_of(projected, columns)
    results = united_schema(
        {n: result_schema_of(plan, _seen(plan, schema, frame)) for n, plan in plans.items()}
    )
    delay = delay_of(spark, watermark)
    classes = []
    routed = projected
    for number, (attributes, names) in enumerate(_classes(plans).items()):
        own = {name: plans[name] for name in names}
        buckets = _buckets(spark, attributes)
        work = Work.of(next(iter(own.values())), schema, results, len(buckets), delay=delay)
        rules = tuple((name, plan.to_json()) for name, plan in own.items())
        shared = RulesWork(rules, merge, work, tuple(frame.columns))
        classes.append(Class(attributes, buckets, shared))
        if attributes:
            keys = [canonical(projected, name) for name in attributes]
            place = sf.pmod(sf.hash(*keys), sf.lit(len(buckets)))
            routed = routed.withColumn(f"{BUCKET}{number}", place)
    _check_apart(classes)
    sent = routed.mapInArrow(send_to_classes(classes), tasks.SENT_DDL)
    # Another watermark of the same query could be ahead, if the largest of them counts.
    policy = str(spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min"))
    turns = take_turns_of_classes(classes, alone=policy.lower() != "max")
    return rows_of_turns(sent, watermark, turns, results)


def _seen(plan: TrendPlan, schema: pa.Schema, frame: DataFrame) -> pa.Schema:
    """List the columns that a rule reads; whole events exclude separate fields of structures."""
    if plan.columns is not None:
        return schema
    return pa.schema([field for field in schema if field.name in frame.columns])


def _classes(plans: dict[str, TrendPlan]) -> dict[Attributes, list[str]]:
    found: dict[Attributes, list[str]] = {}
    for name, plan in plans.items():
        found.setdefault(tuple(sorted(live_attributes(plan))), []).append(name)
    return found


def _buckets(spark: SparkSession, attributes: Attributes) -> tuple[int, ...]:
    """Compute the bucket numbers of a class, which depend on its attributes alone."""
    digest = zlib.crc32("\0".join(attributes).encode()) & ((1 << CLASS_BITS) - 1)
    base = digest << BUCKET_BITS
    return buckets_of(partitions_of(spark), base) if attributes else (base,)


def _check_apart(classes: list[Class]) -> None:
    numbers = [n for one in classes for n in one.buckets]
    if len(set(numbers)) < len(numbers):
        message = (
            "the GROUP-BY attributes of two rules have the same hash: start them as two streams"
        )
        raise ValueError(message)


def send_to_classes(classes: list[Class]) -> Callable[[Batches], Batches]:
    """Build the task that sends events to the buckets of every class."""

    def run(batches: Batches) -> Batches:
        first = classes[0].work.work
        plan = TrendPlan.from_json(first.plan)
        seq = partition_id() << 32
        for chunk in chunks(batches):
            table = with_names(chunk, first.schema)
            # Events that cannot affect the result also advance the watermark.
            latest = int(read_times(Columns(table), plan.time).max())
            stamp = in_microseconds(first, latest)
            for number, one in enumerate(classes):
                kept = ordered(_of_consequence(one, table), plan)
                place = np.zeros(len(kept), np.int64)
                if one.attributes:
                    place = kept[f"{BUCKET}{number}"].to_numpy().astype(np.int64)
                parts = dict(split(kept.select(first.schema.names), place, len(one.buckets)))
                yield tasks.sent_rows(one.buckets, seq, latest, stamp, parts)
            seq += 1

    return in_task(run)


def _of_consequence(one: Class, table: pa.Table) -> pa.Table:
    columns = Columns(table)
    kept = np.ones(len(table), np.bool_)
    for name in one.attributes:
        values = columns.arrow(name)
        if values.null_count:
            kept &= np.asarray(pc.is_valid(values))
    return table if kept.all() else table.filter(pa.array(kept))


def _known(work: Work, passed: int) -> int | None:
    """Compute the watermark that every bucket with rules has reached before this micro-batch.

    Spark reports zero for no watermark, and truncates the delay to whole milliseconds.
    """
    return in_ticks(work, passed - MILLISECOND) if passed > MILLISECOND else None


def take_turns_of_classes(classes: list[Class], *, alone: bool) -> tasks.Turns:
    """Build the stateful operator of all rules.

    ``alone`` is true if Spark's watermark is never ahead of the watermark of the rules.
    """
    places = {
        bucket: (one.work, place) for one in classes for place, bucket in enumerate(one.buckets)
    }

    def one(
        bucket: int, data: bytes | None, arrived: list[pa.Table], latest: int | None, passed: int
    ) -> tuple[bytes, Outcome]:
        work, place = places[bucket]
        job = LiveWorkload(work, _known(work.work, passed) if alone else None)
        saved, outcome = turn(job, work.work, data, arrived, latest)
        results = number_matches(outcome.results, place)
        return saved, outcome._replace(results=results, lag=in_microseconds(work.work, outcome.lag))

    return tasks.turns_of(one)
