"""Which edge predicates separate into f(prev) op g(next), and that the two forms mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.api import query
from cepheid.language import tree
from cepheid.planner.explain import format_separation
from cepheid.planner.plan import EdgePredicate
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression

SCHEMA = {
    "ts": "timestamp",
    "type": "string",
    "x": "double",
    "n": "bigint",
    "m": "int",
    "s": "string",
    "d": "date",
}


def edges(where: str, *, schema: dict[str, str] | None = SCHEMA) -> tuple[EdgePredicate, ...]:
    compiled = query(f"RETURN COUNT(*) PATTERN S+ WHERE {where} WITHIN 9 s", schema=schema)
    return compiled.plan.edges


@pytest.mark.parametrize(
    ("where", "separated"),
    [
        ("S.x > NEXT(S).x", "S.x > NEXT(S).x"),
        ("NEXT(S).x < S.x", "S.x > NEXT(S).x"),
        ("PREV(S).x < S.x", "S.x < NEXT(S).x"),
        ("S.x * 1.05 < NEXT(S).x", "S.x * 1.05 < NEXT(S).x"),
        ("S.x * S.n + 1 <= ABS(NEXT(S).x)", "S.x * S.n + 1 <= ABS(NEXT(S).x)"),
        ("S.s = NEXT(S).s", "S.s = NEXT(S).s"),
        ("NOT S.x > NEXT(S).x", "S.x <= NEXT(S).x"),
        ("NOT NOT S.x <> NEXT(S).x", "S.x <> NEXT(S).x"),
        ("NEXT(S).ts - S.ts < 5 seconds", "S.ts + 5 seconds > NEXT(S).ts"),
        ("NEXT(S).n - S.n = 1", "S.n + 1 = NEXT(S).n"),
        ("S.n - NEXT(S).n > NEXT(S).m - S.m", "S.n + S.m > NEXT(S).n + NEXT(S).m"),
        ("-NEXT(S).n < 3 - S.n", "3 - S.n > -NEXT(S).n"),
        ("5 - S.n < NEXT(S).n", "5 - S.n < NEXT(S).n"),
        ("S.n + NEXT(S).n < 10", "S.n - 10 < -NEXT(S).n"),
    ],
)
def test_predicates_that_separate(where: str, separated: str) -> None:
    (edge,) = edges(where)
    assert edge.separation is not None, edge.reason
    assert format_separation(edge.separation) == separated


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("NEXT(S).x - S.x > 0.1", "doubles are not rearranged"),
        ("S.n * NEXT(S).n > 10", "`S.n * NEXT(S).n` mixes the two events"),
        ("S.x > NEXT(S).x OR S.n > 5", "it is no comparison"),
        ("S.x IN (NEXT(S).x, 5)", "it is no comparison"),
        ("GREATEST(S.x, NEXT(S).x) > 5", "mixes the two events"),
    ],
)
def test_predicates_that_do_not_separate(where: str, reason: str) -> None:
    (edge,) = edges(where)
    assert edge.separation is None
    assert reason in edge.reason


def test_between_is_two_predicates() -> None:
    low, high = edges("NEXT(S).x BETWEEN S.x AND S.x * 1.1")
    assert low.separation is not None
    assert high.separation is not None


def test_without_a_schema_terms_are_not_moved() -> None:
    (edge,) = edges("NEXT(S).n - S.n = 1", schema=None)
    assert edge.separation is None
    assert "schema" in edge.reason


MOVABLE = [
    "NEXT(S).n - S.n = 1",
    "S.n - NEXT(S).n > NEXT(S).m - S.m",
    "-NEXT(S).n < 3 - S.n",
    "S.n + NEXT(S).n < 10",
    "NOT (S.n - NEXT(S).m >= 2)",
    "1 - (S.n - NEXT(S).n) <= S.m - -NEXT(S).m",
    "NOT S.n <> NEXT(S).n",
]
VALUES = st.one_of(st.none(), st.integers(-4, 4))


@given(st.sampled_from(MOVABLE), VALUES, VALUES, VALUES, VALUES)
def test_the_separated_form_is_true_for_the_same_events(
    where: str, n1: Value, m1: Value, n2: Value, m2: Value
) -> None:
    (edge,) = edges(where)
    events = ({"n": n1, "m": m1}, {"n": n2, "m": m2})

    def lookup(leaf: Leaf) -> Value:
        assert isinstance(leaf, tree.Attribute)
        return events[leaf.anchor is tree.Anchor.NEXT][leaf.attribute.text]

    separation = edge.separation
    assert separation is not None
    rewritten = tree.Binary(
        span=edge.expression.span,
        operator=separation.operator,
        left=separation.prev,
        right=separation.next,
    )
    before = evaluate_expression(edge.expression, lookup) is True
    assert (evaluate_expression(rewritten, lookup) is True) == before
