"""Sliding windows that are kept apart: the same rows as by panes, and as by the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import KINDS, same_rows, table_of
from tests.engine.test_linear import SCHEMA

import cepheid
from cepheid.api import query
from cepheid.kernels import windows_apart
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.program import apart_state
from cepheid.kinds.trend.program.apart_state import ApartRun
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import choice, streams

PATTERNS = [
    "A+", "SEQ(A, B)", "SEQ(A+, B)", "(SEQ(A+, B))+", "SEQ(A, NOT C, B)", "SEQ(NOT C, A, B)",
    "SEQ(A a, A b)",
]  # fmt: skip
RETURNS = ["COUNT(*)", "COUNT(*), SUM(B.price), MIN(B.price), MAX(B.volume)", "AVG(B.volume)"]
MEANINGS = ["", "SEMANTICS skip-till-next-match", "SEMANTICS contiguous"]
KEYS = ["", "WHERE [key] GROUP-BY key", "WHERE [key]", "WHERE [key, zone] GROUP-BY zone"]
ENDS = ["WITHIN 2 s SLIDE 1 s", "WITHIN 6 s SLIDE 2 s", "WITHIN 4 s SLIDE 1 s TIES arrival"]


@contextmanager
def kept_apart(*, always: bool = True) -> Iterator[None]:
    """Keep all sliding windows apart, or none of them."""
    with (
        mock.patch.object(apart_state, "EVENTS_MIN", 1),
        mock.patch.object(ApartRun, "_costs_less", return_value=always),
    ):
        yield


@st.composite
def sliding_queries(draw: st.DrawFn) -> str:
    """Draw a query with windows that overlap."""
    pattern = draw(choice(PATTERNS))
    returned = draw(choice(RETURNS)).replace("B.", "b." if " b" in pattern else "B.")
    returned = returned.replace("B.", "A.") if pattern == "A+" else returned
    meaning, keys, end = (draw(choice(some)) for some in (MEANINGS, KEYS, ENDS))
    return f"RETURN {returned} PATTERN {pattern} {meaning} {keys} {end}"


@given(sliding_queries(), streams(SCHEMA, events_max=9), st.integers(1, 9))
def test_windows_apart_and_panes_and_the_oracle_agree(
    text: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    compiled = query(text, schema=SCHEMA)
    expected = evaluate(compiled.tree, events)
    for always in (True, False):
        with kept_apart(always=always):
            found = run_table(compiled.plan, table_of(events), batch_rows=batch_rows)
        assert same_rows(found.to_pylist(), expected), f"{found} instead of {expected}"


def stream(count: int, keys: int) -> pa.Table:
    types = ["A", "B", "A", "C", "A", "B"] * (count // 6)
    return pa.table(
        {
            "ts": [n * 7 % 11 + 10 * n for n in range(len(types))],
            "type": types,
            "key": [n * n % keys for n in range(len(types))],
            "x": [float(n % 13) for n in range(len(types))],
        }
    )


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (5, "RETURN key, COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] GROUP-BY key {}"),
        (5, "RETURN key, SUM(A.x), MIN(B.x) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key {}"),
        (1, "RETURN LOG2(COUNT(*)) AS bits PATTERN SEQ(A+, B) {}"),
        (9_000, "RETURN key, COUNT(*) PATTERN A+ WHERE [key] GROUP-BY key {}"),
    ],
)  # fmt: skip
def test_counts_of_any_size_and_keys_that_come_and_go(keys: int, text: str, tier: Tier) -> None:
    compiled = query(text.format("WITHIN 20 ms SLIDE 5 ms"))
    events = stream(12_000, keys)
    found = []
    for always in (True, False):
        with kept_apart(always=always), forced(tier):
            found.append(run_table(compiled.plan, events, batch_rows=2_500).to_pylist())
    assert same_rows(*found)
    assert len(found[0]) > 20


@given(sliding_queries(), streams(SCHEMA, events_max=9), st.integers(0, 9))
def test_windows_apart_go_on_from_a_saved_state(
    text: str, events: list[Mapping[str, object]], cut: int
) -> None:
    assume(events)
    compiled = cepheid.query(text, schema=SCHEMA)
    names = [name for name in KINDS if name != "flag"]
    table = table_of([{name: event.get(name) for name in names} for event in events])
    cut = min(cut, len(events))
    with kept_apart():
        first = compiled.live(table.schema, watermark="1 second")
        rows = first.feed(table.slice(0, cut)).to_pylist()
        second = compiled.live(table.schema, watermark="1 second", state=first.save())
        rows += second.feed(table.slice(cut)).to_pylist() + second.close().to_pylist()
    if not first.late and not second.late:
        assert same_rows(rows, evaluate(compiled.tree, events))


SUMMED = {"A+": "A", "SEQ(A, B)": "B", "SEQ(A+, B)": "A", "(SEQ(A+, B))+": "B"}
SUMMED["SEQ(A OR C, B)"] = "B"


@st.composite
def apart_events(draw: st.DrawFn) -> list[Mapping[str, object]]:
    """Draw events with times of their own, some without a value."""
    value = st.sampled_from([1.5, -2.0, None, 0.0, 3.25])
    event = st.tuples(
        st.integers(1, 4), st.sampled_from("ABC"), st.sampled_from("pq"), value, st.integers(-3, 3)
    )
    time, found = 0, list[Mapping[str, object]]()
    for step, kind, key, x, y in draw(st.lists(event, min_size=1, max_size=12)):
        time += step * 500_000
        found.append({"ts": time, "type": kind, "key": key, "price": x, "volume": y})
    return found


@given(st.sampled_from(list(SUMMED)), st.sampled_from(ENDS), apart_events(), st.integers(1, 12))
def test_sums_and_extremes_of_windows_apart_are_those_of_the_oracle(
    pattern: str, end: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    name = SUMMED[pattern]
    items = "COUNT(*), SUM({0}.price), MIN({0}.price), MAX({0}.volume), AVG({0}.volume)"
    text = f"RETURN key, {items.format(name)} PATTERN {pattern} WHERE [key] GROUP-BY key {end}"
    compiled = query(text, schema=SCHEMA)
    called, kernel = list[int](), windows_apart.sum_apart

    def noted(*arguments: Any) -> Any:
        called.append(len(arguments))
        return kernel(*arguments)

    with kept_apart(), mock.patch.object(windows_apart, "sum_apart", noted):
        found = run_table(compiled.plan, table_of(events), batch_rows=batch_rows)
    assert same_rows(found.to_pylist(), evaluate(compiled.tree, events))
    # Which kernel runs is decided by the first events that are processed.
    assert called or batch_rows < len(events)


@pytest.mark.parametrize("worst", [float("nan"), float("inf"), 1e300])
def test_values_that_are_no_numbers_stay_in_their_matches(worst: float) -> None:
    table = pa.table({"ts": range(8), "type": list("AABBCAAB"), "x": [worst] + [1.0] * 7})
    compiled = query("RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WITHIN 4 us SLIDE 2 us")
    rows = []
    for always in (True, False):
        with kept_apart(always=always):
            rows.append(compiled.run(table).to_pylist())
    assert same_rows(*rows)


def test_windows_are_kept_apart_where_sums_of_lanes_cost_less_than_products() -> None:
    table = stream(18_000, 1)
    chosen = []
    for slide in (150, 15_000):
        with mock.patch.object(windows_apart, "sum_apart", wraps=windows_apart.sum_apart) as kernel:
            items = "COUNT(*), SUM(A.x), MIN(A.x)"
            text = f"RETURN {items} PATTERN SEQ(A, B) WITHIN 15 ms SLIDE {slide} us"
            query(text).run(table)
        chosen.append(kernel.called)
    assert chosen == [True, False]
