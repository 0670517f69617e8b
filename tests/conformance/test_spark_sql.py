"""SQL with MATCH_RECOGNIZE on Spark: clauses stand wherever a table may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.row_pattern.ticks import ticks

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FALLS = """MATCH_RECOGNIZE (
    PARTITION BY company ORDER BY ts, seq
    MEASURES FIRST(ts) AS begun, A.price AS top, LAST(B.price) AS bottom, COUNT(*) AS length
    PATTERN (A B+) DEFINE B AS price < PREV(price))"""
RISES = """MATCH_RECOGNIZE (
    PARTITION BY company ORDER BY ts
    MEASURES FINAL LAST(B.price) AS peak, ARRAY_AGG(B.price) AS steps
    ALL ROWS PER MATCH PATTERN (A B+) DEFINE B AS price > A.price)"""
TEXT = f"""
WITH recent AS (SELECT * FROM ticks WHERE seq >= 0),
     falls AS (SELECT * FROM recent {FALLS})
SELECT f.company, f.length, r.peak, r.steps, r.seq, f.begun
FROM falls AS f
JOIN (SELECT * FROM (SELECT company, seq, ts, price FROM recent) AS s {RISES} AS m) AS r
  ON f.company = r.company AND r.price < f.top
ORDER BY f.company, f.begun, r.seq, r.peak
"""

pytestmark = pytest.mark.spark


def test_clauses_in_with_joins_and_subqueries(spark: SparkSession) -> None:
    found = cepheid.sql(spark, TEXT, tables={"ticks": ticks()}).toArrow().to_pylist()
    falls = cepheid.sql(f"SELECT * FROM ticks {FALLS}", tables={"ticks": ticks()}).to_pylist()
    rises = cepheid.sql(f"SELECT * FROM ticks {RISES}", tables={"ticks": ticks()}).to_pylist()
    expected = [
        (f["company"], f["length"], r["peak"], r["steps"], r["seq"])
        for f in falls
        for r in rises
        if f["company"] == r["company"] and r["price"] < f["top"]
    ]
    names = ("company", "length", "peak", "steps", "seq")
    assert sorted(map(str, expected)) == sorted(str(tuple(row[n] for n in names)) for row in found)
    assert len(found) > 3
    assert [v.name for v in spark.catalog.listTables() if v.name.startswith("cepheid")] == []


def test_local_tables_use_spark_where_sql_is_more_than_one_table(spark: SparkSession) -> None:
    del spark  # It is the active session, which the call takes.
    text = f"SELECT DISTINCT length FROM ticks {FALLS} UNION SELECT 100 ORDER BY length"
    result = cepheid.sql(text, tables={"ticks": ticks()})
    assert isinstance(result, pa.Table)
    assert result.column("length").to_pylist() == [2, 3, 100]


def test_errors_of_tasks_carry_their_code(spark: SparkSession) -> None:
    text = "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY seq MEASURES 1 AS x "
    text += "AFTER MATCH SKIP TO B PATTERN (A B?) DEFINE B AS FALSE)"
    frame = cepheid.sql(spark, text, tables={"ticks": ticks()})
    with pytest.raises(Exception, match="E611"):
        frame.toArrow()


def test_no_shuffle_without_partitions_and_tables_of_the_session(spark: SparkSession) -> None:
    spark.createDataFrame(ticks()).createOrReplaceTempView("session_ticks")
    text = "SELECT SUM(n) AS n FROM session_ticks MATCH_RECOGNIZE (ORDER BY seq "
    text += "MEASURES COUNT(*) AS n PATTERN (A+))"
    assert cepheid.sql(spark, text).toArrow().to_pylist() == [{"n": 12}]
    other = cepheid.sql(spark, text, tables={"session_ticks": ticks().slice(0, 5)})
    assert other.toArrow().to_pylist() == [{"n": 5}]
    assert spark.table("session_ticks").count() == 12
    spark.catalog.dropTempView("session_ticks")


def test_constants_and_filters_on_spark(spark: SparkSession) -> None:
    table = pa.table({"i": [1, 2, 3, 4, 5, 6], "v": [1, 0, 0, 1, 0, 1]})
    text = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES FIRST(i) AS a, LAST(i) AS b, "
    text += "COUNT(*) FILTER (WHERE i > 1) AS n PATTERN (A+) DEFINE A AS v = 1 AND TRUE)"
    found = cepheid.sql(spark, text, tables={"t": table}).toArrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 1, 0), (4, 4, 1), (6, 6, 1)]


class LateFrame:
    """A DataFrame whose text is read each time that it is used, as Spark Connect does."""

    def __init__(self, make: Callable[[], DataFrame]) -> None:
        self.make = make

    def __getattr__(self, name: str) -> Any:
        return getattr(self.make(), name)


class LateSession:
    """A session whose texts are read late."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def sql(self, text: str, **frames: Any) -> LateFrame:
        known: dict[str, Any] = {
            n: f.make() if isinstance(f, LateFrame) else f for n, f in frames.items()
        }
        self._spark.sql(text, **known)
        return LateFrame(lambda: self._spark.sql(text, **known))


def test_the_result_needs_no_view_of_the_session(spark: SparkSession) -> None:
    late: Any = LateSession(spark)
    before = {table.name for table in spark.catalog.listTables()}
    result = cepheid.sql(late, TEXT, tables={"ticks": ticks()})
    once = cepheid.sql(spark, TEXT, tables={"ticks": ticks()})
    assert {table.name for table in spark.catalog.listTables()} == before
    assert result.toArrow() == once.toArrow()
    assert result.filter("length > 2").count() == once.filter("length > 2").count()


@pytest.mark.parametrize(
    "text",
    [
        "WITH ticks AS (SELECT * FROM ticks WHERE seq < 6) SELECT n FROM ticks {clause};",
        "(SELECT n FROM Ticks {clause}) -- and no more",
        "SELECT n FROM ticks {clause} WHERE '{{}}' <> '{{0}}'",
    ],
)
def test_tables_have_the_names_that_the_user_gave_them(spark: SparkSession, text: str) -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY seq MEASURES COUNT(*) AS n PATTERN (A+))"
    written = text.replace("{clause}", clause).replace("{{", "{").replace("}}", "}")
    (row,) = cepheid.sql(spark, written, tables={"ticks": ticks()}).collect()
    assert row["n"] == (6 if "WITH" in text else 12)


@pytest.mark.parametrize(
    ("outer", "fault"),
    [
        ("SELECT a FROM ticks {clause} m WINDOW w AS (ORDER BY i MEASURES 1 AS q)", "WINDOW"),
        ("SELECT prise FROM ticks {clause} JOIN ticks ON TRUE", "prise"),
        ("SELECT * FROM tocks {clause}", "tocks"),
        ("SELECT m.b FROM ticks {clause} AS m JOIN ticks ON m.a = 1", None),
    ],
)
def test_what_spark_refuses_is_a_diagnostic(
    spark: SparkSession, outer: str, fault: str | None
) -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY seq MEASURES COUNT(*) AS a PATTERN (A+))"
    text = outer.replace("{clause}", clause)
    with pytest.raises(cepheid.BindError) as caught:
        cepheid.sql(spark, text, tables={"ticks": ticks()})
    (found,) = caught.value.diagnostics
    assert found.code == "E613"
    assert "_pyspark" not in str(caught.value)
    assert "cepheid_" not in str(caught.value)
    if fault is not None:
        assert found.span is not None
        assert text[found.span.start : found.span.end] == fault


def test_computed_keys_and_windows_on_spark(spark: SparkSession) -> None:
    place = pa.array([{"city": "a" if i % 3 else "b"} for i in range(12)])
    table = ticks().append_column("place", place)
    clause = """MATCH_RECOGNIZE (PARTITION BY UPPER(t.place.city), seq % 2 ORDER BY -seq
        MEASURES ARRAY_AGG(seq) AS rows, LAST(place.city) AS city PATTERN (A B*)
        DEFINE B AS price < PREV(price))"""
    window = """WINDOW w AS (PARTITION BY UPPER(t.place.city) ORDER BY seq
        MEASURES LAST(price) AS low ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING SEEK PATTERN (A B+)
        DEFINE B AS price < PREV(price))"""
    for text in (
        f"SELECT * FROM ticks AS t {clause}",
        f"SELECT *, low OVER w, COUNT(*) OVER w + 1 FROM ticks AS t WHERE t.seq > 1 {window}",
    ):
        expected = cepheid.sql(text, tables={"ticks": table})
        found = cepheid.sql(spark, text, tables={"ticks": table}).toArrow()
        assert found.column_names == expected.column_names
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    told = cepheid.sql(spark, text, tables={"ticks": table}, explain=True)
    assert "a window: a match begins at the row, or the next row" in told
