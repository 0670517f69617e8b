"""Tests laws that follow from the definitions, on random queries and streams."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import with_double_counts

from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.harness import SECOND_US
from cepheid.testing.oracle import evaluate
from cepheid.testing.oracle_patterns import matches_begun
from cepheid.testing.query_strategies import cases, queries
from cepheid.testing.strategies import patterns, streams

if TYPE_CHECKING:
    from cepheid.testing.query_strategies import Case

Event = dict[str, object]
Row = dict[str, object]

LISTED = {"ts": "timestamp", "price": "double", "volume": "int", "key": "string", "zone": "string"}


def with_mode(query: tree.Query, semantics: tree.Semantics) -> tree.Query:
    clause = tree.SemanticsClause(span=query.span, semantics=semantics)
    return msgspec.structs.replace(query, semantics=clause)


def listed(query: tree.Query) -> tree.Query:
    return msgspec.structs.replace(query, returns=None, having=None, emit_on_expiry=None)


def rows_of(query: tree.Query, events: list[Event]) -> Counter[str]:
    """Return rows as text: NaN is equal to itself there."""
    return Counter(repr(row) for row in evaluate(query, events))


@given(queries(LISTED), streams(LISTED, events_max=6))
def test_next_and_contiguous_matches_are_any_matches(text: str, events: list[Event]) -> None:
    query = listed(parse(text))
    every = rows_of(with_mode(query, tree.Semantics.ANY_MATCH), events)
    # A match may appear in an earlier window under any-match: it is a match there or not at all.
    assert rows_of(with_mode(query, tree.Semantics.NEXT_MATCH), events) <= every
    assert rows_of(with_mode(query, tree.Semantics.CONTIGUOUS), events) <= every


@given(queries(LISTED), streams(LISTED, events_max=6))
def test_contiguous_matches_are_next_matches(text: str, events: list[Event]) -> None:
    # Not with partial equivalence: before a match has an event of P, next-match lets a P of any
    # vehicle follow, and contiguous ignores the Ps of other vehicles.
    assume(not re.search(r"\[[^\]]*\w\.\w", text))
    query = listed(parse(text))
    contiguous = rows_of(with_mode(query, tree.Semantics.CONTIGUOUS), events)
    assert contiguous <= rows_of(with_mode(query, tree.Semantics.NEXT_MATCH), events)


@given(queries(LISTED, negation=False), streams(LISTED, events_max=6), st.data())
def test_a_further_local_predicate_gives_no_more_matches(
    text: str, events: list[Event], data: st.DataObject
) -> None:
    assume("AFTER MATCH" not in text)  # A match less may be one that dropped two others.
    query = listed(with_mode(parse(text), tree.Semantics.ANY_MATCH))
    nodes = [n for n in tree.walk(query.pattern) if isinstance(n, tree.EventPattern)]
    variable = data.draw(st.sampled_from(sorted({node.variable.text for node in nodes})))
    extra = parse(f"PATTERN A {variable} WHERE {variable}.volume > 1").where
    assert extra is not None
    both = tree.Logical(
        span=extra.span, operator="AND", operands=(query.where, extra) if query.where else (extra,)
    )
    stricter = msgspec.structs.replace(query, where=both)
    assert rows_of(stricter, events) <= rows_of(query, events)


@given(cases(events_max=6), st.integers(-2, 2))
def test_shifting_time_by_whole_slides_shifts_windows(case: Case, slides: int) -> None:
    shift = slides * 6 * SECOND_US  # All slides of the strategy divide six seconds.
    query = parse(case.query)
    later = [event | {"ts": int(str(event["ts"])) + shift} for event in case.events]
    in_time = query.window is not None and isinstance(query.window.within, tree.Duration)
    columns = ("window_start", "window_end") if in_time else ()
    moved = [
        row | {name: int(str(row[name])) + shift for name in columns}
        for row in evaluate(query, case.events)
    ]
    assert repr(evaluate(query, later)) == repr(moved)


@given(queries(LISTED, windows=False), streams(LISTED, events_max=6))
def test_there_are_as_many_match_rows_as_matches(text: str, events: list[Event]) -> None:
    query = listed(parse(text))
    span = query.span
    star = tree.Aggregate(span=span, function=tree.AggregateFunction.COUNT)
    item = tree.ReturnItem(span=span, expression=star)
    counted = msgspec.structs.replace(query, returns=tree.Return(span=span, items=(item,)))
    counts = [row["count"] for row in evaluate(counted, events)]
    assert sum(float(str(count)) for count in counts) == len(evaluate(query, events))


def types_of(pattern: tree.Pattern) -> dict[str, str]:
    nodes = [n for n in tree.walk(pattern) if isinstance(n, tree.EventPattern)]
    return {node.variable.text: node.event_type.text for node in nodes}


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("A", 1),
        ("A OR B", 1),
        ("A x OR A y", 2),
        ("SEQ(A+, B)", 1),
        ("SEQ(A, B?)", 2),
        ("A{2,5}", 4),
        ("A?", 1),
        ("A OR ANY z", 2),
        ("SEQ(A, NOT C, B?)", 2),
        ("SEQ((SEQ(A x, B) OR SEQ(A x, C))+, D)", 1),
        ("SEQ(A, (B x OR B y), C?)", 4),
    ],
)
def test_matches_that_an_event_can_begin(pattern: str, count: int) -> None:
    root = parse(f"PATTERN {pattern}").pattern
    assert matches_begun(root, types_of(root), 1000) == count


@pytest.mark.parametrize(
    "pattern", ["A+", "A*", "SEQ(A, B+)", "SEQ((A x OR A y)+, B)", "SEQ(A+, ANY z)"]
)
def test_matches_that_an_event_can_begin_without_bound(pattern: str) -> None:
    root = parse(f"PATTERN {pattern}").pattern
    assert matches_begun(root, types_of(root), 1000) > 1000


@given(
    patterns(leaves_max=4),
    st.sampled_from(["next", "contiguous"]),
    streams(LISTED, events_max=7),
)
def test_no_event_begins_more_matches_than_the_pattern_says(
    text: str, semantics: str, events: list[Event]
) -> None:
    query = parse(f"PATTERN {text} SEMANTICS {semantics} TIES arrival")
    begun = Counter(row["events"][0][1] for row in evaluate(query, events))  # type: ignore[index]
    types = types_of(query.pattern)
    if not any(event.get("type") for event in events):
        types = dict.fromkeys(types, "")
    assert max(begun.values(), default=0) <= matches_begun(query.pattern, types, 1000)


@given(patterns(leaves_max=4), streams(LISTED, events_max=6))
def test_aggregates_are_those_of_the_listed_matches(text: str, events: list[Event]) -> None:
    pattern = parse(f"PATTERN {text}").pattern
    name = next(n.variable.text for n in tree.walk(pattern) if isinstance(n, tree.EventPattern))
    matches = [row["events"] for row in evaluate(parse(f"PATTERN {text}"), events)]
    bound = [events[i] for match in matches for v, i in match if v == name]  # type: ignore[attr-defined]
    values = [int(str(e["volume"])) for e in bound if e["volume"] is not None]
    functions = f"SUM({name}.volume) AS s, AVG({name}.volume) AS a, MIN({name}.volume) AS lo"
    query = f"RETURN COUNT(*) AS n, COUNT({name}) AS k, {functions} PATTERN {text}"
    rows = evaluate(parse(query), events)
    expected = {
        "n": len(matches),
        "k": len(bound),
        "s": sum(values) if values else None,
        "a": sum(values) / len(values) if values else None,
        "lo": min(values, default=None),
    }
    assert rows == ([expected] if matches else [])


@given(cases(events_max=6), st.randoms(use_true_random=False))
def test_arrival_order_within_a_time_does_not_matter_under_strict_ties(
    case: Case, random: st.DataObject
) -> None:
    query = parse(case.query.replace("TIES arrival", "TIES strict"))
    assume("EVENTS" not in case.query)  # Count windows number the events of one time, too.
    assume(query.returns is not None and query.returns.items)
    keys = {id(event): random.random() for event in case.events}  # type: ignore[attr-defined]
    shuffled = sorted(case.events, key=lambda e: (int(str(e["ts"])), keys[id(e)]))
    assert approximate(evaluate(query, shuffled)) == approximate(evaluate(query, case.events))


def approximate(rows: list[Row]) -> list[Row]:
    """Return rows whose doubles are rounded, and whose NaN and zeros are one."""
    return [
        {
            name: "NaN"
            if value != value
            else f"{value + 0.0:.9g}"
            if isinstance(value, float)
            else value
            for name, value in row.items()
        }
        for row in rows
    ]


@given(cases(events_max=5))
def test_both_kinds_of_ties_agree_where_there_are_none(case: Case) -> None:
    assume("EMIT" not in case.query)
    apart = [event | {"ts": n * SECOND_US} for n, event in enumerate(case.events)]
    strict = case.query.replace("TIES arrival", "TIES strict")
    arrival = case.query.replace("TIES strict", "TIES arrival")
    both = [evaluate(parse(text), apart) for text in (strict, arrival)]
    # Whether counts are whole numbers depends on TIES (§5.4), and not on the events.
    first, second = (repr(with_double_counts(rows)) for rows in both)
    assert first == second


@given(patterns(leaves_max=4), patterns(leaves_max=4), streams({}, events_max=6))
def test_disjunction_is_the_union_of_its_sides(p: str, q: str, events: list[Event]) -> None:
    def found(pattern: str) -> set[object]:
        return {row["events"] for row in evaluate(parse(f"PATTERN {pattern}"), events)}

    assert found(f"({p}) OR ({q})") == found(p) | found(q)


@given(patterns(leaves_max=3), patterns(leaves_max=3), streams({}, events_max=5))
def test_conjunction_counts_pairs_by_the_formula(p: str, q: str, events: list[Event]) -> None:
    left = {row["events"] for row in evaluate(parse(f"PATTERN {p}"), events)}
    right = {row["events"] for row in evaluate(parse(f"PATTERN {q}"), events)}
    both = len(left & right)
    p_only, q_only = len(left) - both, len(right) - both
    pairs = p_only * q_only + p_only * both + q_only * both + math.comb(both, 2)
    rows = evaluate(parse(f"RETURN COUNT(*) PATTERN ({p}) AND ({q})"), events)
    assert rows == ([{"count": pairs}] if pairs else [])


@given(patterns(leaves_max=5), streams({}, events_max=6), st.sampled_from(["any", "next"]))
def test_events_of_other_types_are_skipped(text: str, events: list[Event], mode: str) -> None:
    assume("ANY" not in text)
    query = parse(f"RETURN COUNT(*) PATTERN {text} SEMANTICS {mode}")
    times = [int(str(event["ts"])) for event in events]
    noise: list[Event] = [{"ts": time, "type": "Other"} for time in times]
    mixed = sorted([*events, *noise], key=lambda event: int(str(event["ts"])))
    assert evaluate(query, mixed) == evaluate(query, events)
