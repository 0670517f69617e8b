"""SQL with MATCH_RECOGNIZE on Spark: clauses stand wherever a table may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.row_pattern.ticks import ticks

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
