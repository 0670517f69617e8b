"""Live situations without partitions: panes in several buckets, and one task that pairs them."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amount import share
from tests.runtime.test_stream_state import Live, parts, shuffled
from tests.situations.cases import SECOND_US, Case, queries, streams
from tests.situations.test_situations import SCHEMA, table_of

import cepheid
from cepheid import memory_limits
from cepheid.errors import DataError
from cepheid.jobs.kind import needs_of
from cepheid.jobs.microbatch import turn
from cepheid.kinds.situation import needs as situation_needs
from cepheid.kinds.situation.live_by_panes import SituationPanes
from cepheid.runtimes.local import run_table

FEW = settings(max_examples=min(settings().max_examples, 100))  # each is a dozen turns

LASTING = (
    "DEFINE A AS a AT LEAST 3 s, B AS b PATTERN A overlaps;contains;finished by B "
    "DETECTED WITHIN 9 s RETURN SUM(A.n) AS n, FIRST(A.n) AS first, LAST(A.n) AS last"
)
TEXTS = (
    LASTING,
    "DEFINE A AS a BETWEEN 2 s AND 5 s, B AS b PATTERN A overlaps;starts;before B WITHIN 9 s "
    "RETURN MIN(A.n) AS low, LAST(B.n) AS last, COUNT(B) AS n",
    "WHERE n <> 4 DEFINE A AS a, B AS b AT LEAST 2 s PATTERN A before;meets;overlaps;contains B "
    "DETECTED WITHIN 6 s RETURN AVG(A.n) AS mean, MAX(B.n) AS top",
    "DEFINE A AS a AT MOST 4 s, B AS b BETWEEN 1 s AND 3 s SITUATIONS A, B RETURN COUNT(A) AS n",
)


def panes_of(nanoseconds: int) -> mock._patch[int]:
    """Let panes have a length, whatever the window."""
    return mock.patch.object(situation_needs, "LIVE_PANE_NS", nanoseconds)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a query of one partition whose situations are bounded, and a stream."""
    text = draw(queries()).replace("PARTITION BY k", "")
    if draw(st.integers(0, 4)) == 0:
        definitions = text.partition("PATTERN")[0]
        text = f"{definitions} SITUATIONS A RETURN LAST(A.n) AS n, SUM(A.x) AS x"
    elif "WITHIN" not in text:
        before, returns, after = text.partition("RETURN")
        kind = draw(st.sampled_from(["WITHIN", "DETECTED WITHIN"]))
        text = f"{before} {kind} {draw(st.integers(1, 9))} s {returns}{after}"
    return Case(text, draw(streams(most=20)))


@FEW
@given(cases(), st.integers(0, 10_000))
def test_random_queries_have_the_rows_of_a_run_over_all_events(case: Case, seed: int) -> None:
    table = table_of(case.events)
    if not len(table):
        return
    compiled = cepheid.query(case.query)
    delay = (0, SECOND_US, 4 * SECOND_US)[seed % 3]
    with panes_of((5_000_000, 2_500_000_000, 7_000_000_000)[seed // 3 % 3]):
        live = Live(compiled, table.schema, delay=delay, buckets=2 + seed % 4)
        bounded = re.search(r"SITUATIONS|A AS a (AT MOST|BETWEEN \d s AND) \d s", case.query)
        assert live.by_panes == (bounded is None or bounded.group() != "SITUATIONS")
        mixed = shuffled(table, 0 if live.plan.orders_ties else delay, seed)
        for part in parts(mixed, 1 + seed % 6):
            live.feed(part)
        live.finish()
    assert live.late == 0
    expected = run_table(live.plan, table).to_pylist()
    assert sorted(map(repr, live.rows)) == sorted(map(repr, expected))


@share(3)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("nanoseconds", [5_000_000, 2_000_000_000])
def test_every_cut_into_up_to_three_micro_batches(text: str, nanoseconds: int) -> None:
    times = [0, 1, 1, 2, 4, 4, 5, 7, 9]
    flags = [(0, 0), (1, 0), (1, 0), (1, 1), (1, 1), (1, 1), (0, 1), (0, 0), (1, 0)]
    table = table_of(
        [
            {"ts": t * SECOND_US, "a": bool(a), "b": bool(b), "n": n, "x": n / 4}
            for n, (t, (a, b)) in enumerate(zip(times, flags, strict=True))
        ]
    )
    compiled, count, inner = cepheid.query(text), len(table), range(1, len(table))
    expected = run_table(compiled.with_schema(SCHEMA).plan, table).to_pylist()
    assert expected
    with panes_of(nanoseconds):
        for cuts in (c for size in (0, 1, 2, count - 1) for c in combinations(inner, size)):
            live = Live(compiled, table.schema, delay=0, buckets=3)
            assert live.by_panes
            for begin, end in pairwise([0, *cuts, count]):
                live.feed(table.slice(begin, end - begin))
            live.finish()
            assert live.rows == expected, cuts


def long_stream(count: int = 4000) -> pa.Table:
    random = np.random.default_rng(3)
    times = np.cumsum(random.integers(0, 30_000, count))
    walk = np.cumsum(random.normal(size=(3, count)), axis=1) % 4
    return table_of(
        [
            {"ts": int(t), "a": bool(a < 1), "b": bool(b < 2), "c": bool(c < 1), "n": n, "x": n / 2}
            for n, (t, a, b, c) in enumerate(zip(times, *walk, strict=True))
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "DEFINE A AS a AT LEAST 50 ms, B AS b, C AS c PATTERN A overlaps;before B AND B before C "
        "DETECTED WITHIN 500 ms RETURN SUM(A.n) AS n, LAST(B.n) AS last",
        "DEFINE A AS a, B AS b AT LEAST 20 ms PATTERN A during;overlaps B WITHIN 1 s",
        "DEFINE A AS a AT LEAST 3 EVENTS, B AS b AT LEAST 2 EVENTS PATTERN A overlaps;before B "
        "DETECTED WITHIN 500 ms RETURN SUM(A.n) AS n, COUNT(B) AS b",
    ],
)
def test_many_events_in_a_pane_and_situations_over_many_panes(text: str) -> None:
    table = long_stream()
    compiled = cepheid.query(text)
    live = Live(compiled, table.schema, delay=40_000, buckets=4)
    for part in parts(shuffled(table, 40_000, 1), 170):
        live.feed(part)
    live.finish()
    expected = run_table(live.plan, table).to_pylist()
    assert len(expected) > 20
    assert live.rows == expected


def test_the_state_does_not_grow_with_events_whose_conditions_stay() -> None:
    """Neither while a situation lasts, nor when windows have passed."""
    compiled = cepheid.query(LASTING.replace("9 s", "1 s").replace("3 s", "700 ms"))
    schema = table_of([]).schema
    sizes = []
    with panes_of(50_000_000):
        live = Live(compiled, schema, delay=0, buckets=2)
        for step in range(60):
            base = step * 100_000
            live.feed(
                table_of(
                    [
                        {"ts": base + n * 200, "a": step % 20 < 15, "b": False, "n": n, "x": 0.5}
                        for n in range(500)
                    ]
                )
            )
            sizes.append(sum(map(len, live.data.values())))
    assert max(sizes[30:]) <= 1.1 * max(sizes[:30])
    assert max(sizes) < 12_000  # A window has 5,000 events.


def test_late_events_are_counted_and_change_nothing() -> None:
    events = [(1, 1, 0), (2, 1, 1), (3, 0, 1), (4, 0, 0), (9, 1, 0), (12, 0, 0)]
    table = table_of(
        [{"ts": t * SECOND_US, "a": bool(a), "b": bool(b), "n": t, "x": 1.0} for t, a, b in events]
    )
    late = table_of([{"ts": SECOND_US, "a": False, "b": True, "n": 0, "x": 1.0}])
    compiled = cepheid.query("DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 9 s")
    found = []
    for with_late in (False, True):
        live = Live(compiled, table.schema, delay=0, buckets=2)
        for part in parts(table, 2):
            live.feed(part)
            if with_late:
                live.feed(late)
        live.finish()
        assert live.late == (3 if with_late else 0)
        found.append(live.rows)
    assert found[0] == found[1] != []


def test_a_step_that_needs_too_much_memory_becomes_several() -> None:
    table = long_stream(2000)
    text = "DEFINE A AS a, B AS b PATTERN A before;meets;overlaps B DETECTED WITHIN 1 s"
    compiled = cepheid.query(text)
    expected = run_table(compiled.with_schema(table.schema).plan, table).to_pylist()
    live = Live(compiled, table.schema, delay=0, buckets=2)
    with memory_limits.limits(state=48 * len(expected) // 4):
        live.feed(table)
        live.finish()
    assert live.rows == expected


def test_a_checkpoint_of_another_query_is_refused() -> None:
    table = long_stream(100)
    text = "DEFINE A AS a, B AS b PATTERN A before B WITHIN 1 s"
    live = Live(cepheid.query(text), table.schema, delay=0, buckets=2)
    live.feed(table)
    one = Live(cepheid.query(text), table.schema, delay=0)
    one.feed(table)
    changed = Live(cepheid.query(text.replace("before", "after")), table.schema, delay=0, buckets=2)
    for work, data, why in (
        (changed.work, live.data[0], "another query"),
        (live.work, one.data[0], "its groups lie in 1 bucket, and now there are 2"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            turn(SituationPanes.of(work), work, data, [], None)
        assert caught.value.diagnostics[0].code == "E524"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("DEFINE A AS a, B AS b PATTERN A meets B WITHIN 9 s", "buckets by panes of 5 ms"),
        ("WHERE n > 1 DEFINE A AS a, B AS b PATTERN A meets B WITHIN 1 hour", "1,757.81 ms"),
        ("DEFINE A AS a AT MOST 9 s SITUATIONS A", "buckets by panes of 5 ms"),
        (
            "DEFINE A AS a SITUATIONS A",
            "a situation without AT MOST in time may have begun at any time",
        ),
        ("DEFINE A AS a, B AS b PATTERN A meets B", "without a window all situations are kept"),
        ("PARTITION BY k DEFINE A AS a, B AS b PATTERN A meets B WITHIN 9 s", "buckets by k"),
    ],
)
def test_explain_tells_how_a_stream_is_split(text: str, told: str) -> None:
    compiled = cepheid.query(text)
    assert told in compiled.explain(engine="spark")
    by_panes = not needs_of(compiled.plan).no_panes
    assert by_panes == ("panes of" in compiled.explain(engine="spark"))
