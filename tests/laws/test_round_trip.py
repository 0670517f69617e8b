"""Laws of text and tree: formatting is the inverse of reading, and reading never crashes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.api import query
from cepheid.errors import CepheidError
from cepheid.language.formatter import format_query, format_text
from cepheid.language.lexer import comments_of
from cepheid.language.parser import parse
from cepheid.planner.plan import Plan
from cepheid.testing.query_strategies import cases
from tests.queries import PAPER_QUERIES, VALID_QUERIES

CORPUS = [*VALID_QUERIES, *PAPER_QUERIES.values()]
MUTATIONS_COUNT = 10_000
PIECES = [
    *"()[]{},.+*?-/%=<>!'\"`;:#$\\\n\t \0é∗≤µ∧",
    *"RETURN PATTERN WHERE AND OR NOT SEQ IN BETWEEN IS NULL LIKE WITHIN SLIDE EVENTS LIMIT".split(),
    *"GROUP-BY HAVING EMIT ON EXPIRY TIES NUMBERS SEMANTICS NEXT( COUNT(*) A.x 10 1e9 {2,} /* --".split(),
    "MIN LENGTH",
    "99999999999999999999",
]


@pytest.mark.parametrize("text", CORPUS)
def test_formatting_is_the_inverse_of_parsing(text: str) -> None:
    tree = parse(text)
    formatted = format_query(tree)
    assert parse(formatted) == tree
    assert format_query(parse(formatted)) == formatted


@given(cases())
def test_formatting_random_queries_is_the_inverse_of_parsing(case: tuple[str, object, object]) -> None:
    tree = parse(case[0])
    assert parse(format_query(tree)) == tree


@pytest.mark.parametrize("text", CORPUS)
def test_formatting_text_keeps_every_comment(text: str) -> None:
    commented = "-- first\n" + text.replace(" PATTERN", " /* middle */ PATTERN") + "\n-- last"
    formatted = format_text(commented)
    assert parse(formatted) == parse(text)
    kept = sorted(comment for _, comment in comments_of(formatted))
    lines = [line.strip() for _, c in comments_of(commented) for line in c.split("\n")]
    assert kept == sorted(lines)


def mutate(text: str, rng: random.Random) -> str:
    """Cut, double, swap or insert a piece, one to four times."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.randint(0, 12))
        match rng.randint(0, 3):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:end] + text[start:]
            case 2:
                text = text[:start] + rng.choice(PIECES) + text[start:]
            case _:
                other = rng.choice(CORPUS)
                cut = rng.randint(0, len(other))
                text = text[:start] + other[cut : cut + 20] + text[end:]
    return text


def test_mutated_queries_give_a_diagnostic_or_a_plan() -> None:
    rng = random.Random(20260101)  # noqa: S311  # mutations need no secrecy
    outcomes = {"plan": 0, "diagnostic": 0}
    for _ in range(MUTATIONS_COUNT):
        text = mutate(rng.choice(CORPUS), rng)
        try:
            compiled = query(text)
        except CepheidError as error:
            outcomes["diagnostic"] += 1
            assert str(error).startswith("error[E")
            assert all(d.helps or d.label or d.message for d in error.diagnostics)
        else:
            outcomes["plan"] += 1
            assert parse(format_query(compiled.tree)) == compiled.tree
            assert compiled.explain().startswith("plan ")
    assert min(outcomes.values()) > MUTATIONS_COUNT // 50, "both outcomes must be common"


@given(st.text(max_size=60))
def test_any_text_gives_a_diagnostic_or_a_plan(text: str) -> None:
    try:
        query(text)
    except CepheidError as error:
        assert str(error)


@given(cases())
def test_plans_survive_json_and_hash_alike(case: tuple[str, dict[str, str], object]) -> None:
    plan = query(case[0], schema=case[1]).plan
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert hash(again) == hash(plan)
