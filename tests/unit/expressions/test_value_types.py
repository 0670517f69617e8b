"""Kinds of expressions: what is inferred, and that it takes one look at each node."""

from __future__ import annotations

import pytest

from cepheid.api import query
from cepheid.errors import BindError
from cepheid.events.schema import ValueKind
from cepheid.expressions.value_types import arithmetic_kind, widest_kind

SCHEMA = {"ts": "timestamp", "type": "string", "n": "bigint", "x": "double", "s": "string"}
INTEGER, DOUBLE, TEXT = ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
DECIMAL, UNKNOWN = ValueKind.DECIMAL, ValueKind.UNKNOWN
DATE, TIMESTAMP, DURATION = ValueKind.DATE, ValueKind.TIMESTAMP, ValueKind.DURATION


@pytest.mark.parametrize(
    ("kinds", "widest"),
    [
        ([INTEGER, INTEGER], INTEGER),
        ([INTEGER, DECIMAL], DECIMAL),
        ([INTEGER, DECIMAL, DOUBLE], DOUBLE),
        ([DATE, TIMESTAMP], TIMESTAMP),
        ([INTEGER, UNKNOWN], UNKNOWN),
        ([UNKNOWN, TEXT], TEXT),
        ([], UNKNOWN),
    ],
)
def test_the_widest_kind_holds_all_values(kinds: list[ValueKind], widest: ValueKind) -> None:
    assert widest_kind(kinds) is widest


@pytest.mark.parametrize(
    ("a", "operator", "b", "kind"),
    [
        (DATE, "+", DURATION, TIMESTAMP),
        (DURATION, "+", DATE, TIMESTAMP),
        (DATE, "-", DATE, DURATION),
        (DURATION, "-", TIMESTAMP, None),
        (UNKNOWN, "+", TEXT, None),
        (ValueKind.BOOLEAN, "*", UNKNOWN, None),
        (UNKNOWN, "-", TIMESTAMP, UNKNOWN),
    ],
)
def test_arithmetic(a: ValueKind, operator: str, b: ValueKind, kind: ValueKind | None) -> None:
    assert arithmetic_kind(operator, a, b) is kind


def codes(where: str) -> list[str]:
    try:
        query(f"RETURN COUNT(*) PATTERN A WHERE {where}", schema=SCHEMA)
    except BindError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


@pytest.mark.parametrize(
    "where",
    [
        "NULLIF(A.s, 5) = 'a'",
        "COALESCE(A.s, 5) = 5",
        "GREATEST(A.n, 'a') = 1",
        "LEAST(A.ts, A.n) = 1",
        "SUBSTRING(A.n, 1) = 'a'",
        "SUBSTRING(A.s, 'a') = 'a'",
        "ROUND(A.x, 1.5) > 1",
    ],
)
def test_arguments_that_do_not_fit_are_reported_once(where: str) -> None:
    assert codes(where) == ["E206"]


@pytest.mark.parametrize(
    "where",
    [
        "COALESCE(A.n, A.x, NULL) > 1",
        "NULLIF(A.s, NULL) = 'a'",
        "SUBSTRING(A.s, FLOOR(A.x), LENGTH(A.s)) = 'a'",
        "ROUND(A.x, -2) > 1",
        "ROUND(A.x) > 1",
    ],
)
def test_arguments_that_fit_are_accepted(where: str) -> None:
    assert codes(where) == []


def test_nested_calls_are_inferred_once() -> None:
    # Looking twice at every argument would take 2^90 steps.
    assert codes(f"{'ABS(' * 90}A.x{')' * 90} BETWEEN 1 AND 2") == []


def test_long_lists_are_compared_with_an_operand_that_is_inferred_once() -> None:
    operand = f"COALESCE({', '.join(['A.x'] * 2000)})"
    assert codes(f"{operand} IN ({', '.join(['1'] * 2000)})") == []
    mixed = ", ".join(["1", "'a'"] * 1000)
    assert codes(f"A.x IN ({mixed}) AND {operand} > 1") == ["E206"]


def test_every_text_beside_a_time_is_looked_at() -> None:
    assert codes("A.ts IN ('2026-01-01', 'a', 'b', 5, 6)") == ["E206", "E213", "E213"]


def test_a_time_column_of_text_is_rejected() -> None:
    with pytest.raises(BindError, match="E212"):
        query("PATTERN A", schema={"ts": "boolean", "type": "string"})
