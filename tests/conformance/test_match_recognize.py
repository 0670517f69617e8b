"""MATCH_RECOGNIZE gives what the test suites of other systems expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.cases import (
    SUITES,
    Case,
    check_result,
    read_cases,
    run_case,
    table_of,
    text_of,
)

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = [case for suite in SUITES for case in read_cases(suite)]
# One of each kind: Spark runs the same code, and a job takes a second.
ON_SPARK = {
    "trino-mr-001",
    "trino-mr-077",
    "trino-mr-092",
    "trino-agg-009",
    "trino-agg-013",
    "flinksql-04-testEventsAreProperlyOrdered",
    "esper-rep-A2BC-1",
}


def test_every_case_is_there() -> None:
    counts = {suite: len(read_cases(suite)) for suite in SUITES}
    assert counts == {
        "esper_match_recognize": 28,
        "flink_sql_match_recognize": 12,
        "trino_match_recognize": 105,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_in_process(case: Case) -> None:
    run_case(case)


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    chosen = [case for case in CASES if case["id"] in ON_SPARK]
    assert len(chosen) == len(ON_SPARK)
    for case in chosen:
        result = cepheid.sql(spark, text_of(case), tables={"input": table_of(case)})
        check_result(case, result.toArrow().to_pylist())
