"""Partial equivalence against the oracle, where events of other values matter and where not."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, same_rows, table_of

from cepheid import query
from cepheid.language.parser import parse
from cepheid.testing import evaluate
from cepheid.testing.harness import SECOND_US
from cepheid.testing.oracle_patterns import neighbours_of
from cepheid.testing.strategies import streams

SCHEMA = {"volume": "int", "key": "string", "zone": "string"}

PATTERNS = (
    "SEQ(NOT C, A+) WHERE [A.key, zone] AND A.volume > NEXT(A).volume",
    "SEQ(A+, B?) WHERE [A.key] AND A.volume < NEXT(A).volume",
    "SEQ(A, NOT B, A x+) WHERE [A.key, x.key, B.key]",
    "SEQ(B?, A+, NOT C) WHERE [A.key, zone]",
    "SEQ(A+, B+) WHERE [A.key, B.zone] AND A.volume < NEXT(A).volume",
)
WINDOWS = ("", "WITHIN 6 us SLIDE 2 us", "WITHIN 5 us")


CASES = [(pattern, semantics) for pattern in PATTERNS for semantics in ("any", "next")]


@pytest.mark.filterwarnings("ignore:no event has the type")  # a random stream may lack one
@pytest.mark.parametrize(("pattern", "semantics"), CASES)
def test_random_streams_equal_the_oracle(pattern: str, semantics: str) -> None:
    draw = random.Random(f"{pattern}{semantics}")
    texts = []
    for window in WINDOWS:
        shape, _, condition = pattern.partition(" WHERE ")
        texts.append(
            f"RETURN COUNT(*), SUM(A.volume) PATTERN {shape} SEMANTICS {semantics} "
            f"WHERE {condition} {window}"
        )
    for _ in range(12):
        events = [
            {
                "ts": time // 2,
                "type": draw.choice("AAABC"),
                "key": draw.choice(["u", "v", "w", None]),
                "zone": draw.choice("xy"),
                "volume": draw.randrange(4),
            }
            for time in range(draw.randrange(1, 11))
        ]
        for text in texts:
            rows = query(text).run(table_of(events)).to_pylist()
            assert same_rows(rows, evaluate(parse(text), events)), (text, events)


SHAPES = (
    ("SEQ(A+, B+)", "AB"),
    ("SEQ(C, A+)", "AC"),
    ("SEQ(A, A x+)", "Ax"),
    ("SEQ(A x*, A+)", "Ax"),
    ("(A OR A x)+", "Ax"),
    ("SEQ(ANY z, A+)", "zA"),
    ("SEQ(A, ANY z+)", "Az"),
    ("SEQ(C?, B, A+)", "ABC"),
    ("SEQ(C, NOT (SEQ(A, B)), B y)", "CyAB"),
    ("SEQ(A+, NOT ANY z, B)", "ABz"),
    ("SEQ(A, NOT (SEQ(B, NOT C, A x)), B y)", "AyBCx"),
    ("SEQ(A, NOT (SEQ(B b?, NOT C, A x)), B y)", "AybCx"),
    ("SEQ(NOT B, A+)", "AB"),
)
"""Patterns with their variables: the first one is bound by every match that has it."""


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a query with up to four equivalences of single variables."""
    pattern, names = draw(st.sampled_from(SHAPES))
    some = [f"{name}.{attribute}" for name in names for attribute in ("key", "zone")]
    items = draw(st.lists(st.sampled_from(some), min_size=1, max_size=4, unique=True))
    what = draw(st.sampled_from(["MATCHES", "COUNT(*)", f"COUNT(*), SUM({names[0]}.volume)"]))
    where = f"[{', '.join(items)}]"
    pair = draw(st.sampled_from(sorted(neighbours_of(parse(f"PATTERN {pattern}").pattern))))
    if pair[0] and draw(st.booleans()):
        where += f" AND {pair[0]}.volume <= NEXT({pair[1]}).volume"
    semantics = draw(st.sampled_from(["any", "next", "next", "contiguous"]))
    window = draw(st.sampled_from(WINDOWS))
    ties = draw(st.sampled_from(["strict", "arrival"]))
    return (
        f"RETURN {what} PATTERN {pattern} SEMANTICS {semantics} WHERE {where} {window} TIES {ties}"
    )


@pytest.mark.filterwarnings("ignore:no event has the type")
@given(texts(), streams(SCHEMA, events_max=8))
def test_several_equivalences_equal_the_oracle(text: str, events: list[dict[str, object]]) -> None:
    assume(events)
    events = [{**event, "ts": event["ts"] // SECOND_US} for event in events]  # type: ignore[operator]  # a number
    table = numbered(events)
    assert readable(query(text).run(table).to_pylist()) == readable(evaluate(parse(text), events))


@pytest.mark.parametrize("what", ["MATCHES", "COUNT(*)"])
def test_what_is_forbidden_inside_an_occurrence_without_a_value_has_any_value(what: str) -> None:
    """The A alone is no occurrence, since a C comes before it, whatever the keys of the Bs."""
    text = f"RETURN {what} PATTERN SEQ(NOT (SEQ(B b?, NOT C, A x)), B y) WHERE [b.key, C.key]"
    kinds = (("C", "v"), ("A", None), ("B", "u"), ("B", "v"))
    events = [{"ts": ts, "type": kind, "key": key} for ts, (kind, key) in enumerate(kinds)]
    rows = query(text).run(numbered(events)).to_pylist()
    assert readable(rows) == readable(evaluate(parse(text), events))
    assert len(rows) == 2 or rows[0]["count"] == 2
