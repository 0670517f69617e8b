"""Queries that list matches give the oracle's matches, whatever their windows and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import table_of

from cepheid.api import CompiledQuery, query
from cepheid.engine.job import Job
from cepheid.engine.listing import finish_matches, step_matches
from cepheid.engine.snapshot import state_from_bytes, state_to_bytes
from cepheid.engine.step import PartitionState
from cepheid.errors import UnsupportedError
from cepheid.runtime.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

NUMBER = "number"
"""A column that tells events apart."""


def numbered(events: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return events as a table, with their numbers."""
    table = table_of(events)
    return table.append_column(NUMBER, pa.array(range(len(table)), pa.int64()))


def readable(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Return rows of the engine in the form of the oracle's, in no order."""
    found: Counter[str] = Counter()
    for row in rows:
        cells = {name: value for name, value in row.items() if name != "match_id"}
        if "events" in row:
            cells["events"] = tuple((e["variable"], e[NUMBER]) for e in row["events"])
        found[repr(sorted(cells.items()))] += 1
    return found


def expected_rows(compiled: CompiledQuery, events: Sequence[Mapping[str, object]]) -> Counter[str]:
    """Return the oracle's rows, in no order."""
    return Counter(repr(sorted(row.items())) for row in evaluate(compiled.tree, events))


def listing(case: Case) -> CompiledQuery:
    """Return the query of a case if it lists matches and can run."""
    assume("RETURN MATCHES" in case.query and case.events)
    compiled = query(case.query, schema={**case.schema, NUMBER: "bigint"})
    try:
        Job(compiled.plan)
    except UnsupportedError:
        assume(False)
    return compiled


@given(cases(), st.integers(1, 8))
def test_random_queries_equal_the_oracle(case: Case, rows: int) -> None:
    compiled = listing(case)
    table = numbered(case.events)
    plan = compiled.plan
    expected = expected_rows(compiled, case.events)
    whole = run_table(plan, table)
    assert readable(whole.to_pylist()) == expected
    # As text, in which NaN equals itself: same rows, same order.
    assert repr(run_table(plan, table, batch_rows=rows).to_pylist()) == repr(whole.to_pylist())


@given(cases(), st.integers(1, 4))
def test_restarting_after_every_batch_changes_nothing(case: Case, rows: int) -> None:
    compiled = listing(case)
    table, data, found = numbered(case.events), b"", []
    plan = compiled.plan
    for offset in range(0, len(table), rows):
        job = Job(plan)
        state = state_from_bytes(job, data) if data else PartitionState(job)
        state, tables = step_matches(job, state, table.slice(offset, rows))
        found += [row for part in tables for row in part.to_pylist()]
        data = state_to_bytes(job, state)
    if data:
        job = Job(plan)
        state, tables = finish_matches(job, state_from_bytes(job, data))
        found += [row for part in tables for row in part.to_pylist()]
    assert repr(found) == repr(run_table(plan, table).to_pylist())
