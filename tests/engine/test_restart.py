"""A state survives as bytes: going on from them after any batch gives the same rows."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of
from tests.engine.test_linear import SCHEMA, linear_queries

from cepheid.api import query
from cepheid.errors import DataError
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.plans.plan import TrendPlan
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import streams


@given(linear_queries(), streams(SCHEMA, events_max=7), st.integers(1, 4))
def test_restarting_after_every_batch_changes_nothing(
    text: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    compiled = query(text, schema=SCHEMA)
    table = table_of(events)
    data = b""
    rows = []
    for offset in range(0, len(table), batch_rows):
        # Everything but the bytes is made anew, as after a crash.
        job = Job(TrendPlan.of(compiled.plan))
        state = state_from_bytes(job, data) if data else PartitionState(job)
        state, found = step(job, state, table.slice(offset, batch_rows))
        rows += build_table(job, found, state.keys, table.schema).to_pylist()
        data = state_to_bytes(job, state)
    if data:
        job = Job(TrendPlan.of(compiled.plan))
        state, found = finish(job, state_from_bytes(job, data))
        rows += build_table(job, found, state.keys, table.schema).to_pylist()
    expected = evaluate(compiled.tree, events)
    # Windows counted in events close when they are full, each key at its own time.
    assert same_rows(sorted(rows, key=_place), sorted(expected, key=_place))


def _place(row: Mapping[str, object]) -> str:
    return f"{row.get('window_start')} {row.get('key')}"


def test_a_step_leaves_its_state_alone() -> None:
    job = Job(TrendPlan.of(query("RETURN COUNT(*) PATTERN A+ WHERE [key]").plan))
    first, _ = step(
        job, PartitionState(job), table_of(stream("a1(key='p') a2(key='q') a3(key='p')"))
    )
    before = state_to_bytes(job, first)
    step(job, first, table_of(stream("a4(key='r') a5(key='p')")))
    assert state_to_bytes(job, first) == before


def test_bytes_of_another_query_or_version_are_rejected() -> None:
    job = Job(TrendPlan.of(query("RETURN COUNT(*) PATTERN A").plan))
    data = state_to_bytes(job, PartitionState(job))
    with pytest.raises(DataError, match=r"E524.*another query"):
        state_from_bytes(Job(TrendPlan.of(query("RETURN COUNT(*) PATTERN B").plan)), data)
    with pytest.raises(DataError, match=r"E524.*no state"):
        state_from_bytes(job, b"nonsense")
