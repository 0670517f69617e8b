"""Which edge predicates separate into f(prev) op g(next), and that the two forms mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.api import query
from cepheid.events.schema import ValueKind
from cepheid.events.schema import kind_of as kind_named
from cepheid.expressions.value_types import Typing, family_of
from cepheid.kinds.trend.planning.explain import format_separation
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.plans.plan import EdgePredicate, TrendPlan
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression

SCHEMA = {
    "ts": "timestamp",
    "type": "string",
    "x": "double",
    "n": "bigint",
    "m": "int",
    "s": "string",
    "d": "date",
    "dec": "decimal(10,2)",
    "dur": "duration[us]",
    "start": "timestamp",
    "end": "timestamp",
}


def edges(where: str, *, schema: dict[str, str] | None = SCHEMA) -> tuple[EdgePredicate, ...]:
    compiled = query(f"RETURN COUNT(*) PATTERN S+ WHERE {where} WITHIN 9 s", schema=schema)
    return TrendPlan.of(compiled.plan).edges


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
        ("COALESCE(NEXT(S).n, 0) - S.n = 1", "S.n + 1 = COALESCE(NEXT(S).n, 0)"),
        ("NEXT(S).ts - S.ts < 2 * S.dur", "S.ts + 2 * S.dur > NEXT(S).ts"),
        ("NEXT(S).ts - S.ts < S.end - S.start", "S.ts - S.start + S.end > NEXT(S).ts"),
        ("S.dur + (S.ts - NEXT(S).ts) < 1 hour", "S.ts + S.dur - 1 hour < NEXT(S).ts"),
        ("FLOOR(S.n) - NEXT(S).n > 1", "FLOOR(S.n) - 1 > NEXT(S).n"),
        ("FLOOR(NEXT(S).x) - CEIL(S.x) = 1", "CEIL(S.x) + 1 = FLOOR(NEXT(S).x)"),
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
        ("NEXT(S).n - COALESCE(S.n, 0.5) = 1", "doubles are not rearranged"),
        ("NEXT(S).n - GREATEST(S.n, S.x) = 1", "doubles are not rearranged"),
        ("NEXT(S).n - MOD(S.n, 0.5) = 1", "doubles are not rearranged"),
        ("NEXT(S).dec - S.dec > 1", "decimals are not rearranged"),
        ("NEXT(S).d - S.d > 1 day", "dates are not rearranged"),
        ("NEXT(S).ts - S.ts < S.dur * 0.5", "moving terms is exact for"),
        ("NEXT(S).ts - S.ts < S.dur / 2", "moving terms is exact for"),
        ("NEXT(S).ts - S.ts < S.dur * S.n", "moving terms is exact for"),
        ("S.ts - NEXT(S).ts < NEXT(S).end - S.start", "would add times to times"),
        ("S.x NOT BETWEEN NEXT(S).x AND 5", "it is no comparison"),
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


@pytest.mark.parametrize(
    "where", ["NEXT(S).n - S.n = 1", "COALESCE(NEXT(S).n, 0) - ROUND(S.n, 1) = 1"]
)
def test_without_a_schema_terms_are_not_moved(where: str) -> None:
    (edge,) = edges(where, schema=None)
    assert edge.separation is None
    assert "schema" in edge.reason


@pytest.mark.parametrize(
    "where",
    [
        "NEXT(S).ts - S.ts < S.end - S.start",
        "S.dur - (S.ts - NEXT(S).ts) < NEXT(S).end - NEXT(S).start",
        "NEXT(S).ts - S.ts + S.end > NEXT(S).end - 2 * S.dur",
        "S.d + 1 hour > NEXT(S).ts",
    ],
)
def test_both_sides_of_a_separation_have_comparable_kinds(where: str) -> None:
    findings = Findings()

    def kind_of(leaf: Leaf) -> ValueKind:
        assert isinstance(leaf, tree.Attribute)
        return kind_named(SCHEMA[leaf.attribute.text])

    (edge,) = edges(where)
    assert edge.separation is not None, edge.reason
    kinds = [
        Typing(kind_of, findings).infer(e) for e in (edge.separation.prev, edge.separation.next)
    ]
    assert findings.errors == []
    assert family_of(kinds[0]) == family_of(kinds[1])


MOVABLE = [
    "NEXT(S).n - S.n = 1",
    "S.n - NEXT(S).n > NEXT(S).m - S.m",
    "-NEXT(S).n < 3 - S.n",
    "S.n + NEXT(S).n < 10",
    "NOT (S.n - NEXT(S).m >= 2)",
    "1 - (S.n - NEXT(S).n) <= S.m - -NEXT(S).m",
    "NOT S.n <> NEXT(S).n",
    "NEXT(S).ts - S.ts < S.end - S.start",
    "S.dur - (S.ts - NEXT(S).ts) >= NEXT(S).end - NEXT(S).start - 2 * S.dur",
]
VALUES = st.one_of(st.none(), st.integers(-4, 4))


@given(st.sampled_from(MOVABLE), VALUES, VALUES, VALUES, VALUES)
def test_the_separated_form_is_true_for_the_same_events(
    where: str, a1: Value, b1: Value, a2: Value, b2: Value
) -> None:
    (edge,) = edges(where)
    events = tuple(
        {"n": a, "m": b, "ts": a, "end": b, "start": 1, "dur": 2} for a, b in ((a1, b1), (a2, b2))
    )

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
