"""Trailing windows by sums and counters of starts: the same rows as by two stacks of matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_linear import SCHEMA

from cepheid.api import query
from cepheid.kernels import start_counters as kernel_counters
from cepheid.kernels import start_sums
from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.windows import event_windows, start_counters
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, streams

PATTERNS = [
    "A", "A+", "SEQ(A, B)", "SEQ(A+, B)", "SEQ(A, B, C)", "(SEQ(A, B))+", "(SEQ(A+, B))+",
    "SEQ(A+, B, A)",
]  # fmt: skip
RETURNS = ["COUNT(*)", "COUNT(*), SUM(A.price), MIN(A.price), MAX(A.volume)", "AVG(A.volume)"]
KEYS = ["", "WHERE [key] GROUP-BY key", "WHERE [key]", "WHERE [key, zone] GROUP-BY zone"]
ENDS = ["WITHIN 2 s", "WITHIN 4 s", "WITHIN 3 s EMIT ON EXPIRY", "WITHIN 4 s TIES arrival"]


@st.composite
def trailing_queries(draw: st.DrawFn) -> str:
    """Draw a query with a window that has no SLIDE."""
    texts = [draw(choice(some)) for some in (RETURNS, PATTERNS, KEYS, ENDS)]
    return "RETURN {} PATTERN {} {} {}".format(*texts)


WAYS = ("sums", "counters", "stacks")


@contextmanager
def only(way: str) -> Iterator[None]:
    """Run trailing windows in one way; those that have no sums have counters."""
    cheaper = mock.patch.object(start_counters, "is_cheaper", return_value=way != "stacks")
    sums = nullcontext() if way == "sums" else mock.patch.object(start_counters, "SUM_MAX", 0)
    with cheaper, sums:
        yield


@given(trailing_queries(), streams(SCHEMA, events_max=9), st.integers(1, 9))
def test_sums_and_counters_and_stacks_and_the_oracle_agree(
    text: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    compiled = query(text, schema=SCHEMA)
    expected = evaluate(compiled.tree, events)
    for way in WAYS:
        with only(way):
            found = run_table(compiled.plan, table_of(events), batch_rows=batch_rows)
        assert same_rows(found.to_pylist(), expected), f"{found} instead of {expected}"


@contextmanager
def counted(name: str) -> Iterator[list[int]]:
    """Collect the status of every call of a kernel."""
    module = start_sums if name == "sum_starts" else kernel_counters
    kernel, found = getattr(module, name), list[int]()

    def noted(*arguments: Any) -> Any:
        result = kernel(*arguments)
        found.append(result[0])
        return result

    with mock.patch.object(module, name, noted):
        yield found


LONG = "ABCDEFGHIJ"


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize("end", ["", " EMIT ON EXPIRY"])
def test_products_of_all_events_may_wrap_around(tier: Tier, end: str) -> None:
    # Prefixes of all events have up to 300^9 matches, windows a few thousand.
    kinds = np.random.default_rng(4).permutation(list(LONG) * 300)
    table = pa.table({"ts": range(3_000), "type": kinds.tolist()})
    compiled = query(f"RETURN COUNT(*) PATTERN SEQ({', '.join(LONG)}) WITHIN 80 us{end}")
    rows = []
    for way in ("sums", "counters"):
        with only(way), forced(tier), counted("sum_starts") as found:
            rows.append(compiled.run(table))
        assert found == ([OK] if way == "sums" else [])
    assert rows[0].equals(rows[1])
    assert len(rows[0]) > 10


def test_windows_with_too_many_matches_have_counters() -> None:
    compiled = query("RETURN COUNT(*) PATTERN SEQ(A, B, C) WITHIN 40 us")
    with only("counters"):
        expected = compiled.run(falling(200))
    counts: list[Any] = expected["count"].to_pylist()
    most = int(max(counts))
    # A sum has one of the three configurations; that of the matches is the largest.
    for largest, status in ((3 * most, OK), (3 * (most - 1), NARROW)):
        with (
            mock.patch.object(start_counters, "SUM_MAX", largest),
            counted("sum_starts") as sums,
            counted("count_starts") as counters,
        ):
            assert compiled.run(falling(200)).equals(expected)
        assert (sums, counters) == ([status], [OK] if status == NARROW else [])


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
def test_sums_beyond_two_to_the_53_are_right_in_every_digit_of_a_double(tier: Tier) -> None:
    # 5^24 matches, an odd number that no double holds: the nearest one is reported.
    kinds = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWX" for _ in range(5)]
    table = pa.table({"ts": range(len(kinds)), "type": kinds})
    text = f"RETURN COUNT(*) PATTERN SEQ({', '.join(dict.fromkeys(kinds))}) WITHIN 1 second"
    with forced(tier), counted("sum_starts") as found:
        rows = query(text).run(table)
    assert found == [OK]
    assert rows["count"].to_pylist() == [float(n * 5**23) for n in range(1, 6)]


def test_a_pattern_that_nothing_matches_has_no_rows() -> None:
    compiled = query("RETURN COUNT(*) PATTERN A WITHIN 2 s MIN LENGTH 2")
    assert len(compiled.run(falling(8))) == 0


def is_summed(pattern: str) -> bool:
    program = lower(TrendPlan.of(query(f"RETURN COUNT(*) PATTERN {pattern}").plan)).programs[0]
    plain = program.plain()
    assert plain is not None
    return start_counters.are_summed(plain.target, plain.source)


def test_patterns_whose_events_follow_others_only_have_sums() -> None:
    summed = ("A", "SEQ(A, B, C)", "SEQ(A OR B, C)", "(SEQ(A, B))+", "SEQ(A, (SEQ(B, C))+)")
    assert all(map(is_summed, summed))
    assert not any(map(is_summed, ("A+", "SEQ(A+, B)", "(SEQ(A+, B))+")))


def falling(count: int) -> pa.Table:
    return pa.table({"ts": range(count), "type": ["A", "B", "C", "A"] * (count // 4)})


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize("window", [2, 7, 40])
def test_places_of_starts_are_used_again(window: int, tier: Tier) -> None:
    items = "COUNT(*), SUM(A.ts), MIN(B.ts)"
    compiled = query(f"RETURN {items} PATTERN SEQ(A+, B) WITHIN {window} us EMIT ON EXPIRY")
    rows = []
    for way in ("counters", "stacks"):
        with only(way), forced(tier):
            rows.append(compiled.run(falling(200)).to_pylist())
    assert same_rows(*rows)
    assert rows[0]


def test_counts_beyond_doubles_take_two_stacks() -> None:
    table = falling(2_400)
    compiled = query("RETURN LOG2(COUNT(*)) PATTERN SEQ(A+, B) WITHIN 2400 us")
    with mock.patch.object(start_counters, "is_cheaper", return_value=True):
        found: list[Any] = compiled.run(table)["log2_count"].to_pylist()
    with mock.patch.object(event_windows, "count_by_starts", return_value=None):
        expected = compiled.run(table)["log2_count"].to_pylist()
    assert found == pytest.approx(expected, rel=1e-9)
    assert max(found) > 1_100


@pytest.mark.parametrize("values", [[1e308] * 4, [1e308, 1e308, -1e308, -1e308]])
def test_values_near_the_largest_double_have_a_mean(values: list[float]) -> None:
    table = pa.table({"ts": range(4), "type": ["A"] * 4, "x": values})
    row = query("RETURN AVG(A.x) PATTERN A WITHIN 1000 us").run(table).to_pylist()[-1]
    assert row["avg_A_x"] == pytest.approx(float(sum(map(Fraction, values)) / 4), rel=1e-12)


def test_many_active_starts_take_two_stacks() -> None:
    costs = [start_counters.is_cheaper(3, 1, 0, 1_000, 1_000 * n) for n in (1, 100, 1_000, 10_000)]
    assert costs == [True, True, True, False]


def test_a_weight_of_nan_reaches_only_matches_that_it_is_in() -> None:
    table = pa.table(
        {"ts": [1, 2, 3, 4], "type": ["A", "B", "A", "B"], "x": [1.0, float("nan"), 2.0, 3.0]}
    )
    compiled = query("RETURN COUNT(*), SUM(B.x) PATTERN SEQ(A, B) WITHIN 2 us")
    assert str(compiled.run(table)["sum_B_x"].to_pylist()) == "[nan, 3.0]"
