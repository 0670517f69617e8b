"""Tests the oracle by other means than itself: closed forms, a second brute force, and laws."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import all_patterns, all_streams, patterns, streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Match = tuple[tuple[str, int], ...]
Event = dict[str, object]


def count(query: str, events: Sequence[Event]) -> int:
    rows = evaluate(parse(f"RETURN COUNT(*) {query}"), events)
    assert len(rows) <= 1
    value = rows[0]["count"] if rows else 0
    assert isinstance(value, int | float)
    return int(value)


parse_once = cache(parse)


def matches(query: str, events: Sequence[Event]) -> list[Match]:
    return [row["events"] for row in evaluate(parse_once(query), events)]  # type: ignore[misc]


def shots(letter: str, times: Sequence[int]) -> str:
    return " ".join(f"{letter}{time}" for time in times)


def test_counts_are_whole_numbers_or_doubles() -> None:
    text = "RETURN COUNT(*), COUNT(A), COUNT(B) PATTERN SEQ(A+, B) SEMANTICS next"
    (row,) = evaluate(parse(f"{text} TIES arrival"), stream("a1 a2 b3"))
    assert list(map(repr, row.values())) == ["2", "3.0", "2"]
    (row,) = evaluate(parse(text), stream("a1 a2 b3"))
    assert list(map(repr, row.values())) == ["2.0", "3.0", "2.0"]
    (row,) = evaluate(parse(f"{text} NUMBERS exact"), stream("a1 a2 b3"))
    assert list(map(repr, row.values())) == ["2", "3", "2"]


# ---------------------------------------------------------------------------------------
# Closed forms


@pytest.mark.parametrize("n", range(9))
def test_kleene_plus_counts_all_nonempty_subsets(n: int) -> None:
    assert count("PATTERN A+", stream(shots("a", range(n)))) == 2**n - 1


@pytest.mark.parametrize(("n", "k"), [(5, 1), (5, 2), (6, 3), (6, 6), (3, 4)])
def test_exact_repetition_counts_combinations(n: int, k: int) -> None:
    events = stream(shots("a", range(n)))
    assert count(f"PATTERN A{{{k}}}", events) == math.comb(n, k)
    at_least = sum(math.comb(n, i) for i in range(k, n + 1))
    assert count(f"PATTERN A{{{k},}}", events) == at_least
    assert count(f"PATTERN A+ MIN LENGTH {k}", events) == at_least


@pytest.mark.parametrize(("a", "b"), [(0, 3), (1, 1), (3, 2), (4, 4)])
def test_sequence_of_kleene_parts_counts_products(a: int, b: int) -> None:
    events = stream(shots("a", range(a)) + " " + shots("b", range(10, 10 + b)))
    assert count("PATTERN SEQ(A, B)", events) == a * b
    assert count("PATTERN SEQ(A+, B+)", events) == (2**a - 1) * (2**b - 1)
    assert count("PATTERN SEQ(A*, B+)", events) == 2**a * (2**b - 1)


def test_split_of_one_type_counts_cut_points() -> None:
    # A subset of k events can be cut into a nonempty x part and a nonempty y part in k - 1 ways.
    events = stream(shots("a", range(6)))
    expected = sum(math.comb(6, k) * (k - 1) for k in range(2, 7))
    assert count("PATTERN SEQ(A x+, A y+)", events) == expected


def test_events_of_one_time_are_one_step() -> None:
    # Three times with two events each: none, or one of two, at each time.
    events = stream("a1 a1 a2 a2 a3 a3")
    assert count("PATTERN A+", events) == 3**3 - 1
    assert count("PATTERN A+ TIES arrival", events) == 2**6 - 1


def test_rising_prices_count_increasing_subsequences() -> None:
    prices = [5, 3, 6, 3, 9, 7, 7]
    events = stream(" ".join(f"a{i}(p={p})" for i, p in enumerate(prices)))
    chosen = (c for k in range(1, 8) for c in itertools.combinations(prices, k))
    expected = sum(all(x < y for x, y in itertools.pairwise(c)) for c in chosen)
    assert count("PATTERN A+ WHERE A.p < NEXT(A).p", events) == expected


def test_contiguous_runs() -> None:
    # A run of n events has n (n + 1) / 2 contiguous parts.
    events = stream("a1 a2 a3 a4 b5 a6 a7")
    assert count("PATTERN A+ SEMANTICS contiguous", events) == 10 + 3


def test_next_match_of_kleene_plus_is_contiguous_among_its_own_events() -> None:
    events = stream("a1 b2 a3 c4 a5 a6")
    assert count("PATTERN A+ SEMANTICS next", events) == 4 * 5 // 2


def test_huge_counts_have_a_logarithm() -> None:
    rows = evaluate(
        parse("RETURN LOG2(COUNT(*)), LOG2(SUM(A.x)) PATTERN SEQ(A, B)"), stream("a1(x=8) b2 b3")
    )
    assert rows == [{"log2_count": 1.0, "log2_sum_A_x": 4.0}]


# ---------------------------------------------------------------------------------------
# A second brute force: all subsequences, all labellings, one regular expression


def regex_of(pattern: tree.Pattern) -> str:
    match pattern:
        case tree.EventPattern(variable=variable):
            return variable.text
        case tree.Sequence(parts=parts):
            return "".join(f"(?:{regex_of(part)})" for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return "|".join(f"(?:{regex_of(a)})" for a in alternatives)
        case tree.Repeat(pattern=inner, least=least, most=most):
            return f"(?:{regex_of(inner)}){{{least},{'' if most is None else most}}}"
    raise AssertionError(pattern)


def labelled_subsequences(
    pattern: tree.Pattern, events: Sequence[Event], *, arrival: bool
) -> Iterator[Match]:
    nodes = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    names: dict[str, set[str]] = {}
    for node in nodes:
        names.setdefault(node.event_type.text, set()).add(node.variable.text)
    for size in range(1, len(events) + 1):
        for chosen in itertools.combinations(range(len(events)), size):
            times = [int(str(events[i]["ts"])) for i in chosen]
            if arrival or all(a < b for a, b in itertools.pairwise(times)):
                every = names.get(tree.ANY_TYPE, set())
                labels = [names.get(str(events[i]["type"]), set()) | every for i in chosen]
                for word in itertools.product(*labels):
                    yield tuple(zip(word, chosen, strict=True))


def matches_by_regex(text: str, events: Sequence[Event], *, arrival: bool) -> list[Match]:
    pattern = parse_once(f"PATTERN {text}").pattern
    regex = re.compile(regex_of(pattern))
    found = labelled_subsequences(pattern, events, arrival=arrival)
    return sorted(match for match in found if regex.fullmatch("".join(v for v, _ in match)))


@cache
def accepts(text: str, word: str) -> bool:
    pattern = parse_once(f"PATTERN {text}").pattern
    return re.fullmatch(regex_of(pattern), word) is not None


every_pattern = pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 4])
"""Takes every fourth of the small patterns; the slow run takes all."""


@every_pattern
def test_small_patterns_agree_with_regular_expressions(step: int) -> None:
    small = list(all_streams("AB", 3))
    for text in list(all_patterns("AB", 2, negation=False))[::step]:
        for events in small:
            expected = matches_by_regex(text, events, arrival=False)
            assert matches(f"PATTERN {text}", events) == expected, (text, events)


@given(
    patterns(negation=False, leaves_max=6),
    streams({}, events_max=6, types="AAB"),
    st.sampled_from(tree.Ties),
)
def test_random_patterns_agree_with_regular_expressions(
    text: str, events: list[Event], ties: tree.Ties
) -> None:
    expected = matches_by_regex(text, events, arrival=ties == tree.Ties.ARRIVAL)
    assert matches(f"PATTERN {text} TIES {ties}", events) == expected


@every_pattern
def test_next_match_agrees_with_its_definition_on_words(step: int) -> None:
    # A word of a pattern with at most two operators grows to a full one by at most three letters.
    tails = [t for n in range(4) for t in itertools.product("AB", repeat=n)]
    words = ["".join(w) for n in range(1, 4) for w in itertools.product("AB", repeat=n)]
    # It takes three events to skip one.
    small = [events for events in all_streams("AB", 4) if len(events) > 2]
    for text in list(all_patterns("AB", 2, negation=False))[::step]:
        begins = {word for word in words if any(accepts(text, word + "".join(t)) for t in tails)}
        for events in small:
            expected = [
                match
                for match in matches_by_regex(text, events, arrival=False)
                if takes_the_first(match, events, begins)
            ]
            assert matches(f"PATTERN {text} SEMANTICS next", events) == expected, (text, events)


def takes_the_first(match: Match, events: Sequence[Event], begins: set[str]) -> bool:
    for n in range(1, len(match)):
        before, after = time_of(events[match[n - 1][1]]), time_of(events[match[n][1]])
        word = "".join(variable for variable, _ in match[:n])
        skipped = (e for e in events if before < time_of(e) < after)
        if any(word + str(event["type"]) in begins for event in skipped):
            return False
    return True


def time_of(event: Mapping[str, object]) -> int:
    return int(str(event["ts"]))


@every_pattern
def test_negation_agrees_with_its_definition_on_splits(step: int) -> None:
    parts = list(all_patterns("AB", 1))
    small = list(all_streams("ABC", 3))
    places = [
        *itertools.product(parts[::3], ["C", "SEQ(C, A)"], parts[::4]),
        *itertools.product([""], ["C", "(A)+"], parts),
        *itertools.product(parts, ["C", "SEQ(B, C)"], [""]),
    ]
    for left, negated, right in places[::step]:
        text = ", ".join(part for part in (left, f"NOT {negated}", right) if part)
        whole = ", ".join(part for part in (left, right) if part)
        for events in small:
            forbidden = [
                (time_of(events[found[0][1]]), time_of(events[found[-1][1]]))
                for found in matches_by_regex(negated, events, arrival=False)
            ]
            expected = [
                match
                for match in matches_by_regex(f"SEQ({whole})", events, arrival=False)
                if any(splits_around(match, left, right, forbidden, events))
            ]
            assert matches(f"PATTERN SEQ({text})", events) == expected, (text, events)


def splits_around(
    match: Match,
    left: str,
    right: str,
    forbidden: Sequence[tuple[int, int]],
    events: Sequence[Event],
) -> Iterator[bool]:
    """Cut a match in two in every way that fits, and look for a forbidden match in the gap."""
    word = "".join(variable for variable, _ in match)
    for cut in range(len(match) + 1):
        if (accepts(left, word[:cut]) if left else cut == 0) and (
            accepts(right, word[cut:]) if right else cut == len(match)
        ):
            start = time_of(events[match[cut - 1][1]]) if cut else -math.inf
            end = time_of(events[match[cut][1]]) if cut < len(match) else math.inf
            yield not any(start < first and last < end for first, last in forbidden)
