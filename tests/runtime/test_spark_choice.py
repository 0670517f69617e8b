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
from cepheid.plans.needs import Strategy
from cepheid.runtimes import task_runs
from cepheid.runtimes.spark import calibrate, choice
from cepheid.runtimes.spark.batch import project
from cepheid.runtimes.spark.event_source import EventSource
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


def test_measured_runs_stand_beside_estimates_and_correct_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.read.parquet(folder_of(EVENTS, tmp_path))
    monkeypatch.setenv(task_runs.FILE_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setattr(task_runs, "SECONDS_MIN", 0.0)
    told = query(COUNT).explain(events=frame, analyze=True)
    (ran,) = task_runs.read_task_runs()
    assert f"measured, {ran}: " in told
    assert f"estimated, {ran}: " in told
    other = next(name for name in ("time shuffle", "key shuffle") if name != ran)
    task_runs.note_run(other, 1.0, 1e9)
    assert "times 2.0 by measured runs" in query(COUNT).explain(engine="spark", events=frame)


def test_footers_beneath_a_frame_tell_its_events_without_a_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, os.devnull)
    frame = spark.read.parquet(folder_of(EVENTS, tmp_path))
    plan = query(COUNT).with_schema(frame.schema).plan
    with patch.object(choice, "profile_partitions", side_effect=AssertionError):
        files = choice.choose_for_frame(plan, EventSource.of(frame, project(frame, plan), plan))
    assert files.facts is not None
    assert (files.facts.rows, files.facts.span, files.facts.parts) == (4000, 4000, 1)
    assert not files.facts.in_order, "the files overlap in time"
    renamed = frame.withColumn("key", frame["key"] + 1)
    rows = choice.choose_for_frame(plan, EventSource.of(renamed, project(renamed, plan), plan))
    assert rows.facts is not None
    assert rows.facts.parts == 0, "Spark computes a column"


def test_files_beneath_a_frame_are_cut_by_time_without_a_pass(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.read.parquet(folder_of(EVENTS, tmp_path))
    q = query("RETURN COUNT(*) PATTERN A+ WHERE A.key <= NEXT(A).key WITHIN 50 us SLIDE 50 us")
    plan = q.with_schema(frame.schema).plan
    with (
        patch.object(choice, "profile_partitions", side_effect=AssertionError),
        patch.object(EventSource, "keeps", return_value=False),  # Else one task reads so few.
    ):
        chosen = choice.choose_for_frame(plan, EventSource.of(frame, project(frame, plan), plan))
        found = q.run(frame).toArrow()
    assert chosen.strategy is Strategy.TIME_SHUFFLE
    assert chosen.profile is not None
    (edge,) = chosen.profile.edges
    assert 1900 < edge < 2100, "two tasks get half of the events each"
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, q.run(EVENTS).to_pylist()))


def test_the_costs_of_spark_are_measured(spark: SparkSession) -> None:
    with patch.multiple(calibrate, ROWS=10_000, WARM=1, RUNS=2, TASKS=3):
        found = calibrate.measure_spark(spark)
    assert set(found) == {"stage_ms", "task_ms", "scan_ns", "row_ns", "cell_ns"}
    assert all(figure >= 0 for figure in found.values())
