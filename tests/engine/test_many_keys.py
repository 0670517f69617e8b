"""Many keys: only those that occur are touched, and the rows are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, supported, table_of
from tests.engine.test_linear import SCHEMA, linear_queries
from tests.engine.test_tiers import bits

from cepheid.api import query
from cepheid.arrays import key_values
from cepheid.arrays.key_index import FIRST_ROOM, index_of
from cepheid.kernels.tiers import Tier, forced
from cepheid.kinds.trend.program import open_keys
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.key_expiry import forget_idle_keys
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases
from cepheid.testing.strategies import streams


@contextmanager
def many_keys(share: int) -> Iterator[None]:
    """Treat every number of keys as many; with a share of 0, all events run over their own keys."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(open_keys, "FEW_KEYS", 0))
        stack.enter_context(mock.patch.object(open_keys, "SHARE", share))
        stack.enter_context(mock.patch.object(key_values, "INDEX_FROM", 1))
        yield


@given(cases(), st.integers(1, 8), st.sampled_from([0, 2]))
def test_random_queries_give_the_same_bits(case: Case, rows: int, share: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume(case.events and supported(compiled))
    table = table_of(case.events)
    expected = bits(run_table(compiled.plan, table, batch_rows=rows))
    with many_keys(share):
        assert bits(run_table(compiled.plan, table, batch_rows=rows)) == expected


@given(
    text=linear_queries(),
    events=streams(SCHEMA, events_max=9),
    batch_rows=st.integers(1, 4),
    restarts=st.booleans(),
)
def test_steps_forget_and_restart(
    text: str, events: list[Mapping[str, object]], batch_rows: int, *, restarts: bool
) -> None:
    compiled = query(text, schema=SCHEMA)
    job = Job(TrendPlan.of(compiled.plan))
    table = table_of(events)
    state, rows = PartitionState(job), []
    with many_keys(0):
        for offset in range(0, len(table), batch_rows):
            state, found = step(job, state, table.slice(offset, batch_rows))
            rows += build_table(job, found, state.keys, table.schema).to_pylist()
            if state.last is not None:
                state = forget_idle_keys(job, state, state.last)
            if restarts:
                state = state_from_bytes(job, state_to_bytes(job, state))
        state, found = finish(job, state)
        rows += build_table(job, found, state.keys, table.schema).to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(sorted(rows, key=_place), sorted(expected, key=_place))


def _place(row: Mapping[str, object]) -> str:
    return f"{row.get('window_start')} {row.get('key')}"


@pytest.mark.parametrize("tier", [Tier.INTERPRET, Tier.COMPILE])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.binary()])
def test_an_index_numbers_as_a_dictionary_of_python(kind: pa.DataType, tier: Tier) -> None:
    random = np.random.default_rng(3)
    numbers: dict[object, int] = {}
    with forced(tier):
        index = index_of(pa.array([], kind))
        assert index is not None
        for _ in range(4):
            # Every value comes about twice, and those of the next round are new in part.
            drawn = pa.array(random.integers(-FIRST_ROOM, FIRST_ROOM, 2 * FIRST_ROOM) ** 3)
            values: Any = drawn if pa.types.is_primitive(kind) else drawn.cast(pa.string())
            values = values.cast(kind)
            got = index.number(values.slice(3)).tolist()
            for value, number in zip(values.to_pylist()[3:], got, strict=True):
                assert numbers.setdefault(value, len(numbers)) == number
        assert index.values(index.count).to_pylist() == list(numbers)
        assert index.count > FIRST_ROOM


def test_a_copy_takes_the_index_and_the_original_goes_on() -> None:
    with mock.patch.object(key_values, "INDEX_FROM", 2):
        first = key_values.KeyValues()
        first.add(pa.array(["a", "b", "c"]))
        first.add(pa.array(["d"]))
        second = first.copy()
        assert second.add(pa.array(["e", "a"])).tolist() == [4, 0]
        assert first.known.to_pylist() == ["a", "b", "c", "d"]
        assert first.add(pa.array(["f", "e"])).tolist() == [4, 5]
        assert second.known.to_pylist() == ["a", "b", "c", "d", "e"]
