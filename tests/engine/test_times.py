"""Times at the edges: far before and after 1970, in every unit, right or refused with a code."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of

import cepheid
from cepheid.errors import BindError, DataError
from cepheid.events.temporal import TIME_MAX
from cepheid.language import tree
from cepheid.testing.oracle import evaluate

EDGES = (-TIME_MAX, -(2**61) - 5, -(2**61) - 1, -(2**61), -1, 0, 1, 2**61, 2**61 + 7, TIME_MAX)
WINDOWS = (
    "",
    "WITHIN 10 us SLIDE 10 us",
    "WITHIN 10 us SLIDE 5 us",
    "WITHIN 10 us",
    "WITHIN 10 us EMIT ON EXPIRY",
    "WITHIN 2 EVENTS SLIDE 1 EVENT",
)
PATTERNS = (
    "A+",
    "SEQ(A, B)",
    "SEQ(NOT B, A+)",
    "A+ WHERE A.n <= NEXT(A).n",
    "A+ WHERE [k] GROUP-BY k",
    "SEQ(A, B) SEMANTICS next",
)


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, object]]:
    """Draw events around one or two edges."""
    starts = draw(st.lists(st.sampled_from(EDGES), min_size=1, max_size=3))
    steps = st.integers(-12, 12)
    times = sorted(
        max(-TIME_MAX, min(TIME_MAX, start + draw(steps)))
        for start in starts
        for _ in range(draw(st.integers(1, 3)))
    )
    kinds, numbers, keys = st.sampled_from("AAB"), st.integers(0, 3), st.sampled_from("pq")
    return [
        {"ts": time, "type": draw(kinds), "n": draw(numbers), "k": draw(keys)} for time in times
    ]


@pytest.mark.filterwarnings("ignore:the times of", "ignore:no event has the type")
@given(st.sampled_from(PATTERNS), st.sampled_from(WINDOWS), streams())
def test_windows_are_right_far_from_1970(
    pattern: str, window: str, events: list[dict[str, object]]
) -> None:
    pattern, _, where = pattern.partition(" ")
    text = f"RETURN COUNT(*), SUM(A.n) PATTERN {pattern} {where} {window}"
    query = cepheid.query(text)
    table = table_of(events)
    expected = _expected(query.tree, events, apart=" us" in window)
    assert same_rows(query.run(table).to_pylist(), expected)
    shared = cepheid.workload({"q": text, "r": text.replace("SUM", "MAX")})
    assert same_rows(shared.run(table, separate=True)["q"].to_pylist(), expected)


def _expected(
    query: tree.Query, events: list[dict[str, object]], *, apart: bool
) -> list[dict[str, object]]:
    """Return what the oracle says, who would look at every empty window between far events."""
    if not apart:
        return evaluate(query, events)
    rows: list[dict[str, object]] = []
    begin = 0
    for n, event in enumerate(events, 1):
        following = int(str(events[n]["ts"])) if n < len(events) else 2**63
        if following - int(str(event["ts"])) > 100:
            rows += evaluate(query, events[begin:n])
            begin = n
    return rows


@pytest.mark.parametrize("seconds", [-2_400_000_000, -2_305_843_010, 2_400_000_000, 4_600_000_000])
@pytest.mark.parametrize("slide", ["SLIDE 10 s", ""])
def test_nanoseconds_before_1896_and_after_2043_have_their_window(seconds: int, slide: str) -> None:
    events = pa.table({"ts": [seconds * 10**9], "type": ["A"]})
    text = f"RETURN COUNT(*) PATTERN A WITHIN 10 s {slide}"
    (row,) = cepheid.query(text, time_unit="ns").run(events).to_pylist()
    start = seconds // 10 * 10 if slide else seconds - 10
    assert row["window_start"] == start * 10**9
    assert row["window_end"] == (start + 10) * 10**9


@pytest.mark.parametrize("time", [-(2**63), -(2**62), 2**62, 2**63 - 1])
@pytest.mark.parametrize(
    "text",
    [
        "RETURN COUNT(*) PATTERN A",
        "RETURN COUNT(*) PATTERN A WITHIN 10 us",
        "RETURN COUNT(*) PATTERN A WITHIN 10 us SLIDE 10 us",
        "RETURN MATCHES PATTERN A",
        "SELECT COUNT(*) FROM s WINDOW 10 us",
        "DEFINE X AS type = 'A' SITUATIONS X",
    ],
)
def test_times_that_leave_64_bits_with_a_window_are_refused(text: str, time: int) -> None:
    events = pa.table({"ts": sorted([0, time]), "type": ["A", "A"]})
    with pytest.raises(DataError, match=rf"E517.*{time}.*`ts` is too far from 1970"):
        cepheid.query(text).run(events)


def test_a_window_of_too_many_ticks_is_refused() -> None:
    schema = {"ts": "int64", "type": "string"}
    text = "RETURN COUNT(*) PATTERN A WITHIN 40000 days"
    with pytest.raises(BindError, match=r"E329.*more than 2\^61 ns"):
        cepheid.query(text, time_unit="ns", schema=schema)
    cepheid.query(text, schema=schema)
