"""Workloads on Spark give what they give in process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.amount import some
from tests.runtime.cases import same
from tests.runtime.test_spark import events_of, frame_of

from cepheid.errors import DataError, UnsupportedError
from cepheid.workloads import workload

pytestmark = pytest.mark.spark

MINUTES = "WITHIN 1 ms SLIDE 1 ms"
QUERIES = {
    "ab": f"RETURN key, COUNT(*) PATTERN SEQ(A, B) GROUP-BY key {MINUTES}",
    "abc": f"RETURN key, COUNT(*) PATTERN SEQ(A, B, C) GROUP-BY key {MINUTES}",
    "sum": f"RETURN key, SUM(A.x) PATTERN SEQ(A+, B) GROUP-BY key {MINUTES}",
    "edge": f"RETURN key, COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x GROUP-BY key {MINUTES}",
    "later edge": "RETURN key, COUNT(*) PATTERN SEQ(B, A+) WHERE A.x < NEXT(A).x GROUP-BY key "
    f"{MINUTES}",
    "sector": "RETURN sector, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY sector",
    "not": f"RETURN key, COUNT(*) PATTERN SEQ(A, NOT C, B) GROUP-BY key {MINUTES}",
    "whole": "RETURN COUNT(*) PATTERN SEQ(A, B)",
    "single": f"RETURN key, COUNT(*) PATTERN A GROUP-BY key {MINUTES}",
    "all singles": "RETURN COUNT(*) PATTERN A",
}
"""The counts of the last two are whole numbers, and doubles where all are in one table."""


def test_a_workload_gives_the_rows_of_each_query(spark: SparkSession, tmp_path: Path) -> None:
    events = events_of(2000)
    together = workload(QUERIES)
    expected = together.run(events, separate=True)
    frame = frame_of(spark, events)
    united = together.run(frame).toArrow()
    assert united.column_names == together.run(events).column_names
    assert united.schema.field("count").type == pa.float64()
    assert expected["single"].schema.field("count").type == pa.int64()
    apart = together.run(frame, separate=True)
    parquet.write_table(events, tmp_path / "events.parquet")
    files = together.run(str(tmp_path), spark=spark, separate=True)
    asked = some([*QUERIES], 3)  # One by one they take longest.
    for name, table in expected.items():
        rows = table.to_pylist()
        assert rows, "a test without rows shows nothing"
        own = [row for row in united.to_pylist() if row["query"] == name]
        assert len(own) == len(rows)
        if name not in asked:
            continue
        assert same(apart[name].toArrow(), rows), name
        assert same(files[name].toArrow(), rows), name


def test_results_that_do_not_fit_one_table_come_apart(spark: SparkSession) -> None:
    text = QUERIES["ab"]
    both = workload({"ab": text, "exact": f"{text} NUMBERS exact"})
    events = events_of(300)
    frame = frame_of(spark, events)
    with pytest.raises(DataError):
        both.run(frame)
    found = both.run(frame, separate=True)
    for name, table in both.run(events, separate=True).items():
        assert same(found[name].toArrow(), table.to_pylist()), name


def test_no_whole_number_is_rounded_to_fit_one_table(spark: SparkSession) -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "B"], "x": [2**53 + 1, 1]})
    both = workload({"a": "RETURN MAX(A.x) AS n PATTERN A", "b": "RETURN SUM(B.x) AS n PATTERN B"})
    frame = frame_of(spark, events)
    with pytest.raises(Exception, match=r"error\[E531\].*would round"):
        both.run(frame).toArrow()
    assert both.run(frame, separate=True)["a"].toArrow().to_pylist() == [{"n": 2**53 + 1}]


def test_matches_are_listed_beside_aggregates(spark: SparkSession) -> None:
    listed = f"RETURN a.x, b.ts PATTERN SEQ(A a, B b) WHERE [key] {MINUTES}"
    both = workload({"ab": QUERIES["ab"], "list": listed})
    events = events_of(300)
    found = both.run(frame_of(spark, events), separate=True)
    for name, table in both.run(events, separate=True).items():
        assert len(table) == found[name].count() > 0, name


def test_what_cannot_be_run_is_named(spark: SparkSession) -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A a, NOT NEXT C, B b) WHERE [a.key]"
    with pytest.raises(UnsupportedError) as caught:
        workload({"ab": QUERIES["ab"], "some": text}).run(frame_of(spark, events_of(10)))
    assert "--> some:" in str(caught.value)
