"""Surveys on Spark: the rows of a run in process, however the events are split."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.engine.test_survey_ways import REST, SURVEYS, events
from tests.runtime.cases import same

import cepheid

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

UNKEYED = "PATTERN SEQ(A+, B) WHERE A.x > NEXT(A).x WITHIN 20 s SLIDE 10 s"
WHOLE = "PATTERN SEQ(A+, B) WHERE A.x > NEXT(A).x GROUP-BY k"


@pytest.mark.parametrize("survey", SURVEYS)
def test_batches(spark: SparkSession, tmp_path: Path, survey: str) -> None:
    frame = (
        spark.createDataFrame(events().to_pandas()).repartition(3, "k").sortWithinPartitions("ts")
    )
    parquet.write_table(events(), tmp_path / "events.parquet", row_group_size=10)
    for rest in (REST, UNKEYED, WHOLE):
        query = cepheid.query(f"RETURN {survey} {rest}")
        expected = query.run(events()).to_pylist()
        assert same(query.run(frame).toArrow(), expected)
        assert same(query.run(str(tmp_path), spark=spark).toArrow(), expected)


def test_groups_of_several_partitions_stay_together(spark: SparkSession) -> None:
    query = cepheid.query("RETURN SAMPLE(5) PATTERN SEQ(A+, B) WHERE [k]")
    with pytest.warns(UserWarning, match="a survey tells about all partitions of a group together"):
        found = query.run(spark.createDataFrame(events().to_pandas())).toArrow()
    assert same(found, query.run(events()).to_pylist())


def test_variances(spark: SparkSession) -> None:
    items = "VAR(LENGTH), STDDEV(SUM(A.x)), VAR_POP(DURATION), VAR(A.x)"
    frame = spark.createDataFrame(events().to_pandas()).repartition(3, "k")
    for rest in (REST, UNKEYED, "PATTERN SEQ(A+, B) WHERE [k]"):
        query = cepheid.query(f"RETURN {items} {rest} HAVING VAR(LENGTH) > 0")
        expected = query.run(events()).to_pylist()
        assert expected
        assert same(query.run(frame).toArrow(), expected)
