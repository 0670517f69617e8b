"""Workloads of every kind: each query gives the rows that it gives alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.amount import EVERYTHING
from tests.pipeline.comparison import KINDS, STAMPED, plain
from tests.pipeline.drawing import SECOND, Stages, base_events
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid
from cepheid.errors import UnsupportedError
from cepheid.kinds.workload.live_rules import RunningRules
from cepheid.kinds.workload.live_snapshot import rules_from_bytes, rules_to_bytes

Rules = dict[str, str]

# Few events may lack a type of a pattern, which a warning tells.
pytestmark = pytest.mark.filterwarnings("ignore:no event has the type")


@st.composite
def row_patterns(draw: st.DrawFn, number: int) -> str:
    """Draw a row pattern that can be live; its columns have a number."""
    pattern = draw(st.sampled_from(["A B", "A{1,3} B?", "A+? B", "(A | B) C*", "A{2}"]))
    key = draw(st.sampled_from(["", "PARTITION BY k "]))
    rows = draw(st.sampled_from(["ONE ROW", "ALL ROWS"]))
    skip = draw(st.sampled_from(["PAST LAST ROW", "TO NEXT ROW"]))
    define = {"A": "x < 3", "B": draw(st.sampled_from(["x >= PREV(x)", "z > A.z"])), "C": "x > 1"}
    measures = f"FIRST(x) AS low{number}, COUNT(*) AS n{number}, LAST(ts) AS at{number}"
    text = f"MATCH_RECOGNIZE ({key}ORDER BY ts MEASURES {measures} {rows} PER MATCH "
    text += f"AFTER MATCH SKIP {skip} PATTERN ({pattern}) WITHIN {4 * SECOND} DEFINE "
    text += ", ".join(f"{name} AS {told}" for name, told in define.items() if name in pattern)
    where = draw(st.sampled_from(["", f" AS m WHERE n{number} > 1"]))
    return f"SELECT low{number}, n{number}, at{number} FROM events {text}){where}"


@st.composite
def workloads(draw: st.DrawFn, *, counted: bool = True) -> Rules:
    """Draw two to five queries of any kinds, some of them pipelines or row patterns."""
    found: Rules = {}
    if draw(st.booleans()):
        found["rows"] = draw(row_patterns(99))
    for number in range(draw(st.integers(2, 5))):
        stages = Stages(draw)
        text = stages.add("S", 10 * number)
        if draw(st.booleans()) and stages.streams[-1].numbers:
            text = f"CREATE STREAM S AS {text}; {stages.add('', 10 * number + 1)}"
        if counted or ("EVENTS" not in text and "FUNNEL" not in text):
            found[f"r{number}"] = text
            if draw(st.booleans()):
                found[f"twin{number}"] = text
    return found or {"r": "SELECT k, x FROM events WHERE x > 1"}


@given(workloads(), base_events())
def test_in_process(rules: Rules, events: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(events, KINDS)
    alone = {name: cepheid.query(text).run(table) for name, text in rules.items()}
    together = cepheid.workload(rules).run(table, separate=True)
    assert list(together) == list(rules)
    for name, text in rules.items():
        assert together[name].schema == alone[name].schema, text
        assert plain(together[name]) == plain(alone[name]), text
    reader = cepheid.workload(rules).run(table.to_reader(4), separate=True)
    assert {n: plain(t) for n, t in reader.items()} == {n: plain(t) for n, t in alone.items()}


@given(workloads(), base_events(), st.data())
def test_rules_in_slices_and_restarts(
    rules: Rules, events: list[dict[str, Any]], data: st.DataObject
) -> None:
    table = pa.Table.from_pylist(events, KINDS)
    running = RunningRules(KINDS)
    running.add(cepheid.workload(rules).shared(KINDS))
    found: dict[str, list[pa.Table]] = {name: [] for name in rules}
    place = 0
    while place < len(table):
        size = data.draw(st.integers(1, 6))
        for name, rows in running.feed(table.slice(place, size)).items():
            found[name].append(rows)
        running = rules_from_bytes(rules_to_bytes(running), KINDS)
        place += size
    for name, rows in running.finish().items():
        found[name].append(rows)
    for name, text in rules.items():
        assert plain(pa.concat_tables(found[name])) == plain(cepheid.query(text).run(table)), text


def test_a_rule_comes_and_goes() -> None:
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "x": [1, 5, 2, 7]})
    high = cepheid.workload({"high": "SELECT x FROM s WHERE x > 4"})
    trend = cepheid.workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)"})
    rules = trend.live(events.schema)
    rules.feed(events.slice(0, 2))
    rules.add(high)
    assert rules.names == ["ab", "high"]
    rules.feed(events.slice(2))
    found = rules.close().to_pylist()
    assert {"query": "ab", "count": 3.0, "x": None} in found
    assert {"query": "high", "count": None, "x": 7} in found
    rules.remove("high")
    assert rules.names == ["ab"]


def test_explain_names_them() -> None:
    told = cepheid.workload(
        {"a": "SELECT * FROM s WHERE x > 1", "b": "RETURN COUNT(*) PATTERN A+"}
    ).explain()
    assert told.startswith("workload  2 queries")
    assert "beside" in told
    assert "a SELECT: a" in told


def test_row_patterns_give_the_rows_of_sql() -> None:
    events = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "x": [1, 5, 2, 7]})
    text = "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES B.x AS high PATTERN (A B) "
    text += "DEFINE B AS x > A.x)"
    work = cepheid.workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)", "row": text})
    assert work.run(events, separate=True)["row"] == cepheid.sql(text, tables={"s": events})
    assert "a row pattern: row" in work.explain()


def test_a_join_of_two_streams_is_refused() -> None:
    text = "SELECT a.x FROM s a JOIN t b ON a.x = b.x WINDOW 5 s"
    with pytest.raises(UnsupportedError, match="E404"):
        cepheid.workload({"j": text})


SETTINGS = settings(
    max_examples=5 if EVERYTHING else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:one task runs the whole query")
@SETTINGS
@given(workloads(counted=False), base_events())
def test_batch_on_spark(spark: SparkSession, rules: Rules, events: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(events, KINDS).cast(STAMPED)
    work = cepheid.workload(rules)
    found = work.run(spark.createDataFrame(table)).toArrow()
    assert plain(found) == plain(work.run(table))


@pytest.mark.spark
@pytest.mark.timeout(600)
@SETTINGS
@given(workloads(counted=False), base_events())
def test_live(spark: SparkSession, rules: Rules, events: list[dict[str, Any]]) -> None:
    """Each query gives the rows that it gives alone on the same stream."""
    if not events:
        return
    table = pa.Table.from_pylist(events, KINDS).cast(STAMPED)
    last = {"ts": 10_000 * SECOND, "type": "D", "k": "p", "x": 0, "z": 0}
    late = pa.Table.from_pylist([last], KINDS).cast(STAMPED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_files(folder / "live", [*cut(table, 3), late])
        work = cepheid.workload(rules)
        rows = work.stream(read_stream(spark, files, 1), watermark="1 second")
        found = drain(rows, folder, "rows")[0]
    running = work.live(STAMPED)
    expected = running.feed(pa.concat_tables([table, late]))
    assert plain(found) == plain(expected)


def test_a_rule_goes_with_the_columns_that_it_alone_read() -> None:
    rules = {
        "away": "SELECT k, SUM(x) AS n FROM e GROUP BY k WINDOW 3 EVENTS",
        "stays": "SELECT x FROM e",
    }
    running = RunningRules(KINDS)
    running.add(cepheid.workload(rules).shared(KINDS))
    less = pa.schema([field for field in KINDS if field.name != "k"])
    read = rules_from_bytes(rules_to_bytes(running), less, lambda name, _: name == "stays")
    assert list(read.beside.rules) == ["stays"]
