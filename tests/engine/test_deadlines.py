"""A NOT with a deadline (§2.12): the oracle's rows, laws, and what is kept and when rows leave."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, same_rows, supported, table_of
from tests.runtime.test_stream_state import Live

from cepheid.api import query
from cepheid.arrays.columns import Columns
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.kinds.trend.live_corrections import why_no_versions
from cepheid.kinds.trend.planning.variants import reach_of
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.windows.list_step import advance_matches, step_matches
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_batches, run_table
from cepheid.testing.harness import SECOND_US, stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases
from cepheid.testing.strategies import all_streams
from cepheid.workloads import workload

UNPAID = "RETURN MATCHES PATTERN SEQ(A, NOT B WITHIN 5 s) WHERE [key]"


# Few drawn queries have a deadline.
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(cases().filter(lambda case: ") WITHIN" in case.query), st.integers(1, 8))
def test_random_queries_equal_the_oracle(case: Case, batch_rows: int) -> None:
    assume(case.events)
    table = numbered(case.events)
    compiled = query(case.query).with_schema(table.schema)
    assume(supported(compiled))
    expected = evaluate(compiled.tree, case.events)
    whole = run_table(compiled.plan, table, batch_rows=batch_rows)
    parts = run_batches(compiled.plan, slices_of(table, batch_rows), table.schema)
    for actual in (whole.to_pylist(), parts.to_pylist()):
        if compiled.plan.lists_matches:
            assert readable(actual) == readable(expected)
        else:
            assert same_rows(actual, expected)


PATTERNS = [
    "SEQ(A, NOT B WITHIN {d} s)",
    "SEQ(NOT B WITHIN {d} s, A)",
    "SEQ(A x, NOT B WITHIN {d} s, A y)",
    "SEQ(A, NOT SEQ(B, A z) WITHIN {d} s)",
    "SEQ(NOT SEQ(B, A z) WITHIN {d} s, A)",
    "SEQ(A, NOT SEQ(B, NOT A z WITHIN 1 s) WITHIN {d} s)",
    "SEQ(A, NOT A WITHIN {d} s)",
    "(SEQ(A, NOT B WITHIN {d} s))+",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_all_small_streams_equal_the_oracle(pattern: str, semantics: str) -> None:
    events: list[Mapping[str, object]] = [
        dict(event) | {"key": f"{number:05}"}
        for number, events in enumerate(all_streams(("A", "B"), 3))
        for event in events
    ]
    events.sort(key=lambda event: int(str(event["ts"])))
    for seconds in (1, 2):
        for ties in ("strict", "arrival"):
            text = f"RETURN COUNT(*) PATTERN {pattern.format(d=seconds)} SEMANTICS {semantics}"
            compiled = query(f"{text} GROUP-BY key TIES {ties}")
            actual = compiled.run(table_of(events)).to_pylist()
            assert same_rows(actual, evaluate(compiled.tree, events)), (seconds, ties)


@pytest.mark.parametrize("pattern", PATTERNS[:5])
def test_a_deadline_beyond_the_stream_is_none(pattern: str) -> None:
    events = pa.table({"ts": range(60), "type": list("AABABBAAAB" * 6), "key": list("xyxxy" * 12)})
    far = query(f"RETURN COUNT(*) PATTERN {pattern.format(d=1)} WHERE [key]")
    plain = query(f"RETURN COUNT(*) PATTERN {pattern} WHERE [key]".replace(" WITHIN {d} s", ""))
    assert far.run(events).to_pylist() == plain.run(events).to_pylist()


def test_a_mark_reaches_as_far_as_the_marks_inside() -> None:
    text = "PATTERN SEQ(A, NOT SEQ(NOT C WITHIN 7 s, B, NOT C WITHIN 3 s) WITHIN 5 s)"
    assert reach_of(TrendPlan.of(query(text).plan)) == (7 * SECOND_US, 8 * SECOND_US)


def orders(seconds: list[int], kinds: str) -> pa.Table:
    """Return events of one key."""
    times = [second * SECOND_US for second in seconds]
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "type": pa.array(list(kinds), pa.string()),
            "key": pa.array(["k"] * len(times), pa.string()),
        }
    )


def test_a_row_leaves_when_the_watermark_passes_the_deadline() -> None:
    """a1 is certain after 6, and b7 forbids a3."""
    events = orders([1, 3, 7], "AAB")
    live = Live(query(UNPAID), events.schema, delay=0)
    live.feed(events.slice(0, 2))
    live.feed(orders([6], "C"))
    assert not live.rows
    live.feed(orders([7], "C"))
    assert [row["events"][0]["ts"] for row in live.rows] == [1 * SECOND_US]
    live.feed(events.slice(2))
    live.finish()
    assert len(live.rows) == 1


def test_rows_of_windows_leave_at_their_end_plus_the_deadline() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, NOT B WITHIN 5 s) WITHIN 10 s SLIDE 10 s"
    live = Live(query(text), orders([], "").schema, delay=0)
    for second in (2, 9, 14):
        live.feed(orders([second], "A"))
    assert not live.rows
    live.feed(orders([15], "C"))
    assert [row["count"] for row in live.rows] == [2]


def test_a_list_of_single_events_keeps_only_what_waits() -> None:
    job = lower(TrendPlan.of(query(UNPAID).with_schema(orders([], "").schema).plan))
    state = PartitionState(job)
    for second in range(100):
        state, tables = step_matches(job, state, orders([second], "A"))
        rows = sum(map(len, tables))
        state, tables = advance_matches(job, state, second * SECOND_US + 1)
        rows += sum(map(len, tables))
        assert rows == (second >= 5)
        state = state_from_bytes(job, state_to_bytes(job, state))
    assert state.events is not None
    assert len(state.events) == 0
    assert state.held is not None
    assert len(state.held) <= 6


def test_only_lists_that_single_events_decide_need_no_window() -> None:
    schema = orders([], "").schema
    Live(query(UNPAID), schema, delay=0)
    for text in (
        "RETURN COUNT(*) PATTERN SEQ(A, NOT B WITHIN 5 s)",
        "RETURN MATCHES PATTERN SEQ(A, NOT B WITHIN 5 s, C)",
        "RETURN MATCHES PATTERN SEQ(A, NOT B)",
    ):
        with pytest.raises(UnsupportedError, match="E405"):
            Live(query(text), schema, delay=0)


def test_late_events_change_rows_without_versions() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A, NOT B WITHIN 5 s) WITHIN 10 s SLIDE 10 s"
    assert "deadline" in why_no_versions(TrendPlan.of(query(text).plan))


def test_an_event_waits_in_no_window_that_it_does_not_end() -> None:
    """Streams of the golden files are read as seconds: a1 n3 a4."""
    events = stream("a1 n3 a4")
    compiled = query("RETURN COUNT(*) PATTERN SEQ(A, NOT N WITHIN 3 seconds) WITHIN 2 seconds")
    rows = compiled.run(table_of(events)).to_pylist()
    assert [(row["window_end"], row["count"]) for row in rows] == [(4 * SECOND_US, 1)]


def test_events_are_dropped_before_they_have_marks() -> None:
    """Orders, payments and nothing else can matter; live tasks filter before a query marks."""
    events = orders([1, 2, 3], "ABC")
    plan = query(UNPAID).with_schema(events.schema).plan
    keeps = kind_of(plan).keeps(plan)
    assert keeps is not None
    assert keeps(Columns(events)).tolist() == [True, True, False]


def test_rows_of_live_rules_leave_when_their_time_has_passed() -> None:
    def many(second: int, count: int) -> pa.Table:
        return orders([second] * count, "A" * count)

    text = "RETURN MATCHES PATTERN SEQ(A, NOT B WITHIN 5 us)"
    live = workload({"one": text}).live(many(1, 1).schema)
    counts = [(1, 1), (10, 2), (20, 4), (30, 8)]
    left = [live.feed(many(second, count)).num_rows for second, count in counts]
    assert left == [0, 1, 2, 4]
