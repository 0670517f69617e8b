"""Scripts of Flink SQL: row patterns are carried over, with notes where Flink differs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import cepheid
from cepheid.translate.flink.dialect import DIVIDES, FLINK_SQL, NO_SKIP
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Outcome, Settings, Translated

CLAUSE = """MATCH_RECOGNIZE (
    PARTITION BY symbol
    ORDER BY rowtime
    MEASURES FIRST(A.price) AS first, LAST(A.price) AS low, MATCH_ROWTIME() AS at
    ONE ROW PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A+ B) WITHIN INTERVAL '1' HOUR
    DEFINE A AS LAST(A.price, 1) IS NULL OR A.price < LAST(A.price, 1), B AS B.price > A.price
)"""
SETTINGS = Settings(time="rowtime")


def _rules(tmp_path: Path, script: str) -> list[Translated]:
    (tmp_path / "dips.sql").write_text(script)
    return translate_path(tmp_path, FLINK_SQL, SETTINGS)


def test_a_row_pattern_of_a_script_runs(tmp_path: Path) -> None:
    script = f"""
        CREATE TABLE Ticker (symbol STRING, price DOUBLE, rowtime TIMESTAMP(3));
        SET 'a' = 'b;c'; -- no; rule
        INSERT INTO dips SELECT * FROM Ticker {CLAUSE} AS T;
        CREATE TEMPORARY VIEW again AS SELECT T.low FROM Ticker {CLAUSE} T;
        SELECT low FROM Ticker {CLAUSE}
    """
    rules = _rules(tmp_path, script)
    assert [one.name for one in rules] == ["dips", "again", "dips (2)"]
    assert {one.outcome for one in rules} == {Outcome.EXACT}
    events = pa.table(
        {
            "rowtime": pa.array([0, 1, 2, 3], pa.timestamp("s")),
            "symbol": ["x"] * 4,
            "price": [9.0, 7.0, 5.0, 8.0],
        }
    )
    (row,) = cepheid.query(rules[0].query, time="rowtime").run(events).to_pylist()
    assert (row["symbol"], row["first"], row["low"]) == ("x", 9.0, 5.0)
    assert row["at"] == events["rowtime"][3].as_py()


def test_no_statement_is_passed_over_in_silence(tmp_path: Path) -> None:
    script = """
        CREATE TABLE t (a INT, b AS a + 1, WATERMARK FOR ts AS ts) WITH ('x' = 'AS SELECT');
        EXECUTE STATEMENT SET BEGIN INSERT INTO one SELECT a FROM t;
        INSERT INTO two SELECT b FROM t; END;
        CREATE TABLE three WITH ('k' = 'v') AS SELECT a FROM t;
        CREATE TABLE IF NOT EXISTS four AS SELECT a FROM t;
        EXPLAIN SELECT a FROM t; INSERT INTO u VALUES (1);
        SELEC a FROM t; INSERT INTO five PARTITION (a = 1) SELECT b FROM t;
    """
    rules = _rules(tmp_path, script)
    found = [(one.name, *one.reasons) for one in rules]
    assert found == [
        ("one",),
        ("two",),
        ("three",),
        ("four",),
        ("dips", "`SELEC` begins no statement of Flink SQL that is known"),
        ("five", "a query in this form of `INSERT` is not carried over"),
    ]


def test_where_flink_differs_a_note_says_so(tmp_path: Path) -> None:
    without = CLAUSE.replace("AFTER MATCH SKIP PAST LAST ROW", "")
    halves = CLAUSE.replace("B.price > A.price", "B.price / 2 > A.price")
    rules = _rules(tmp_path, f"SELECT * FROM t {without}; SELECT * FROM t {halves} -- a / b")
    assert [one.notes for one in rules] == [(NO_SKIP,), (DIVIDES,)]


def test_what_has_no_counterpart_is_refused(tmp_path: Path) -> None:
    machine = CLAUSE.replace("MATCH_ROWTIME", "MATCH_PROCTIME")
    other = CLAUSE.replace("ORDER BY rowtime", "ORDER BY proctime")
    script = f"SELECT 'MATCH_RECOGNIZE' FROM t; SELECT * FROM t {machine}; SELECT * FROM t {other}"
    plain, clock, time = _rules(tmp_path, script)
    assert "has no name (E332)" in plain.reasons[0]
    assert "the time of the machine" in clock.reasons[0]
    assert "E404" in time.reasons[0]


def test_windows_filters_and_interval_joins_become_selects(tmp_path: Path) -> None:
    hop = "HOP(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES)"
    session = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(rowtime), INTERVAL '5' MINUTES)"
    between = "p.rowtime BETWEEN o.rowtime - INTERVAL '5' MINUTE AND o.rowtime"
    script = f"""
        SELECT a, b + 1 AS c FROM t WHERE a > 3 AND b LIKE 'x%';
        SELECT k, AVG(x) AS m FROM TABLE({hop}) GROUP BY k, window_start, window_end;
        SELECT k, COUNT(DISTINCT x) AS m FROM TABLE({session}) GROUP BY k, window_start, window_end;
        SELECT TUMBLE_START(rowtime, INTERVAL '1' HOUR) AS w, k, COUNT(*) AS n FROM t
            GROUP BY TUMBLE(rowtime, INTERVAL '1' HOUR), k;
        SELECT o.id FROM orders AS o JOIN pays AS p ON o.id = p.id AND {between} WHERE p.x > 3;
    """
    rules = _rules(tmp_path, script)
    assert [" ".join(rule.query.split()) for rule in rules] == [
        "SELECT a, b + 1 AS c FROM t WHERE a > 3 AND b LIKE 'x%'",
        "SELECT k, AVG(x) AS m FROM t GROUP BY k WINDOW 10 minutes SLIDE 1 minute",
        "SELECT k, COUNT(DISTINCT x) AS m FROM t GROUP BY k WINDOW SESSION 5 minutes",
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k WINDOW 1 hour",
        "SELECT o.id FROM orders o JOIN pays p ON o.id = p.id AND p.rowtime BETWEEN o.rowtime - "
        "5 minutes AND o.rowtime AND p.x > 3 WINDOW 300000001 microseconds",
    ]
    assert [len(rule.notes) for rule in rules] == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT DISTINCT a FROM t",
        "SELECT a, ROW_NUMBER() OVER (ORDER BY rowtime) FROM t",
        "SELECT o.id FROM o LEFT JOIN p ON o.id = p.id",
        "SELECT o.id FROM o JOIN p ON o.id = p.id",
        "SELECT o.id FROM o JOIN p ON o.id = p.id AND p.rowtime BETWEEN 1 AND 2",
        "SELECT CONCAT(a, b) FROM t",
        "SELECT a FROM t ORDER BY a",
        "SELECT a FROM (SELECT a FROM t)",
        "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(other), INTERVAL '1' HOUR)) "
        "GROUP BY k, window_start, window_end",
        "SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) "
        "GROUP BY k, window_start",
        "SELECT k, COUNT(*) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE, "
        "INTERVAL '1' HOUR)) GROUP BY k, window_start, window_end",
        "SELECT window_start FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(rowtime), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
        "SELECT FROM",
    ],
)
def test_selects_that_have_no_counterpart_are_refused(query: str, tmp_path: Path) -> None:
    (rule,) = _rules(tmp_path, query)
    assert rule.reasons
