"""``explain(analyze=True)`` runs a query and reports what it did, with numbers known by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.interfaces.program import run
from tests.why.test_why_kinds import DRIVE
from tests.why.test_why_trends import EVENTS, FUNNEL

import cepheid

CLAUSE = """SELECT * FROM t MATCH_RECOGNIZE (
    ORDER BY ts MEASURES A.ts AS a PATTERN (A B) DEFINE A AS type = 'A', B AS type = 'B')"""


def analyzed(text: str, events: object = EVENTS) -> str:
    return cepheid.query(text).explain(events=events, analyze=True)


def section(told: str, name: str) -> list[str]:
    """Return the lines of a section of the analysis."""
    lines = told[told.index("analysis") :].split("\n")[1:]
    found = next(n for n, line in enumerate(lines) if line[3:].startswith(name))
    more = [line[3:].strip() for line in lines[found + 1 :]]
    end = next((n for n, line in enumerate(lines[found + 1 :]) if line[:1] in "├└"), len(more))
    return [lines[found][3 + len(name) :].strip(), *more[:end]]


def test_events_rows_state_and_seconds_are_told() -> None:
    told = analyzed(f"{FUNNEL} AND A.x > 1 WITHIN 42 minutes")
    assert told.startswith("plan  count")
    events = section(told, "events")
    assert events[0].startswith("7 read, ")
    # A of x = 1 satisfies no condition, and another A has no session.
    assert events[1:] == [
        "7 of a type of the pattern",
        "6 satisfy the conditions of a variable",
        "5 with a key",
    ]
    assert section(told, "partial") == ["2 sessions had A, 1 then B, 0 then C."]
    assert section(told, "rows")[0] == "0 rows, 0 bytes"
    assert re.fullmatch(
        r"[\d,]+ bytes when all events are read, for \d partitions?", section(told, "state")[0]
    )
    assert "in their progress" in section(told, "state")[1]
    took = section(told, "seconds")[0]
    assert re.fullmatch(r"\d+\.\d{3} plan, \d+\.\d{3} read, \d+\.\d{3} run", took)


def test_every_kind_and_container_is_analyzed(tmp_path: Path) -> None:
    told = analyzed("PATTERN SEQ(A, B)")
    assert section(told, "rows")[0].startswith("8 rows, ")
    told = analyzed("FROM s DEFINE F AS speed > 70, W AS jerk > 5 PATTERN F overlaps W", DRIVE)
    assert section(told, "events")[1] == "5 at which a definition holds"
    assert section(told, "partial") == ["Situations that have ended: 2 F; 1 W."]
    assert section(told, "rows")[0].startswith("1 row, ")
    told = analyzed("SELECT * FROM s WHERE speed > 70", DRIVE)
    assert section(told, "events")[1] == "4 satisfy WHERE"
    joined = "SELECT a.ts AS t FROM s a JOIN s b ON a.car = b.car WINDOW 15 us"
    assert section(analyzed(joined, DRIVE), "events")[0].startswith("8 read")
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    store = cepheid.EventStore(tmp_path / "store")
    store.append(EVENTS)
    for events in (str(tmp_path / "events.parquet"), store, EVENTS.to_pandas(), EVENTS.to_reader()):
        told = analyzed("RETURN COUNT(*) PATTERN SEQ(A, B)", events)
        assert section(told, "rows")[0].startswith("1 row, "), type(events)
    assert section(analyzed("RETURN COUNT(*) PATTERN SEQ(A, B)", store), "reads")[0].startswith(
        "store"
    )


def test_workloads_and_sql_are_analyzed() -> None:
    w = cepheid.workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)", "d": "PATTERN SEQ(C, A)"})
    told = w.explain(events=EVENTS, analyze=True)
    assert told.startswith("workload  2 queries")
    assert section(told, "events")[0].startswith("7 read, ")
    assert section(told, "rows")[1:] == ["ab: 1", "d: 0"]
    told = cepheid.sql(CLAUSE, tables={"t": EVENTS}, analyze=True)
    lines = told.splitlines()
    assert lines[1].startswith("  read  7 rows, ")
    assert lines[2].startswith("  rows  1 rows, ")
    assert lines[3] == "result"


def test_the_command_analyzes_files(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "e.parquet")
    words = ("explain", "-q", "RETURN COUNT(*) PATTERN SEQ(A, B)")
    done = run(*words, "--input", tmp_path / "e.parquet", "--analyze")
    assert (done.returncode, section(done.stdout, "rows")[0][:5]) == (0, "1 row")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "ab.cq").write_text("RETURN COUNT(*) PATTERN SEQ(A, B)")
    done = run(
        "explain", "--rules", tmp_path / "rules", "--input", tmp_path / "e.parquet", "--analyze"
    )
    assert section(done.stdout, "rows")[1] == "ab: 1", done.stderr
    done = run("explain", "-q", CLAUSE, "--input", tmp_path / "e.parquet", "--analyze")
    assert "read  7 rows" in done.stdout
    wrong = (
        (("--input", tmp_path / "e.parquet"), "--input has no effect here: it is for --analyze"),
        (("--analyze",), "--analyze runs the query: name its events with --input"),
        (("--analyze", "--input", "x", "--engine", "gpu"), "--engine is local or spark"),
        (("--analyze", "--input", "x", "--master", "local"), "add --engine spark"),
        (("--analyze", "--input", "x", "--format", "json"), "--format has no effect here"),
    )
    for more, message in wrong:
        done = run(*words, *more)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.mark.spark
def test_spark_is_analyzed(spark: SparkSession) -> None:
    frame = spark.createDataFrame(EVENTS)
    text = "RETURN session, COUNT(*) PATTERN SEQ(A, B) GROUP-BY session"
    told = analyzed(text, frame)
    assert "analysis  on Spark" in told
    assert section(told, "events") == ["7 read", "6 of a type of the pattern", "5 with a key"]
    assert section(told, "rows") == ["2 rows"]
    assert section(told, "partial") == ["3 sessions had A, 2 then B."]
    w = cepheid.workload({"ab": text, "ac": text.replace("B", "C", 1)})
    assert section(w.explain(events=frame, analyze=True), "rows")[1:] == ["ab: 2", "ac: 1"]
    told = cepheid.sql(spark, CLAUSE, tables={"t": EVENTS}, analyze=True)
    assert "  read  7 rows" in told
    assert "rows  1 rows" in told


def test_no_events_can_be_analyzed() -> None:
    nothing = pa.table({"ts": pa.array([], pa.int64()), "type": pa.array([], pa.string())})
    assert section(analyzed("RETURN COUNT(*) PATTERN A", nothing), "rows")[0].startswith("0 rows")
