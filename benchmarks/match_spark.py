"""Falling prices on Spark, from a Parquet file to three totals: a table in, a run out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.match_cases import FALLING
from benchmarks.match_rivals import ISLANDS
from pyarrow import parquet
from pyspark.sql import SparkSession

import cepheid
from cepheid.spark.session import SETTINGS, START_SETTINGS

WINDOWS = ISLANDS.replace("FROM e ", "FROM ticks ").replace("arg_min", "min_by")
"""Spark SQL's own way: window functions, then groups."""


def prepare(table: pa.Table, *, is_ours: bool) -> Callable[[], dict[str, Any]]:
    """Return a run of MATCH_RECOGNIZE, or of Spark's own window functions."""
    folder = Path(tempfile.mkdtemp())
    parquet.write_table(table, folder / "ticks.parquet", row_group_size=1 << 20)
    builder = SparkSession.builder.master("local[2]")
    for name, value in (START_SETTINGS | SETTINGS).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.read.parquet(str(folder)).createOrReplaceTempView("ticks")
    text = WINDOWS.replace("arg_max", "max_by")

    def run() -> dict[str, Any]:
        rows = cepheid.sql(spark, FALLING) if is_ours else spark.sql(text)
        rows.createOrReplaceTempView("runs")
        (row,) = spark.sql("SELECT count(*), sum(len), sum(p0 - p1) FROM runs").collect()
        return {"matches": row[0], "check": [int(value) for value in row], "ok": True}

    return run
