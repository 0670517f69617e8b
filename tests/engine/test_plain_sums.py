"""Sums and minima of one variable in plain doubles give the bits of wide numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.look_back import prefix_sums
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

pytestmark = pytest.mark.timeout(900)  # Compiles kernels.

ITEMS = (
    "COUNT(*), SUM(A.x), AVG(A.x)",
    "MIN(A.x), MAX(A.y)",
    "COUNT(*), SUM(A.y), AVG(A.x), MIN(A.y), MAX(A.x), COUNT(A)",
)
PREDICATES = ("A.x > NEXT(A).x", "A.x <= NEXT(A).x", "A.y * 2 > NEXT(A).x", "A.y < NEXT(A).y")
ENDS = ("", "WITHIN 9 us SLIDE 9 us")


@contextmanager
def plain(least_rows: float) -> Iterator[list[int]]:
    """Run plain doubles from a number of rows on; collect how many segments they answered."""
    answered: list[int] = []
    run = prefix_sums.PrefixEvaluation._add_plain

    def watched(*arguments: Any) -> int:
        answered.append(run(*arguments))
        return answered[-1]

    with (
        mock.patch.object(prefix_sums, "PLAIN_ROWS", least_rows),
        mock.patch.object(prefix_sums.PrefixEvaluation, "_add_plain", watched),
    ):
        yield answered


@st.composite
def events_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw events: few values, some NULL or unusual, and equal times."""
    count = draw(st.integers(1, 10))
    steps = draw(st.lists(st.sampled_from([0, 1, 1, 2, 5]), min_size=count, max_size=count))
    values = st.sampled_from([1.0, 2.0, 2.5, -0.1, 0.0, -4.0, 1e-3, None, 1e300])
    x = draw(st.lists(values, min_size=count, max_size=count))
    y = draw(st.lists(st.sampled_from([0, 1, -1, 2, None]), min_size=count, max_size=count))
    rows = zip(np.cumsum(steps), x, y, strict=True)
    return [{"ts": int(ts), "type": "A", "x": x, "y": y} for ts, x, y in rows]


@pytest.mark.parametrize("items", ITEMS)
@settings(max_examples=min(settings().max_examples, 60))
@given(events_of(), st.sampled_from(PREDICATES), st.sampled_from(ENDS))
def test_plain_doubles_give_the_bits_of_wide_numbers(
    items: str, events: list[dict[str, Any]], predicate: str, end: str
) -> None:
    compiled, table = query(f"RETURN {items} PATTERN A+ WHERE {predicate} {end}"), table_of(events)
    with plain(0) as answered:
        found = run_table(compiled.plan, table)
    assert answered
    assert all(answered) or any(event["x"] == 1e300 for event in events)
    with plain(np.inf):
        assert bits(found) == bits(run_table(compiled.plan, table))
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))


@pytest.mark.parametrize(("count", "whole"), [(300, True), (1_500, False)])
def test_plain_doubles_end_where_counts_are_too_large(count: int, whole: bool) -> None:  # noqa: FBT001  # A parameter.
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "ts": pa.array(np.arange(2 * count)),
            "type": pa.array(["A"] * (2 * count)),
            "x": pa.array(np.concatenate([random.random(count), np.sort(random.random(count))])),
            "y": pa.array(random.integers(0, 9, 2 * count)),
        }
    )
    end = f"WITHIN {count} us SLIDE {count} us"
    plan = query(f"RETURN {ITEMS[2]} PATTERN A+ WHERE A.x < NEXT(A).x {end}").plan
    found = []
    for tier in (Tier.INTERPRET, Tier.COMPILE):
        for least_rows in (0, np.inf):
            with forced(tier), plain(least_rows) as answered:
                found.append(bits(run_table(plan, table)))
            assert least_rows > 0 or sum(answered) == (2 if whole else 1)
    assert all(one == found[0] for one in found)
