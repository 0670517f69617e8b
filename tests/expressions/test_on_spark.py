"""The table of cases on Spark: what SELECT becomes there, and what Spark SQL itself says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.amount import share
from tests.expressions.cases import (
    CASES,
    CODES,
    DECIMALS,
    TYPES,
    Case,
    Row,
    differences,
    expected,
    name_of,
    pairs,
    split,
    table_of,
)

import cepheid
from cepheid.spark.failures import clear_error

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Group = tuple[tuple[str, ...], tuple[int, ...]]
Run = Callable[[list[Case], pa.Table], pa.Table]
KINDS = sorted({case.kinds for case in CASES})


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Give a session with and without ANSI mode."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", str(before))


def grouped(kinds: tuple[str, ...], fits: Callable[[Case, Row], bool]) -> dict[Group, list[Case]]:
    """Return cases that have a value for the same rows, so that one query asks for all of them."""
    found: dict[Group, list[Case]] = defaultdict(list)
    for case in CASES:
        if case.kinds == kinds:
            known = enumerate(zip(pairs(kinds), expected(case), strict=True))
            places = [n for n, (row, value) in known if value not in CODES and fits(case, row)]
            found[kinds, tuple(places)].append(case)
    return found


def compared(
    run: Callable[[list[Case], pa.Table], pa.Table], groups: dict[Group, list[Case]]
) -> None:
    """Run the cases of all groups, and say which differ from what is right."""
    wrong = []
    for (kinds, places), cases in groups.items():
        rows = [pairs(kinds)[n] for n in places]
        found = run(cases, table_of(cases[0], rows)).sort_by("n")
        for number, case in enumerate(cases):
            right = [expected(case)[n] for n in places]
            close = case._replace(close=case.close or bool(set(case.kinds) & set(DECIMALS)))
            values = found.column(f"r{number}").to_pylist()
            wrong += [(case.text, *d) for d in differences(close, rows, values, right)]
    assert not wrong, wrong[:5]


@share(4)
@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_select(session: SparkSession, kinds: tuple[str, ...]) -> None:
    def run(cases: list[Case], table: pa.Table) -> pa.Table:
        items = ", ".join(f"{case.text} AS r{n}" for n, case in enumerate(cases))
        query = cepheid.query(f"SELECT n, {items} FROM s")
        found: pa.Table = query.run(session.createDataFrame(table)).toArrow()
        return found

    compared(run, grouped(kinds, lambda case, row: not _is_refused(case, row)))


def _is_refused(case: Case, row: Row) -> bool:
    """Return whether Spark has to refuse a comparison that is one in process (§4.10)."""
    return case.kinds == ("long", "double") and _code(Case("a + 1", "long"), (row[0],)) == "E570"


def _code(case: Case, row: Row) -> Any:
    return dict(zip(map(repr, pairs(case.kinds)), expected(case), strict=True))[repr(row)]


@share(6)
@pytest.mark.parametrize("case", [c for c in CASES if split(c)[2]], ids=name_of)
def test_errors(spark: SparkSession, case: Case) -> None:
    row, code = split(case)[2][-1]
    result = cepheid.query(f"SELECT {case.text} AS r FROM s").run(
        spark.createDataFrame(table_of(case, [row]))
    )
    with pytest.raises(PySparkException) as caught:
        result.collect()
    assert clear_error(caught.value).diagnostics[0].code == code


# ---------------------------------------------------------------------------------------
# Spark SQL


def in_spark_sql(text: str) -> str:
    """Return an expression in the words of Spark SQL: NULL where a divisor is zero."""
    text = re.sub(r"(\w+) / (\w+)", r"try_divide(\1, \2)", text)
    text = re.sub(r"(\w+) % (\w+)|MOD\((\w+), (\w+)\)", r"try_mod(\1\3, \2\4)", text)
    text = re.sub(r"(\d+) hour", r"INTERVAL \1 HOUR", text).replace("\\", "\\\\")
    return text.replace("STARTS_WITH(", "startswith(").replace("b, b)", "b, b, NULL)")


def agrees(case: Case, row: Row) -> bool:
    """Return whether Spark SQL means the same by a case (docs/semantics.md §4.6)."""
    numbers = [value for value in row if isinstance(value, int | float)]
    # Beside doubles, whole numbers are doubles for Spark, and by value for us.
    large = any(abs(value) >= 2**53 for value in numbers)
    if case.text.endswith("AS BIGINT)") and 2.0**63 in row:
        return False  # Spark makes 2^63 - 1 of it.
    if case.text == "LOCATE('a', a, b)" and row[1] is None:
        return False  # Spark makes 0 of it.
    if case.text.startswith(("LOCATE", "SUBSTRING")):  # Their places are INT in Spark.
        return all(abs(value) < 2**31 for value in numbers)
    mixed = set(case.kinds) == {"whole", "double"} or "9007199254740992" in case.text
    mixed |= "9007199254740993" in case.text or case.text == "a IN (b, 7)"
    decimal = bool(set(case.kinds) & set(DECIMALS)) and "double" in case.kinds
    rounds = "long" in case.kinds or "id" in case.kinds
    return not (large and (mixed or decimal)) and not (decimal and rounds)


@share(6)
@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_spark_sql(spark: SparkSession, kinds: tuple[str, ...]) -> None:
    def run(cases: list[Case], table: pa.Table) -> pa.Table:
        items = [f"{in_spark_sql(case.text)} AS r{n}" for n, case in enumerate(cases)]
        return spark.createDataFrame(table).selectExpr("n", *items).toArrow()

    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        compared(run, grouped(kinds, agrees))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.mark.parametrize("kind", ["whole", "double", "id", "price"])
def test_filters_of_trends_keep_what_counts(spark: SparkSession, kind: str) -> None:
    """What a filter drops before the engine sees it would be lost."""
    rows = pairs((kind,))
    values = pa.array([row[0] for row in rows], TYPES[kind])
    types = {"type": pa.array(["A"] * len(rows)), "a": values}
    events = pa.table({"ts": range(len(rows)), "n": range(len(rows)), **types})
    frame = spark.createDataFrame(events)
    for text in ("A.a >= 9007199254740993", "A.a > 9007199254740992.0 OR A.a < 0.5", "A.a = 1.25"):
        query = cepheid.query(f"RETURN COUNT(*) PATTERN A WHERE {text} GROUP-BY n")
        found: Any = query.run(frame, strategy="key shuffle").toArrow()
        wanted: Any = query.run(events)
        assert sorted(found["n"].to_pylist()) == sorted(wanted["n"].to_pylist()), text
