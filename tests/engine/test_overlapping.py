"""Overlapping windows that run together: equal values, ties, NOT and [P.vehicle], by the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.kernels import near_places
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.look_back import overlapping
from cepheid.kinds.trend.windows import open_windows
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(900)  # Compiles kernels.

WINDOWS = ("WITHIN 9 us SLIDE 3 us", "WITHIN 10 us SLIDE 4 us", "WITHIN 12 us SLIDE 1 us")
QUERIES = {
    "falling": "COUNT(*) PATTERN A a+ WHERE [key] AND a.x > NEXT(a).x",
    "rising": "COUNT(*), SUM(a.y), AVG(a.x) PATTERN A a+ WHERE a.x <= NEXT(a).x",
    "a factor": "COUNT(*), SUM(a.y) PATTERN A a+ WHERE [key] AND a.x * 2 < NEXT(a).x",
    "equal": "COUNT(*), SUM(a.x) PATTERN A a+ WHERE a.x = NEXT(a).x",
    "unequal": "COUNT(*), SUM(a.x) PATTERN A a+ WHERE [key] AND a.x <> NEXT(a).x",
    "ties by arrival": "COUNT(*), SUM(a.x) PATTERN A a+ TIES arrival WHERE a.x >= NEXT(a).x",
    "three states": (
        "COUNT(*), SUM(b.x) PATTERN SEQ(A a, B b+, C c) WHERE [key] AND b.x < NEXT(b).x"
    ),
    "two predicates": (
        "COUNT(*), SUM(a.y) PATTERN SEQ(A a+, B b) WHERE a.x < NEXT(a).x AND a.y <= b.x"
    ),
    "leading NOT": "COUNT(*) PATTERN SEQ(NOT C c, A a+) WHERE [key] AND a.x > NEXT(a).x",
    "two leading NOTs": (
        "COUNT(*), SUM(a.x) PATTERN SEQ(NOT SEQ(B b, C c), A a+) WHERE a.x > NEXT(a).x"
    ),
    "NOT in NOT": (
        "COUNT(*) PATTERN SEQ(NOT SEQ(NOT B b, C c), A a+) WHERE [key] AND a.x > NEXT(a).x"
    ),
    "leading NOT with a predicate": (
        "COUNT(*) PATTERN SEQ(NOT SEQ(B b, C c), A a+) WHERE b.x < c.x AND a.x > NEXT(a).x"
    ),
    "by value": (
        "key, COUNT(*), AVG(a.x) PATTERN A a+ "
        "WHERE [a.y, key] AND a.x > NEXT(a).x GROUP-BY key"
    ),
    "by value, NOT": (
        "key, COUNT(*), SUM(a.x) PATTERN SEQ(NOT C c, A a+) "
        "WHERE [a.y, key] AND a.x > NEXT(a).x GROUP-BY key"
    ),
    "by value, others too": (
        "COUNT(*) PATTERN SEQ(B b, A a+) WHERE [a.y] AND a.x > NEXT(a).x"
    ),
    "by value, NOT of that value": (
        "COUNT(*) PATTERN SEQ(NOT A n, B a+) WHERE [a.y] AND n.x > 2 AND a.x > NEXT(a).x"
    ),
}  # fmt: skip
TOGETHER = frozenset(QUERIES) - {"NOT in NOT", "by value, others too"}
"""The queries whose windows run together."""


@contextmanager
def watching() -> Iterator[list[bool]]:
    """Collect whether windows ran together."""
    answered: list[bool] = []

    def watched(*arguments: Any) -> Any:
        found = overlapping.run_overlapping(*arguments)
        answered.append(found is not None)
        return found

    with mock.patch.object(open_windows, "run_overlapping", watched):
        yield answered


@st.composite
def events_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw events: few values, some NULL, equal times and gaps."""
    count = draw(st.integers(1, 10))
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 5, 40]), min_size=count, max_size=count))
    kinds = draw(st.lists(st.sampled_from("AAAABC"), min_size=count, max_size=count))
    values = st.sampled_from([1.0, 2.0, 2.5, 4.0, -1.0, 0.0, None])
    x = draw(st.lists(values, min_size=count, max_size=count))
    y = draw(st.lists(st.sampled_from([0, 1, 1, 2, None]), min_size=count, max_size=count))
    keys = draw(st.lists(st.sampled_from("kkl"), min_size=count, max_size=count))
    rows = zip(np.cumsum(steps), kinds, keys, x, y, strict=True)
    return [
        {"ts": int(ts), "type": kind, "key": key, "x": x, "y": y} for ts, kind, key, x, y in rows
    ]


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=min(settings().max_examples, 40))
@given(events_of(), st.sampled_from(WINDOWS), st.integers(1, 10))
def test_windows_together_give_what_the_oracle_gives(
    name: str, events: list[dict[str, Any]], window: str, batch: int
) -> None:
    compiled, table = query(f"RETURN {QUERIES[name]} {window}"), table_of(events)
    with watching() as answered:
        found = run_table(compiled.plan, table, batch_rows=batch)
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))
    assert all(answered) if name in TOGETHER else not any(answered)


@pytest.mark.parametrize("name", QUERIES)
def test_compiled_windows_give_the_same_bits(name: str) -> None:
    random = np.random.default_rng(5)
    events = [
        {
            "ts": int(ts), "type": "AAABC"[random.integers(0, 5)], "key": "kl"[n % 2],
            "x": float(random.integers(0, 9)), "y": int(random.integers(0, 3)),
        }
        for n, ts in enumerate(np.cumsum(random.integers(0, 2, 120)))
    ]  # fmt: skip
    plan = query(f"RETURN {QUERIES[name]} WITHIN 12 us SLIDE 3 us").plan
    results = []
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        with forced(tier):
            results.append(bits(run_table(plan, table_of(events))))
    assert results[0] == results[1]


def test_several_stretches_of_windows_give_the_same_rows() -> None:
    events = [
        {"ts": 7 * n, "type": "A", "key": "k", "x": float(n * 5 % 11), "y": 1} for n in range(60)
    ]
    compiled = query(f"RETURN {QUERIES['falling']} {WINDOWS[0]}")
    expected = run_table(compiled.plan, table_of(events)).to_pylist()
    with mock.patch.object(overlapping, "GROUPS_MAX", 2):
        assert run_table(compiled.plan, table_of(events)).to_pylist() == expected
    assert same_rows(expected, evaluate(compiled.tree, events))


def test_time_without_events_is_free() -> None:
    events = [
        {"ts": 10**15 * (n // 3) + n % 3, "type": "A", "key": "k", "x": float(3 - n % 3), "y": 1}
        for n in range(9)
    ]
    compiled = query(f"RETURN {QUERIES['falling']} {WINDOWS[0]}")
    with watching() as answered:
        rows = run_table(compiled.plan, table_of(events)).to_pylist()
    assert all(answered)
    assert len(rows) == 11
    assert [row["count"] for row in rows].count(7.0) >= 3


PLACES = st.lists(st.integers(-1, 150), min_size=1, max_size=40)


@given(place=PLACES, seed=st.integers(0, 99), cut=st.integers(0, 10), equal=st.booleans())
def test_places_are_numbered_densely(place: list[int], seed: int, cut: int, *, equal: bool) -> None:
    random, count = np.random.default_rng(seed), len(place)
    begin, end = min(cut, count), count
    mine = np.array(place, np.int32)
    asked = random.integers(-1, 152, count).astype(np.int32)
    results = []
    for body in ("interpret", "function"):
        near, bound = np.full((2, count + 3), 9, np.int32)
        words, before = np.zeros(4, np.uint64), np.zeros(4, np.int64)
        with np.errstate(all="ignore"):
            total = getattr(near_places.number_places, body)(
                mine, asked, begin, end, 151, equal, words, before, near, bound, 3
            )
        results.append((int(total), near.tolist(), bound.tolist()))
    assert results[0] == results[1]
    known = sorted({p for p in place[begin:end] if p >= 0})
    assert results[0][0] == len(known)
    for row in range(begin, end):
        below = sum(p < asked[row] for p in known)
        wanted = -1 if asked[row] < 0 or (equal and asked[row] not in known) else below
        assert results[0][2][3 + row - begin] == wanted
