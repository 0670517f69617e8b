"""Two conditions on neighbours: joins of halves give what the oracle and tests of pairs give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of

from cepheid.api import query
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.look_back import planes
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(900)  # Compiles kernels.

CONDITIONS = {
    "A.x > NEXT(A).x AND A.k < NEXT(A).k": True,
    "A.x >= NEXT(A).x AND A.k >= NEXT(A).k": True,
    "A.x <= NEXT(A).x AND A.k > NEXT(A).x": True,
    "A.x <> NEXT(A).x AND A.k < NEXT(A).k": True,
    "A.x = NEXT(A).x AND A.k < NEXT(A).k": True,
    "A.x > NEXT(A).x AND NEXT(A).k BETWEEN A.k AND A.k + 1": None,
    "A.x = NEXT(A).x AND A.k = NEXT(A).k": None,
    # Three are no rectangle, unless one order sorts the values of two.
    "A.x > NEXT(A).x AND A.k < NEXT(A).k AND A.k <> NEXT(A).x": None,
    # Neither is one-sided.
    "A.x <> NEXT(A).x AND A.k <> NEXT(A).k": False,
    "A.x > NEXT(A).x AND A.x * NEXT(A).k > 0": False,
}
"""Conditions, and whether joins answer; None if it depends on the values."""

PATTERNS = ["A+", "SEQ(A+, B)", "(SEQ(A+, B))+", "SEQ(B, A+)", "SEQ(A+, NOT C, B)"]
AGGREGATES = "COUNT(*), SUM(A.x), MIN(A.k), MAX(A.x)"
WINDOWS = ["", "WITHIN 9 us SLIDE 3 us"]
NUMBERS = st.sampled_from(["default", "exact"])
VALUES = st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, None, math.nan])


@contextmanager
def small_leaves() -> Iterator[list[int]]:
    """Join wherever that is possible, over leaves of two rows; collect the numbers of edges."""
    joined: list[int] = []
    find = planes.find_planes

    def watched(*arguments: Any) -> Any:
        found = find(*arguments)
        joined.append(0 if found is None else len(found[1].source))
        return found

    with (
        mock.patch.object(planes, "LEAF_ROWS", 2),
        mock.patch.object(planes, "_pays", return_value=True),
        mock.patch.object(planes, "find_planes", watched),
    ):
        yield joined


@st.composite
def events_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw events, sometimes with equal times."""
    count = draw(st.integers(1, 10))
    steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5, 0]), min_size=count, max_size=count))
    kinds = draw(st.lists(st.sampled_from("AAAAABC"), min_size=count, max_size=count))
    x, k = (draw(st.lists(VALUES, min_size=count, max_size=count)) for _ in range(2))
    rows = zip(np.cumsum(steps), kinds, x, k, strict=True)
    return [{"ts": int(ts), "type": kind, "x": a, "k": b} for ts, kind, a, b in rows]


@pytest.mark.parametrize("condition", CONDITIONS)
@given(events_of(), st.sampled_from(PATTERNS), st.sampled_from(WINDOWS), NUMBERS)
def test_joins_give_what_the_oracle_gives(
    condition: str, events: list[dict[str, Any]], pattern: str, window: str, numbers: str
) -> None:
    text = f"RETURN {AGGREGATES} PATTERN {pattern} WHERE {condition} {window}"
    exact = numbers == "exact"
    if exact:
        text = text.replace("SUM(A.x)", "MAX(A.k)") + " NUMBERS exact"
    compiled, table = query(text), table_of(events)
    with small_leaves() as joined:
        found = run_table(compiled.plan, table).to_pylist()
    assert same_rows(found, run_table(compiled.plan, table).to_pylist())
    if exact:
        found = [{**row, "count": int(row["count"])} for row in found]
    assert same_rows(found, evaluate(compiled.tree, events))
    if CONDITIONS[condition] is False:
        assert not any(joined), "pairs are tested"


@pytest.mark.parametrize("condition", [c for c, joins in CONDITIONS.items() if joins])
@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
def test_long_streams(condition: str, tier: Tier) -> None:
    random = np.random.default_rng(12)
    ts = np.cumsum(random.integers(0, 3, 300))
    events = [
        {"ts": int(t), "type": "A", "x": float(x), "k": float(k)}
        for t, x, k in zip(ts, *random.integers(0, 40, (2, 300)), strict=True)
    ]
    text = f"RETURN COUNT(*), SUM(A.x), MIN(A.k) PATTERN A+ WHERE {condition}"
    compiled, table = query(text), table_of(events)
    expected = run_table(compiled.plan, table).to_pylist()
    with small_leaves() as joined, forced(tier):
        found = run_table(compiled.plan, table)
    assert joined == [1]
    assert same_rows(found.to_pylist(), expected)
