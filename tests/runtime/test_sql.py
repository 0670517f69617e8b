"""Queries inside Spark SQL: the table function and the data source."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_files import write
from tests.runtime.test_spark import events_of

import cepheid

pytestmark = pytest.mark.spark

TEXT = "RETURN key, COUNT(*), MAX(A.x) PATTERN SEQ(A, B) GROUP-BY key WITHIN 1 ms SLIDE 1 ms"
WHOLE = "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key]"


def test_a_table_function_runs_queries(spark: SparkSession) -> None:
    cepheid.register(spark)
    events = events_of(300)
    spark.createDataFrame(events).createOrReplaceTempView("events")
    for text in (TEXT, WHOLE):
        result = spark.sql(f"SELECT * FROM cepheid(TABLE(events), '{text}')")
        assert same(result.toArrow(), cepheid.query(text).run(events).to_pylist())
    spark.sql("SELECT ts AS at, type AS kind FROM events").createOrReplaceTempView("renamed")
    call = "cepheid(TABLE(renamed), 'RETURN COUNT(*) PATTERN A', time => 'at', type => 'kind')"
    (row,) = spark.sql(f"SELECT * FROM {call}").collect()
    assert row["count"] == events["type"].to_pylist().count("A")


def test_mistakes_of_a_query_are_errors_of_the_call(spark: SparkSession) -> None:
    cepheid.register(spark)
    spark.createDataFrame(events_of(3)).createOrReplaceTempView("events")
    with pytest.raises(PySparkException, match=r"error\[E201\].*has no attribute `y`"):
        spark.sql("SELECT * FROM cepheid(TABLE(events), 'RETURN SUM(A.y) PATTERN A')")


def test_a_data_source_reads_files(spark: SparkSession, tmp_path: Path) -> None:
    cepheid.register(spark)
    events = events_of(400)
    path = write(events, tmp_path / "events")
    for text in (TEXT, WHOLE):
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW trends USING cepheid "
            f"OPTIONS (path '{path}', query '{text}')"
        )
        result = spark.sql("SELECT * FROM trends").toArrow()
        assert same(result, cepheid.query(text).run(events).to_pylist())
    with pytest.raises(PySparkException, match="needs the option `query`"):
        spark.read.format("cepheid").option("path", path).load()


def test_tables_beside_those_of_spark_come_in_any_form(spark: SparkSession) -> None:
    events = events_of(50)
    clause = "MATCH_RECOGNIZE (ORDER BY ts MEASURES B.x AS x PATTERN (A B) DEFINE A AS x < 3)"
    text = f"SELECT * FROM given {clause}"
    expected = cepheid.sql(text, tables={"given": events}).to_pylist()
    for table in (events, events.to_pylist(), events.to_batches(), events.to_pandas()):
        assert same(cepheid.sql(spark, text, tables={"given": table}).toArrow(), expected)
