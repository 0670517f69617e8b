"""Every evaluator of the process against the table of cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from tests.expressions.cases import (
    CASES,
    COMPARISONS,
    NUMBERS,
    TYPES,
    Case,
    Row,
    conditions,
    differences,
    expected,
    name_of,
    pairs,
    split,
    table_of,
)

import cepheid
from cepheid.expressions.cast_types import TARGETS
from cepheid.expressions.functions import LANGUAGE_FUNCTIONS as FUNCTIONS
from cepheid.expressions.match_functions import MATCH_FUNCTIONS
from cepheid.kinds.row_pattern import find
from cepheid.kinds.row_pattern import tree as sql
from cepheid.kinds.row_pattern.expressions import parse_expression
from cepheid.kinds.row_pattern.lexer import tokenize
from cepheid.kinds.row_pattern.programs import NoProgramError
from cepheid.kinds.row_pattern.reader import Reader
from cepheid.kinds.row_pattern.values import evaluate

KINDS = ("whole", "double", "text", "time", "date", "price", "fine", "long", "id")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_select(case: Case) -> None:
    rows, right, wrong = split(case)
    query = cepheid.query(f"SELECT {case.text} AS r FROM s")
    found = query.run(table_of(case, rows)).column("r").to_pylist()
    assert not differences(case, rows, found, right)
    for row, code in wrong:
        with pytest.raises(cepheid.DataError, match=code):
            query.run(table_of(case, [row]))


@pytest.mark.parametrize("case", conditions(), ids=name_of)
def test_conditions(case: Case) -> None:
    rows, right, _ = split(case)
    table = table_of(case, rows)
    wanted = [n for n, value in enumerate(right) if value is True]
    assert wanted == cepheid.query(f"SELECT n FROM s WHERE {case.text}").run(table)["n"].to_pylist()
    # A situation is a run of events; every one of them has a partition of its own, and ends.
    ends = table.set_column(1, "ts", pa.array([row + 10**6 for row in range(len(rows))]))
    for name in "ab"[: len(case.kinds)]:
        empty: Any = pa.array([None] * len(rows), TYPES[case.kinds["ab".index(name)]])
        ends = ends.set_column(ends.column_names.index(name), name, empty)
    text = f"DEFINE A AS {case.text} AND ts < 1000000 SITUATIONS A PARTITION BY n"
    found: Any = cepheid.query(text).run(pa.concat_tables([table, ends]))
    assert sorted(found["n"].to_pylist()) == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", COMPARISONS)
def test_neighbours(kind: str, operator: str) -> None:
    case = Case(f"a {operator} b", kind, kind)
    rows, right = pairs(case.kinds), expected(case)
    size = range(len(rows))
    events = pa.table(
        {
            "ts": [n for n in size for _ in "ab"],
            "n": [n for n in size for _ in "ab"],
            "type": ["A", "B"] * len(rows),
            "v": pa.array([value for row in rows for value in row], TYPES[kind]),
        }
    )
    events = events.set_column(0, "ts", pa.array(range(len(events))))
    wanted = [n for n, value in enumerate(right) if value is True]
    for condition in (f"x.v {operator} y.v", f"FIRST(x).v {operator} LAST(y).v"):
        text = f"RETURN COUNT(*) PATTERN SEQ(A x, B y) WHERE {condition} GROUP-BY n"
        found: Any = cepheid.query(text).run(events)
        assert sorted(found["n"].to_pylist()) == wanted, condition


# ---------------------------------------------------------------------------------------
# MATCH_RECOGNIZE


def sql_values(case: Case, rows: list[Row]) -> list[Any]:
    """Return what the expressions of SQL give."""
    table = table_of(case, rows)
    text = re.sub(r"(\d+) hour", r"INTERVAL '\1' HOUR", case.text)
    expression = parse_expression(Reader(tokenize(text), text))

    def leaf(node: sql.Expression) -> Any:
        assert isinstance(node, sql.Column)
        return table.column(node.name).combine_chunks()

    found = evaluate(expression, leaf, text)
    return [found.as_py()] * len(rows) if isinstance(found, pa.Scalar) else found.to_pylist()


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_sql(case: Case) -> None:
    rows, right, wrong = split(case)
    assert not differences(case, rows, sql_values(case, rows), right)
    for row, code in wrong:
        if code == "E504" or case.text in ("a * 0.5", "a / 4"):
            with pytest.raises(cepheid.CepheidError, match=r"E614|E570"):
                sql_values(case, [row])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize("compiled", [True, False], ids=["program", "scalars"])
def test_conditions_that_see_other_rows(kind: str, operator: str, *, compiled: bool) -> None:
    case = Case(f"a {operator} b", kind, kind)
    rows, right = pairs(case.kinds), expected(case)
    events = pa.table(
        {
            "n": [n for n in range(len(rows)) for _ in "ab"],
            "i": [0, 1] * len(rows),
            "v": pa.array([value for row in rows for value in row], TYPES[kind]),
        }
    )
    text = f"""SELECT n FROM t MATCH_RECOGNIZE (PARTITION BY n ORDER BY i
        PATTERN (A B) DEFINE B AS A.v {operator} B.v)"""
    wanted = [n for n, value in enumerate(right) if value is True]
    if compiled:
        found = cepheid.sql(text, tables={"t": events})
    else:
        with patch.object(find, "build_programs", side_effect=NoProgramError):
            found = cepheid.sql(text, tables={"t": events})
    assert sorted(found["n"].to_pylist()) == wanted


# ---------------------------------------------------------------------------------------
# Stores, which look at blocks first


@pytest.mark.parametrize("kind", NUMBERS)
def test_stores(kind: str, tmp_path: Path) -> None:
    own = [case for case in conditions() if case.kinds == (kind,)]
    rows = pairs((kind,))
    store = cepheid.EventStore(tmp_path / kind)
    table = table_of(Case("a", kind), rows)
    for n in range(len(rows)):
        store.append(table.slice(n, 1))
    for case in own:
        wanted = [n for n, value in enumerate(expected(case)) if value is True]
        found = cepheid.query(f"SELECT n FROM s WHERE {case.text}").run(store)
        assert found["n"].to_pylist() == wanted, case.text


def test_every_function_and_operator_has_a_case() -> None:
    texts = " ".join(case.text for case in CASES)
    # Spark SQL does not have those of MATCH_FUNCTIONS; test_matches.py has their cases.
    others = FUNCTIONS.keys() - MATCH_FUNCTIONS.keys()
    assert [name for name in others if f"{name}(" not in texts] == []
    for word in ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "CASE"):
        assert f" {word} " in f" {texts} "
    assert [name for name in TARGETS if f"CAST(a AS {name})" not in texts] == _SPELLINGS


_SPELLINGS = ["INTEGER", "LONG", "VARCHAR"]
"""Other names of INT, BIGINT and STRING."""
