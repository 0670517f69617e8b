"""Run SELECT over DataFrames with Spark's own operators where possible; nothing is collected.

``kinds/selection/explain.py`` describes the same steps in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.events.files import find_files
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.format import as_written
from cepheid.expressions.spark_columns import Expressions
from cepheid.expressions.spark_numbers import mean_whole, sum_whole
from cepheid.jobs.sources import EventSource, source_of
from cepheid.kinds.selection.finishing import result_columns
from cepheid.kinds.selection.pairs import following
from cepheid.kinds.selection.sketches import HLL_LG_K
from cepheid.kinds.selection.store import IndexPlan, limit_stores, plan_index, run_index
from cepheid.language import tree
from cepheid.options import Held, holder_of
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import (
    COUNTS_DISTINCT,
    Extent,
    SelectAggregate,
    SelectFunction,
    Selection,
    SelectKind,
)
from cepheid.runtimes.spark.selection.join import join_frames
from cepheid.runtimes.spark.selection.odd_times import warn_of_first_times, warn_of_stored_times
from cepheid.runtimes.spark.selection.rows import (
    Stream,
    expressions_over,
    filtered,
    project,
    stream_of,
)
from cepheid.runtimes.spark.selection.windows import (
    Clock,
    counted_windows,
    session_windows,
    time_windows,
    with_time,
)
from cepheid.runtimes.spark.store import store_frame
from cepheid.runtimes.two_streams import with_schemas
from cepheid.spark.text_times import timed_frame
from cepheid.spark.whole_frames import refuse_stream_of_query
from cepheid.store.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike


GROUPED = "cepheid events"
"""A column that nobody asked for."""


def run_frames(
    compiled: CompiledQueryLike,
    streams: Sequence[Any],
    spark: SparkSession | None,
    strategy: str | None = None,
) -> DataFrame:
    """Run a SELECT over DataFrames, files or stores; the rows have no order.

    Files and stores are read by Spark's tasks. Aggregates that the index of a store answers are
    computed here: there are few, and no event is read.

    Raises
    ------
    UnsupportedError
        E405 if a DataFrame is a stream.
    """
    for stream in streams:
        refuse_stream_of_query(stream, compiled.plan.text)
    session = spark or next(s.sparkSession for s in streams if holder_of(s) is Held.FRAME)
    inputs = [_opened(stream, session, compiled.times) for stream in streams]
    plan = with_schemas(compiled, [one.schema for one in inputs])
    select = plan.select
    if select.kind is SelectKind.AGGREGATE and isinstance(inputs[0], EventSource):
        index = plan_index(plan, inputs[0], strategy or "auto")
        if isinstance(index, IndexPlan) and index.plan.method == "index":
            warn_of_stored_times(plan, inputs[0].events)
            return session.createDataFrame(in_utc(run_index(plan, inputs[0], index)))
    sources = [one for one in inputs if isinstance(one, EventSource)]
    frames = inputs
    if sources:
        limited = limit_stores(plan, inputs, strategy or "auto")
        frames = [
            store_frame(stream, session, one.cover) if isinstance(one, EventSource) else one
            for stream, one in zip(streams, limited, strict=True)
        ]
    warn_of_first_times(plan, frames)
    return _ordered(select.then or select, select_frames(plan, frames))


def _ordered(select: Selection, frame: DataFrame) -> DataFrame:
    """Sort rows, take the first ones, and drop the columns that were only sorted by."""
    columns = []
    for order in select.order:
        column = sf.col(f"`{order.name}`")
        down = column.desc_nulls_first() if order.nulls_first else column.desc_nulls_last()
        up = column.asc_nulls_first() if order.nulls_first else column.asc_nulls_last()
        columns.append(down if order.descending else up)
    if columns:
        frame = frame.orderBy(*columns)
    if select.limit is not None:
        frame = frame.limit(select.limit)
    return frame.drop(*(order.name for order in select.order if order.hidden))


def _opened(events: Any, spark: SparkSession, times: TextTimes) -> Any:
    """Open events as a DataFrame, and a store as a source."""
    if holder_of(events) is Held.FRAME:
        return timed_frame(events, times)
    if isinstance(events, str | PathLike):
        path = str(events)
        if "://" in path:
            return timed_frame(spark.read.parquet(path), times)
        files = [str(file) for file in find_files(path)]
        if all(file.endswith((".parquet", ".pq")) for file in files):
            return timed_frame(spark.read.parquet(*files), times)
    source = source_of(events, times)
    if isinstance(source.events, Snapshot):
        return source
    return spark.createDataFrame(in_utc(source.whole(source.schema.names)))


def in_utc(table: pa.Table) -> pa.Table:
    """Attach UTC to times without a zone: Spark would read them in the session's zone."""
    fields = [
        field.with_type(pa.timestamp(field.type.unit, "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz is None
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def select_frames(plan: SelectPlan, frames: Sequence[DataFrame]) -> DataFrame:
    """Run a SELECT over DataFrames."""
    select = plan.select
    if select.kind is SelectKind.JOIN:
        pairs = join_frames(plan, frames)
        return pairs if select.then is None else select_frames(following(plan), [pairs])
    stream = stream_of(select.streams[0].alias, frames[0])
    numbered = None
    if select.window.extent is Extent.EVENTS and select.kind is SelectKind.AGGREGATE:
        # Arrival is the order of the DataFrame, before anything is filtered or moved.
        numbered = "cepheid arrival"
        with_number = stream.frame.withColumn(numbered, sf.monotonically_increasing_id())
        stream = stream._replace(frame=with_number)
    expressions = expressions_over(frames[0], lambda node: stream.typed(node.attribute.text))
    kept = stream._replace(frame=filtered(stream.frame, select.condition, expressions))
    if select.kind is SelectKind.FILTER:
        return project(
            kept.frame, select.columns, expressions, lambda node: stream.typed(node.attribute.text)
        )
    rows = aggregate_frame(plan, kept, expressions, arrival=numbered)
    return finished(select, rows)


def finished(select: Selection, frame: DataFrame) -> DataFrame:
    """Filter aggregated rows by HAVING, and compute the columns of the result."""
    rows = stream_of("", frame)
    expressions = expressions_over(frame, lambda node: rows.typed(node.attribute.text))
    if select.having is not None:
        frame = frame.filter(expressions.column(select.having))
    if select.results is None:
        return frame
    columns = result_columns(select)
    return project(frame, columns, expressions, lambda node: rows.typed(node.attribute.text))


def aggregate_frame(
    plan: SelectPlan,
    stream: Stream,
    expressions: Expressions,
    *,
    arrival: str | None = None,
) -> DataFrame:
    """Aggregate windows and keys."""
    if not plan.select.aggregates:
        # Spark forms no groups without an aggregate, so events are counted and the count is left.
        count = SelectAggregate(GROUPED, SelectFunction.COUNT, None)
        select = msgspec.structs.replace(plan.select, aggregates=(count,))
        counted = msgspec.structs.replace(plan, select=select)
        rows = aggregate_frame(counted, stream, expressions, arrival=arrival)
        return rows.drop(GROUPED)
    select = plan.select
    keys = [stream.typed(key.attribute).column.alias(key.name) for key in select.keys]
    aggregates = [
        _aggregate(a, expressions, stream).alias(a.name)
        for a in select.aggregates
    ]  # fmt: skip
    if select.window.extent is Extent.NONE:
        grouped = stream.frame.groupBy(*keys) if keys else stream.frame
        return grouped.agg(*aggregates)
    names = [key.name for key in select.keys]
    if select.window.extent is Extent.EVENTS:
        assert arrival is not None, "events are numbered by it"
        ties = [stream.typed(name).column for name in plan.tiebreak]
        order = [with_time(stream.typed(plan.time)).column, *ties, sf.col(f"`{arrival}`")]
        return counted_windows(stream.frame, select.window, keys, order, aggregates, names)
    if select.window.extent is Extent.SESSION:
        time = stream.typed(plan.time)
        return session_windows(stream.frame, time, select.window, keys, aggregates, names)
    clock = Clock.of(stream.typed(plan.time), select.window)
    return time_windows(stream.frame, clock, select.window, keys, aggregates, names)


RANK_ACCURACY = 10_000
"""Spark's percentiles are off by at most one in so many values."""


def _distinct_estimate(value: Column) -> Column:
    """Estimate the number of distinct values by Spark's own sketch, of the library's kind."""
    # Spark's sketch takes few types, and its hash takes all: one NaN is another, 0.0 is -0.0.
    hashed = sf.when(value.isNotNull(), sf.xxhash64(value))
    return sf.coalesce(
        sf.hll_sketch_estimate(sf.hll_sketch_agg(hashed, sf.lit(HLL_LG_K))), sf.lit(0)
    )


def _percentile(value: Column, fraction: float) -> Column:
    """Interpolate between two values; from minus infinity to a number it is minus infinity.

    Spark adds a part of the distance to the lower value, which is NaN then.
    """
    found, count = sf.percentile(value, sf.lit(fraction)), sf.count(value)
    place = (count - 1) * sf.lit(fraction)
    lowest = sf.count_if(value == sf.lit(-math.inf))
    highest = sf.count_if(value >= sf.lit(math.inf))
    spoiled = sf.isnan(found) & (sf.floor(place) < lowest) & (sf.ceil(place) < count - highest)
    return sf.when(spoiled, sf.lit(-math.inf)).otherwise(found)


def _aggregate(aggregate: SelectAggregate, expressions: Expressions, stream: Stream) -> Column:
    function, argument = aggregate.function, aggregate.argument
    if argument is None:
        return sf.count(sf.lit(1))
    if function in COUNTS_DISTINCT and isinstance(argument, tree.Attribute):
        # As it came: decimals of any length are told apart.
        value = stream.typed(argument.attribute.text).column
    else:
        value = expressions.column(argument)
    if function is SelectFunction.APPROX_DISTINCT:
        return _distinct_estimate(value)
    if function is SelectFunction.DISTINCT:
        return sf.count_distinct(value)
    if function is SelectFunction.PERCENTILE:
        assert aggregate.fraction is not None, "a percentile has a share"
        return _percentile(value.cast("double"), aggregate.fraction)
    if function is SelectFunction.APPROX_PERCENTILE:
        fraction = sf.lit(aggregate.fraction)
        return sf.percentile_approx(value.cast("double"), fraction, RANK_ACCURACY)
    if expressions.is_whole(argument):
        if function is SelectFunction.SUM:
            return sum_whole(value, as_written(argument))
        if function is SelectFunction.AVG:
            return mean_whole(value)
    functions = {"COUNT": sf.count, "SUM": sf.sum, "AVG": sf.avg, "MIN": sf.min, "MAX": sf.max}
    return functions[function.value](value)
