"""Count what relaxed queries find over a DataFrame of Spark; only the counts are collected."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import fspath
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from cepheid import runtimes
from cepheid.arrays.noticing import TYPES_MAX, Noticed
from cepheid.events.arriving import as_table
from cepheid.events.schema import ValueKind, read_schema
from cepheid.jobs.relaxed import RelaxedQuery
from cepheid.jobs.why import Counted, Feed, Range, Tally, WhyNot
from cepheid.kinds.workload.combine_results import QUERY
from cepheid.options import Held, holder_of
from cepheid.plans.plan import Plan
from cepheid.runtimes.notices import names_of, oddities
from cepheid.runtimes.scan import find_paths
from cepheid.runtimes.spark.scan import read_frame
from cepheid.runtimes.spark.selection.frames import in_utc
from cepheid.runtimes.spark.store import store_frame
from cepheid.runtimes.why import Relaxations, explain_with
from cepheid.spark.text_times import timed_frame
from cepheid.spark.whole_frames import refuse_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkCounting:
    """Counts with Spark; every call is one job over the DataFrame, or a few."""

    def __init__(self, frames: Mapping[str, DataFrame] | DataFrame, plan: Plan) -> None:
        self._frames = frames
        self._plan = plan

    def tally(self, queries: Mapping[str, Counted]) -> dict[str, Tally | None]:
        """Measure the results of queries."""
        if all(asked.query.plan.shares_passes for asked in queries.values()):
            together = Relaxations({name: one.query for name, one in queries.items()})
            asked = runtimes.Request(together, self._frames)
            with _quiet():
                rows = runtimes.WORKLOADS[asked.place](asked)
                return self._measured(rows, queries)
        return {name: self._one(asked) for name, asked in queries.items()}

    def _measured(self, rows: DataFrame, queries: Mapping[str, Counted]) -> dict[str, Tally | None]:
        """Measure the rows of all queries; a key that a query does not have is NULL in its rows."""
        keys = dict.fromkeys(key for one in queries.values() for key in one.keys)
        total = next((one.total for one in queries.values() if one.total is not None), None)
        found = {
            row["name"]: Tally(row["rows"], row["keys"], float(row["total"] or 0))
            for row in rows.groupBy(sf.col(QUERY).alias("name"))
            .agg(*_measures(tuple(keys), total))
            .collect()
        }
        return {name: found.get(name, Tally(0, 0, 0.0)) for name in queries}

    def _one(self, asked: Counted) -> Tally:
        row = self._run(asked.query).agg(*_measures(asked.keys, asked.total)).collect()[0]
        return Tally(row["rows"], row["keys"], float(row["total"] or 0))

    def ranges(self, query: RelaxedQuery, columns: Sequence[str]) -> dict[str, Range] | None:
        """Find the least and the largest values of columns of a result."""
        rows = self._run(query)
        both = [f(sf.col(f"`{name}`")) for name in columns for f in (sf.min, sf.max)]
        row = rows.agg(*(one.alias(f"c{n}") for n, one in enumerate(both))).collect()[0]
        return {name: Range(row[2 * n], row[2 * n + 1]) for n, name in enumerate(columns)}

    def sums(self, query: RelaxedQuery, by: str, column: str) -> dict[Any, float] | None:
        """Add up a column of a result for each value of another one."""
        rows = self._run(query).groupBy(sf.col(f"`{by}`").alias("by"))
        found = rows.agg(sf.sum(sf.col(f"`{column}`")).alias("sum")).collect()
        return {row["by"]: float(row["sum"]) for row in found}

    def least_gap(self, query: RelaxedQuery, first: str, last: str) -> int | None:
        """Find the least difference of two times of a result, in microseconds."""
        rows = self._run(query)
        kinds = dict(rows.dtypes)
        begin, end = (
            sf.unix_micros(sf.col(name).cast("timestamp"))
            if kinds[name].startswith(("timestamp", "date"))
            else sf.col(name) * sf.lit(query.with_schema(self._schema()).plan.tick_ns) / 1000
            for name in (first, last)
        )
        least = rows.agg(sf.min(end - begin).alias("gap")).collect()[0]["gap"]
        return None if least is None else int(least)

    def common(self, left: RelaxedQuery, right: RelaxedQuery) -> int | None:
        """Count the rows that two results have in common, by their columns in order."""
        first, second = self._run(left), self._run(right)
        names = [f"key_{n}" for n in range(len(first.columns))]
        return first.toDF(*names).join(second.toDF(*names), on=names, how="inner").count()

    def why_fed(self, query: RelaxedQuery, feed: Feed) -> WhyNot | None:
        """Explain a query over the rows of other queries; Spark computes them for every count."""
        if not feed.rows or isinstance(self._frames, Mapping):
            return explain_with(query, self, [self._schema()])
        made = {name: self._run(asked) for name, asked in feed.rows.items()}
        if feed.names:
            given = {name: made.get(name, self._frames) for name in feed.names}
            schemas = [frame.schema for frame in given.values()]
            known = dict(zip(feed.names, schemas, strict=True))
            counting = SparkCounting(given, query.with_schema(known).plan)
            return explain_with(query, counting, schemas)
        parts = [*([_visible(self._frames, feed)] if feed.base else []), *made.values()]
        kept = [_selected(part, feed.columns, feed.time) for part in parts]
        whole = kept[0]
        for part in kept[1:]:
            whole = whole.unionByName(part, allowMissingColumns=True)
        counting = SparkCounting(whole, query.with_schema(whole.schema).plan)
        return explain_with(query, counting, [whole.schema])

    def sampled(self, keys: Sequence[str], events: int, rows: int) -> None:
        """Take no part of the events: a cluster counts them all."""

    def notices(self) -> list[str]:
        """Tell what is odd about the types and times of a DataFrame, if it is one."""
        plan = self._plan
        if isinstance(self._frames, Mapping) or plan.streams:
            return []
        noticed = Noticed(names_of([plan]))
        schema = read_schema(self._frames.schema)
        if plan.type is not None:
            types = self._frames.select(sf.col(f"`{plan.type}`").cast("string").alias("name"))
            found = types.distinct().limit(TYPES_MAX).collect()
            noticed.add_types(row["name"] for row in found if row["name"] is not None)
        if schema is not None and schema.kind(plan.time) is ValueKind.INTEGER:
            time = sf.col(f"`{plan.time}`")
            row = self._frames.agg(
                sf.min(time).alias("least"),
                sf.max(time).alias("largest"),
                sf.count(time).alias("n"),
            ).collect()[0]
            if row["n"]:
                noticed.add_times(row["least"], row["largest"], row["n"])
        return oddities([plan], noticed)

    def _schema(self) -> Any:
        if isinstance(self._frames, Mapping):
            return {name: frame.schema for name, frame in self._frames.items()}
        return self._frames.schema

    def _run(self, query: RelaxedQuery) -> DataFrame:
        with _quiet():
            frame: DataFrame = runtimes.run(runtimes.Request(query, self._frames))
        return frame


def _visible(frame: DataFrame, feed: Feed) -> DataFrame:
    """Leave out base events of the types of derived streams (§15.4)."""
    if feed.type not in frame.columns:
        return frame
    named = sf.col(f"`{feed.type}`").cast("string").isin(*feed.rows)
    return frame.where(named.isNull() | ~named)


def _selected(frame: DataFrame, columns: tuple[str, ...] | None, time: str) -> DataFrame:
    """Select the columns of a stream that a stage reads, and its time."""
    if columns is None:
        return frame
    wanted = {*columns, time}
    return frame.select(*(sf.col(f"`{name}`") for name in frame.columns if name in wanted))


def _measures(keys: tuple[str, ...], total: str | None) -> list[Any]:
    some = sf.count_distinct(sf.struct(*(sf.col(f"`{key}`") for key in keys)))
    amount = sf.sum(sf.col(f"`{total}`")) if total is not None else sf.count(sf.lit(1))
    return [
        sf.count(sf.lit(1)).alias("rows"),
        (some if keys else sf.count(sf.lit(1))).alias("keys"),
        amount.alias("total"),
    ]


def _quiet() -> Any:
    """Leave out warnings that a relaxed query runs in one task."""
    return warnings.catch_warnings(action="ignore")


def why_on_spark(query: Any, streams: Sequence[Any], spark: SparkSession | None) -> WhyNot:
    """Explain why a query finds no or few rows of events that Spark reads; E405 for a stream."""
    counting, schemas, _ = frames_of(query, streams, spark, "`why_not`")
    return explain_with(query, counting, schemas)


def frames_of(
    query: Any, streams: Sequence[Any], spark: SparkSession | None, what: str
) -> tuple[SparkCounting, list[Any], Any]:
    """Open events as DataFrames; return what counts with them, their schemas, and themselves.

    Raises
    ------
    UnsupportedError
        E405 if a DataFrame is a stream.
    """
    way_out = "ask about events that are stored, such as the path of files"
    for stream in streams:
        refuse_stream(stream, what, way_out, query.text)
    session = spark or next(s.sparkSession for s in streams if holder_of(s) is Held.FRAME)
    opened = {id(stream): _frame(stream, session) for stream in streams}
    frames = [timed_frame(opened[id(stream)], query.times) for stream in streams]
    names = query.plan.streams
    many = len(set(names)) > 1
    given = dict(zip(names, frames, strict=True)) if many else frames[0]
    schemas = [frame.schema for frame in frames]
    known = dict(zip(names, schemas, strict=True)) if len(schemas) > 1 else schemas[0]
    return SparkCounting(given, query.with_schema(known).plan), schemas, given


def _frame(events: Any, spark: SparkSession) -> DataFrame:
    match holder_of(events):
        case Held.FILES:
            return read_frame(spark, find_paths(fspath(events)))
        case Held.STORE:
            return store_frame(events, spark)
        case Held.TABLE:
            return spark.createDataFrame(in_utc(as_table(events)))
    frame: DataFrame = events
    return frame
