"""Sweeps on a simulated GPU give the rows of a query for each value, as on the CPU."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows
from tests.sweep.test_one_pass import (
    AGGREGATES,
    CONDITIONS,
    PATTERNS,
    WINDOWS,
    combinations,
    value_by_value,
)

import cepheid
from cepheid.accelerator import sweeping
from cepheid.errors import UnsupportedError
from cepheid.kinds.sweep import device
from cepheid.plans.sweep import SweepPlan
from cepheid.runtimes import device as runtime

pytestmark = pytest.mark.timeout(600)  # kernels compile on first use


def events(seed: int, count: int = 30) -> pa.Table:
    """Draw events without ties and NaN; some values are NULL."""
    draw = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "ts": pa.array(np.sort(draw.choice(40, count, replace=False)) * 1_000_000),
        "type": pa.array(["ABC"[n] for n in draw.integers(0, 3, count)]),
        "k": pa.array([None if n == 3 else int(n) for n in draw.integers(0, 4, count)]),
        "x": pa.array(
            [None if n == 9 else int(n) for n in draw.integers(0, 10, count)], pa.int64()
        ),
        "y": pa.array(draw.integers(0, 12, count) / 10),
    }
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(10))
def test_every_value_has_the_rows_of_its_own_query(seed: int) -> None:
    draw = np.random.default_rng(1000 + seed)

    def one(items: tuple[Any, ...]) -> Any:
        return items[draw.integers(len(items))]

    condition, sweep = one(CONDITIONS)
    where = ["[k]"] * int(draw.integers(2)) + [condition.format(sweep)]
    if draw.integers(2):
        where.append("B.x >= SWEEP q (3, 0, 6)")
    text = (
        f"RETURN {one(AGGREGATES)} PATTERN {one(PATTERNS)}"
        f" SEMANTICS {one(('any', 'next', 'contiguous'))}"
        f" WHERE {' AND '.join(where)} {one(('', 'GROUP-BY k'))} {one(('', 'HAVING COUNT(*) > 1'))}"
        f" {one(WINDOWS)} TIES {one(('strict', 'arrival'))}"
    )
    table, query = events(seed), cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    with (
        patch.multiple(sweeping, RESULTS_MAX=9, CHUNK_EVENTS=4, PART_BYTES=1000, FLAGS_MAX=25),
        patch.object(device, "sweep_segments", wraps=sweeping.sweep_segments) as pairs,
        patch.object(device, "sweep_steps", wraps=sweeping.sweep_steps) as steps,
    ):
        found = query.run(table, device="gpu")
    assert pairs.called or steps.called, text
    assert same_rows(found.to_pylist(), value_by_value(text, combinations(plan), table)), text
    plain = query.run(table)
    assert found.schema == plain.schema
    names = [parameter.name for parameter in plan.parameters]
    assert found.select(names).equals(plain.select(names)), "the order is the CPU's"


def test_counts_beyond_all_doubles_are_for_the_cpu() -> None:
    count = 2000
    types = ["A"] * (count - 1) + ["B"]
    table = pa.table({"ts": list(range(count)), "type": types, "x": [n % 10 for n in range(count)]})
    query = cepheid.query(
        "RETURN LOG2(COUNT(*)) AS n PATTERN SEQ(A+, B) WHERE A.x >= SWEEP least (0, 5)"
    )
    assert same_rows(query.run(table, device="gpu").to_pylist(), query.run(table).to_pylist())


def test_ties_are_for_the_cpu() -> None:
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B) WHERE A.x > SWEEP p (1, 2, 3)")
    table = pa.table({"ts": [1, 1, 2], "type": ["A", "A", "B"], "x": [2, 5, 0]})
    assert query.run(table, device="gpu").equals(query.run(table))


EACH = [
    "RETURN k, COUNT(*), MIN(A.y) PATTERN SEQ(A+, B) WHERE [k] GROUP-BY k "
    "HAVING COUNT(*) > SWEEP p (0, 1, 2)",
    "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WITHIN SWEEP w (5 s, 10 s, 20 s)",
    "RETURN COUNT(*), MAX(S.y) PATTERN A S+ WHERE S.y > NEXT(S).y + SWEEP p (0.0, 0.3) "
    "WITHIN 20 s SLIDE 10 s",
    "RETURN COUNT(*) PATTERN A S+ WHERE S.y > NEXT(S).y AND S.y < SWEEP p (0.5, 1.0) "
    "HAVING COUNT(*) > SWEEP n (1, 9)",
    "RETURN MATCHES PATTERN SEQ(A a, B b) WHERE a.y < b.y WITHIN SWEEP w (2 s, 4 s)",
]


@pytest.mark.parametrize("text", EACH)
def test_values_with_a_query_each_run_on_the_device(text: str) -> None:
    table, query = events(5), cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    assert not plan.thresholds
    assert runtime.least_rows(plan) == runtime.NEVER, "nobody has measured it"
    assert device.DeviceSweep(plan).answer(table, forced=True) is not None
    found, plain = query.run(table, device="gpu"), query.run(table)
    assert len(plain)
    assert found.schema == plain.schema
    assert same_rows(found.to_pylist(), plain.to_pylist())
    names = [parameter.name for parameter in plan.parameters]
    assert found.select(names).equals(plain.select(names)), "the order is the CPU's"


def test_other_sweeps_are_refused() -> None:
    query = cepheid.query(
        "RETURN COUNT(*) PATTERN SEQ(A a+, B b) WHERE a.x < NEXT(a).x "
        "HAVING COUNT(*) > SWEEP p (1, 2)"
    )
    table = pa.table({"ts": [1, 2], "type": ["A", "B"], "x": [1, 2]})
    with pytest.raises(UnsupportedError) as caught:
        query.run(table, device="gpu")
    assert [d.code for d in caught.value.diagnostics] == ["E552"]
