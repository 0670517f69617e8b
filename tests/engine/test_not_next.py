"""NOT NEXT (§2.14): the oracle's rows, laws, and what a live stream needs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import numbered, readable, same_rows, supported, table_of
from tests.engine.test_deadlines import orders
from tests.runtime.test_stream_state import Live

from cepheid.api import query
from cepheid.arrays.columns import Columns
from cepheid.errors import UnsupportedError
from cepheid.jobs.kind import kind_of
from cepheid.jobs.local_jobs import slices_of
from cepheid.runtimes.local import run_batches, run_table
from cepheid.testing.harness import SECOND_US
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import queries
from cepheid.testing.strategies import all_streams, patterns, streams

SCHEMA = {"price": "double", "key": "string"}
SHAPES = [
    "SEQ({p}, NOT NEXT {n}, {q})",
    "SEQ({p}, NOT NEXT {n}{d})",
    "SEQ(NOT NEXT {n}{d}, {p}, {q})",
    "SEQ({p}, {q}, NOT NEXT {n}{d}, {p})",
    "(SEQ({p}, NOT NEXT {n}{d}, {q}))+",
    "SEQ({p}, NOT {q}, NOT NEXT {n}{d}, {q})",
    "SEQ({p}, NOT SEQ({q}, NOT NEXT {n}, {p}), {q})",
    "SEQ({p}, NOT ({q}) WITHIN 2 seconds, NOT NEXT {n}, {q})",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a query whose pattern has a NOT NEXT."""
    small = patterns(negation=False, leaves_max=2)
    named = {"p": draw(small), "q": draw(small)}
    named["n"] = draw(st.sampled_from(["A", "B", "A x", "ANY z", "(A OR B y)"]))
    named["d"] = draw(st.sampled_from(["", "", " WITHIN 1 seconds", " WITHIN 3 seconds"]))
    pattern = draw(st.sampled_from(SHAPES)).format(**named)
    return draw(queries(SCHEMA, pattern=st.just(pattern)))


@given(texts(), streams(SCHEMA, events_max=7), st.integers(1, 8))
def test_random_queries_equal_the_oracle(
    text: str, drawn: list[dict[str, object]], batch_rows: int
) -> None:
    assume(drawn)
    table = numbered(drawn)
    compiled = query(text).with_schema(table.schema)
    assume(supported(compiled))
    expected = evaluate(compiled.tree, drawn)
    whole = run_table(compiled.plan, table, batch_rows=batch_rows)
    parts = run_batches(compiled.plan, slices_of(table, batch_rows), table.schema)
    for actual in (whole.to_pylist(), parts.to_pylist()):
        if compiled.plan.lists_matches:
            assert readable(actual) == readable(expected)
        else:
            assert same_rows(actual, expected)


PATTERNS = [
    "SEQ(A, NOT NEXT B)",
    "SEQ(NOT NEXT B, A)",
    "SEQ(A x, NOT NEXT B, A y)",
    "SEQ(A, NOT NEXT B, ANY z)",
    "SEQ(A, NOT NEXT (A x OR B y), B)",
    "SEQ(A, NOT NEXT B WITHIN 1 s)",
    "SEQ(NOT NEXT ANY z WITHIN 1 s, A)",
    "SEQ(A, NOT SEQ(B, NOT NEXT A z) WITHIN 2 s)",
    "(SEQ(A, NOT NEXT B))+",
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
    for ties in ("strict", "arrival"):
        text = f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics} GROUP-BY key TIES {ties}"
        compiled = query(text)
        actual = compiled.run(table_of(events)).to_pylist()
        assert same_rows(actual, evaluate(compiled.tree, events)), ties


def test_not_next_any_is_a_gap_at_the_end_and_nothing_between() -> None:
    """No event directly after is no event at all."""
    events = orders(list(range(20)), "AABABBAAABABABBBAABA")
    one = query("RETURN COUNT(*) PATTERN SEQ(A, NOT NEXT ANY x)").run(events).to_pylist()
    two = query("RETURN COUNT(*) PATTERN SEQ(A, NOT ANY x)").run(events).to_pylist()
    assert one == two == [{"count": 1}]
    assert not query("RETURN COUNT(*) PATTERN SEQ(A, NOT NEXT ANY x, B)").run(events).to_pylist()


def test_a_live_stream_needs_a_limit_unless_the_window_is_one() -> None:
    schema = orders([], "").schema
    for text in (
        "RETURN COUNT(*) PATTERN SEQ(A, NOT NEXT B) WITHIN 10 s SLIDE 10 s",
        "RETURN COUNT(*) PATTERN SEQ(NOT NEXT B, A) WITHIN 10 s SLIDE 10 s",
        "RETURN MATCHES PATTERN SEQ(A, NOT NEXT B)",
    ):
        with pytest.raises(UnsupportedError, match="E405"):
            Live(query(text), schema, delay=0)
    Live(query("RETURN COUNT(*) PATTERN SEQ(A, NOT NEXT B, A y) WITHIN 10 s"), schema, delay=0)
    Live(query("RETURN MATCHES PATTERN SEQ(A, NOT NEXT B WITHIN 5 s)"), schema, delay=0)


def test_a_live_row_leaves_when_its_time_has_passed() -> None:
    """c2 comes directly after a1; b6 comes directly after a5, and b9 5 seconds after a4."""
    live = Live(
        query("RETURN MATCHES PATTERN SEQ(A, NOT NEXT B WITHIN 5 s)"),
        orders([], "").schema,
        delay=0,
    )
    for second, kind in ((1, "A"), (2, "C"), (3, "B"), (5, "A"), (6, "B"), (7, "A"), (12, "B")):
        live.feed(orders([second], kind))
    live.finish()
    assert [row["events"][0]["ts"] // SECOND_US for row in live.rows] == [1, 7]


def test_all_events_count_before_they_have_marks() -> None:
    events = orders([1, 2, 3], "ABC")
    plan = query("PATTERN SEQ(A, NOT NEXT B)").with_schema(events.schema).plan
    keeps = kind_of(plan).keeps(plan)
    assert keeps is None or keeps(Columns(events)).all()


@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_windows_bound_what_lies_between(batch_rows: int) -> None:
    events = orders([1, 2, 3, 11, 12, 30, 31], "ACBABAB")
    compiled = query("RETURN COUNT(*) PATTERN SEQ(A, NOT NEXT C, B) WITHIN 10 s SLIDE 10 s")
    plan = compiled.with_schema(events.schema).plan
    parts = run_batches(plan, slices_of(events, batch_rows), events.schema)
    assert [row["window_start"] // SECOND_US for row in parts.to_pylist()] == [10, 30]
    assert pa.types.is_floating(parts.schema.field("count").type)
