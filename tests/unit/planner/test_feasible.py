"""Which relations can hold together, compared with all intervals of a small line of time."""

from __future__ import annotations

import time
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.kinds.situation.feasible import FINISHED_BY, FINISHES, Patience, is_possible
from cepheid.language import tree
from cepheid.plans.situations import NUMBERS, SituationDefinition

HERE = cepheid.errors.Span(0, 0)
TRUE = tree.Word(span=HERE, text="x")
INTERVALS = list(combinations(range(6), 2))
PAIRS = ((0, 1), (0, 2), (1, 2))


def relation_of(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Return the number of Allen's relation by its definition (§9.3)."""
    holds = {
        "before": a[1] < b[0],
        "meets": a[1] == b[0],
        "overlaps": a[0] < b[0] < a[1] < b[1],
        "finished by": a[0] < b[0] and a[1] == b[1],
        "contains": a[0] < b[0] and b[1] < a[1],
        "starts": a[0] == b[0] and a[1] < b[1],
        "equals": a == b,
        "started by": a[0] == b[0] and a[1] > b[1],
        "during": b[0] < a[0] and a[1] < b[1],
        "finishes": a[0] > b[0] and a[1] == b[1],
        "overlapped by": b[0] < a[0] < b[1] < a[1],
        "met by": a[0] == b[1],
        "after": a[0] > b[1],
    }
    (name,) = (name for name, is_so in holds.items() if is_so)
    return NUMBERS[tree.Relation(name)]


SEEN = {
    tuple(relation_of(three[a], three[b]) for a, b in PAIRS): None
    for three in product(INTERVALS, repeat=3)
}


def test_the_two_relations_have_their_numbers() -> None:
    assert NUMBERS[tree.Relation.FINISHES] == FINISHES
    assert NUMBERS[tree.Relation.FINISHED_BY] == FINISHED_BY


@given(
    st.tuples(*[st.integers(1, (1 << 13) - 1) | st.sampled_from([1 << n for n in range(13)])] * 3)
)
def test_three_situations(masks: tuple[int, ...]) -> None:
    definitions = [SituationDefinition(name, TRUE) for name in "ABC"]
    expected = any(all(mask >> r & 1 for mask, r in zip(masks, seen, strict=True)) for seen in SEEN)
    assert (
        is_possible(definitions, dict(zip(PAIRS, masks, strict=True)), None, Patience()) == expected
    )


LENGTHS = st.tuples(st.integers(0, 4), st.integers(1, 5)).filter(lambda pair: pair[0] <= pair[1])


@given(st.integers(0, 12), LENGTHS, LENGTHS, st.integers(1, 9))
def test_two_situations_with_durations(
    relation: int, first: tuple[int, int], second: tuple[int, int], within: int
) -> None:
    # Times in thirds of a microsecond are fine enough for two intervals.
    intervals = list(combinations(range(28), 2))
    fitting = [
        [i for i in intervals if 3 * least <= i[1] - i[0] <= 3 * most]
        for least, most in (first, second)
    ]
    expected = any(
        relation_of(a, b) == relation and max(a[1], b[1]) - min(a[0], b[0]) <= 3 * within
        for a in fitting[0]
        for b in fitting[1]
        if min(a[0], b[0]) == 0
    )
    definitions = [
        SituationDefinition(name, TRUE, *bounds)
        for name, bounds in zip("AB", (first, second), strict=True)
    ]
    assert is_possible(definitions, {(0, 1): 1 << relation}, within, Patience()) == expected


TWO = "DEFINE A AS a AT LEAST 10 s, B AS b AT MOST 5 s PATTERN {} WITHIN 1 min"
THREE = "DEFINE A AS a, B AS b, C AS c PATTERN {} WITHIN 1 min"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TWO.format("A finishes B"), "A finished by B"),
        (TWO.format("B finished by A"), "B finishes A"),
        (TWO.format("A before;finishes B"), "A finished by B"),
        (TWO.format("B finishes A"), ""),
        (TWO.format("A finishes;finished by B"), ""),
        (THREE.format("A overlaps B AND B contains;finishes C AND A before C"), "B finished by C"),
        (THREE.format("A overlaps B AND B contains;finished by C AND A before C"), ""),
        (THREE.format("A finishes B"), ""),
        (THREE.format("A finishes B AND A finished by;before B"), "A finished by B"),
        (THREE.format("A finishes B AND A meets C AND B meets C"), ""),
        (THREE.format("A starts B AND A finishes B"), ""),
    ],
)
def test_finishes_that_is_meant_the_other_way_round(text: str, told: str) -> None:
    found = [w for w in cepheid.query(text).warnings if w.code == "W305"]
    assert [w.helps[0].split("`")[1] for w in found][:1] == ([told] if told else [])


def test_many_alternatives_end_soon() -> None:
    names = [f"S{n}" for n in range(12)]
    defined = ", ".join(f"{name} AS x > {n}" for n, name in enumerate(names))
    related = " AND ".join(f"{a} finishes;before;during {b}" for a, b in combinations(names, 2))
    begun = time.process_time()
    assert cepheid.query(f"DEFINE {defined} PATTERN {related} WITHIN 1 min").plan is not None
    assert time.process_time() - begun < 5
