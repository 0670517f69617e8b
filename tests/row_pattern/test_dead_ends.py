"""Rows from which no match can be completed are not tried, start by start."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import DataError

ROWS = 5_000
STEPS = 20 * ROWS
CLAUSE = """SELECT n FROM rows MATCH_RECOGNIZE (
    ORDER BY ts MEASURES COUNT(*) AS n PATTERN ({pattern})
    DEFINE A AS SUM(A.x) >= 0, B AS type = 'B' {more})"""


def table(*ends: int) -> pa.Table:
    kinds = np.full(ROWS, "A")
    kinds[list(ends)] = "B"
    columns = {"ts": pa.array(range(ROWS)), "type": pa.array(kinds), "x": pa.array([1.0] * ROWS)}
    return pa.table(columns)


@pytest.mark.parametrize("pattern", ["A+ B", "(A | A A)+ B", "A+ B $"])
def test_no_row_that_ends_a_match_costs_no_steps(pattern: str) -> None:
    text = CLAUSE.format(pattern=pattern, more="")
    assert not len(cepheid.sql(text, tables={"rows": table()}, search_steps=STEPS))


def test_rows_after_the_last_end_begin_nothing() -> None:
    text = CLAUSE.format(pattern="A+ B", more="")
    found = cepheid.sql(text, tables={"rows": table(3, 10)}, search_steps=STEPS)
    assert found["n"].to_pylist() == [11]


def test_ends_that_conditions_on_the_match_rule_out_are_tried() -> None:
    text = CLAUSE.format(pattern="A+ B", more="AND SUM(A.x) < 0")
    with pytest.raises(DataError, match="E612"):
        cepheid.sql(text, tables={"rows": table(ROWS - 1)}, search_steps=STEPS)
