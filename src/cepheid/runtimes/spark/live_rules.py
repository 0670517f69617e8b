"""Rules of a rules log over a streaming DataFrame: rules change while the query runs.

    events     --mapInArrow--> blobs by class and bucket --+
                                                           +--stateful operator--> alerts
    rules log  --explode-----> records by bucket ----------+

The log is a source of the query like the events: Spark writes down which records belong to a
micro-batch, and repeats it with the same ones. All columns of the source go to the buckets, because
a rule that comes later may read any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.expressions.own import all_registered
from cepheid.expressions.spark_numbers import long
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.kind import task_kind
from cepheid.jobs.microbatch import turn
from cepheid.jobs.watermarks import in_microseconds
from cepheid.jobs.work import Work
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.alerts import RULE, SUPPRESSED, alert_schema
from cepheid.kinds.workload.dated_rows import dated
from cepheid.kinds.workload.live_alerts import LiveAlerts
from cepheid.kinds.workload.rule_places import Keys
from cepheid.kinds.workload.rule_records import Timing, from_line
from cepheid.options import LiveOptions
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.bad_records import Asked, Checked, events_schema, timed_records
from cepheid.runtimes.spark.live_output import LiveOutput, payloads
from cepheid.runtimes.spark.rules import Route, placed, send_to_classes
from cepheid.runtimes.spark.stream import (
    Delays,
    ReadColumns,
    check_stream,
    live_notices,
    output_of_turns,
    set_up,
)
from cepheid.spark.records import BAD, quoted
from cepheid.spark.schema import path_of, result_schema_of
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepheid.events.time_formats import TextTimes
    from cepheid.runtimes.local import CompiledQueryLike

_COUNTED: list[tuple[str, pa.DataType]] = [
    (RULE, pa.string()),
    (SUPPRESSED, pa.string()),
    ("count", pa.int64()),
]
COUNTS = pa.schema(_COUNTED)
"""Rows that limits of alerts suppressed in a micro-batch."""


class RuleStream(NamedTuple):
    """A stream that rules are planned for; its columns stay the same while it runs.

    Attributes
    ----------
    frame
        The records, with times that are times.
    columns
        The columns of events, as Spark has them.
    schema
        The columns that go to tasks: those of events, and fields of structures in them.
    """

    frame: DataFrame
    columns: StructType
    schema: pa.Schema

    @staticmethod
    def of(frame: DataFrame, times: TextTimes, asked: LiveOptions) -> RuleStream:
        """Look at the columns of a stream.

        Raises
        ------
        OptionError
            E592 if the DataFrame is no stream, or an option does not fit.
        """
        check_stream(frame, asked)
        timed = timed_records(frame, times)
        columns = events_schema(timed)
        paths = StructType([])
        for name, kind in _paths(columns):
            paths = paths.add(name, kind)
        return RuleStream(timed, columns, arrow_schema(paths))

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of fields of structures, which whole events do not show again."""
        return tuple(name for name in self.schema.names if name not in self.columns.names)

    def plan(self, compiled: CompiledQueryLike) -> PlannedRule:
        """Plan a rule whose rows tell their times.

        Raises
        ------
        BindError
            If the rule does not fit the columns.
        UnsupportedError
            E405 if its windows never close, or its rows change.
        """
        found = dated(compiled.with_schema(self.columns).plan)
        plan = found.plan if found.plan.shares_passes else as_pipeline(found.plan)
        task_kind(plan).check_live(plan)
        if plan.emits_early:
            message = "rows of `EMIT EARLY` change later, but alerts are final"
            helps = ("start this query on its own with `cepheid stream QUERY`",)
            raise UnsupportedError([Diagnostic("E405", message, helps=helps)], plan.text)
        names = result_schema_of(plan, self._seen(plan)).names
        hidden = (*found.hidden, *(self.parts if plan.columns is None else ()))
        return PlannedRule(plan, Timing(found.times, hidden, found.delay), tuple(names))

    def _seen(self, plan: Plan) -> pa.Schema:
        if plan.columns is not None:
            return self.schema
        return pa.schema([field for field in self.schema if field.name not in self.parts])


class PlannedRule(NamedTuple):
    """A plan, the columns that tell the times of its rows, and all columns of these."""

    plan: Plan
    timing: Timing
    columns: tuple[str, ...]


def _paths(columns: StructType, before: str = "") -> list[tuple[str, DataType]]:
    """List columns and, after all of them, fields of structures."""
    found = [(f"{before}{field.name}", field.dataType) for field in columns.fields]
    for name, kind in list(found):
        if isinstance(kind, StructType):
            found += _paths(kind, f"{name}.")
    return found


def stream_rules(
    stream: RuleStream,
    reader: CompiledQueryLike,
    log: Path,
    keys: Keys,
    plans: Sequence[Plan],
    asked: LiveOptions,
) -> LiveOutput:
    """Build the alerts of all rules of a log, with late events and bad records.

    Parameters
    ----------
    stream
        The events.
    reader
        A query that reads the time of events.
    log
        The folder of the log.
    keys
        The keys of the stream.
    plans
        The rules so far; their types are those that may be missing among the events.
    asked
        The options of the query.
    """
    frame = stream.frame
    spark = frame.sparkSession
    plan = reader.with_schema(stream.columns).plan
    set_up(spark)
    delays = Delays.of(spark, asked)
    needs = Asked(plan.time, plan.tick_ns, plan.type, (), (), delays.ahead)
    records = Checked.of(frame, needs).tagged(asked.bad)
    events = records.select(*(quoted(n) for n in records.columns if n != BAD))
    chosen = {name: path_of(events, name) for name in stream.schema.names}
    read = ReadColumns.select(records, events, chosen, whole=asked.late == "side")
    alerts = alert_schema(read.schema.field(plan.time).type, plan.tick_ns)
    routes = [Route.of(spark, one, takes_null=True) for one in keys]
    notices = live_notices(plans)
    # Rules that come later may call what the process knows now.
    known = all_registered()
    works = [
        delays.work(plan, read.schema, alerts, len(one.buckets)).calling(plans, known)
        for one in routes
    ]
    send = notices.watched(spark, send_to_classes(works[0], routes))
    sent = placed(read.projected, routes).mapInArrow(send, tasks.SENT_DDL)
    told = _records(spark.readStream.text(str(log), lineSep="\n"), routes)
    turns = take_turns_of_rules(works, routes, stream.columns.names)
    output = output_of_turns(sent.union(told), delays, turns, alerts)
    output.decode.update(read.decode)
    output.decode[tasks.SUPPRESSED] = payloads(COUNTS)
    return output._replace(finish=notices.finish)


def _records(lines: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Send every record of a log to the buckets of its class."""
    line = sf.col("value")
    parts = sf.split(line, " ", 4)
    places: Column = sf.array(*(sf.array(*map(sf.lit, one.buckets)) for one in routes))
    number = parts[1].cast("long") + long(1 << tasks.SIDE_BITS)
    return lines.select(
        sf.explode(places[parts[2].cast("int")]).alias("bucket"),
        number.alias("seq"),
        sf.lit(None).cast("timestamp").alias("latest"),
        long(tasks.NOT_TOLD).alias("told"),
        line.cast("binary").alias("payload"),
        long(0).alias("seen"),
        sf.lit(None).cast("binary").alias("wrong"),
    )


def take_turns_of_rules(
    works: Sequence[Work], routes: Sequence[Route], whole: Sequence[str]
) -> tasks.Turns:
    """Build the stateful operator of all rules."""
    places = {
        bucket: (work, place)
        for work, one in zip(works, routes, strict=True)
        for place, bucket in enumerate(one.buckets)
    }

    def one(
        bucket: int,
        data: bytes | None,
        arrived: tuple[list[pa.Table], list[bytes]],
        latest: int | None,
        _passed: int,
    ) -> tuple[bytes, Outcome]:
        work, place = places[bucket]
        tables, lines = arrived
        job = LiveAlerts(work, whole, place, [from_line(line) for line in lines])
        saved, outcome = turn(job, work, data, tables, latest)
        return saved, outcome._replace(
            lag=in_microseconds(work, outcome.lag), suppressed=_counts(job.suppressed)
        )

    return tasks.turns_of_rules(one, works[0])


def _counts(suppressed: dict[tuple[str, str], int]) -> pa.Table | None:
    if not suppressed:
        return None
    columns: list[Any] = [
        [rule for rule, _ in suppressed],
        [why for _, why in suppressed],
        list(suppressed.values()),
    ]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, COUNTS, strict=True)], schema=COUNTS
    )
