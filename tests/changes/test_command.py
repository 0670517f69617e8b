"""The option --changes of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.changes.changelogs import table_of
from tests.interfaces.program import run, run_in

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:one task follows all changes"),
]

FEED = [
    {"op": "c", "id": 1, "ts": 1, "type": "A", "key": "p"},
    {"op": "c", "id": 2, "ts": 4, "type": "B", "key": "p"},
    {"op": "u", "id": 2, "ts": 3, "type": "B", "key": "p"},
    {"op": "c", "id": 3, "ts": 2, "type": "A", "key": "p"},
    {"op": "d", "id": 1},
    {"op": "d", "id": 7},
]


def test_run_reads_a_changelog(tmp_path: Path) -> None:
    pq.write_table(table_of(FEED), tmp_path / "feed.parquet")
    words = ("--input", tmp_path / "feed.parquet", "--changes", "op", "--id", "id")
    for text, told in (
        ("RETURN COUNT(*) PATTERN SEQ(A+, B)", {"count": 1.0}),
        ("RETURN A.ts, B.ts AS b PATTERN SEQ(A, B)", {"A_ts": 2, "b": 3}),
    ):
        done = run("run", "-q", text, *words, "--format", "json")
        assert json.loads(done.stdout) == told
        assert "1 of 6 changes do not fit the table" in done.stderr


def test_run_reads_a_changelog_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table_of(FEED), tmp_path / "feed.parquet")
    words = ("--input", tmp_path / "feed.parquet", "--changes", "op", "--id", "id")
    text = "RETURN COUNT(*) PATTERN SEQ(A+, B)"
    shown = run_in(spark, "run", "-q", text, *words, "--format", "json", "--engine", "spark")
    assert json.loads(shown) == {"count": 1.0}


def test_a_stream_of_changes_runs_from_the_command_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    pq.write_table(table_of(FEED), tmp_path / "feed" / "1.parquet")
    run_in(
        spark, "stream", "-q", "RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key",
        "--source", tmp_path / "feed", "--sink", tmp_path / "rows", "--once",
        "--checkpoint", tmp_path / "state", "--watermark", "1 hour", "--changes", "op",
        "--id", "id",
    )  # fmt: skip
    (row,) = pq.read_table(tmp_path / "rows").to_pylist()
    assert (row["op"], row["key"], row["count"]) == ("insert", "p", 1.0)
