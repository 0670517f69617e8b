"""Numbers and times of a SELECT on Spark: an error in process is one there (§10.3, §4.10)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.amount import share

import cepheid
from cepheid.spark.failures import clear_error

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LONG = [Decimal(f"12345678901234567890.1{n}") for n in range(3)]
TIMES = pa.array([1, 2, 3], pa.timestamp("us", "UTC"))
NUMBERS = pa.table(
    {
        "ts": TIMES,
        "x": pa.array(LONG, pa.decimal128(30, 2)),
        "w": pa.array([Decimal(2**53), Decimal(2**53 + 1), None], pa.decimal128(38, 0)),
        "p": pa.array([Decimal("0.1"), Decimal("1.25"), None], pa.decimal128(38, 18)),
        "c": pa.array([Decimal("0.10"), Decimal("-1.25"), None], pa.decimal128(10, 2)),
        "i": [2**53, 2**53 + 1, -(2**63)],
        "d": [2.0**53, 2.0**53, -1e300],
    }
)


@pytest.fixture(params=["true", "false"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Give a session with and without ANSI mode."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", str(before))


def outcome(text: str, streams: Any) -> Any:
    """Return rows, or the code and the sentence of an error."""
    try:
        found = cepheid.query(text).run(streams)
        rows = found.to_pylist() if isinstance(found, pa.Table) else found.toArrow().to_pylist()
    except cepheid.DataError as error:
        return error.diagnostics[0].code, error.diagnostics[0].message.partition(" in row")[0]
    except PySparkException as error:
        diagnostic = clear_error(error).diagnostics[0]
        return diagnostic.code, diagnostic.message.replace("decimal(", "decimal128(")
    return sorted(repr(list(row.values())) for row in rows)


@share(4)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(i) FROM s WHERE ts < '1970-01-01 00:00:00.000003'",
        "SELECT SUM(i) FROM s",
        "SELECT SUM(i - 1) AS z FROM s",
        "SELECT AVG(i), AVG(w), SUM(w), MIN(w), MAX(w) FROM s",
        "SELECT i FROM s WHERE i * i > 0",
        "SELECT -i AS z FROM s",
        "SELECT ABS(i) AS z FROM s",
        "SELECT ROUND(i, -19) AS z FROM s",
        "SELECT ROUND(i, -3) AS z, ROUND(i, 2) AS y, ROUND(w, -1) AS v FROM s WHERE i > 0",
        "SELECT i + i - i AS z FROM s WHERE i > 0",
        "SELECT i > d AS a, i = d AS b, d < i AS c, w >= d AS e FROM s",
        "SELECT i > 9007199254740992.0 AS a, i < 9007199254740992.5 AS b, i < 1e300 AS c FROM s",
        "SELECT i = 9007199254740993.0 AS a, i IN (1, 9007199254740993.0) AS b FROM s",
        "SELECT w = 0.5 AS a, w < 1e300 AS b, w > -1e300 AS c, w = 9007199254740993 AS e FROM s",
        f"SELECT x > {LONG[0]} AS a, x = {LONG[1]} AS b, x <> {LONG[1]} AS c FROM s",
        "SELECT p = 0.1 AS a, p * 2 AS b, p + c AS e, p = c AS f, c = i AS g, c < d AS h FROM s",
        "SELECT MIN(p), MAX(p), AVG(c), SUM(c) FROM s",
        "SELECT MAX(x) FROM s",
        "SELECT x + 1 AS y FROM s",
        "SELECT COUNT(*) FROM s GROUP BY x",
        "SELECT a.i FROM s a JOIN s b ON a.x = b.x WINDOW 1 s",
        "SELECT a.i FROM s a JOIN s b ON a.c = b.p WINDOW 1 s",
        "SELECT NULLIF(i, d) AS a, GREATEST(i, 1) AS b, COALESCE(w, 1) AS c FROM s",
    ],
)
def test_numbers_are_those_of_the_process(session: SparkSession, text: str) -> None:
    frame = session.createDataFrame(NUMBERS)
    assert outcome(text, {"s": frame}) == outcome(text, {"s": NUMBERS})


@share(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM s WINDOW 1 s",
        "SELECT COUNT(*) FROM s WINDOW 3 us SLIDE 5 us",
        "SELECT COUNT(*) FROM s WINDOW 1 EVENT",
        "SELECT COUNT(*) FROM s GROUP BY x WINDOW 2 EVENTS",
        "SELECT a.x FROM s a JOIN r b ON a.x = b.x WINDOW 1 s",
        "SELECT a.x FROM s a JOIN r b ON a.x <= b.x WINDOW 1 s",
        "SELECT a.x FROM s a JOIN r b ON a.x <= b.x WINDOW 1 EVENT",
    ],
)
@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()])
def test_events_without_a_time_are_refused(
    session: SparkSession, text: str, kind: pa.DataType
) -> None:
    table = pa.table({"ts": pa.array([1, None], kind), "x": [1, 1]})
    frame = session.createDataFrame(table)
    other = pa.table({"ts": pa.array([1, 1], kind), "x": [1, 1]})
    expected = ("E506", "the time column `ts` is NULL")
    assert outcome(text, {"s": table, "r": other}) == expected
    streams = {"s": frame, "r": session.createDataFrame(other)}
    assert outcome(text, streams) == expected


def test_time_plays_no_part_without_a_window(session: SparkSession) -> None:
    table = pa.table({"ts": pa.array([1, None], pa.int64()), "x": [1, 2]})
    for text in ("SELECT SUM(x) FROM s", "SELECT x FROM s WHERE x > 1"):
        assert outcome(text, session.createDataFrame(table)) == outcome(text, table)


def test_types_of_decimals_that_spark_cannot_compare_are_refused(session: SparkSession) -> None:
    frame = session.createDataFrame(NUMBERS)
    code, message = outcome("SELECT p > x AS z FROM s", frame)
    assert (code, message) == (
        "E571", "`p` and `x` have no type of Spark in common that keeps all their digits"
    )  # fmt: skip
    assert outcome("SELECT ROUND(d, i) AS z FROM s", frame)[0] == "E572"


def test_trends_lose_no_whole_number_to_a_filter(spark: SparkSession) -> None:
    columns: dict[str, list[Any]] = {"x": [2**53, 2**53 + 1], "d": [2.0**53] * 2}
    table = pa.table({"ts": [1, 2], "type": ["A", "A"], **columns})
    frame = spark.createDataFrame(table)
    for condition in ("A.x > 9007199254740992.0", "A.x > A.d", "9007199254740992.0 < A.x"):
        q = cepheid.query(f"RETURN COUNT(*) PATTERN A WHERE {condition} GROUP-BY type")
        found = q.run(frame, strategy="key shuffle").toArrow().to_pylist()
        assert found == q.run(table).to_pylist() == [{"type": "A", "count": 1.0}]


def test_percentiles_between_infinities_are_as_in_process(spark: SparkSession) -> None:
    low, high, nan = float("-inf"), float("inf"), float("nan")
    cases = [[1, low], [1, high], [low, high], [low, low, 1], [1, nan], [low, nan], [low, 0, high]]
    keys = [key for key, values in enumerate(cases) for _ in values]
    values = [float(value) for case in cases for value in case]
    table = pa.table({"ts": range(len(keys)), "k": keys, "y": values})
    items = "MEDIAN(y) AS m, PERCENTILE(y, 0.25) AS p, PERCENTILE(y, 0.75) AS q"
    compiled = cepheid.query(f"SELECT {items} FROM s GROUP BY k")
    found = compiled.run(spark.createDataFrame(table)).toArrow().sort_by("k")
    assert repr(found.to_pylist()) == repr(compiled.run(table).sort_by("k").to_pylist())
