"""All values in one pass give the rows of a query for each value."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows

import cepheid
from cepheid.arrays.columns import Columns
from cepheid.kinds.sweep import grid, leaves
from cepheid.kinds.sweep import run as one_pass
from cepheid.kinds.sweep.leaves import Scale
from cepheid.language.parser import parse
from cepheid.plans.sweep import SweepPlan, Way

AGGREGATES = ("COUNT(*)", "COUNT(*), SUM(A.x), MIN(A.y), MAX(B.x)", "LOG2(COUNT(*)), AVG(B.y)")
WINDOWS = ("", "WITHIN 7 s SLIDE 7 s", "WITHIN 9 s SLIDE 6 s", "WITHIN 8 s SLIDE 2 s")
PATTERNS = ("SEQ(A+, B)", "SEQ(A, B+)", "(SEQ(A, B?))+", "SEQ(A, A a2, B)")
CONDITIONS = (
    ("A.x > {}", "SWEEP p (0 TO 9 STEP 1)"),
    ("{} >= A.x", "SWEEP p (7, 1.5, 4, -1)"),
    ("B.y < {}", "SWEEP p (0.25 TO 1 STEP 0.25)"),
    ("A.x + A.y <= {}", "SWEEP p (9 TO 1 STEP -2)"),
)


def events(seed: int, count: int = 60) -> pa.Table:
    """Draw events with ties, keys, NULL and NaN."""
    draw = np.random.default_rng(seed)
    x = [None if n == 9 else int(n) for n in draw.integers(0, 10, count)]
    y = [(None, math.nan, 0.5)[n] if n < 3 else n / 10 for n in draw.integers(0, 12, count)]
    return pa.table(
        {
            "ts": pa.array(np.sort(draw.integers(0, 30, count)) * 1_000_000),
            "type": ["ABC"[n] for n in draw.integers(0, 3, count)],
            "k": pa.array([None if n == 3 else int(n) for n in draw.integers(0, 4, count)]),
            "x": pa.array(x, pa.int64()),
            "y": pa.array(y, pa.float64()),
        }
    )


Row = dict[str, Any]


def value_by_value(text: str, values: list[Row], table: pa.Table) -> list[Row]:
    """Run the query with each combination of values in the places of its parameters."""
    rows = []
    for combination in values:
        plain = text
        for name, value in combination.items():
            begin = plain.index(f"SWEEP {name} (")
            plain = plain[:begin] + f"{value}" + plain[plain.index(")", begin) + 1 :]
        rows += [combination | row for row in cepheid.query(plain).run(table).to_pylist()]
    return rows


def combinations(plan: SweepPlan) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for parameter in plan.parameters:
        found = [c | {parameter.name: value} for c in found for value in parameter.values]
    return found


@pytest.mark.parametrize("seed", range(24))
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
    table = events(seed)
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    assert {parameter.way for parameter in plan.parameters} == {Way.ONE_PASS}, text
    expected = value_by_value(text, combinations(plan), table)
    small = int(draw.integers(2, 9))
    counted = patch.object(grid, "EVENTS_MIN", one((1, 256)))
    with counted, patch.multiple(one_pass, BLOCK_EVENTS=small, GRID_EVENTS=2, CELLS_MAX=4):
        found = query.run(table).to_pylist()
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
        pieces = query.run(reader).to_pylist()
    assert same_rows(found, expected), text
    assert same_rows(pieces, expected), text


def test_counts_beyond_all_doubles() -> None:
    count = 3000
    types = ["A"] * (count - 1) + ["B"]
    table = pa.table({"ts": range(count), "type": types, "x": [n % 10 for n in range(count)]})
    found = cepheid.query(
        "RETURN LOG2(COUNT(*)) AS n PATTERN SEQ(A+, B) WHERE A.x >= SWEEP least (0, 5, 9)"
    ).run(table)
    assert found["least"].to_pylist() == [0, 5, 9]
    assert found["n"].to_pylist() == pytest.approx([2999, 1499, math.log2(2.0**299 - 1)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("least", [1, 256])
def test_every_cell_of_a_grid_has_the_rows_of_its_own_query(seed: int, least: int) -> None:
    text = (
        "RETURN k, COUNT(*) PATTERN SEQ(A+, B) WHERE [k] AND A.x > SWEEP p (6, 1.5, 3, -1) "
        "AND B.y < SWEEP q (0.25 TO 1 STEP 0.25) GROUP-BY k WITHIN 20 s SLIDE 20 s TIES arrival"
    )
    table = events(100 + seed, 120)
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    with patch.object(grid, "EVENTS_MIN", least):
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=40))
        with patch("cepheid.kinds.trend.local.local_jobs.BATCH_ROWS", 40):
            found = query.run(reader).to_pylist()
    assert same_rows(found, value_by_value(text, combinations(plan), table))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("window", ["", "WITHIN 20 s SLIDE 20 s", "WITHIN 12 s SLIDE 4 s"])
@pytest.mark.parametrize("pattern", ["SEQ(A+, B)", "(SEQ(A+, B))+", "SEQ(A, B, A a2)"])
def test_every_cell_of_a_grid_has_the_aggregates_of_its_own_query(
    seed: int, window: str, pattern: str
) -> None:
    text = (
        "RETURN k, COUNT(*), SUM(A.x) AS s, AVG(B.w), MIN(A.w), MAX(B.x) AS m "
        f"PATTERN {pattern} WHERE [k] AND A.x > SWEEP p (6, 1.5, 3, -1) "
        f"AND B.w < SWEEP q (-3 TO 3 STEP 1.5) GROUP-BY k {window} TIES arrival"
    )
    draw = np.random.default_rng(seed)
    # A sum of a NaN is left to other ways.
    weights = np.where(draw.random(90) < seed / 100, math.nan, draw.normal(0, 2, 90))
    table = events(200 + seed, 90).append_column("w", pa.array(weights))
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    pieces = patch("cepheid.kinds.trend.local.local_jobs.BATCH_ROWS", 40)
    with patch.object(grid, "EVENTS_MIN", 1), pieces:
        found = query.run(table).to_pylist()
    assert same_rows(found, value_by_value(text, combinations(plan), table))


@pytest.mark.parametrize("window", ["", "WITHIN 2400 us SLIDE 800 us"])
def test_sums_of_a_grid_beyond_all_doubles(window: str) -> None:
    count = 2400
    types = ["B" if n % 800 == 799 else "A" for n in range(count)]
    weights = [float(n % 7 - 3) for n in range(count)]
    table = pa.table({"ts": range(count), "type": types, "x": weights})
    text = (
        "RETURN LOG2(COUNT(*)) AS n, AVG(A.x) AS mean, MIN(A.x) AS least PATTERN SEQ(A+, B) WHERE "
        f"A.x >= SWEEP p (-3, 2) AND B.x < SWEEP q (0, 9) {window} TIES arrival"
    )
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    with patch("cepheid.kinds.trend.local.local_jobs.BATCH_ROWS", 700):
        found = query.run(table).to_pylist()
    assert found
    assert same_rows(found, value_by_value(text, combinations(plan), table))


@pytest.mark.parametrize("pieces", [400, 1 << 18])
@pytest.mark.parametrize("early", [False, True])
def test_a_grid_of_counts_beyond_all_doubles(early: bool, pieces: int) -> None:  # noqa: FBT001  # of a test
    count = 2500
    types = ["A"] * count + ["B"]
    if early:
        # One match that ends early is lost beside 2^2000 that do not end: numbers are wide then.
        types[1] = "B"
        types[-1] = "C"
    values = [n % 10 for n in range(count + 1)]
    table = pa.table({"ts": range(count + 1), "type": types, "x": values})
    query = cepheid.query(
        "RETURN LOG2(COUNT(*)) AS n PATTERN SEQ(A+, B) "
        "WHERE A.x >= SWEEP least (0, 5) AND B.x < SWEEP most (1, 9)"
    )
    with patch("cepheid.kinds.trend.local.local_jobs.BATCH_ROWS", pieces):
        found = query.run(table)
    shown = [(row["least"], row["most"], row["n"]) for row in found.to_pylist()]
    if early:
        assert shown == [(0, 9, 0.0)]
    else:
        expected = [(0, 1, 2500.0), (0, 9, 2500.0), (5, 1, 1250.0), (5, 9, 1250.0)]
        assert shown == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("values", [(0, 3, 5), (0.5, 2.0, 3.5), (-(2**53), 2**53)])
def test_ranks_are_where_comparisons_change(operator: str, values: tuple[float, ...]) -> None:
    columns = Columns(
        pa.table(
            {
                "x": pa.array([0, 3, None, 4, -(2**53), 2**53, 2**53 + 1], pa.int64()),
                "y": pa.array([0.5, math.nan, None, -0.0, 2.0, math.inf, 3.4999]),
            }
        )
    )
    for name in ("x", "y"):
        where = parse(f"PATTERN A WHERE A.{name} {operator} 1").where
        assert where is not None
        scale = Scale(np.array(values), np.arange(len(values)), operator, where.left, 1)  # type: ignore[union-attr]  # a comparison
        ranks = scale.ranks(columns)
        for number, value in enumerate(values):
            condition = parse(f"PATTERN A WHERE A.{name} {operator} {value!r}").where
            assert condition is not None
            passes = (number < ranks) == scale.below
            assert passes.tolist() == columns.mask(condition).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_threads_find_the_ranks_that_one_finds(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves, "THREAD_ROWS", 7)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)
    draw = np.random.default_rng(4)
    values = np.unique(draw.integers(0, 9, 20).astype(np.float64))
    for count in (0, 6, 7, 8, 50):
        numbers = draw.choice([*values, -1.0, 2.5, 99.0, np.nan, np.inf], count)
        found = leaves._places(values, numbers, side)
        assert np.array_equal(found, np.searchsorted(values, numbers, side=side))  # type: ignore[call-overload]  # a text of two
