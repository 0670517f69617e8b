"""Measure on Spark: starting stages and Python tasks, reading in the JVM, passing rows to Python.

Times are processor times of the JVM, of its Python workers and of this process, because others may
use the machine at the same moment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from cepheid.jobs.blobs import Batches
from cepheid.spark.size import cores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000_000
WARM, RUNS, TASKS = 4, 6, 16
COLUMNS = ("a", "b", "c")
SPENT = "pid long, spent double"


def measure_spark(spark: SparkSession) -> dict[str, float]:
    """Measure the unit costs of Spark: of stages and tasks, of reading, and of passing rows."""
    few, many = _stage(spark, 1), _stage(spark, TASKS)
    task = max(many - few, 0.0) / (TASKS - 1)
    rows = spark.range(0, ROWS, 1, cores_of(spark)).select(
        *(sf.hash("id", sf.lit(name)).alias(name) for name in COLUMNS)
    )
    values = ROWS * len(COLUMNS)
    counted = _spent(spark, lambda: _grouped(rows).collect())
    narrow = rows.select(COLUMNS[0]).mapInArrow(_count, SPENT)
    wide = rows.mapInArrow(_count, SPENT)
    one, three = (_spent(spark, passing.collect) / ROWS for passing in (narrow, wide))
    cell = max(three - one, 0.0) / (len(COLUMNS) - 1)
    return {
        "stage_ms": max(few - task, 0.0) * 1e3,
        "task_ms": task * 1e3,
        "scan_ns": counted * 1e9 / values,
        "row_ns": max(one - cell, 0.0) * 1e9,
        "cell_ns": cell * 1e9,
    }


def _grouped(rows: DataFrame) -> DataFrame:
    found = [sf.max(name).alias(name) for name in COLUMNS]
    return rows.groupBy((sf.col("a") % 64).alias("place")).agg(*found)


def _stage(spark: SparkSession, tasks: int) -> float:
    """Measure a job of one stage of Python tasks without work."""
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(_count, SPENT)
    return _spent(spark, lambda: frame.collect())


def _count(batches: Batches) -> Batches:
    for _ in batches:
        pass
    columns: dict[str, list[Any]] = {"pid": [os.getpid()], "spent": [time.process_time()]}
    yield pa.record_batch(columns)


def _spent(spark: SparkSession, job: Callable[[], Any]) -> float:
    """Measure the processor seconds of a job, of all processes together, on average."""
    for _ in range(WARM):
        job()
    jvm, here = _jvm_seconds(spark), time.process_time()
    before: dict[int, float] = {}
    after: dict[int, float] = {}
    for _ in range(RUNS):
        for row in job():
            if "spent" in row:
                pid = int(row["pid"])
                before.setdefault(pid, float(row["spent"]))
                after[pid] = max(after.get(pid, 0.0), float(row["spent"]))
    workers = sum(after[pid] - before[pid] for pid in after) * RUNS / (RUNS - 1)
    return (_jvm_seconds(spark) - jvm + time.process_time() - here + workers) / RUNS


def _jvm_seconds(spark: SparkSession) -> float:
    process: Any = spark.sparkContext._jvm.java.lang.ProcessHandle.current()  # type: ignore[union-attr]  # a session has one
    return float(process.info().totalCpuDuration().get().toNanos()) / 1e9
