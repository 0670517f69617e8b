"""The planner bounds the matches of an event exactly as the semantics do (§5.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.kinds.trend.planning.counts import WHOLE_MAX, bindings_max, matches_begun
from cepheid.kinds.trend.planning.determinise import build_template
from cepheid.kinds.trend.planning.rewrite import rewrite_pattern
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing import oracle, oracle_patterns
from cepheid.testing.strategies import all_patterns, patterns


def check(text: str, *, typed: bool) -> None:
    pattern = parse(f"PATTERN {text}").pattern
    template = build_template(rewrite_pattern(pattern))
    nodes = [n for n in tree.walk(pattern) if isinstance(n, tree.EventPattern)]
    types = {n.variable.text: n.event_type.text if typed else tree.ANY_TYPE for n in nodes}
    expected = oracle_patterns.matches_begun(pattern, types, WHOLE_MAX)
    found = matches_begun(template, typed=typed)
    assert found == expected or min(found, expected) > WHOLE_MAX, text
    for name in template.variables():
        assert bindings_max(template, name) == oracle.bindings_max(pattern, name), (text, name)


@pytest.mark.parametrize("typed", [True, False])
def test_all_small_patterns(typed: bool) -> None:  # noqa: FBT001
    for text in all_patterns("AB", 2):
        check(text, typed=typed)


@given(patterns(leaves_max=7), st.booleans())
def test_random_patterns(text: str, typed: bool) -> None:  # noqa: FBT001
    check(text, typed=typed)


@pytest.mark.parametrize(
    "text",
    [
        "SEQ((SEQ(A x, B) OR SEQ(A x, C))+, D)",
        "SEQ(A+, B, C+, D)",
        "SEQ(A, NOT C, B, C) OR SEQ(A, B, D)",
        "SEQ((SEQ(A, NOT C, B) OR SEQ(A, D))+, E?)",
        "(A x OR A y){1,8}",
        "(A x OR A y){1,9}",
        "SEQ((A x OR A y)+, B)",
        "A OR B OR ANY z",
        "SEQ(A+, ANY z)",
    ],
)
def test_patterns_with_loops_and_forks(text: str) -> None:
    check(text, typed=True)
    check(text, typed=False)
