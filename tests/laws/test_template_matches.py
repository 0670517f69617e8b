"""A template accepts exactly the matches of its pattern, each on one path, guards and all.

The walk below reads a template as its docstring says, event by event and without cleverness; the
oracle reads the pattern. Selection is not the template's business, so all is skip-till-any-match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.api import query
from cepheid.kinds.trend.planning.determinise import build_template
from cepheid.kinds.trend.planning.rewrite import rewrite_pattern
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import START, Place, Template
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.oracle_matches import Event
from cepheid.testing.strategies import all_patterns, all_streams, patterns, streams

Match = tuple[tuple[str, int], ...]


def walk(template: Template, events: Sequence[Event]) -> Iterator[Match]:
    """Yield the matches of a template, once for every accepting path."""
    forbidden = [set(walk(guard.template, events)) for guard in template.guards]

    def seen(guard: int, prev: int | None, later: int | None) -> bool:
        place = template.guards[guard].place
        after = prev if place is not Place.LEADING else None
        until = later if place is not Place.TRAILING else None
        return any(
            (after is None or before(events, after, n[0][1]))
            and (until is None or before(events, n[-1][1], until))
            for n in forbidden[guard]
        )

    def extend(state: int, match: Match) -> Iterator[Match]:
        last = match[-1][1] if match else None
        for final in template.finals:
            if final.state == state and any(
                not any(seen(g, last, None) for g in way) for way in final.alternatives
            ):
                yield match
        for edge in template.edges:
            if edge.source != state:
                continue
            target = template.states[edge.target]
            for i, event in enumerate(events):
                if last is not None and not before(events, last, i):
                    continue
                if target.event_type in (event["type"], tree.ANY_TYPE) and (
                    not any(seen(g, last, i) for g in edge.clear)
                    and all(seen(g, last, i) for g in edge.hit)
                ):
                    yield from extend(edge.target, (*match, (target.variable, i)))

    return extend(START, ())


def before(events: Sequence[Event], i: int, j: int) -> bool:
    return int(str(events[i]["ts"])) < int(str(events[j]["ts"]))


def check(pattern: str, events: Sequence[Event], min_length: int = 1) -> int:
    """Compare template and oracle; return the number of matches."""
    tree = parse(f"PATTERN {pattern} MIN LENGTH {min_length}")
    template = build_template(rewrite_pattern(tree.pattern), min_length=min_length)
    paths = Counter(walk(template, events))
    assert set(paths.values()) <= {1}, f"a match of {pattern} has several paths"
    expected = {row["events"] for row in evaluate(tree, events)}
    assert set(paths) == expected, f"{pattern} over {events}"
    return len(expected)


SMALL_STREAMS = list(all_streams(("A", "B"), 4))


@pytest.mark.parametrize("pattern", list(all_patterns(("A", "B"), 2)))
def test_all_small_patterns_over_all_small_streams(pattern: str) -> None:
    for events in SMALL_STREAMS[:: max(1, len(SMALL_STREAMS) // 40)]:
        check(pattern, events)


@given(patterns(), streams({}, events_max=6), st.integers(1, 4))
def test_random_patterns(pattern: str, events: Sequence[Event], min_length: int) -> None:
    check(pattern, events, min_length)


@pytest.mark.parametrize(
    ("pattern", "determinised"),
    [
        ("(SEQ(A+, B))+", False),
        ("A{2,4}", False),
        ("SEQ(A x, A y+) OR SEQ(A x+, A y)", True),
        ("A+ OR SEQ(A, A)", True),
        ("SEQ(A, NOT C, B) OR SEQ(A, B)", True),
        ("SEQ(A, NOT C, B, D) OR SEQ(A, B, NOT C, D)", True),
        ("SEQ(A?, NOT C, B?)+", False),
    ],
)
def test_ambiguous_patterns_are_determinised(pattern: str, determinised: bool) -> None:  # noqa: FBT001
    template = TrendPlan.of(query(f"PATTERN {pattern} WITHIN 9 s").plan).patterns[0]
    assert template.determinised is determinised
    events = stream("a1 c1 b2 a3 c4 b5 d5 a6 b7 d8")
    assert check(pattern, events) > 0
