"""Matches on Spark: as many as in process, each once, however they are cut into tasks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.runtime.cases import plain, same
from tests.runtime.test_files import write
from tests.runtime.test_spark import events_of

import cepheid
from cepheid.runtimes import scan

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

KEYED = "RETURN MATCHES PATTERN SEQ(A, B+) SEMANTICS next WHERE [key] WITHIN 1 ms SLIDE 500 us"
UNKEYED = "RETURN MATCHES PATTERN SEQ(A, NOT C, B) SEMANTICS next WITHIN 40 us"
LEADING = "RETURN MATCHES PATTERN SEQ(NOT C, A, B) SEMANTICS next WITHIN 60 us SLIDE 20 us"
TRAILING = "RETURN key, A.x, B.x AS later PATTERN SEQ(A, B+) WHERE [key] WITHIN 30 us"
WHOLE = "RETURN MATCHES PATTERN SEQ(A, B) SEMANTICS contiguous WHERE [key]"
GLOBAL = (
    "RETURN key, COUNT(*), SUM(B.x) PATTERN SEQ(A+, B) WHERE B.x < FIRST(A).x GROUP-BY key "
    "WITHIN 100 us SLIDE 50 us"
)
QUERIES = [KEYED, UNKEYED, LEADING, TRAILING, WHOLE, GLOBAL]


def mixed(spark: SparkSession, events: pa.Table) -> DataFrame:
    """Return events as a DataFrame in no order."""
    return spark.createDataFrame(events).repartition(3, "x")


@share(3)
@pytest.mark.parametrize("text", QUERIES)
def test_frames_and_files_give_the_matches(
    text: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 50)
    events = events_of(600)
    q = cepheid.query(text)
    expected = q.run(events)
    assert len(expected) > 20
    path = write(events, tmp_path / "events")
    for result in (q.run(mixed(spark, events)), q.run(path, spark=spark)):
        table = result.toArrow()
        assert table.column_names == expected.column_names
        assert same(table, expected.to_pylist())
        if "match_id" in table.column_names:
            assert len(set(table["match_id"].to_pylist())) == len(table)


@pytest.mark.parametrize("text", [KEYED, UNKEYED, WHOLE])
def test_a_limit_holds_for_all_tasks_together(
    text: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 50)
    events = events_of(600)
    known = plain(cepheid.query(text).run(events).to_pylist())
    q = cepheid.query(f"{text} LIMIT 7")
    path = write(events, tmp_path / "events")
    for result in (q.run(mixed(spark, events)), q.run(path, spark=spark)):
        rows = plain(result.toArrow().to_pylist())
        assert len(rows) == 7
        assert all(known.count(row) == 1 for row in rows)


def test_a_task_lists_no_more_than_is_read(spark: SparkSession) -> None:
    events = pa.table({"ts": range(60), "type": ["A"] * 60, "key": ["k"] * 60})
    q = cepheid.query("RETURN MATCHES PATTERN A+ WHERE [key]")  # 2^60 - 1 matches
    rows = q.run(spark.createDataFrame(events)).limit(3).collect()
    assert [len(row["events"]) for row in rows] == [1, 1, 2]


def test_unpartitioned_windows_are_shuffled_by_time(spark: SparkSession) -> None:
    q = cepheid.query(UNKEYED)
    assert "time shuffle" in q.explain(engine="spark")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q.run(mixed(spark, events_of(50)))


def test_a_path_may_hold_parts_of_structures_and_texts(spark: SparkSession) -> None:
    events: Any = pa.table(
        {
            "ts": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
            "type": pa.array(["A", "B", "B"]).dictionary_encode(),
            "place": [{"city": "x", "no": 1}, {"city": "y", "no": 2}, {"city": "x", "no": 3}],
        }
    )
    text = "RETURN MATCHES PATTERN SEQ(A, B) WHERE [`place.city`]"
    expected = cepheid.query(text).run(events)
    frame = spark.createDataFrame(
        events.to_pandas(), "ts timestamp, type string, place struct<city string, no long>"
    )
    result = cepheid.query(text).run(frame)
    assert len(expected) == 1
    assert same(result.toArrow(), expected.to_pylist())


@pytest.mark.slow  # tests/runtime/test_sql.py calls the same function
def test_matches_in_sql(spark: SparkSession, tmp_path: Path) -> None:
    cepheid.register(spark)
    events = events_of(300)
    spark.createDataFrame(events).createOrReplaceTempView("events")
    path = write(events, tmp_path / "events")
    for text in (KEYED, f"{KEYED} LIMIT 5"):
        expected = cepheid.query(text).run(events).to_pylist()
        rows = spark.sql(f"SELECT * FROM cepheid(TABLE(events), '{text}')").toArrow()
        assert same(rows, expected)
        source = spark.read.format("cepheid").option("path", path).option("query", text).load()
        assert same(source.toArrow(), expected)
