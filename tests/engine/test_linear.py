"""Linear queries give what the oracle gives: random ones, and all small ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, supported, table_of

from cepheid.api import query
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.strategies import all_patterns, all_streams, choice, patterns, streams

SCHEMA = {
    "ts": "timestamp",
    "type": "string",
    "price": "double",
    "volume": "int",
    "key": "string",
    "zone": "string",
}
pytestmark = pytest.mark.timeout(600)  # kernels compile on first use

WINDOWS = [
    "",
    "WITHIN 2 s SLIDE 2 s",
    "WITHIN 4 s SLIDE 1 s",
    "WITHIN 3 s SLIDE 2 s",
    "WITHIN 2 s",
    "WITHIN 3 s EMIT ON EXPIRY",
    "WITHIN 3 EVENTS SLIDE 1 EVENT",
    "WITHIN 4 EVENTS SLIDE 2 EVENTS",
]


def check(text: str, events: list[Mapping[str, object]], batch_rows: int) -> None:
    """Compare engine and oracle, the stream cut into batches."""
    compiled = query(text, schema=SCHEMA)
    actual = run_table(compiled.plan, table_of(events), batch_rows=batch_rows).to_pylist()
    expected = evaluate(compiled.tree, events)
    assert same_rows(actual, expected), f"{actual} instead of {expected}"


def bound_variables(pattern: str) -> list[str]:
    """Return the variables that a match can bind."""
    compiled = query(f"RETURN COUNT(*) PATTERN {pattern}")
    return sorted(TrendPlan.of(compiled.plan).patterns[0].variables())


def runnable(clauses: list[str]) -> str:
    """Return the text of a drawn query if the engine does not refuse it."""
    text = " ".join(clause for clause in clauses if clause)
    assume(supported(query(text, schema=SCHEMA)))
    return text


@st.composite
def linear_queries(draw: st.DrawFn) -> str:
    """Draw a query without edge predicates that returns several aggregates."""
    pattern = draw(patterns(leaves_max=4))
    variables = bound_variables(pattern)
    one = st.sampled_from(variables)
    items = ["COUNT(*)"]
    for function in draw(
        st.sets(st.sampled_from(["COUNT", "SUM", "AVG", "MIN", "MAX"]), max_size=4)
    ):
        name = draw(one)
        attribute = draw(choice(["price", "volume"]))
        items.append(
            f"{function}({name})" if function == "COUNT" else f"{function}({name}.{attribute})"
        )
    where = draw(choice(["", "[key]", "[key, zone]"]))
    if draw(st.booleans()):
        local = f"{draw(one)}.{draw(choice(['price', 'volume']))} > 1"
        where = f"{where} AND {local}" if where else local
    parts = [
        f"RETURN {', '.join(sorted(set(items)))}",
        f"PATTERN {pattern}",
        f"SEMANTICS {draw(choice(['any', 'next', 'contiguous']))}",
        f"WHERE {where}" if where else "",
        draw(choice(["", "GROUP-BY key"])),
        draw(choice(WINDOWS)),
        draw(choice(["", "", "TIES arrival"])),
        draw(choice(["", "", "MIN LENGTH 2"])),
        draw(choice(["", "", "HAVING COUNT(*) > 1"])),
    ]
    return runnable(parts)


@given(linear_queries(), streams(SCHEMA, events_max=7), st.integers(1, 8))
def test_random_queries_equal_the_oracle(
    text: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(text, events, batch_rows)


@st.composite
def conjunctions(draw: st.DrawFn) -> str:
    """Draw a query that makes sets of matches."""
    small = patterns(leaves_max=2)
    groups = ["", "WHERE [key]", "GROUP-BY key", "WHERE [key] GROUP-BY zone"]
    parts = [
        f"RETURN COUNT(*) PATTERN {draw(small)} AND {draw(small)}",
        f"SEMANTICS {draw(choice(['any', 'next', 'contiguous']))}",
        draw(choice(groups)),
        draw(choice(WINDOWS)),
        draw(choice(["", "TIES arrival"])),
        draw(choice(["", "", "MIN LENGTH 2"])),
        draw(choice(["", "", "NUMBERS exact"])),
    ]
    return runnable(parts)


@given(conjunctions(), streams(SCHEMA, events_max=6), st.integers(1, 7))
def test_random_conjunctions_equal_the_oracle(
    text: str, events: list[Mapping[str, object]], batch_rows: int
) -> None:
    check(text, events, batch_rows)


def keyed_streams(events_max: int) -> list[dict[str, object]]:
    """Return all small streams over three types as one, each with a key of its own."""
    found = [
        dict(event) | {"key": f"{number:05}"}
        for number, events in enumerate(all_streams(("A", "B", "C"), events_max))
        for event in events
    ]
    return sorted(found, key=lambda event: int(str(event["ts"])))


def check_all_streams(pattern: str, semantics: str, events: list[dict[str, object]]) -> None:
    text = f"RETURN COUNT(*) PATTERN {pattern} SEMANTICS {semantics} GROUP-BY key"
    compiled = query(text)
    actual = compiled.run(table_of(events)).to_pylist()
    assert same_rows(actual, evaluate(compiled.tree, events)), pattern


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_small_patterns_over_all_small_streams(semantics: str) -> None:
    events = keyed_streams(3)
    for pattern in list(all_patterns(("A", "B"), 2))[::3]:
        check_all_streams(pattern, semantics, events)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_all_patterns_of_three_operators_over_all_streams_of_five_events(semantics: str) -> None:
    events = keyed_streams(5)
    for pattern in all_patterns(("A", "B"), 3):
        check_all_streams(pattern, semantics, events)


def test_counts_beyond_the_range_of_doubles() -> None:
    text = "RETURN COUNT(*), LOG2(COUNT(*)), AVG(A.price), MIN(A.price), SUM(A.price) PATTERN A+"
    events = stream(" ".join(f"a{i}(price={i % 7}.0)" for i in range(1, 3001)))
    (row,) = run_table(query(text).plan, table_of(events)).to_pylist()
    assert row["count"] == float("inf")
    assert row["log2_count"] == pytest.approx(3000.0)
    assert row["avg_A_price"] == pytest.approx(sum(i % 7 for i in range(1, 3001)) / 3000)
    assert row["min_A_price"] == 0.0


def test_a_small_sum_beside_a_huge_count_is_kept() -> None:
    # Only (b1) has a B; the shared exponent of 2^3000 trends of A would drown it.
    events = stream("b1(price=2.5) " + " ".join(f"a{i}" for i in range(2, 3002)))
    text = "RETURN COUNT(*), SUM(B.price), MIN(B.price) PATTERN A+ OR B"
    (row,) = run_table(query(text).plan, table_of(events)).to_pylist()
    assert row["sum_B_price"] == 2.5
    assert row["min_B_price"] == 2.5
