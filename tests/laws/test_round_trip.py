"""Laws of text and tree: formatting is the inverse of reading, and reading never crashes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.amount import EVERYTHING
from tests.queries import PAPER_QUERIES, SELECT_QUERIES, SITUATION_QUERIES, VALID_QUERIES

from cepheid.api import CompiledQuery, query
from cepheid.errors import CepheidError
from cepheid.expressions.format import KEYWORDS
from cepheid.language.formatter import format_query, format_text
from cepheid.language.lexer import comments_of
from cepheid.language.parser import parse
from cepheid.plans.plan import Plan
from cepheid.testing.query_strategies import Case, cases

CORPUS = [*VALID_QUERIES, *SITUATION_QUERIES, *SELECT_QUERIES, *PAPER_QUERIES.values()]
MUTATIONS_COUNT = 10_000 if EVERYTHING else 3_000
PIECES = [
    *"()[]{},.+*?-/%=<>!'\"`;:#$\\\n\t \0é∗≤µ∧",
    *sorted(KEYWORDS),
    *(
        "GROUP-BY",
        "MIN LENGTH",
        "NEXT(",
        "COUNT(*)",
        "A.x",
        "10",
        "1e9",
        "{2,}",
        "/*",
        "--",
        "9" * 20,
    ),
]


@pytest.mark.parametrize("text", CORPUS)
def test_formatting_is_the_inverse_of_parsing(text: str) -> None:
    tree = parse(text)
    formatted = format_query(tree)
    assert parse(formatted) == tree
    assert format_query(parse(formatted)) == formatted


@given(cases())
def test_formatting_random_queries_is_the_inverse_of_parsing(case: Case) -> None:
    tree = parse(case.query)
    assert parse(format_query(tree)) == tree


@pytest.mark.parametrize("text", CORPUS)
def test_formatting_text_keeps_every_comment(text: str) -> None:
    commented = "-- first\n" + text.replace(" PATTERN", " /* middle */ PATTERN") + "\n-- last"
    formatted = format_text(commented)
    assert parse(formatted) == parse(text)
    kept = sorted(comment.text for comment in comments_of(formatted))
    lines = [line.strip() for c in comments_of(commented) for line in c.text.split("\n")]
    assert kept == sorted(lines)
    assert format_text(formatted) == formatted


NAMES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1)


@given(NAMES, NAMES)
def test_any_name_reads_back(name: str, other: str) -> None:
    a, b = (f"`{n.replace('`', '``')}`" for n in (name, other))
    tree = parse(
        f"RETURN {a}.{b} AS {a}, SUM({a}.{b}) PATTERN {b} {a}+ "
        f"WHERE [{a}.{b}, {b}] AND NEXT({a}).{a}.{b} > {a}.{b}.c GROUP-BY {b}"
    )
    assert parse(format_query(tree)) == tree


QUERY = "PATTERN A + LIMIT 5 WHERE ( A.x > 1 ) AND A.y > 2 TIES strict RETURN COUNT(*)"
WORDS = QUERY.split()
GAPS = st.sampled_from([" ", "\n", " -- a\n", "\n-- b\n", " /* c */ ", " /* d\ne */\n", "\n--\n"])


@given(st.lists(GAPS, min_size=len(WORDS), max_size=len(WORDS)), GAPS)
def test_comments_are_kept_wherever_they_stand(gaps: list[str], first: str) -> None:
    text = first + "".join(word + gap for word, gap in zip(WORDS, gaps, strict=True))
    tree = parse(QUERY)
    formatted = format_text(text)
    assert parse(formatted) == tree
    assert format_text(formatted) == formatted
    lines = [line.strip() for c in comments_of(text) for line in c.text.split("\n")]
    assert sorted(c.text for c in comments_of(formatted)) == sorted(lines)


def query_or_error(text: str) -> CompiledQuery | CepheidError:
    """Let every other exception pass."""
    try:
        return query(text)
    except CepheidError as error:
        return error


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
    rng = random.Random(20260101)
    outcomes = {"plan": 0, "diagnostic": 0}
    for _ in range(MUTATIONS_COUNT):
        text = mutate(rng.choice(CORPUS), rng)
        compiled = query_or_error(text)
        if isinstance(compiled, CepheidError):
            outcomes["diagnostic"] += 1
            assert str(compiled).startswith("error[E")
            continue
        outcomes["plan"] += 1
        assert parse(format_query(compiled.tree)) == compiled.tree
        assert compiled.explain().startswith("plan ")
    assert min(outcomes.values()) > MUTATIONS_COUNT // 50, "both outcomes must be common"


@given(st.text(max_size=60))
def test_any_text_gives_a_diagnostic_or_a_plan(text: str) -> None:
    assert str(query_or_error(text))


@given(cases())
def test_plans_survive_json_and_hash_alike(case: Case) -> None:
    plan = query(case.query, schema=case.schema).plan
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert hash(again) == hash(plan)
