"""Count-based windows of a SELECT over streaming DataFrames (§10.7).

Spark has no count-based windows, so this is a stateful operator of Cepheid, as for trends: events
go to buckets, which sort them up to the watermark. Groups share a few buckets. Without groups, and
for a join, which counts all events of a stream, there is one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.expressions.spark_columns import Expressions
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.watermarks import in_microseconds
from cepheid.jobs.work import Work
from cepheid.kinds.selection.counted import CountedJob, empty_rows
from cepheid.kinds.selection.live_join import empty_pairs, turn_joined
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.batch import canonical
from cepheid.runtimes.spark.selection.rows import Stream, filtered, stream_of
from cepheid.runtimes.spark.stream import (
    Delays,
    bucket_count,
    buckets_of,
    late_events,
    live_notices,
    output_of_turns,
    output_of_watched,
)
from cepheid.spark.batches import BUCKET
from cepheid.spark.schema import alias_of, arrow_schema_of, plain_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def stream_counted(plan: SelectPlan, frame: DataFrame, delays: Delays) -> DataFrame:
    """Build the rows of full windows of a stream."""
    return _counted(plan, _kept(plan, frame), delays)


def late_counted(plan: SelectPlan, frame: DataFrame, delays: Delays) -> DataFrame:
    """Build the late events of a stream."""
    return late_events(_kept(plan, frame).frame, plan, delays)


def _kept(plan: SelectPlan, frame: DataFrame) -> Stream:
    select = plan.select
    stream = stream_of(select.streams[0].alias, frame)
    expressions = Expressions(lambda node: stream.typed(node.attribute.text))
    # Events that WHERE drops do not exist, so they do not advance the watermark either.
    return stream._replace(frame=filtered(frame, select.condition, expressions))


def _counted(plan: SelectPlan, stream: Stream, delays: Delays) -> DataFrame:
    names = _needed(plan)
    projected = _projected(stream, names)
    schema = arrow_schema_of(projected, names)
    results = plain_schema(empty_rows(CountedJob.of(plan, schema)).schema)
    spark = stream.frame.sparkSession
    attributes = plan.partition.group_by
    buckets = buckets_of(bucket_count(spark)) if attributes else (0,)
    work = delays.work(plan, schema, results, len(buckets))
    if attributes:
        keys = [canonical(projected, name) for name in attributes]
        projected = projected.withColumn(BUCKET, sf.pmod(sf.hash(*keys), sf.lit(len(buckets))))
    send = live_notices([plan]).watched(spark, tasks.send_stream(work, buckets, drop=False))
    sent = projected.mapInArrow(send, tasks.SENT_DDL)
    return output_of_turns(sent, delays, tasks.take_turns(work), results).rows()


def _needed(plan: SelectPlan) -> list[str]:
    """List the columns that windows read after WHERE was applied."""
    select = plan.select
    names = {plan.time, *plan.tiebreak, *(key.attribute for key in select.keys)}
    for argument in (a.argument for a in select.aggregates if a.argument is not None):
        nodes = tree.walk(argument)
        names |= {node.attribute.text for node in nodes if isinstance(node, tree.Attribute)}
    return sorted(names)


def _projected(stream: Stream, names: Iterable[str]) -> DataFrame:
    """Select columns of a stream; fields of structures become columns of their own."""
    return stream.frame.select(*(stream.typed(n).column.alias(alias_of(n)) for n in names))


def stream_counted_join(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> DataFrame:
    """Join two streams and return the pairs."""
    select = plan.select
    projected, schemas = [], []
    for stream, frame in zip(select.streams, frames, strict=True):
        names = stream.reads if stream.reads is not None else tuple(frame.columns)
        projected.append(_projected(stream_of(stream.alias, frame), names))
        schemas.append(arrow_schema_of(projected[-1], names))
    results = plain_schema(empty_pairs(plan, schemas).schema)
    first, second = (Work.of(plan, schema, results, 1, delay=delays.delay) for schema in schemas)
    notices = live_notices([plan])
    sent = []
    for side, (one, work) in enumerate(zip(projected, (first, second), strict=True)):
        send = tasks.send_stream(work, (0,), drop=False, side=side)
        blobs = one.mapInArrow(notices.watched(one.sparkSession, send), tasks.SENT_DDL)
        # Spark's own watermark, which it shows, is that of the stream that is further behind too.
        sent.append(blobs.withWatermark("latest", delays.watermark))
    left, right = sent
    return output_of_watched(left.union(right), take_joined((first, second)), results).rows()


def take_joined(works: tuple[Work, Work]) -> tasks.Turns:
    """Build the stateful operator of a join."""

    def one(
        _bucket: int,
        data: bytes | None,
        arrived: list[list[pa.Table]],
        latest: list[int | None],
        _passed: int,
    ) -> tuple[bytes, Outcome]:
        saved, outcome = turn_joined(works, data, arrived, latest)
        return saved, outcome._replace(lag=in_microseconds(works[0], outcome.lag))

    return tasks.turns_of_two(one)
