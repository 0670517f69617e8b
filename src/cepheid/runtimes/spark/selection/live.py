"""Live windows of a SELECT: stateful operators of Cepheid, as for patterns (§10.7).

Events go to buckets by their groups, wait there for the watermark, and are aggregated; the state is
partial aggregates. Without groups, and for a join of windows of events, which counts all events of
a stream, there is one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.jobs.bucket import Outcome
from cepheid.jobs.watermarks import in_microseconds
from cepheid.jobs.work import Work
from cepheid.kinds.selection.live_join import empty_pairs, turn_joined
from cepheid.kinds.selection.live_streams import StreamsJob, check_number, columns_of
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.decisions import Told, counting_of
from cepheid.runtimes.spark.key_spread import canonical
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.selection.rows import (
    Stream,
    expressions_over,
    filtered,
    stream_of,
)
from cepheid.runtimes.spark.shed_tasks import send_shed, take_shed_turns
from cepheid.runtimes.spark.shedding import SHED_FIELD, shed_of
from cepheid.runtimes.spark.stream import (
    Delays,
    ReadColumns,
    bucket_count,
    buckets_of,
    delay_of,
    late_events,
    live_notices,
    output_of_turns,
    output_of_watched,
)
from cepheid.spark.batches import BUCKET
from cepheid.spark.records import BAD, quoted
from cepheid.spark.schema import alias_of, arrow_schema_of, plain_schema, result_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def aggregate_output(
    plan: SelectPlan, frame: DataFrame, delays: Delays, *, whole: bool = False
) -> LiveOutput:
    """Build the output of windows: rows, and the late and bad records that a frame has marked.

    ``whole`` keeps all columns of events, so that late ones have them.
    """
    spark = frame.sparkSession
    given = [name for name in frame.columns if name != BAD]
    names = _needed(plan)
    if whole:
        names = list(dict.fromkeys([*names, *given]))
    stream = stream_of(plan.select.streams[0].alias, frame)
    # WHERE is asked before events go to a bucket, which does not keep what it alone reads.
    chosen = dict.fromkeys([*names, *sorted(_attributes(plan.select.where))])
    read = ReadColumns.select(
        frame,
        frame.select(*map(quoted, given)),
        {name: stream.typed(name).column for name in chosen},
        whole=whole,
    )
    arriving = read.schema
    schema = pa.schema([arriving.field(name) for name in names])
    results = result_schema_of(plan, arriving)
    attributes = plan.partition.group_by
    buckets = buckets_of(bucket_count(spark)) if attributes else (0,)
    work = delays.work(plan, schema, results, len(buckets))
    projected = read.projected
    if attributes:
        keys = [canonical(projected, name) for name in attributes]
        projected = projected.withColumn(BUCKET, sf.pmod(sf.hash(*keys), sf.lit(len(buckets))))
    notices = live_notices([plan])
    counting = counting_of(spark, attributes, len(buckets), splits=False)
    send = tasks.send_stream(work, buckets, arriving=arriving, counting=counting)
    turns = tasks.take_turns(work)
    shed = shed_of(plan, delays.asked, results, partial(delay_of, spark, name="shed"))
    if shed is not None:
        send = send_shed(work, buckets, shed, Told().teller(spark), arriving)
        turns = take_shed_turns(work, shed, buckets[0])
        results = results.append(SHED_FIELD)
    sent = projected.mapInArrow(notices.watched(spark, send), tasks.SENT_DDL)
    output = output_of_turns(sent, delays, turns, results)
    output.decode.update(read.decode)
    return output._replace(finish=notices.finish)


def late_of_aggregate(plan: SelectPlan, frame: DataFrame, delays: Delays) -> DataFrame:
    """Collect late events for which WHERE is true; all events advance the watermark."""
    stream = stream_of(plan.select.streams[0].alias, late_events(frame, plan, delays))
    expressions = expressions_over(frame, lambda node: stream.typed(node.attribute.text))
    return filtered(stream.frame, plan.select.condition, expressions)


def _needed(plan: SelectPlan) -> list[str]:
    """List the columns that windows read after WHERE was applied."""
    select = plan.select
    names = {plan.time, *plan.tiebreak, *(key.attribute for key in select.keys)}
    for aggregate in select.aggregates:
        names |= _attributes(aggregate.argument)
    return sorted(names)


def _attributes(expression: tree.Expression | None) -> set[str]:
    nodes = [] if expression is None else tree.walk(expression)
    return {node.attribute.text for node in nodes if isinstance(node, tree.Attribute)}


def _projected(stream: Stream, names: Iterable[str]) -> DataFrame:
    """Select columns of a stream; fields of structures become columns of their own."""
    return stream.frame.select(*(stream.typed(n).column.alias(alias_of(n)) for n in names))


def stream_counted_join(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> DataFrame:
    """Join two streams by windows of events and return the pairs."""
    projected, schemas = [], []
    for stream, frame in zip(plan.select.streams, frames, strict=True):
        names = stream.reads if stream.reads is not None else tuple(frame.columns)
        projected.append(_projected(stream_of(stream.alias, frame), names))
        schemas.append(arrow_schema_of(projected[-1], names))
    results = plain_schema(empty_pairs(plan, schemas).schema)
    first, second = (Work.of(plan, schema, results, 1, delay=delays.delay) for schema in schemas)
    return _met(projected, (first, second), turn_joined, results, delays)


def stream_join(plan: SelectPlan, frames: Sequence[DataFrame], delays: Delays) -> DataFrame:
    """Join different streams by time, three and more or for aggregates, in one operator."""
    names = dict.fromkeys(plan.streams)
    check_number(list(names), plan.text)
    projected, schemas = [], []
    for name in names:
        frame = frames[plan.streams.index(name)]
        columns = columns_of(plan, name, frame.columns)
        projected.append(_projected(stream_of(name, frame), columns))
        schemas.append(arrow_schema_of(projected[-1], columns))
    job = StreamsJob.of(plan, schemas, delays.delay)
    results = plain_schema(job.works[0].result_schema)
    works = tuple(Work.of(plan, schema, results, 1, delay=delays.delay) for schema in schemas)
    return _met(projected, works, turn_streams, results, delays)


def turn_streams(
    works: tuple[Work, ...],
    data: bytes | None,
    arrived: list[list[pa.Table]],
    latest: list[int | None],
) -> tuple[bytes, Outcome]:
    """Process a micro-batch of all streams, up to their common watermark."""
    job = StreamsJob.from_works(works)
    state, outcome = job.take(job.read(data), arrived, latest)
    return job.write(state), outcome


def _met(
    projected: Sequence[DataFrame],
    works: tuple[Work, ...],
    turn: Callable[..., tuple[bytes, Outcome]],
    results: pa.Schema,
    delays: Delays,
) -> DataFrame:
    """Send the events of all streams to one stateful operator."""
    notices = live_notices([works[0].planned()])
    sent = []
    for side, (one, work) in enumerate(zip(projected, works, strict=True)):
        send = tasks.send_stream(work, (0,), drop=False, side=side)
        blobs = one.mapInArrow(notices.watched(one.sparkSession, send), tasks.SENT_DDL)
        # Spark's own watermark, which it shows, is that of the stream that is further behind too.
        sent.append(blobs.withWatermark("latest", delays.watermark))
    together = reduce(lambda a, b: a.union(b), sent)
    return output_of_watched(together, _turns(works, turn), results).rows()


def _turns(works: tuple[Work, ...], turn: Callable[..., tuple[bytes, Outcome]]) -> tasks.Turns:
    """Build the stateful operator of a join."""

    def one(
        _bucket: int,
        data: bytes | None,
        arrived: list[list[pa.Table]],
        latest: list[int | None],
        _passed: int,
    ) -> tuple[bytes, Outcome]:
        saved, outcome = turn(works, data, arrived, latest)
        return saved, outcome._replace(lag=in_microseconds(works[0], outcome.lag))

    return tasks.turns_of_streams(one, len(works))
