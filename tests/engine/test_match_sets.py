"""Lists of sets of matches (§2.10) against the oracle: in steps, in ranges of time, and live."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, readable, supported
from tests.runtime.test_stream_state import Live, parts, shuffled

import cepheid
from cepheid.api import CompiledQuery
from cepheid.errors import DataError, UnsupportedError
from cepheid.runtimes.local import run_table
from cepheid.testing import evaluate
from cepheid.testing.query_strategies import Case, conjunctions
from cepheid.testing.strategies import schemas, streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

FEW = settings(max_examples=min(settings().max_examples, 100))  # each runs several times
SECOND = 1_000_000


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a query that lists sets, and a stream."""
    schema = draw(schemas())
    events = draw(streams(schema, events_max=6))
    return Case(draw(conjunctions(schema, listed=True)), schema, events)


def compiled(case: Case) -> tuple[CompiledQuery, pa.Table]:
    assume(case.events)
    table = numbered(case.events)
    query = cepheid.query(case.query, schema={**case.schema, NUMBER: "bigint"})
    assume(supported(query))
    return query, table


@FEW
@given(cases(), st.integers(1, 3))
def test_random_queries_list_the_sets_of_the_oracle(case: Case, rows: int) -> None:
    query, table = compiled(case)
    expected = readable(evaluate(query.tree, case.events))
    for size in (rows, 100):
        assert readable(run_table(query.plan, table, batch_rows=size).to_pylist()) == expected


@FEW
@given(cases(), st.integers(0, 1000))
def test_live_streams_list_the_sets_of_a_run(case: Case, seed: int) -> None:
    query, table = compiled(case)
    delay = (0, SECOND, 4 * SECOND)[seed % 3]
    try:
        live = Live(query, table.schema, delay=delay)
    except UnsupportedError:
        return
    mixed = shuffled(table, 0 if live.plan.orders_ties else delay, seed)
    for part in parts(mixed, 1 + seed % 4):
        live.feed(part)
    live.finish()
    assert readable(live.rows) == readable(run_table(live.plan, table).to_pylist())


def stream(count: int) -> pa.Table:
    return pa.table({"ts": range(count), "type": ["A", "B"] * (count // 2)})


def test_rows_come_in_the_order_of_last_events_and_limit_stops() -> None:
    text = "RETURN MATCHES PATTERN A AND SEQ(A, B) AND B WITHIN 6 us SLIDE 2 us"
    rows: list[dict[str, Any]] = cepheid.query(text).run(stream(12)).to_pylist()
    assert len(rows) > 10
    assert [row["match_id"] for row in rows] == list(range(1, len(rows) + 1))
    ends = [row["events"][-1]["ts"] for row in rows]
    assert ends == sorted(ends)
    assert ends == [max(e["ts"] for e in row["events"]) for row in rows]
    assert cepheid.query(f"{text} LIMIT 7").run(stream(12)).to_pylist() == rows[:7]


def test_more_matches_than_the_limit_are_refused() -> None:
    query = cepheid.query("RETURN MATCHES PATTERN A+ AND B")
    with cepheid.limits(rows=1000), pytest.raises(DataError) as caught:
        query.run(stream(60))
    assert caught.value.diagnostics[0].code == "E512"
