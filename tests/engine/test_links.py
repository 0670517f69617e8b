"""Rules of single links, and UNTIL, select the oracle's matches (§3.6, §3.7)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import NUMBER, numbered, readable, same_rows, table_of

from cepheid.api import query
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use


@given(cases(linked=True), st.integers(1, 8))
def test_random_queries_equal_the_oracle(case: Case, rows: int) -> None:
    assume(case.events)
    expected = evaluate(query(case.query).tree, case.events)
    if "RETURN MATCHES" in case.query:
        compiled = query(case.query, schema={**case.schema, NUMBER: "bigint"})
        found = run_table(compiled.plan, numbered(case.events), batch_rows=rows).to_pylist()
        assert readable(found) == readable(expected)
        return
    compiled = query(case.query, schema=case.schema)
    found = run_table(compiled.plan, table_of(case.events), batch_rows=rows).to_pylist()
    assert same_rows(found, expected), f"{found} instead of {expected}"
