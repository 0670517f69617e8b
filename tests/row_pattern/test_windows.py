"""Windows with PATTERN give what the definition gives, for random windows over random tables."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.row_pattern import reference
from tests.row_pattern.reference_windows import over_window
from tests.row_pattern.test_reference import (
    SCHEMA,
    WAYS,
    clauses,
    conditions,
    filtered,
    same_cell,
    tables,
)

import cepheid
from cepheid.kinds.row_pattern.statement import read_statement
from cepheid.testing.strategies import choice

FUNCTIONS = [
    "COUNT(*)",
    "SUM(x)",
    "SUM(x + y) FILTER (WHERE y > 0)",
    "ARRAY_AGG(x)",
    "FIRST_VALUE(x)",
    "LAST_VALUE(x + y)",
    "NTH_VALUE(y, 2)",
    "ROW_NUMBER()",
    "RANK()",
    "DENSE_RANK()",
    "PERCENT_RANK()",
    "CUME_DIST()",
    "NTILE(2)",
    "NTILE(3)",
]
PLAIN = re.compile(r"\b[ABU]\.")
"""What stands before columns of variables, which functions over a window do not name."""


@st.composite
def windows(draw: st.DrawFn, drawn: st.SearchStrategy[str]) -> str:
    """Draw a query with one window: a clause that could be live, with a frame for its rows."""
    text = draw(clauses(drawn, live=True))
    end = draw(choice(["UNBOUNDED FOLLOWING", "UNBOUNDED FOLLOWING", "2 FOLLOWING", "CURRENT ROW"]))
    search = draw(choice(["", " INITIAL", " SEEK", " SEEK"]))
    text = re.sub(r" (ONE ROW|ALL ROWS) PER MATCH( OMIT EMPTY MATCHES)?", "", text)
    text = re.sub(r" WITHIN (INTERVAL '3' SECOND|2\.5 seconds|3)", "", text)
    text = text.replace("MATCH_NUMBER()", "COUNT(*)").replace("MATCH_RECOGNIZE ", "")
    frame = f" ROWS BETWEEN CURRENT ROW AND {end} AFTER MATCH"
    text = text.replace(" AFTER MATCH", frame).replace(" PATTERN ", f"{search} PATTERN ", 1)
    measured = [f"m{i}" for i in range(text.count(" AS m"))]
    called = draw(st.lists(st.sampled_from(FUNCTIONS) | filtered().map(_plain), max_size=2))
    items = [f"{call} OVER w AS c{i}" for i, call in enumerate([*measured, *called])]
    return f"SELECT {', '.join(items)} FROM t WINDOW w AS {text}"


def _plain(aggregate: str) -> str:
    return PLAIN.sub("", aggregate).replace("CLASSIFIER()", "'A'").replace("(*.", "(*")


def check(text: str, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    (site,) = read_statement(text).sites
    try:
        expected: Any = over_window(site.clause, rows)
    except reference.SkipError as error:
        expected = str(error)
    for way, patched in WAYS.items():
        try:
            with patched:
                found: Any = cepheid.sql(text, tables={"t": table}).to_pylist()
        except cepheid.DataError as error:
            found = error.diagnostics[0].code
        else:
            found = [list(row.values()) for row in found]
        message = f"{way}\n{text}\n{rows}\nfound    {found}\nexpected {expected}"
        assert same(found, expected), message


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, str) or isinstance(expected, str):
        return bool(found == expected)
    return len(found) == len(expected) and all(
        len(row) == len(other) and all(map(same_cell, row, other))
        for row, other in zip(found, expected, strict=True)
    )


@given(windows(conditions(seeing=False)), tables)
def test_conditions_on_rows_alone(text: str, rows: list[dict[str, Any]]) -> None:
    check(text, rows)


@given(windows(conditions(seeing=True)), tables)
def test_conditions_that_see_the_match(text: str, rows: list[dict[str, Any]]) -> None:
    check(text, rows)
