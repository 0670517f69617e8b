"""Queries over streaming DataFrames: emit each row of a closed window exactly once.

    events --mapInArrow--> blobs by bucket --stateful operator--> blobs of rows --mapInArrow--> rows

Keys share a few buckets, because one state per key would cost one Python call per key. The operator
keeps its own watermark with the same delay as Spark's, because Spark's watermark lags by one
micro-batch and lets late rows pass.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupStateTimeout

from cepheid.jobs.kind import needs_of, task_kind
from cepheid.jobs.work import Work
from cepheid.options import Held, holder_of, one_of, refuse, texts
from cepheid.plans.plan import Plan
from cepheid.runtimes.spark import stream_tasks as tasks
from cepheid.runtimes.spark.batch import (
    SHUFFLE_PARTITIONS_DEFAULT,
    canonical,
    parallelism,
)
from cepheid.spark.batches import BUCKET
from cepheid.spark.kernels import ship_kernels
from cepheid.spark.murmur import values_for_partitions
from cepheid.spark.schema import (
    alias_of,
    arrow_schema_of,
    columns_of,
    names_of,
    result_schema_of,
    spark_schema_of,
)
from cepheid.spark.session import STATE_SETTINGS
from cepheid.spark.text_times import timed_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.runtimes.local import CompiledQueryLike

METRICS = "cepheid"
"""The name of the observed metrics in the progress of a query."""

LATE = ("drop", "side")


def stream_frame(
    compiled: CompiledQueryLike, frame: DataFrame, *, watermark: str, late: str
) -> DataFrame | tuple[DataFrame, DataFrame]:
    """Build the closed-window rows of a stream and, if requested, its late events.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or ``late`` is unknown.
    UnsupportedError
        E405 if the windows of the query never close.
    """
    check_stream(frame, late)
    frame = timed_frame(frame, compiled.times)
    plan = compiled.with_schema(frame.schema).plan
    task_kind(plan).check_live(plan)
    set_up(frame.sparkSession)
    results = live_rows(frame, plan, watermark)
    return results if late == "drop" else (results, late_events(frame, plan, watermark))


def check_stream(frame: DataFrame, late: str) -> None:
    """Reject a DataFrame that is not a stream.

    Raises
    ------
    ValueError
        If the DataFrame is no stream, or ``late`` is unknown.
    """
    one_of("late", late, LATE)
    if holder_of(frame) is not Held.FRAME:
        refuse("E592", f"events are a streaming DataFrame of Spark, not {holder_of(frame)}")
    if not frame.isStreaming:
        refuse("E592", "this DataFrame is not a stream: use `run`")


def set_up(spark: SparkSession) -> None:
    """Set RocksDB as state store for queries that start from now on, unless the user chose one."""
    ship_kernels(spark)
    for name, (usual, better) in STATE_SETTINGS.items():
        if spark.conf.get(name, usual) == usual:
            spark.conf.set(name, better)
    if spark.conf.get("spark.sql.shuffle.partitions") == SHUFFLE_PARTITIONS_DEFAULT:
        message = "a micro-batch of 200 tasks takes seconds: set spark.sql.shuffle.partitions to "
        message += "the number of cores before the query starts; it stays with the checkpoint"
        warnings.warn(message, stacklevel=5)


def buckets_of(count: int, base: int = 0) -> tuple[int, ...]:
    """Choose bucket numbers from a base on, so that Spark sends one bucket to every task.

    Consecutive numbers would hash some tasks to no bucket, and others to two.
    """
    return tuple(sorted(values_for_partitions(count, base)))


def delay_of(spark: SparkSession, watermark: str, *, name: str = "watermark") -> int:
    """Parse the delay of a watermark in microseconds, as Spark does.

    Raises
    ------
    OptionError
        E590 if it is not a length of time.
    """
    texts(**{name: watermark})
    zero = sf.timestamp_seconds(sf.lit(0))
    later = sf.unix_micros(zero + sf.lit(watermark).try_cast("interval"))
    (row,) = spark.range(1).select(later).collect()
    if row[0] is None or row[0] < 0:
        message = f"{name} is a length of time such as '10 seconds', not {watermark!r}"
        refuse("E590", message, "write a number and a unit: seconds, minutes, hours or days")
    return int(row[0])


def partitions_of(spark: SparkSession) -> int:
    """Count the tasks of the stateful operator."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or parallelism(spark))


def live_rows(frame: DataFrame, plan: Plan, watermark: str) -> DataFrame:
    """Return the rows that leave as the watermark goes on; that of a plan which may be live."""
    columns = columns_of(frame, plan)
    names = names_of(plan, frame.columns)
    projected = frame.select(*(columns[name][0].alias(alias_of(name)) for name in names))
    schema = arrow_schema_of(projected, names_of(plan, projected.columns))
    results = result_schema_of(plan, schema)
    spark = frame.sparkSession
    needs = needs_of(plan)
    names = needs.buckets
    by_panes = partitions_of(spark) > 1 and not needs.no_panes
    buckets = buckets_of(partitions_of(spark)) if names or by_panes else (0,)
    work = Work.of(plan, schema, results, len(buckets), delay=delay_of(spark, watermark))
    if names:
        keys = [canonical(projected, name) for name in names]
        number = sf.pmod(sf.hash(*keys), sf.lit(len(buckets)))
        projected = projected.withColumn(BUCKET, number)
    if by_panes:
        send = tasks.send_stream(work, buckets, pane=needs.pane)
        sent = projected.mapInArrow(send, tasks.SENT_DDL)
        blobs = sent.withWatermark("latest", watermark)
        closed = _payloads(blobs, tasks.take_pane_turns(work, buckets), "append")
        # By a shuffle: a smaller number of partitions alone would take the buckets one by one.
        ours = closed.repartition(1)
        return ours.mapInArrow(tasks.compose_panes(work), spark_schema_of(results))
    sent = projected.mapInArrow(tasks.send_stream(work, buckets), tasks.SENT_DDL)
    # Rows of open windows take the place of those that left before.
    mode = "update" if plan.emits_early else "append"
    return rows_of_turns(sent, watermark, tasks.take_turns(work), results, mode)


def rows_of_turns(
    sent: DataFrame, watermark: str, turns: tasks.Turns, results: pa.Schema, mode: str = "append"
) -> DataFrame:
    """Run the stateful operator and return its rows, with its counters as metrics."""
    return rows_of_watched(sent.withWatermark("latest", watermark), turns, results, mode)


def rows_of_watched(
    blobs: DataFrame, turns: tasks.Turns, results: pa.Schema, mode: str = "append"
) -> DataFrame:
    """Do the same for blobs that have their watermark already."""
    rows = _payloads(blobs, turns, mode)
    return rows.mapInArrow(tasks.unpack(results), spark_schema_of(results))


def _payloads(blobs: DataFrame, turns: tasks.Turns, mode: str) -> DataFrame:
    turned = _stateful(blobs, turns, mode)
    counts = [sf.sum(name).alias(name) for name in tasks.SUMS]
    counts += [sf.max(name).alias(name) for name in tasks.MAXIMA]
    told = turned.observe(METRICS, *counts)
    return told.where(sf.col("payload").isNotNull()).select("payload")


def late_events(frame: DataFrame, plan: Plan, watermark: str) -> DataFrame:
    """Collect late events with all columns, by a query that reads only their times."""
    schema: pa.Schema = arrow_schema_of(frame, frame.columns)
    delay = delay_of(frame.sparkSession, watermark)
    work = Work.of(plan, schema, schema, 1, delay=delay)
    sent = frame.mapInArrow(tasks.send_stream(work, (0,), drop=False), tasks.SENT_DDL)
    blobs = sent.withWatermark("latest", watermark)
    found = _stateful(blobs, tasks.find_late(work), "append")
    rows = found.where(sf.col("payload").isNotNull()).select("payload")
    return rows.mapInArrow(tasks.unpack(schema), frame.schema)


def _stateful(blobs: DataFrame, function: Any, mode: str) -> DataFrame:
    return blobs.groupBy("bucket").applyInPandasWithState(
        function,
        tasks.TURNED_DDL,
        "data binary",
        mode,
        # Only a later event moves the watermark, so nothing happens while none comes.
        GroupStateTimeout.NoTimeout,
    )
