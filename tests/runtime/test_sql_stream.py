"""MATCH_RECOGNIZE over streams of Spark: files as micro-batches, restarts, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.runtime.test_stream import (
    cut,
    drain,
    events_of,
    out_of_order,
    read_stream,
    sentinel,
    write_files,
)

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.spark.failures import clear_error

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CLAUSES = {
    "falls": """SELECT key, top, bottom, n FROM events MATCH_RECOGNIZE (
        PARTITION BY key ORDER BY ts
        MEASURES FIRST(x) AS top, LAST(x) AS bottom, COUNT(*) AS n
        PATTERN (A B+) WITHIN INTERVAL '3' SECOND DEFINE B AS x < PREV(x))""",
    "bounded": """SELECT key, CLASSIFIED, ts, x FROM (SELECT * FROM events WHERE type <> 'Q')
        MATCH_RECOGNIZE (
        PARTITION BY key, sector ORDER BY ts, x DESC
        MEASURES CLASSIFIER() AS classified
        ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A{1,3} (B | C)) DEFINE A AS type = 'A', B AS x > AVG(A.x) AND type <> 'A',
            C AS type = 'C' AND NEXT(x) < x) AS m WHERE x > 0.1""",
    "one bucket": """SELECT x2 * 2 AS twice, at FROM events MATCH_RECOGNIZE (
        ORDER BY ts, x MEASURES LAST(B.x) - PREV(A.x) AS x2, FIRST(ts) AS at
        PATTERN (A B{,2}) DEFINE A AS x < PREV(x), B AS x > 0.2) WHERE x2 > 0""",
}


def batch_of(text: str, events: pa.Table) -> list[dict[str, Any]]:
    return sorted(cepheid.sql(text, tables={"events": events}).to_pylist(), key=str)


def live_of(spark: SparkSession, text: str, folder: Path, files: int = 1) -> DataFrame:
    events = read_stream(spark, folder, files)
    rows: DataFrame = cepheid.sql(spark, text, tables={"events": events}, watermark="5 seconds")
    return rows


@share(3)
@pytest.mark.parametrize("name", CLAUSES)
def test_batch_equals_stream(spark: SparkSession, tmp_path: Path, name: str) -> None:
    events = events_of(600)
    # A row of every key, so that NEXT has one to look at, behind all lengths of WITHIN.
    ends = [sentinel(events, 60 + n).to_pylist()[0] | {"key": n % 5, "sector": n // 5}
            for n in range(15)]  # fmt: skip
    whole = pa.concat_tables([events, pa.Table.from_pylist(ends, schema=events.schema)])
    files = [*cut(out_of_order(events, 5_000_000), 3), whole.slice(len(events))]
    folder = write_files(tmp_path / "events", files)
    rows, progress = drain(live_of(spark, CLAUSES[name], folder), tmp_path, "a")
    found = sorted(rows.to_pylist(), key=str)
    expected = batch_of(CLAUSES[name], whole)
    assert len(found) > 20
    # The last rows of a key may still become part of a match.
    missing = [row for row in expected if row not in found]
    assert [row for row in found if row not in expected] == []
    assert len(missing) <= 15
    assert all("x" not in row or row["x"] == 0 for row in missing)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["events"] for c in counts) >= 600
    assert sum(c["late"] or 0 for c in counts) == 0
    assert counts[0]["open_windows"] > 0


def test_a_view_goes_on_from_its_checkpoint_and_late_rows_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = events_of(400)
    late = events.slice(10, 7)
    text = CLAUSES["falls"]
    folder = write_files(tmp_path / "events", [events.slice(0, 150)])
    drain(live_of(spark, text, folder), tmp_path, "a")
    write_files(folder, [events.slice(150), late, sentinel(events, 60)])
    read_stream(spark, folder, 1).createOrReplaceTempView("events")
    # Another list of columns around the clause goes on with the same state.
    again = cepheid.sql(spark, text.replace("key, top", "key AS key, top"), watermark="5 seconds")
    assert again.isStreaming
    rows, progress = drain(again, tmp_path, "a")
    spark.catalog.dropTempView("events")
    assert sorted(rows.to_pylist(), key=str) == batch_of(text, events)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 7
    # Only the last row is left: the watermark is WITHIN behind the others.
    assert counts[-1]["partitions"] == 0
    assert counts[-1]["buffered"] == 1


@pytest.mark.slow
def test_another_clause_does_not_go_on_with_an_old_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = events_of(100)
    folder = write_files(tmp_path / "events", [events])
    drain(live_of(spark, CLAUSES["falls"], folder), tmp_path, "a")
    write_files(folder, [sentinel(events, 60)])
    changed = CLAUSES["falls"].replace("x < PREV(x)", "x > PREV(x)")
    with pytest.raises(StreamingQueryException) as caught:
        drain(live_of(spark, changed, folder), tmp_path, "a")
    assert clear_error(caught.value).diagnostics[0].code == "E524"


@pytest.mark.slow
def test_times_may_be_whole_seconds_and_keys_null(spark: SparkSession, tmp_path: Path) -> None:
    keys = [None, "a", None, "a", None, None, "a"]
    events = pa.table({"at": [1, 2, 3, 4, 5, 60, 61], "who": keys, "x": [5, 5, 4, 3, 3, 2, 1]})
    text = """SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY who ORDER BY at
        MEASURES COUNT(*) AS n, LAST(at) AS last PATTERN (A B*) WITHIN INTERVAL '10' SECOND
        DEFINE B AS x < A.x)"""
    folder = write_files(tmp_path / "events", cut(events, 3))
    rows, _ = drain(live_of(spark, text, folder), tmp_path, "a")
    found = {(row["who"], row["n"], row["last"]) for row in rows.to_pylist()}
    assert found == {(None, 3, 5), ("a", 2, 4)}


WORDS = {
    "SELECT key FROM events MATCH_RECOGNIZE ({}) JOIN other USING (key)": "JOIN",
    "SELECT m.key FROM events MATCH_RECOGNIZE ({}) AS m, other": ",",
    "SELECT key, COUNT(*) FROM events MATCH_RECOGNIZE ({}) GROUP BY key": "COUNT",
    "SELECT key FROM events MATCH_RECOGNIZE ({}) GROUP BY key": "GROUP",
    "SELECT key FROM events MATCH_RECOGNIZE ({}) ORDER BY key": "ORDER",
    "SELECT key FROM events MATCH_RECOGNIZE ({}) LIMIT 5": "LIMIT",
    "SELECT DISTINCT key FROM events MATCH_RECOGNIZE ({})": "DISTINCT",
    "SELECT key FROM (SELECT * FROM events LIMIT 5) MATCH_RECOGNIZE ({})": "LIMIT",
    "WITH e AS (SELECT * FROM events) SELECT key FROM e MATCH_RECOGNIZE ({})": "WITH",
    "SELECT key FROM events MATCH_RECOGNIZE ({}) WHERE key IN (SELECT 1)": "SELECT",
    "SELECT key FROM events MATCH_RECOGNIZE ({}) UNION ALL SELECT 1": "UNION",
}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    folder = write_files(tmp_path / "events", [events_of(50)])
    return read_stream(spark, folder, 1)


def refused(stream: DataFrame, text: str, watermark: str | None = "1 second") -> Any:
    other = stream.sparkSession.createDataFrame(pa.table({"key": [1]}))
    tables = {"events": stream, "other": other}
    with pytest.raises(UnsupportedError) as caught:
        cepheid.sql(stream.sparkSession, text, tables=tables, watermark=watermark)
    (found,) = caught.value.diagnostics
    assert found.code == "E405"
    assert found.helps
    told = cepheid.sql(stream.sparkSession, text, tables=tables, explain=True)
    assert watermark is None or f"no: {found.message}" in told
    return found


@pytest.mark.parametrize("text", WORDS)
def test_what_may_not_stand_around_a_live_clause(stream: DataFrame, text: str) -> None:
    clause = "PARTITION BY key ORDER BY ts MEASURES 1 AS one PATTERN (A B)"
    whole = text.format(clause)
    found = refused(stream, whole)
    assert whole[found.span.start : found.span.end] == WORDS[text]


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("ORDER BY ts MEASURES 1 AS one PATTERN (A B+)", "any number of rows"),
        ("ORDER BY x MEASURES 1 AS one PATTERN (A B)", "`x`, is of type double, not a time"),
    ],
)
def test_clauses_that_cannot_be_live(stream: DataFrame, clause: str, why: str) -> None:
    assert why in refused(stream, f"SELECT * FROM events MATCH_RECOGNIZE ({clause})").message


def test_two_clauses_are_one_too_many(stream: DataFrame) -> None:
    one = "SELECT * FROM {} MATCH_RECOGNIZE (ORDER BY ts MEASURES 1 AS {} ALL ROWS PER MATCH "
    one += "PATTERN (A))"
    inner = one.format("events", "a")
    assert "only one" in refused(stream, one.format(f"({inner})", "b")).message


def test_a_watermark_is_for_streams_and_streams_need_one(
    spark: SparkSession, stream: DataFrame
) -> None:
    found = refused(stream, CLAUSES["falls"], None)
    assert "without a watermark" in found.message
    with pytest.raises(cepheid.CepheidError, match="E591"):
        cepheid.sql(spark, CLAUSES["falls"], tables={"events": events_of(9)}, watermark="1 second")
    with pytest.raises(cepheid.CepheidError, match="E591"):
        cepheid.sql(CLAUSES["falls"], tables={"events": events_of(9)}, watermark="1 second")
    tables = {"events": stream}
    with pytest.raises(cepheid.CepheidError, match="E590"):
        cepheid.sql(spark, CLAUSES["falls"], tables=tables, watermark="soon")


def test_explain_tells_what_a_live_clause_keeps(spark: SparkSession, stream: DataFrame) -> None:
    told = cepheid.sql(spark, CLAUSES["one bucket"], tables={"events": stream}, explain=True)
    assert told.splitlines() == [
        "clause 1  over a stream",
        "  yes: a match leaves when the watermark has passed the last row that could change it",
        "  keeps at most 3 rows of all rows together whose match is not decided",
        "  never forgets a key: PREV looks at a row before a match",
    ]
    still = spark.createDataFrame(events_of(9))
    told = cepheid.sql(spark, CLAUSES["falls"], tables={"events": still}, explain=True)
    assert told.splitlines() == [
        "clause 1  over a table: all its rows are read",
        "  one shuffle by key",
    ]


def test_the_hour_of_a_row_is_that_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array(np.array([0, 1, 60]) * 1_000_000, pa.timestamp("us", "UTC"))
    folder = write_files(tmp_path / "events", [pa.table({"ts": times, "x": [1, 2, 3]})])
    text = """SELECT * FROM events MATCH_RECOGNIZE (ORDER BY ts
        MEASURES HOUR(ts) AS h, ts AS at PATTERN (A) DEFINE A AS x = 1)"""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        rows, _ = drain(live_of(spark, text, folder), tmp_path, "a")
        still = spark.read.parquet(str(folder))
        expected = cepheid.sql(spark, text, tables={"events": still}).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [row["h"] for row in rows.to_pylist()] == [row["h"] for row in expected.to_pylist()]
