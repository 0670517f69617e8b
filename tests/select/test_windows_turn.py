"""Live windows of time without Spark: whatever the micro-batches, rows are those of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.select.cases import aggregations, rows, table_of, unordered
from tests.select.test_counted_turn import (
    COLUMNS,
    LATER,
    ORIGINS,
    Events,
    cut,
    kept_by,
    plan_of,
    stretched,
    turns,
)

from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan
from cepheid.spark.schema import result_schema_of
from cepheid.testing.oracle_select import evaluate_select


def work_of(plan: Plan, delay: int = 0) -> Work:
    return Work.of(plan, COLUMNS, result_schema_of(plan, COLUMNS), 1, delay=delay)


@settings(max_examples=60)
@given(aggregations(counted=False, windowed=True), rows(24), st.data(), ORIGINS)
def test_any_micro_batches_give_the_windows(
    text: str, events: Events, data: st.DataObject, origin: int
) -> None:
    """WHERE is behind a bucket, so it gets the events for which it is true."""
    events = stretched(events, origin)
    # The lengths of windows are milliseconds, too.
    text = text.replace(" us", " ms")
    delays = data.draw(st.lists(st.integers(0, 3), min_size=len(events), max_size=len(events)))
    order = np.argsort([e["ts"] + 1_000 * d for e, d in zip(events, delays, strict=True)])
    kept = kept_by(text, [events[n] for n in order])
    found, outcomes, _ = turns(work_of(plan_of(text), delay=3_000), cut(data, kept))
    assert unordered(found) == unordered(evaluate_select(text, {"s": events}))
    assert sum(outcome.late for outcome in outcomes) == 0
    assert outcomes[-1].open_windows == 0


def events_at(times: Any, **more: Any) -> Events:
    return [{"ts": int(ts), "k": "p", "g": 1, "x": 1, "y": 0.5, "d": None} | more for ts in times]


def test_an_event_behind_the_watermark_is_late_though_its_window_is_open() -> None:
    work = work_of(plan_of("SELECT COUNT(*) AS n FROM s WINDOW 1 second"), delay=1_000)
    batches = [[LATER, LATER + 9_000], [LATER + 7_999, LATER + 8_000, LATER + 10_000]]
    found, outcomes, _ = turns(work, [events_at(times) for times in batches])
    assert [outcome.late for outcome in outcomes] == [0, 1, 0]
    assert [row["n"] for row in found] == [4]


def test_the_state_is_partial_aggregates() -> None:
    """It grows with groups and edges of windows, not with events."""
    work = work_of(plan_of("SELECT k, AVG(y), MAX(x) FROM s GROUP BY k WINDOW 4 s SLIDE 1 s"))
    data, sizes = None, []
    for number in range(40):
        times = LATER + 1_000 * np.arange(number * 500, (number + 1) * 500)
        data, outcome = turn(
            live_job(work), work, data, [table_of(events_at(times))], int(times[-1])
        )
        sizes.append(len(data))
        assert outcome.partitions == 1
        assert outcome.open_windows <= 5
    assert max(sizes[20:]) <= max(sizes[5:20])
