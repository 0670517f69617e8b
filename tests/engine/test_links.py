"""Rules of single links, and UNTIL, select the oracle's matches (§3.6, §3.7)."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.amount import share
from tests.engine.comparison import NUMBER, numbered, readable, same_rows, table_of

from cepheid.api import query
from cepheid.language import tree
from cepheid.plans.links import Links
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases
from cepheid.testing.strategies import all_patterns, all_streams

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


@share(4)
@pytest.mark.parametrize("rule", ["any", "next", "contiguous"])
@pytest.mark.parametrize("returned", ["COUNT(*)", "MATCHES"])
def test_one_rule_on_all_links_is_that_semantics(rule: str, returned: str) -> None:
    """Let links close where one rule would do, for all small patterns and streams (§3.6)."""
    events = [
        event | {"key": str(number)}
        for number, stream in enumerate(all_streams("AB", 3))
        for event in stream
    ]
    table = numbered(sorted(events, key=lambda event: int(str(event["ts"]))))
    for pattern, ties in itertools.product(all_patterns("AB", 2), ("strict", "arrival")):
        text = f"RETURN {returned} PATTERN {pattern} SEMANTICS {rule} GROUP-BY key TIES {ties}"
        plan = TrendPlan.of(query(text).plan)
        links = Links(plan.semantics)
        closing = msgspec.structs.replace(plan, semantics=tree.Semantics.BY_LINK, links=links)
        expected = readable(run_table(plan, table).to_pylist())
        assert readable(run_table(closing, table).to_pylist()) == expected, text


def test_a_rule_that_all_links_get_is_no_rule_of_links() -> None:
    plan = TrendPlan.of(query("PATTERN SEQ(A, B+) SEMANTICS any, A TO B next, B TO B next").plan)
    assert plan.links is None
    assert plan.semantics is tree.Semantics.NEXT_MATCH


@pytest.mark.parametrize("pattern", ["(B OR ANY z)+ AND ANY z", "(A OR B)+ AND SEQ(A, B?)"])
@pytest.mark.parametrize("rule", ["next", "contiguous"])
def test_patterns_with_and_have_links_that_one_of_them_lacks(pattern: str, rule: str) -> None:
    link = "B TO z" if "z" in pattern else "A TO B"
    text = f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS any, {link} {rule}"
    for events in all_streams("AB", 3):
        keyed = [event | {"key": "k"} for event in events]
        found = run_table(query(text).plan, numbered(keyed)).to_pylist()
        assert same_rows(found, evaluate(query(text).tree, keyed)), f"{text}: {events}"
