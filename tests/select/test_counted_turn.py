"""Live windows of events without Spark: whatever the micro-batches, rows are those of tables."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.select.cases import aggregations, rows, table_of, unordered

import cepheid
from cepheid.errors import DataError
from cepheid.jobs.bucket import Outcome
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.kinds.selection import live as live_select
from cepheid.kinds.selection.counted import CountedJob, empty_rows
from cepheid.plans.plan import Plan, SelectPlan
from cepheid.testing.oracle_select import evaluate_select
from cepheid.testing.strategies import choice

Events = list[dict[str, Any]]
COLUMNS = table_of([]).schema
LATER = 100_000
"""Spark knows no watermark before 1970, and its milliseconds are whole."""


def plan_of(text: str, **options: Any) -> Plan:
    plan: Plan = cepheid.query(text, **options).with_schema(COLUMNS).plan
    return plan


def work_of(plan: Plan, *, delay: int = 0, schema: pa.Schema | None = None) -> Work:
    schema = schema or COLUMNS
    return Work.of(
        plan, schema, empty_rows(CountedJob.of(SelectPlan.of(plan), schema)).schema, 1, delay=delay
    )


ORIGINS = st.sampled_from([LATER, 0, -3_000, 6_000])
"""Where streams begin, around 1970 too, before which no watermark drops anything."""


def stretched(events: Events, origin: int = LATER) -> Events:
    """Return events milliseconds apart, as the watermark goes."""
    return [{**event, "ts": origin + 1_000 * event["ts"]} for event in events]


def full(text: str, events: Events) -> Events:
    """Return the rows of windows that are full, by definition."""
    sized = text.replace("SELECT ", "SELECT COUNT(*) AS size, ", 1)
    found = evaluate_select(sized, {"s": events})
    select = SelectPlan.of(cepheid.query(text).plan).select
    assert select is not None
    return [row for row in found if row.pop("size") == select.window.within]


def kept_by(text: str, events: Events) -> Events:
    """Return the events for which WHERE is true; Spark filters before."""
    where = text.partition(" WHERE ")[2]
    for clause in (" GROUP BY ", " HAVING ", " WINDOW "):
        where = where.partition(clause)[0]
    shown = f"SELECT * FROM s WHERE {where}" if where else "SELECT * FROM s"
    return evaluate_select(shown, {"s": events})


def turns(work: Work, batches: list[Events]) -> tuple[Events, list[Outcome], bytes]:
    """Take one turn for every micro-batch, and one for an event behind all others."""
    data: bytes | None = None
    found, outcomes = [], []
    for batch in batches:
        latest = max((event["ts"] for event in batch), default=None)
        data, outcome = turn(live_job(work), work, data, [table_of(batch)] if batch else [], latest)
        found += outcome.results.to_pylist()
        outcomes.append(outcome)
    data, outcome = turn(live_job(work), work, data, [], 10**9)
    assert outcome.buffered == 0
    return found + outcome.results.to_pylist(), [*outcomes, outcome], data


def cut(data: st.DataObject, events: Events) -> list[Events]:
    edges = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=6)))
    return [events[a:b] for a, b in zip([0, *edges], [*edges, len(events)], strict=True)]


@given(aggregations(counted=True, windowed=True), rows(24), st.data(), ORIGINS)
def test_any_micro_batches_give_the_full_windows(
    text: str, events: Events, data: st.DataObject, origin: int
) -> None:
    events = stretched(events, origin)
    expected = full(text, events)
    # Events of one time stay in their order; times may come late, as long as the watermark waits.
    times = sorted({event["ts"] for event in events})
    delays = data.draw(st.lists(st.integers(0, 3), min_size=len(times), max_size=len(times)))
    arrival = {ts: ts + 1_000 * delay for ts, delay in zip(times, delays, strict=True)}
    mixed = sorted(events, key=lambda event: arrival[event["ts"]])
    kept = kept_by(text, mixed)
    with patch.object(live_select, "STEP_ROWS", data.draw(choice((1, 4, 1 << 18)))):
        found, outcomes, _ = turns(work_of(plan_of(text), delay=3_000), cut(data, kept))
    assert unordered(found) == unordered(expected)
    assert sum(outcome.late for outcome in outcomes) == 0
    assert sum(outcome.events for outcome in outcomes) == len(kept)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 30))
def test_the_state_holds_what_is_open(within: int, slide: int, count: int) -> None:
    text = f"SELECT SUM(x) FROM s GROUP BY k WINDOW {within} EVENTS SLIDE {slide} EVENTS"
    events = [{"ts": LATER + 1_000 * n, "k": "p", "g": 1, "x": n, "y": 1.0} for n in range(count)]
    _, outcomes, _ = turns(work_of(plan_of(text)), [events])
    begun = [i for i in range(count) if i * slide < count < i * slide + within]
    assert outcomes[-1].open_windows == len(begun)
    assert outcomes[-1].partitions == min(count, 1)


def test_the_state_does_not_grow_with_the_stream() -> None:
    work = work_of(
        plan_of("SELECT AVG(y), MIN(x) FROM s GROUP BY g WINDOW 50 EVENTS SLIDE 7 EVENTS")
    )
    data, sizes = None, []
    for number in range(40):
        times = LATER + 1_000 * np.arange(number * 500, (number + 1) * 500)
        events = [
            {"ts": int(ts), "k": "p", "g": int(ts) // 1_000 % 3, "x": 1, "y": 0.5} for ts in times
        ]
        data, outcome = turn(live_job(work), work, data, [table_of(events)], int(times[-1]))
        sizes.append(len(data))
        assert outcome.open_windows <= 3 * 8
    assert sizes[-1] < 1.1 * sizes[5]


def test_ties_are_broken_by_columns_then_by_arrival() -> None:
    text = "SELECT MIN(y), MAX(y) FROM s WINDOW 2 EVENTS"
    order = [(5, 1.0), (3, 2.0), (3, 3.0), (1, 4.0)]
    events = [{"ts": LATER, "k": "p", "g": 1, "x": x, "y": y} for x, y in order]
    work = work_of(plan_of(text, tiebreak=["x"]), delay=1_000)
    found, _, _ = turns(work, [events[:2], events[2:]])
    assert [(row["min_y"], row["max_y"]) for row in found] == [(2.0, 4.0), (1.0, 3.0)]
    found, _, _ = turns(work_of(plan_of(text), delay=1_000), [events[:2], events[2:]])
    assert [(row["min_y"], row["max_y"]) for row in found] == [(1.0, 2.0), (3.0, 4.0)]


def test_late_events_are_counted_and_have_no_number() -> None:
    work = work_of(plan_of("SELECT SUM(x) FROM s WINDOW 2 EVENTS"))
    times = [[LATER, LATER + 9_000], [LATER + 1_000, LATER + 10_000], [LATER + 11_000]]
    batches = [[{"ts": ts, "k": "p", "g": 1, "x": 1, "y": 0.0} for ts in part] for part in times]
    found, outcomes, _ = turns(work, batches)
    assert [outcome.late for outcome in outcomes] == [0, 1, 0, 0]
    assert [row["window_start"] for row in found] == [0, 2]


def test_sums_that_leave_64_bits_are_refused_in_a_window_and_not_over_the_stream() -> None:
    work = work_of(plan_of("SELECT SUM(x) FROM s WINDOW 2 EVENTS"))
    large = [{"ts": LATER + 1_000 * n, "k": "p", "g": 1, "x": 2**60, "y": 0.0} for n in range(20)]
    found, _, _ = turns(work, [large])
    assert [row["sum_x"] for row in found] == [2**61] * 10
    found, _, _ = turns(work, [[{**event, "x": -(2**62)} for event in large]])
    assert [row["sum_x"] for row in found] == [-(2**63)] * 10
    with pytest.raises(DataError, match="E504"):
        turns(work, [[{**event, "x": -(2**62) - 1} for event in large]])


def test_other_queries_and_columns_do_not_go_on_with_a_state() -> None:
    text = "SELECT SUM(x) FROM s GROUP BY k WINDOW 2 EVENTS"
    work = work_of(plan_of(text))
    event = {"ts": LATER, "k": "p", "g": 1, "x": 1, "y": 0.0}
    data, _ = turn(live_job(work), work, None, [table_of([event])], LATER)
    changed = [
        work_of(plan_of(text.replace("2 EVENTS", "3 EVENTS"))),
        work_of(plan_of(text, tiebreak=["x"])),
        work_of(plan_of(text), schema=COLUMNS.append(pa.field("z", pa.int64()))),
    ]
    for other in changed:
        with pytest.raises(DataError, match="E524"):
            turn(live_job(other), other, data, [], LATER)
    with pytest.raises(DataError, match="E524"):
        turn(live_job(work), work, b"nothing", [], LATER)
