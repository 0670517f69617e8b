"""Queries with edge predicates give what the oracle gives, whatever evaluator runs them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.amount import share
from tests.engine.comparison import same_rows, supported, table_of

from cepheid.api import CompiledQuery, query
from cepheid.kernels.ring import MERSENNE
from cepheid.kinds.trend.planning.granularity import legal_evaluators
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.snapshot import state_from_bytes, state_to_bytes
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.testing.query_strategies import Case, cases

pytestmark = pytest.mark.timeout(900)  # kernels compile on first use

FALLING = "RETURN COUNT(*) PATTERN A+ WHERE A.price > NEXT(A).price"


def evaluators_of(compiled: CompiledQuery) -> Iterator[CompiledQuery]:
    """Yield a query with every evaluator that can answer it."""
    for evaluator in legal_evaluators(TrendPlan.of(compiled.plan)):
        yield compiled.with_evaluator(evaluator.value)


def check(compiled: CompiledQuery, events: Sequence[Mapping[str, object]], rows: int) -> None:
    """Compare all evaluators with the oracle, the stream cut into batches."""
    expected = evaluate(compiled.tree, events)
    for forced in evaluators_of(compiled):
        actual = run_table(forced.plan, table_of(events), batch_rows=rows).to_pylist()
        name = forced.plan.choice.evaluator.value
        assert same_rows(actual, expected), f"{name}: {actual} instead of {expected}"


@settings(max_examples=min(settings().max_examples, 300))  # each with every evaluator
@given(cases(), st.integers(1, 8))
def test_random_queries_equal_the_oracle_with_every_evaluator(case: Case, rows: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume(case.events and "MATCHES" not in case.query and supported(compiled))
    check(compiled, case.events, rows)


@given(cases(), st.integers(1, 4))
def test_restarting_after_every_batch_changes_nothing(case: Case, rows: int) -> None:
    compiled = query(case.query, schema=case.schema)
    assume("MATCHES" not in case.query and supported(compiled))
    compiled = list(evaluators_of(compiled))[-1]
    table, data, found = table_of(case.events), b"", []
    for offset in range(0, len(table), rows):
        job = Job(TrendPlan.of(compiled.plan))
        state = state_from_bytes(job, data) if data else PartitionState(job)
        state, new = step(job, state, table.slice(offset, rows))
        found += build_table(job, new, state.keys, table.schema).to_pylist()
        data = state_to_bytes(job, state)
    if data:
        job = Job(TrendPlan.of(compiled.plan))
        state, new = finish(job, state_from_bytes(job, data))
        found += build_table(job, new, state.keys, table.schema).to_pylist()
    expected = evaluate(compiled.tree, case.events)
    assert same_rows(sorted(found, key=_place), sorted(expected, key=_place))


def _place(row: Mapping[str, object]) -> str:
    return f"{row.get('window_start')} {row.get('key')} {row.get('zone')}"


PATTERNS = [
    "A+",
    "SEQ(A+, B)",
    "(SEQ(A+, B))+",
    "SEQ(A+, NOT C, B)",
    "SEQ(NOT C, A+)",
    "SEQ(A+, NOT C)",
    "(SEQ(A, NOT C, A))+",
    "SEQ(A, NOT SEQ(C, NOT B, C), A+)",
]
PRICES = [5.0, 3.0, float("nan"), None, -0.0, 0.0]


@share(4)
@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "<>"])
def test_all_small_streams(semantics: str, operator: str) -> None:
    # Every stream of three events is the stream of a key of its own, in one run.
    letters = list(itertools.product("ABC", PRICES))
    streams = list(itertools.product(letters, repeat=2)) + [
        (first, middle, last)
        for first, middle, last in itertools.product(letters[::2], letters, letters[1::3])
    ]
    # Each of them once with different times and once with a tie at either end.
    events = [
        {"ts": times[place] * 1_000_000, "type": letter, "price": price, "key": f"{number}-{times}"}
        for place in range(3)
        for number, found in enumerate(streams)
        for times in ((0, 1, 2), (0, 1, 1), (0, 0, 1))
        if place < len(found)
        for letter, price in [found[place]]
    ]
    events.sort(key=lambda event: str(event["ts"]).zfill(9))
    for pattern in PATTERNS[::3] if operator in "<>=" else PATTERNS[1::3]:
        text = (
            f"RETURN COUNT(*), MIN(A.price) PATTERN {pattern} SEMANTICS {semantics} "
            f"WHERE A.price {operator} NEXT(A).price GROUP-BY key"
        )
        if "A, NOT" not in pattern and "A+" not in pattern:
            continue
        check(query(text), events, 1 << 20)


@pytest.mark.parametrize(
    ("semantics", "prices", "count"),
    [
        ("next", [5, 3, 6], 5),  # COGRA's Algorithm 3 counts 4 (§3.5)
        ("any", [5, 3, 6], 5),
        ("contiguous", [5, 3, 6], 4),
    ],
)
def test_rising_prices(semantics: str, prices: list[int], count: int) -> None:
    text = f"RETURN COUNT(*) PATTERN A+ SEMANTICS {semantics} WHERE A.price < NEXT(A).price"
    events = stream(" ".join(f"a{i + 1}(price={p}.0)" for i, p in enumerate(prices)))
    for forced in evaluators_of(query(text)):
        assert run_table(forced.plan, table_of(events)).to_pylist() == [{"count": count}]


def big_integer_count(prices: Sequence[float], modulus: int) -> int:
    """Count falling trends by the definition, with whole numbers of any size."""
    counts: list[int] = []
    for i, price in enumerate(prices):
        counts.append(1 + sum(counts[j] for j in range(i) if prices[j] > price))
    return sum(counts) % modulus


def test_counts_are_exact_modulo_a_prime() -> None:
    prices = np.random.default_rng(1).integers(0, 500, 3000).astype(float)
    table = pa.table({"ts": range(3000), "type": ["A"] * 3000, "price": prices.tolist()})
    for forced in evaluators_of(query(FALLING, schema=table.schema)):
        job = Job(TrendPlan.of(forced.plan), moduli=(MERSENNE,))
        state, _ = step(job, PartitionState(job), table)
        _, rows = finish(job, state)
        assert int(rows[1][0].numbers[0, 0]) == big_integer_count(prices.tolist(), MERSENNE)


@pytest.mark.parametrize("window", ["", "WITHIN 5 s SLIDE 2 s", "WITHIN 4 s"])
def test_exact_numbers(window: str) -> None:
    text = f"{FALLING} AND [key] {window} NUMBERS exact".replace(
        "COUNT(*)", "COUNT(*), SUM(A.volume)"
    )
    words = [f"a{i}(price={i * 7 % 5}.0, volume={i}, key='{'pq'[i % 2]}')" for i in range(1, 12)]
    check(query(text), stream(" ".join(words)), 3)


def test_numbers_beyond_doubles() -> None:
    # n falling prices have 2^n - 1 falling trends.
    table = pa.table({"ts": range(5000), "type": ["A"] * 5000, "price": range(5000, 0, -1)})
    text = FALLING.replace("COUNT(*)", "COUNT(*), LOG2(COUNT(*)), AVG(A.price), MAX(A.price)")
    (row,) = query(text).run(table).to_pylist()
    assert row["count"] == float("inf")
    assert row["log2_count"] == pytest.approx(5000)
    assert row["avg_A_price"] == pytest.approx(2500.5)
    assert row["max_A_price"] == 5000


def test_an_evaluator_that_cannot_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="indexed, pairwise, not linear"):
        query(FALLING).with_evaluator("linear")
    with pytest.raises(ValueError, match="evaluator is one of linear"):
        query(FALLING).with_evaluator("magic")
