"""Values between neighbours: events are kept once, and every value has the rows of its own run."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows
from tests.sweep.test_one_pass import WINDOWS, combinations, events, value_by_value

import cepheid
from cepheid.kinds.sweep import edge_lanes
from cepheid.kinds.sweep.edge_lanes import EdgeLanes
from cepheid.kinds.sweep.same_events import same_events
from cepheid.kinds.trend.program.job import lower
from cepheid.plans.plan import TrendPlan
from cepheid.plans.sweep import SweepPlan

EDGES = (
    "A.x > NEXT(A).x + SWEEP p (0, 1, 3, -2)",
    "A.x + SWEEP p (2 TO -2 STEP -1) <= NEXT(A).x",
    "NEXT(A).y - A.y >= SWEEP p (0, 0.1, 0.5)",
    "A.y * SWEEP p (1, 0.5, -1) < NEXT(A).y",
    "A.x <> NEXT(A).x + SWEEP p (0, 1)",
    "A.x = NEXT(A).x + SWEEP p (0, 1, 4)",
    "A.x + A.y < B.x + SWEEP p (0, 2, 5)",
    "A.x < B.x + SWEEP p (0, 2) AND A.y >= NEXT(A).y",
    "A.x < B.x + SWEEP p (0, 2) AND A.y >= NEXT(A).y - SWEEP q (0, 0.3)",
    "A.x + SWEEP p (0, 2) < B.x + SWEEP q (0, 1, 2)",
    "A.x > SWEEP p (0, 1, 2) AND A.x < NEXT(A).x",
)
PATTERNS = (
    "SEQ(A+, B)",
    "SEQ(A+, B, A a2)",
    "(SEQ(A+, B))+",
    "SEQ(A+, NOT C, B)",
    "SEQ(NOT C, A+, B)",
)
AGGREGATES = ("COUNT(*)", "COUNT(*), SUM(A.x), MIN(A.y)", "LOG2(COUNT(*)), k", "COUNT(*)")


@pytest.mark.parametrize("seed", range(60))
def test_every_value_has_the_rows_of_its_own_query(seed: int) -> None:
    draw = np.random.default_rng(5000 + seed)

    def one(items: tuple[Any, ...]) -> Any:
        return items[draw.integers(len(items))]

    returns = one(AGGREGATES)
    pattern = one(PATTERNS[:2] if draw.integers(2) else PATTERNS)
    where = "[k] AND " * int("k" in returns or draw.integers(2)) + one(EDGES)
    semantics = one(("any", "any", "any", "next", "contiguous"))
    text = (
        f"RETURN {returns} PATTERN {pattern} SEMANTICS {semantics} WHERE {where}"
        f" {'GROUP-BY k' if 'k' in returns else ''} {one(('', '', 'HAVING COUNT(*) > 1'))}"
        f" {one(WINDOWS)} TIES {one(('strict', 'arrival'))}"
    )
    table = events(seed, 50)
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    expected = value_by_value(text, combinations(plan), table)
    with patch.multiple(edge_lanes, LANES_MAX=int(draw.integers(1, 4))):
        found = query.run(table).to_pylist()
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=9))
        pieces = query.run(reader).to_pylist()
    assert same_rows(found, expected), text
    assert same_rows(pieces, expected), text


def test_counts_run_side_by_side() -> None:
    text = (
        "RETURN k, COUNT(*) PATTERN A+ WHERE [k] AND A.x > NEXT(A).x + SWEEP p (0, 1, 2) GROUP-BY k"
    )
    plan = SweepPlan.of(cepheid.query(text).with_schema(events(1).schema).plan)
    assert same_events(plan.plans) == [[0, 1, 2]]
    jobs = [lower(TrendPlan.of(one)) for one in plan.plans]
    lanes = EdgeLanes.of(jobs)
    assert lanes is not None
    with patch.object(EdgeLanes, "_alone", side_effect=AssertionError("one by one")):
        assert len(cepheid.query(text).run(events(1)))


def test_lengths_of_windows_are_kept_apart() -> None:
    text = (
        "RETURN COUNT(*) PATTERN A+ WHERE A.x > NEXT(A).x + SWEEP p (0, 1) "
        "WITHIN SWEEP w (2 s, 4 s) SLIDE 2 s"
    )
    table = events(3)
    query = cepheid.query(text)
    plan = SweepPlan.of(query.with_schema(table.schema).plan)
    assert same_events(plan.plans) == [[0, 2], [1, 3]]
    found = query.run(table)
    for p in (0, 1):
        for w in (2, 4):
            plain = text.replace("SWEEP p (0, 1)", f"{p}").replace("SWEEP w (2 s, 4 s)", f"{w} s")
            own = found.filter(
                (pa.compute.field("p") == p)
                & (pa.compute.field("w") == pa.scalar(w * 1_000_000, pa.duration("us")))
            )
            expected = cepheid.query(plain).run(table).to_pylist()
            assert same_rows(own.drop_columns(["p", "w"]).to_pylist(), expected)


def test_counts_beyond_all_doubles() -> None:
    count = 2500
    table = pa.table(
        {
            "ts": range(count + 3),
            "type": ["A"] * count + ["B"] * 3,
            "x": [*range(count), 5, 5, 5],
            "k": [1] * (count - 10) + [2] * 13,
        }
    )
    text = "RETURN LOG2(COUNT(*)) AS n, k PATTERN A+ WHERE [k] AND A.x + {} <= NEXT(A).x GROUP-BY k"
    found = cepheid.query(text.format("SWEEP p (0, 1, 2, 700)")).run(table)
    for p in (0, 1, 2, 700):
        own = cepheid.query(text.format(p)).run(table)
        mine = found.filter(pa.compute.field("p") == p)
        assert mine["n"].to_pylist() == pytest.approx(own["n"].to_pylist())
    assert math.isclose(found["n"][0].as_py(), count - 10)


def test_explain_says_that_events_are_kept_once() -> None:
    text = "RETURN COUNT(*) PATTERN A+ WHERE A.x > NEXT(A).x + SWEEP p (0, 1, 2)"
    assert "3 queries keep and read the same events once" in str(cepheid.query(text).explain())
