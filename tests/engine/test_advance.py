"""A stream that stands still: windows close when time goes on, and idle keys are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, supported, table_of
from tests.engine.test_linear import SCHEMA, linear_queries

from cepheid.api import CompiledQuery, query
from cepheid.arrays.columns import Columns, read_times
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.key_expiry import forget_idle_keys
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import (
    PartitionState,
    advance,
    finish,
    step,
    step_until,
)
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases
from cepheid.testing.strategies import streams

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

SECOND = 1_000_000


def run_with_watermarks(
    compiled: CompiledQuery, events: Sequence[Mapping[str, object]], pace: int, *, in_one: bool
) -> list[dict[str, Any]]:
    """Run a query in steps of a few seconds; after each, time goes on and the state is restored.

    With ``in_one``, one pass takes the events and lets time go on; idle keys are not forgotten.
    """
    table = table_of(events)
    times = read_times(Columns(table), compiled.plan.time)
    job = Job(TrendPlan.of(compiled.plan))
    state = PartitionState(job)
    rows: list[dict[str, Any]] = []
    first_time, last_time = (int(times[0]), int(times[-1])) if len(times) else (0, 0)
    for begin in range(first_time, last_time + 1, pace):
        first, end = np.searchsorted(times, [begin, begin + pace])
        part, until = table.slice(first, end - first), begin + pace
        if in_one:
            state, found = step_until(job, state, part, until)
        else:
            if end > first:
                state, found = step(job, state, part)
                rows += build_table(job, found, state.keys, table.schema).to_pylist()
            state, found = advance(job, state, until)
        rows += build_table(job, found, state.keys, table.schema).to_pylist()
        data = state_to_bytes(job, state if in_one else forget_idle_keys(job, state, until))
        job = Job(TrendPlan.of(compiled.plan))
        state = state_from_bytes(job, data)
    state, found = finish(job, state)
    return rows + build_table(job, found, state.keys, table.schema).to_pylist()


def check(compiled: CompiledQuery, events: Sequence[Mapping[str, object]], pace: int) -> None:
    expected = sorted(evaluate(compiled.tree, events), key=_place)
    for in_one in (False, True):
        rows = run_with_watermarks(compiled, events, pace, in_one=in_one)
        assert same_rows(sorted(rows, key=_place), expected), (in_one, rows, expected)


def _place(row: Mapping[str, object]) -> str:
    return " ".join(str(row.get(n)) for n in ("window_start", "window_end", "key", "zone"))


PACES = st.sampled_from([SECOND // 2, SECOND, 3 * SECOND, 7 * SECOND])


FEW = settings(max_examples=min(settings().max_examples, 40))  # each is several steps


@FEW
@given(linear_queries(), streams(SCHEMA, events_max=7), PACES)
def test_linear_queries(text: str, events: Sequence[Mapping[str, object]], pace: int) -> None:
    check(query(text, schema=SCHEMA), events, pace)


@FEW
@given(cases(), PACES)
def test_queries_that_look_back(case: Case, pace: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume(supported(compiled) and not compiled.plan.lists_matches)
    check(compiled, case.events, pace)


@pytest.mark.parametrize("window", ["WITHIN 4 s SLIDE 4 s", "WITHIN 4 s SLIDE 1 s", "WITHIN 4 s"])
@pytest.mark.parametrize("predicate", ["", "AND A.price < NEXT(A).price"])
def test_keys_that_come_no_more_are_forgotten(window: str, predicate: str) -> None:
    job = Job(
        TrendPlan.of(
            query(
                f"RETURN key, COUNT(*) PATTERN A+ WHERE [key] {predicate} GROUP-BY key {window}"
            ).plan
        )
    )
    assert job.plan.window.kind is not WindowKind.NONE
    state = PartitionState(job)
    rows = 0
    for number in range(0, 100, 2):
        events = table_of(
            stream(f"a{number}(key='{number}', price=1) a{number + 1}(key='{number}', price=2)")
        )
        state, found = step(job, state, events)
        rows += len(build_table(job, found, state.keys, events.schema))
        state, found = advance(job, state, (number + 2) * SECOND)
        rows += len(build_table(job, found, state.keys, events.schema))
        state = forget_idle_keys(job, state, (number + 2) * SECOND)
        assert len(state.keys) <= 4
    assert rows >= 48
