"""Workloads over streaming DataFrames: one stateful operator for all rules.

    events --mapInArrow--> blobs by class and bucket --stateful operator--> rows of all rules

Rules whose groups have the same attributes form a *class*: they get the same events, in the same
buckets. The bucket numbers of a class depend on its attributes alone, so a rule finds its state
after a restart even if other rules were added or removed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from cepheid.arrays.columns import Columns, notice_types, read_times
from cepheid.errors import CepheidError, Diagnostic, UnsupportedError
from cepheid.jobs.blobs import Batches, split
from cepheid.jobs.bucket import COUNTED, Outcome
from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.microbatch import turn
from cepheid.jobs.ordering import ordered
from cepheid.jobs.watermarks import MILLISECOND, in_microseconds, in_ticks
from cepheid.jobs.work import Work
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.trend.match_tasks import number_matches
from cepheid.kinds.workload.combine_results import united_schema
from cepheid.kinds.workload.live import LiveWorkload, RulesWork
from cepheid.options import LiveOptions
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.bad_records import events_schema, timed_records
from cepheid.runtimes.spark.key_spread import canonical
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.stream import (
    Delays,
    ReadColumns,
    bucket_count,
    buckets_of,
    check_records,
    check_stream,
    late_events,
    live_notices,
    output_of_turns,
    set_up,
    with_sides,
)
from cepheid.runtimes.spark.workload import SparkWorkloadLike
from cepheid.spark.batches import BUCKET, chunks, in_task, partition_id, with_names
from cepheid.spark.records import BAD, quoted
from cepheid.spark.schema import columns_of, path_of, result_schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLASS_BITS, BUCKET_BITS = 16, 15
"""A bucket number is composed of its class, and of its position in the class."""

Attributes = tuple[str, ...]


class Route(NamedTuple):
    """The buckets of rules whose groups have the same attributes.

    Trends drop events without a key; where ``takes_null``, they are a key of their own.
    """

    attributes: Attributes
    buckets: tuple[int, ...]
    takes_null: bool = False

    @staticmethod
    def of(spark: SparkSession, attributes: Attributes, *, takes_null: bool) -> Route:
        """Compute the bucket numbers, which depend on the attributes alone."""
        named = ("\0beside", *attributes) if takes_null else attributes
        digest = zlib.crc32("\0".join(named).encode()) & ((1 << CLASS_BITS) - 1)
        base = digest << BUCKET_BITS
        buckets = buckets_of(bucket_count(spark), base) if attributes else (base,)
        return Route(attributes, buckets, takes_null)


class Class(NamedTuple):
    """Rules that share buckets.

    Rules that are no trends have classes of their own, for which NULL may be a key.
    """

    route: Route
    work: RulesWork


def stream_workload(workload: SparkWorkloadLike, frame: DataFrame, asked: LiveOptions) -> Any:
    """Build the rows of closed windows of all rules and, if requested, late and bad records.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or an option is unknown.
    UnsupportedError
        E405 if the windows of a query never close, or its rows change.
    """
    if asked.late == "correct":
        message = "rows of a workload are final: its rules come and go"
        helps = ("start a query on its own with `q.stream`",)
        raise UnsupportedError([Diagnostic("E407", message, helps=helps)])
    check_stream(frame, asked)
    frame = timed_records(frame, workload.times)
    plans = {
        name: _plan_of(name, query, frame)
        for name, query in zip(workload.names, workload.queries, strict=True)
    }
    set_up(frame.sparkSession)
    delays = Delays.of(frame.sparkSession, asked)
    checked = check_records(frame, list(plans.values()), delays)
    if asked.tagged:
        tagged, whole = checked.tagged(asked.bad), asked.late == "side"
        return _output(tagged, plans, delays, merge=workload.merge, whole=whole)
    events = checked.events(asked.bad)
    rows = _output(events, plans, delays, merge=workload.merge).rows()
    first = next(iter(plans.values()))
    return with_sides(rows, lambda: late_events(events, first, delays), checked.bad, asked)


def _plan_of(name: str, query: Any, frame: DataFrame) -> Plan:
    try:
        plan: Plan = query.with_schema(events_schema(frame)).plan
        if not plan.shares_passes:
            plan = as_pipeline(plan)
        task_kind(plan).check_live(plan)
        if plan.emits_early:
            message = "rows of `EMIT EARLY` change later, but those of other rules are final"
            helps = ("start this query on its own with `q.stream`",)
            raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
    except CepheidError as error:
        error.file = name
        raise
    return plan


def _output(
    frame: DataFrame,
    plans: dict[str, Plan],
    delays: Delays,
    *,
    merge: bool,
    whole: bool = False,
) -> LiveOutput:
    spark = frame.sparkSession
    given = [name for name in frame.columns if name != BAD]
    events = frame.select(*map(quoted, given))
    found = {name for plan in plans.values() for name in columns_of(events, plan)}
    # In one order whatever rules there are: they keep events between micro-batches.
    names = sorted(found | set(given) if whole else found)
    chosen = {name: path_of(frame, name) for name in names}
    read = ReadColumns.select(frame, events, chosen, whole=whole)
    projected, schema = read.projected, read.schema
    results = united_schema(
        {n: result_schema_of(plan, _seen(plan, schema, events)) for n, plan in plans.items()}
    )
    classes = []
    for (attributes, null), names in _classes(plans).items():
        own = {name: plans[name] for name in names}
        route = Route.of(spark, attributes, takes_null=null)
        work = delays.work(next(iter(own.values())), schema, results, len(route.buckets))
        work = work.calling(own.values())
        rules = tuple((name, plan.to_json()) for name, plan in own.items())
        shared = RulesWork(rules, merge, work, tuple(given))
        classes.append(Class(route, shared))
    routes = [one.route for one in classes]
    routed = placed(projected, routes)
    notices = live_notices(list(plans.values()))
    sent = routed.mapInArrow(
        notices.watched(spark, send_to_classes(classes[0].work.work, routes)), tasks.SENT_DDL
    )
    # Another watermark of the same query could be ahead, if the largest of them counts.
    policy = str(spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min"))
    turns = take_turns_of_classes(classes, alone=policy.lower() != "max")
    output = output_of_turns(sent, delays, turns, results)
    output.decode.update(read.decode)
    return output._replace(finish=notices.finish)


def _seen(plan: Plan, schema: pa.Schema, frame: DataFrame) -> pa.Schema:
    """List the columns that a rule reads; whole events exclude separate fields of structures."""
    if plan.columns is not None:
        return schema
    return pa.schema([field for field in schema if field.name in frame.columns])


def _classes(plans: dict[str, Plan]) -> dict[tuple[Attributes, bool], list[str]]:
    found: dict[tuple[Attributes, bool], list[str]] = {}
    for name, plan in plans.items():
        key = tuple(sorted(needs_of(plan).buckets)), not plan.shares_passes
        found.setdefault(key, []).append(name)
    return found


def placed(frame: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Add a column for every class: the place of an event's bucket.

    Raises
    ------
    ValueError
        If two classes would share a bucket.
    """
    numbers = [n for one in routes for n in one.buckets]
    if len(set(numbers)) < len(numbers):
        message = (
            "the GROUP-BY attributes of two rules have the same hash: start them as two streams"
        )
        raise ValueError(message)
    routed = frame
    for number, one in enumerate(routes):
        if one.attributes:
            keys = [canonical(frame, name) for name in one.attributes]
            place = sf.pmod(sf.hash(*keys), sf.lit(len(one.buckets)))
            routed = routed.withColumn(f"{BUCKET}{number}", place)
    return routed


def send_to_classes(first: Work, routes: Sequence[Route]) -> Callable[[Batches], Batches]:
    """Build the task that sends events to the buckets of every class."""

    def run(batches: Batches) -> Batches:
        plan = Plan.from_json(first.plan)
        seq = partition_id() << 32
        for chunk in chunks(batches):
            table, wrong = tasks.without_bad(with_names(chunk, first.schema))
            if not len(table):
                yield tasks.only_bad(seq, wrong)
                continue
            records: tuple[int, bytes | None] = (len(table), wrong)
            # An event that several classes keep is counted in the first of them.
            fresh = np.ones(len(table), np.bool_)
            # Events that cannot affect the result also advance the watermark.
            columns = Columns(table)
            latest = int(read_times(columns, plan.time).max())
            notice_types(columns, plan.type)
            stamp = in_microseconds(first, latest)
            for number, one in enumerate(routes):
                mask = _of_consequence(one, table)
                counted = table.append_column(COUNTED, pa.array(fresh))
                kept = ordered(counted if mask.all() else counted.filter(pa.array(mask)), plan)
                fresh &= ~mask
                place = np.zeros(len(kept), np.int64)
                if one.attributes:
                    place = kept[f"{BUCKET}{number}"].to_numpy().astype(np.int64)
                parts = dict(
                    split(kept.select([*first.schema.names, COUNTED]), place, len(one.buckets))
                )
                yield tasks.sent_rows(one.buckets, seq, (latest, stamp), parts, records)
                records = (0, None)
            seq += 1

    return in_task(run)


def _of_consequence(one: Route, table: pa.Table) -> NDArray[np.bool_]:
    columns = Columns(table)
    kept = np.ones(len(table), np.bool_)
    for name in () if one.takes_null else one.attributes:
        values = columns.arrow(name)
        if values.null_count:
            kept &= np.asarray(pc.is_valid(values))
    return kept


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
        bucket: (one.work, place)
        for one in classes
        for place, bucket in enumerate(one.route.buckets)
    }

    def one(
        bucket: int, data: bytes | None, arrived: list[pa.Table], latest: int | None, passed: int
    ) -> tuple[bytes, Outcome]:
        work, place = places[bucket]
        job = LiveWorkload(work, _known(work.work, passed) if alone else None)
        saved, outcome = turn(job, work.work, data, arrived, latest)
        results = number_matches(outcome.results, place)
        return saved, outcome._replace(results=results, lag=in_microseconds(work.work, outcome.lag))

    return tasks.turns_of(one, classes[0].work.work)
