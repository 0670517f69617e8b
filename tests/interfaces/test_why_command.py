"""``cepheid why``, and the line of ``cepheid run`` that offers it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from pyspark.sql import SparkSession
from tests.interfaces.program import run, run_in

MINUTE = 60_000_000
QUERY = "RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [session] WITHIN 30 minutes"
OFFER = "no rows: `cepheid why` with the same query and --input says why\n"
ANSWER = """\
No session has a match.
2 sessions had A, 1 then B, 0 then C.
The nearest C comes 41 minutes after the first event; WITHIN is 30 minutes.
Without WITHIN 30 minutes, 1 session would have a match.
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "ts": [m * MINUTE for m in (0, 0, 10, 41)],
            "type": ["A", "A", "B", "C"],
            "session": [1, 2, 1, 1],
        }
    )
    parquet.write_table(table, tmp_path / "events.parquet")
    csv.write_csv(table, tmp_path / "events.csv")
    return tmp_path / "events.parquet"


def test_why_says_it_in_sentences_or_as_json(events: Path) -> None:
    done = run("why", "-q", QUERY, "--input", events)
    assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, "")
    data = json.loads(run("why", "-q", QUERY, "--input", events, "--format", "json").stdout)
    assert [step["count"] for step in data["steps"]] == [2, 1, 0]
    text = events.with_suffix(".csv").read_text()
    assert run("why", "-q", QUERY, "--input", "-", stdin=text).stdout == ANSWER


def test_why_takes_the_options_of_run(events: Path) -> None:
    table = parquet.read_table(events).rename_columns(["at", "kind", "session"])
    minutes = pa.array([0, 0, 600, 2460])
    parquet.write_table(table.set_column(0, "at", minutes), events)
    done = run(
        "why", "-q", QUERY, "--input", events, "--time", "at", "--type", "kind",
        "--time-unit", "s",
    )  # fmt: skip
    assert done.stdout == ANSWER, done.stderr


def test_run_offers_why_where_a_result_is_empty(events: Path, tmp_path: Path) -> None:
    empty: tuple[tuple[object, ...], ...] = (
        (QUERY,),
        ("PATTERN SEQ(C, A)",),
        ("PATTERN SEQ(C, A)", "--output", tmp_path / "rows.csv"),
        ("SELECT * FROM s WHERE session > 9", "--format", "json"),
    )
    for words in empty:
        done = run("run", "--input", events, "-q", *words)
        assert done.returncode == 0
        assert done.stderr.endswith(OFFER), words
    done = run("run", "-q", "RETURN COUNT(*) PATTERN SEQ(A, B)", "--input", events)
    assert OFFER not in done.stderr


def test_sql_is_explained_in_process(events: Path) -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY session ORDER BY ts
        PATTERN (A C) DEFINE A AS type = 'A', C AS type = 'C')"""
    done = run("why", "-q", text, "--input", events)
    assert done.stdout.startswith("There is no match.\n2 matches of A, 0 then C.\n")


def test_wrong_use_is_told(events: Path) -> None:
    wrong = (
        ("--master", "local", "--master names a Spark cluster"),
        ("--format", "csv", "--format is text or json, not csv"),
        ("--engine", "gpu", "--engine is local or spark, not gpu"),
        ("--input", events, "--input may be given only once"),
    )
    for option, value, message in wrong:
        done = run("why", "-q", QUERY, "--input", events, option, value)
        assert done.returncode == 2
        assert message in done.stderr
    joined = (
        "WITH x AS (SELECT * FROM t) SELECT * FROM t JOIN x ON 1 = 1 MATCH_RECOGNIZE (PATTERN (A))"
    )
    done = run("why", "-q", joined, "--input", f"t={events}")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert run("why", "-q", "PATTERN", "--input", events).returncode == 1


@pytest.mark.spark
@pytest.mark.slow
def test_spark_counts_the_same(spark: SparkSession, events: Path) -> None:
    told = run_in(spark, "why", "-q", QUERY, "--input", events, "--engine", "spark")
    assert told == ANSWER
