"""Many situations in one pattern, join orders that change, and plans that agree."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import cepheid
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.join_order import order_joins
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations
from cepheid.kinds.situation.tuning import Tuning
from cepheid.plans.plan import SituationPlan
from cepheid.plans.situations import SituationConstraint

BEFORE, DURING = 1 << 0, 1 << 8


def test_a_pattern_of_twenty_situations_in_a_row() -> None:
    count = 20
    names = [f"S{n}" for n in range(count)]
    define = ", ".join(f"{name} AS v = {n}" for n, name in enumerate(names))
    pattern = " AND ".join(f"{a} meets {b}" for a, b in itertools.pairwise(names))
    values = [*range(count), *range(0, count, 2), *range(count), 99]
    table = pa.table({"ts": range(len(values)), "v": values})
    query = cepheid.query(f"DEFINE {define} PATTERN {pattern} WITHIN 1 s RETURN FIRST(S0.ts) AS t")
    assert query.run(table).to_pylist() == [{"ts": 20, "t": 0}, {"ts": 50, "t": 30}]
    early = cepheid.query(f"DEFINE {define} PATTERN {pattern} RETURN COUNT(S19) AS n")
    assert early.run(table).to_pylist() == [{"ts": 19, "n": 1}, {"ts": 49, "n": 1}]


def test_all_of_seventeen_situations_at_once() -> None:
    names = [f"S{n}" for n in range(17)]
    define = ", ".join(f"{name} AS v > {n}" for n, name in enumerate(names))
    pattern = " AND ".join(f"{a} contains {b}" for a, b in itertools.pairwise(names))
    values = [*range(18), *range(18, -1, -1)]
    table = pa.table({"ts": range(len(values)), "v": values})
    query = cepheid.query(f"DEFINE {define} PATTERN {pattern} RETURN COUNT(S0) AS n")
    # The outermost goes on when the next one ends, and all others have ended before.
    assert query.run(table).to_pylist() == [{"ts": 35, "n": 35}]


def random_table(count: int, rates: tuple[float, float, float], *, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {"ts": pa.array(np.arange(count) * 1000)}
    for name, rate in zip("abc", rates, strict=True):
        columns[name] = pa.array(np.cumsum(random.random(count) < rate) % 2 == 1)
    return pa.table(columns)


@pytest.mark.parametrize("window", ["WITHIN 60 ms", "DETECTED WITHIN 60 ms"])
def test_every_join_order_finds_the_same_matches(window: str) -> None:
    text = "DEFINE A AS a, B AS b, C AS c PATTERN A before;overlaps B AND B contains;before C "
    table = random_table(3000, (0.3, 0.1, 0.4), seed=3)
    job = SituationJob(
        SituationPlan.of(cepheid.query(text + window).with_schema(table.schema).plan)
    )
    results = []
    for orders in itertools.product(*([(1, 2), (2, 1)], [(0, 2), (2, 0)], [(0, 1), (1, 0)])):
        start = SituationState.start(job)
        state = start._replace(tuning=start.tuning._replace(orders=orders, fixed=True))
        found = []
        for offset in range(0, len(table), 500):
            state, rows = step_situations(job, state, table.slice(offset, 500))
            found.append(rows)
        found.append(finish_situations(job, state, table.schema)[1])
        results.append(pa.concat_tables(found).to_pylist())
    assert results[0]
    assert all(rows == results[0] for rows in results)


def test_orders_change_when_rates_do() -> None:
    text = "DEFINE A AS a, B AS b, C AS c PATTERN A before B AND B before C AND A before C "
    parts = [random_table(4000, (0.5, 0.5, 0.01), seed=1)]
    parts.append(random_table(4000, (0.01, 0.5, 0.5), seed=2))
    late = parts[1].set_column(0, "ts", pa.array(np.arange(4000, 8000) * 1000))
    job = SituationJob(
        SituationPlan.of(
            cepheid.query(f"{text} DETECTED WITHIN 100 ms").with_schema(late.schema).plan
        )
    )
    state = SituationState.start(job)
    seen: list[Tuning] = []
    for table in (parts[0], late):
        for offset in range(0, len(table), 200):
            state, _ = step_situations(job, state, table.slice(offset, 200))
        seen.append(state.tuning)
    assert seen[0].orders[1] == (2, 0)
    assert seen[1].orders[1] == (0, 2)


@pytest.mark.parametrize("window", ["WITHIN 90 ms", "DETECTED WITHIN 90 ms"])
def test_leaving_out_what_has_no_partner_changes_nothing(window: str) -> None:
    text = "DEFINE A AS a, B AS b, C AS c PATTERN A {0} B AND B {1} C "
    table = random_table(2000, (0.3, 0.2, 0.4), seed=5)
    seen = 0
    for one, two in itertools.product(
        ("starts", "meets;finishes", "overlapped by;after"), repeat=2
    ):
        query = cepheid.query(text.format(one, two) + window).with_schema(table.schema)
        job = SituationJob(SituationPlan.of(query.plan))
        results = []
        for prunes in (False, True):
            start = SituationState.start(job)
            state = start._replace(tuning=start.tuning._replace(prunes=prunes, fixed=True))
            found = []
            for offset in range(0, len(table), 700):
                state, rows = step_situations(job, state, table.slice(offset, 700))
                found.append(rows)
            found.append(finish_situations(job, state, table.schema)[1])
            results.append(pa.concat_tables(found))
        assert results[0].equals(results[1])
        seen += len(results[0])
    assert seen


def test_joins_without_a_constraint_come_last() -> None:
    constraints = [SituationConstraint(0, 1, BEFORE), SituationConstraint(1, 3, DURING)]
    sizes, shares = [10.0, 1000.0, 1.0, 1000.0], [0.4, 0.01]
    assert order_joins(4, constraints, sizes, shares)[0] == (1, 3, 2)
    many = [SituationConstraint(n, n + 1, DURING) for n in range(17)]
    orders = order_joins(18, many, [100.0] * 18, [0.01] * 17)
    assert orders[0] == tuple(range(1, 18))
    assert all(sorted(order) == [n for n in range(18) if n != i] for i, order in enumerate(orders))


def test_a_step_that_would_hold_too_much_is_cut() -> None:
    table = random_table(400, (0.5, 0.5, 0.5), seed=4)
    text = "DEFINE A AS a, B AS b PATTERN A before B WITHIN 60 s RETURN COUNT(A) AS n"
    query = cepheid.query(text)
    expected = query.run(table)
    with cepheid.limits(state=1 << 13):
        assert query.run(table).equals(expected)
    with cepheid.limits(state=1 << 6), pytest.raises(cepheid.DataError, match="E519"):
        query.run(table)
