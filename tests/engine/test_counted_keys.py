"""COUNT(DISTINCT ...) (§5.6): the oracle's rows in every window, cut anywhere, and merged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.amount import share
from tests.engine.comparison import numbered, same_rows, supported
from tests.runtime.test_stream_state import Live

from cepheid.api import query
from cepheid.jobs.local_jobs import slices_of
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.program.partials import rows_from_table, rows_to_table
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.step import PartitionState, close, feed
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_batches, run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import queries
from cepheid.testing.strategies import streams
from cepheid.workloads import workload

TEXTS = [
    "RETURN COUNT(DISTINCT user), COUNT(*) PATTERN SEQ(A, B) WHERE [user]{}",
    "RETURN COUNT(DISTINCT user, zone), MAX(A.x) PATTERN SEQ(A+, B) WHERE [user, zone]{}",
    "RETURN COUNT(DISTINCT user) AS n PATTERN SEQ(A+, B) WHERE [user] AND A.x < NEXT(A).x "
    "GROUP-BY zone HAVING COUNT(DISTINCT user) >= 1{}",
    "RETURN COUNT(DISTINCT user), COUNT(*) PATTERN SEQ(A, B) WHERE [user] "
    "AFTER MATCH SKIP PAST LAST{}",
    "RETURN COUNT(DISTINCT user), COUNT(*) PATTERN SEQ(A, B) WHERE [user] NUMBERS exact{}",
]
WINDOWS = ["", " WITHIN 20 us SLIDE 10 us", " WITHIN 20 us SLIDE 20 us", " WITHIN 7 us"]


def events() -> pa.Table:
    """Return 120 events of six users in two zones."""
    rows = range(120)
    return pa.table(
        {
            "ts": rows,
            "type": ["AB"[n * n % 7 % 2] for n in rows],
            "user": [n * 5 % 6 for n in rows],
            "zone": ["ns"[n % 3 % 2] for n in rows],
            "x": [n * 7 % 11 for n in rows],
        }
    )


SCHEMA = {"price": "double", "key": "string", "zone": "string"}


@given(queries(SCHEMA, keyed=True), streams(SCHEMA, events_max=7), st.integers(1, 8))
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
        assert same_rows(actual, expected)


@share(3)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_equal_the_oracle_and_a_workload(text: str, window: str) -> None:
    compiled = query(text.format(window))
    table = events()
    found = compiled.run(table)
    expected = evaluate(compiled.tree, table.to_pylist())
    assert expected
    assert same_rows([_plain(row) for row in found.to_pylist()], expected)
    for name in found.column_names:
        if name == "n" or name.startswith("count_distinct"):
            assert found.schema.field(name).type == pa.int64()
    both = workload({"one": text.format(window), "two": TEXTS[0].format(window)})
    mine = both.run(table, separate=True)["one"].to_pylist()
    assert same_rows([_plain(row) for row in mine], expected)


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: int(v) if type(v).__name__ == "Decimal" else v for name, v in row.items()}  # type: ignore[call-overload]  # a decimal is a number


@share(3)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("window", WINDOWS[1:])
def test_live_rows_equal_those_of_a_table(text: str, window: str) -> None:
    compiled, table = query(text.format(window)), events()
    live = Live(compiled, table.schema, delay=0, buckets=2)
    for batch in slices_of(table, 9):
        live.feed(batch)
    live.finish()
    rows = compiled.run(table).to_pylist()
    assert sorted(map(str, live.rows)) == sorted(map(str, rows))


@share(3)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("window", WINDOWS[:3])
def test_partial_rows_of_tasks_are_added_up(text: str, window: str) -> None:
    """Every task has the events of some users."""
    table = events()
    compiled = query(text.format(window)).with_schema(table.schema)
    job = lower(TrendPlan.of(compiled.plan))
    partial = []
    for task in range(3):
        mine = table.filter(pa.array(table["user"].to_numpy() % 3 == task))
        state = PartitionState(job)
        rows = feed(job, state, mine)
        rows = [[*a, *b] for a, b in zip(rows, close(job, state), strict=True)]
        partial.append(rows_to_table(job, rows, state.keys, table.schema))
    merged, keys = rows_from_table(job, pa.concat_tables(partial))
    found = build_table(job, merged, keys, table.schema)
    assert found.to_pylist() == compiled.run(table).to_pylist()
