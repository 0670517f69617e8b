"""Row patterns in windows give what the test suites of Trino and Postgres expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.cases import (
    Case,
    check_result,
    expect_result,
    read_cases,
    table_of,
)

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUITES = ("trino_row_pattern_window", "postgres_row_pattern_window")
CASES = [case for suite in SUITES for case in read_cases(suite, ("row_pattern_window",))]
INEXPRESSIBLE = {
    "pg-08": "`((UP DOWN)+)` with `UP AS price > PREV(price)`: the first row of a match asks for "
    "the row before its frame, which a match of Postgres sees and one of Trino does not",
}
"""Cases that need another scope of PREV."""

ON_SPARK = {"trino-win-003", "trino-win-082", "trino-win-089", "pg-11"}


def text_of(case: Case) -> str:
    """Return the whole query of a case.

    The cases of Postgres have its window functions as measures. COUNT is none here: a measure is
    NULL where there is no match, and a count over no rows is 0.
    """
    query = case["query"]
    measures = {measure["name"]: measure["expr"] for measure in query["measures"]}
    counts = {
        name: text
        for name, text in measures.items()
        if query.get("nav_scope") == "partition" and text.startswith("count(")
    }
    items = []
    for item in query["select"]:
        name = item["expr"]
        called = f"{counts.get(name, f'`{name}`')} OVER w" if name in measures else f"`{name}`"
        items.append(f"{called} AS `{item['name']}`")
    return f"SELECT {', '.join(items)} FROM input {query['sql']}"


def test_every_case_is_there() -> None:
    counts = [len(read_cases(suite, ("row_pattern_window",))) for suite in SUITES]
    assert counts == [52, 14]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["id"] not in INEXPRESSIBLE], ids=lambda case: case["id"]
)
def test_in_process(case: Case) -> None:
    expect_result(case, text_of(case))


@pytest.mark.parametrize("name", INEXPRESSIBLE)
def test_another_scope_of_prev_finds_other_matches(name: str) -> None:
    (case,) = (case for case in CASES if case["id"] == name)
    rows = cepheid.sql(text_of(case), tables={"input": table_of(case)}).to_pylist()
    with pytest.raises(AssertionError):
        check_result(case, rows)
    # No match begins with UP, since the first row of a frame has none before it.
    assert {row["first_value"] for row in rows} == {None}


@pytest.mark.spark
def test_on_spark(spark: SparkSession) -> None:
    chosen = [case for case in CASES if case["id"] in ON_SPARK]
    assert len(chosen) == len(ON_SPARK)
    for case in chosen:
        result = cepheid.sql(spark, text_of(case), tables={"input": table_of(case)})
        check_result(case, result.toArrow().to_pylist())
