"""Live joins over windows of events without Spark: whatever the micro-batches, the same pairs."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.select.cases import joins, rows, table_of, unordered
from tests.select.test_counted_turn import COLUMNS, LATER, ORIGINS, cut, stretched

import cepheid
from cepheid.errors import DataError
from cepheid.jobs import spill
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.work import Work
from cepheid.kinds.selection import live_join
from cepheid.kinds.selection.live_join import empty_pairs, turn_joined
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.testing.oracle_select import evaluate_select

Events = list[dict[str, Any]]
Works = tuple[Work, Work]
TEXT = "SELECT a.x, b.x AS z FROM s a JOIN r b ON a.k = b.k WINDOW 2 EVENTS"


def works_of(text: str, *, delay: int = 0, tiebreak: tuple[str, ...] = ()) -> Works:
    schemas = {"s": COLUMNS, "r": COLUMNS}
    plan: Plan = cepheid.query(text, tiebreak=tiebreak).with_schema(schemas).plan
    results = empty_pairs(SelectPlan.of(plan), [COLUMNS, COLUMNS]).schema
    one = Work.of(plan, COLUMNS, results, 1, delay=delay)
    return one, one


def turn(works: Works, data: bytes | None, parts: list[Events]) -> tuple[bytes, Outcome]:
    latest = [max((event["ts"] for event in part), default=None) for part in parts]
    return turn_joined(works, data, [[table_of(part)] if part else [] for part in parts], latest)


def turns(works: Works, batches: list[list[Events]]) -> tuple[Events, list[Outcome]]:
    """Take one turn for every micro-batch of both streams, and one that tells the end of time."""
    data: bytes | None = None
    found, outcomes = [], []
    for parts in batches:
        data, outcome = turn(works, data, parts)
        found += outcome.results.to_pylist()
        outcomes.append(outcome)
    _, outcome = turn_joined(works, data, [[], []], [10**9, 10**9])
    assert outcome.buffered == 0
    return found + outcome.results.to_pylist(), [*outcomes, outcome]


def mixed(data: st.DataObject, events: Events) -> Events:
    """Return events as they may come: times up to 3 ms late, those of one time in their order."""
    times = sorted({event["ts"] for event in events})
    delays = data.draw(st.lists(st.integers(0, 3), min_size=len(times), max_size=len(times)))
    arrival = {ts: ts + 1_000 * delay for ts, delay in zip(times, delays, strict=True)}
    return sorted(events, key=lambda event: arrival[event["ts"]])


@given(joins(counted=True), rows(12), rows(12), st.data(), ORIGINS)
def test_any_micro_batches_give_the_pairs(
    text: str, events: Events, others: Events, data: st.DataObject, origin: int
) -> None:
    events, others = stretched(events, origin), stretched(others, origin)
    expected = evaluate_select(text, {"s": events, "r": others})
    # The streams are cut each on its own, so one may be far behind the other.
    left, right = (cut(data, mixed(data, stream)) for stream in (events, others))
    none: Events = []
    batches = [list(both) for both in zip_longest(left, right, fillvalue=none)]
    found, outcomes = turns(works_of(text, delay=3_000), batches)
    assert unordered(found) == unordered(expected)
    assert sum(outcome.late for outcome in outcomes) == 0
    assert sum(outcome.events for outcome in outcomes) == len(events) + len(others)


@settings(max_examples=30)
@given(joins(counted=True), rows(12))
def test_a_stream_meets_itself(text: str, events: Events) -> None:
    text = text.replace("JOIN r b", "JOIN s b")
    events = stretched(events)
    expected = evaluate_select(text, {"s": events})
    batches = [[events[n : n + 3]] * 2 for n in range(0, len(events), 3)]
    schemas = {"s": COLUMNS}
    plan: Plan = cepheid.query(text).with_schema(schemas).plan
    one = Work.of(
        plan, COLUMNS, empty_pairs(SelectPlan.of(plan), [COLUMNS, COLUMNS]).schema, 1, delay=1_000
    )
    found, _ = turns((one, one), batches)
    assert unordered(found) == unordered(expected)


def event(milliseconds: int, x: int = 1) -> dict[str, Any]:
    return {"ts": LATER + 1_000 * milliseconds, "k": "p", "g": 1, "x": x, "y": 0.0}


def test_the_stream_that_is_behind_holds_the_other_one_up() -> None:
    works = works_of(TEXT)
    data, outcome = turn(works, None, [[event(n, n) for n in range(5)], []])
    assert (outcome.buffered, outcome.events, len(outcome.results)) == (5, 5, 0)
    data, outcome = turn(works, data, [[], [event(2, 7)]])
    # Two of the first stream are before 2 ms, the event at 2 ms and its pairs are not.
    assert (outcome.buffered, outcome.lag, len(outcome.results)) == (4, 2_000, 0)
    # What is behind the watermark of its own stream, and not of both, is not late.
    data, outcome = turn(works, data, [[event(3, 8)], []])
    assert outcome.late == 0
    data, outcome = turn(works, data, [[event(1, 9)], [event(9, 10)]])
    assert outcome.late == 1
    found = [(row["x"], row["z"]) for row in outcome.results.to_pylist()]
    assert found == [(1, 7), (2, 7), (3, 7), (8, 7)]


def test_the_state_does_not_grow_with_the_stream() -> None:
    works = works_of(TEXT)
    data, sizes = None, []
    for n in range(30):
        events = [event(100 * n + i, i) for i in range(100)]
        data, _ = turn(works, data, [events, events])
        sizes.append(len(data))
    assert sizes[-1] < 1.1 * sizes[3]


@given(joins(counted=True), rows(12), rows(12), st.integers(1, 4))
def test_many_pairs_are_built_in_parts(
    text: str, events: Events, others: Events, pairs: int
) -> None:
    events, others = stretched(events), stretched(others)
    batches = [[events[:5], others[:5]], [events[5:], others[5:]]]
    works = works_of(text)
    expected, _ = turns(works, batches)
    with patch.object(live_join, "PAIRS_AT_ONCE", pairs):
        found, _ = turns(works, batches)
    assert list(map(repr, found)) == list(map(repr, expected)), "in the same order"


def test_parts_of_many_pairs_wait_on_disk() -> None:
    both = [[[event(n) for n in range(40)], [event(n) for n in range(40)]]]
    works = works_of(TEXT.replace("2 EVENTS", "30 EVENTS"))
    expected, _ = turns(works, both)
    with (
        patch.object(live_join, "PAIRS_AT_ONCE", 60),
        patch.object(spill, "SPILL_ROWS", 200),
        patch.object(spill, "_on_disk", side_effect=spill._on_disk) as written,
    ):
        found, _ = turns(works, both)
    assert found == expected
    assert written.call_count > 2
    assert len(found) > 1_000


def test_pairs_need_room_on_the_disk() -> None:
    with (
        patch.object(live_join, "PAIRS_AT_ONCE", 1),
        patch.object(spill, "SPILL_ROWS", 1),
        patch.object(spill, "LEFT_FREE", 1 << 60),
        pytest.raises(DataError, match="E513"),
    ):
        turns(works_of(TEXT), [[[event(n) for n in range(4)], [event(n) for n in range(4)]]])


@pytest.mark.parametrize("within", [3, 7, 30])
@pytest.mark.parametrize("pairs", [1, 4])
def test_one_event_is_joined_with_its_partners_in_parts(within: int, pairs: int) -> None:
    """The window of an event counts the last ones of the other stream, also if they are cut."""
    works = works_of(TEXT.replace("2 EVENTS", f"{within} EVENTS"))
    many, one = [event(n) for n in range(20)], [event(40)]
    for batches in ([[many, many], [one, []], [[], one]], [[many, []], [one, one], [[], many]]):
        expected, _ = turns(works, batches)
        with patch.object(live_join, "PAIRS_AT_ONCE", pairs):
            found, _ = turns(works, batches)
        assert found == expected
        assert expected


def test_other_queries_do_not_go_on_with_a_state() -> None:
    data, _ = turn(works_of(TEXT), None, [[event(1)], [event(1)]])
    for works in (
        works_of(TEXT.replace("2 EVENTS", "3 EVENTS")),
        works_of(TEXT, tiebreak=("x",)),
    ):
        with pytest.raises(DataError, match="E524"):
            turn(works, data, [[], []])
    with pytest.raises(DataError, match="E524"):
        turn(works_of(TEXT), b"nothing", [[], []])
