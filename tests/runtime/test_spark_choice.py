"""Strategies by estimated seconds, on Spark: passes that do not pay, words, and measurements."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyarrow import parquet

from cepheid import query
from cepheid.runtimes.spark import calibrate, choice
from cepheid.runtimes.task_rates import FILE_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
COUNT = "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 1 ms SLIDE 1 ms"
EVENTS = pa.table(
    {"ts": range(4000), "type": ["A", "B"] * 2000, "key": [n % 7 for n in range(4000)]}
)


def folder_of(events: pa.Table, folder: Path) -> str:
    """Write two files that overlap in time."""
    for number in range(2):
        part = events.take(list(range(number, len(events), 2)))
        parquet.write_table(part, folder / f"{number}.parquet")
    return str(folder)


def test_small_frames_run_without_a_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, os.devnull)
    frame = spark.read.parquet(folder_of(EVENTS, tmp_path))
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        with (
            patch.object(choice, "profile_partitions", side_effect=AssertionError),
            patch.object(choice, "spread_keys", side_effect=AssertionError),
        ):
            found = query(COUNT).run(frame).toArrow()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    wanted = query(COUNT).run(EVENTS)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))


def test_the_estimates_in_words(spark: SparkSession, tmp_path: Path) -> None:
    path = folder_of(EVENTS, tmp_path)
    frame = spark.read.parquet(path)
    told = query(COUNT).explain(engine="spark", events=frame)
    for word in ("costs  about 4,000 events", "├─ chosen", "key shuffle: ", "time shuffle: "):
        assert word in told
    assert "scan slices: " in query(COUNT).explain(engine="spark", events=path, spark=spark)
    assert "estimated, " in query(COUNT).explain(events=frame, analyze=True)


def test_the_costs_of_spark_are_measured(spark: SparkSession) -> None:
    with patch.multiple(calibrate, ROWS=10_000, WARM=1, RUNS=2, TASKS=3):
        found = calibrate.measure_spark(spark)
    assert set(found) == {"stage_ms", "task_ms", "scan_ns", "row_ns"}
    assert all(figure >= 0 for figure in found.values())
