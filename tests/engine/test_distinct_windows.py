"""Windows that hold the same events are answered once, and nobody can tell."""

from __future__ import annotations

import random
import time
from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.kinds.selection import windows as select_windows
from cepheid.kinds.trend import local as local_trends
from cepheid.kinds.trend.windows import distinct_windows
from cepheid.plans.plan import TrendPlan

PATTERNS = [
    "SEQ(A, B)", "A+", "SEQ(A, B) AND C", "A+ AND B", "SEQ(NOT C, A, B)", "SEQ(A, B, NOT C)",
    "SEQ(A, B+) WHERE A.x < NEXT(B).x", "A+ SEMANTICS next", "SEQ(A, B+) SEMANTICS contiguous",
    "SEQ(A, B) WHERE SUM(A.x) < LAST(B).x", "SEQ(A, B+) WHERE [B.k]", "SEQ(A+, B) WHERE [k]",
    "A+ NUMBERS exact", "A+ TIES arrival", "SEQ(A, B) AND C NUMBERS exact",
]  # fmt: skip
TIMES: list[tuple[Any, int]] = [
    (pa.int64(), 1), (pa.int32(), 1), (pa.timestamp("us"), 1),
    (pa.timestamp("ms", "Europe/Berlin"), 1_000), (pa.date32(), 86_400_000_000),
]  # fmt: skip


def drawn(rng: random.Random) -> tuple[str, pa.Table]:
    """Return a query with windows that overlap, and events."""
    kind, unit = rng.choice(TIMES)
    times = sorted(rng.choice([-7, 0, 1, 2, 3, 5, 8, 50, 51]) for _ in range(rng.choice([1, 5, 9])))
    table = pa.table(
        {
            "ts": pa.array(times, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind),
            "type": [rng.choice("AABC") for _ in times],
            "x": pa.array([rng.choice([None, 1, 2, 3]) for _ in times], pa.int64()),
            "window_end": [1] * len(times),
            "k": pa.array([rng.choice(["p", "q", None]) for _ in times], pa.string()),
        }
    )
    pattern = rng.choice(PATTERNS)
    items = "COUNT(*)"
    if " AND " not in pattern and "exact" not in pattern:
        items = rng.choice([items, "COUNT(*), SUM(A.x), MAX(A.x), MIN(A.ts)", "AVG(A.x)"])
    within = rng.choice([3, 7, 10, 20, 40])
    slide = rng.choice([n for n in (1, 2, 3, 7) if n < within])
    window = f"WITHIN {within * unit} us SLIDE {slide * unit} us"
    group = rng.choice(["", " GROUP-BY k"])
    group += rng.choice(["", " HAVING COUNT(*) > 1"])
    return f"RETURN {items} PATTERN {pattern}{group} {window}", table


@pytest.mark.filterwarnings("ignore:no event has the type")  # a random stream may lack one
def test_rows_are_those_of_all_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    monkeypatch.setattr(distinct_windows, "WINDOWS_MIN", 1)
    found = distinct_windows.few_windows
    used = 0
    for _ in range(150):
        text, table = drawn(rng)
        query = cepheid.query(text)
        result = query.run(table)
        used += found(TrendPlan.of(query.with_schema(table.schema).plan), table) is not None
        with monkeypatch.context() as patched:
            patched.setattr(local_trends, "few_windows", lambda *_: None)
            expected = query.run(table)
        assert result.schema == expected.schema, text
        for mine, theirs in zip(result.to_pylist(), expected.to_pylist(), strict=True):
            assert mine == theirs, text
    assert used > 50


EVENTS = pa.table(
    {
        "ts": [n // 2 * 2_000_000 for n in range(20)],
        "type": [("A", "B", "C", "A", "D")[n % 5] for n in range(20)],
        "x": list(range(20)),
    }
)


@pytest.mark.parametrize("pattern", ["SEQ(NOT C, A, B)", "SEQ(A, B, NOT C)", "SEQ(D, NOT A)"])
def test_matches_are_reported_by_the_first_window_that_has_them(pattern: str) -> None:
    def listed(slide: int) -> list[Any]:
        text = f"RETURN A.x, B.x PATTERN {pattern} WITHIN 1000 s SLIDE {slide} s"
        rows = cepheid.query(text.replace("A.x, B.x", "MATCHES")).run(EVENTS).to_pylist()
        return sorted(str(row["events"]) for row in rows)

    assert listed(1) == listed(2)


@pytest.mark.parametrize(
    "text",
    [
        *(f"RETURN COUNT(*) PATTERN {p} WITHIN 1000000 s SLIDE 3 s" for p in PATTERNS[:10]),
        "RETURN MATCHES PATTERN SEQ(NOT C, A, B) WITHIN 1000000 s SLIDE 3 s",
        "RETURN MATCHES PATTERN SEQ(A, B, NOT C) WITHIN 1000000 s SLIDE 3 s",
    ],
)
def test_time_follows_events_and_not_windows(text: str) -> None:
    begun = time.process_time()
    cepheid.query(text).run(EVENTS)
    assert time.process_time() - begun < 4


def test_more_rows_than_can_be_collected_are_an_error() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN A WITHIN 1000000 s SLIDE 1 s")
    with cepheid.limits(rows=100_000), pytest.raises(cepheid.DataError, match="E518"):
        query.run(EVENTS)


@pytest.mark.parametrize("items", ["COUNT(*)", "MAX(x)"])
def test_select_says_so_too(items: str) -> None:
    query = cepheid.query(f"SELECT {items} FROM e GROUP BY x WINDOW 1000000 s SLIDE 1 s")
    with cepheid.limits(rows=100_000), pytest.raises(cepheid.DataError, match="E518"):
        query.run(EVENTS)
    query = cepheid.query(f"SELECT {items} FROM e GROUP BY x WINDOW 18000000 days SLIDE 1 us")
    with pytest.raises(cepheid.DataError, match="E511"):
        query.run(EVENTS)


def test_select_answers_windows_of_the_same_events_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    for _ in range(150):
        _, table = drawn(rng)
        items = rng.choice(["COUNT(*), SUM(x)", "MAX(x), AVG(x)", "MIN(ts), COUNT(x)"])
        group = rng.choice(["", " GROUP BY k", " GROUP BY k, x"])
        within, slide = rng.choice([3, 7, 40]), rng.choice([1, 2, 3, 9])
        unit = rng.choice(["us", "EVENTS", "days"])
        window = f"WINDOW {within} {unit} SLIDE {slide} {unit}"
        query = cepheid.query(f"SELECT {items} FROM s{group} {window}")
        expected = query.run(table)
        with monkeypatch.context() as patched:
            patched.setattr(select_windows, "FEW_WINDOWS", 0)
            found = query.run(table)
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist(), query.text
