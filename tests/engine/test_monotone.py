"""Conditions on sums and differences of doubles: exact bounds, and the rows of the oracle."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.engine.comparison import same_rows, table_of

from cepheid.api import query
from cepheid.arrays.columns import Columns
from cepheid.events.comparisons import COMPARE
from cepheid.kinds.trend.look_back.monotone_bounds import bounds_of
from cepheid.kinds.trend.look_back.relations import read_relations
from cepheid.language.tree import Attribute, Expression, Literal
from cepheid.patterns.monotone import monotone_forms
from cepheid.plans.plan import Evaluator, TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

ODD = (
    *(0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 0.1, 0.2, 0.30000000000000004, 1.0),
    *(-1.0, 1.0000000000000002, 3.0, 2.0**53, 2.0**53 + 2, -(2.0**60), 1e17, -1e17, 1.7e308),
    -1.7976931348623157e308,
)
CONDITIONS = [
    "A.x - NEXT(A).x {} NEXT(A).y",
    "NEXT(A).x - A.x {} 0.1",
    "A.x + NEXT(A).x {} 3",
    "0.5 {} NEXT(A).x + A.x",
    "ABS(A.x - NEXT(A).x) {} 1.5",
    "A.x * NEXT(A).x {} NEXT(A).y",
    "NEXT(A).x * A.x {} 0.3",
    "A.x / NEXT(A).x {} 1.5",
    "NEXT(A).x / A.x {} 1.05",
    "NEXT(A).x / A.x {} NEXT(A).y",
    "ABS(NEXT(A).x / A.x - 1) {} 0.1",
    "(NEXT(A).x - A.x) * 3 / NEXT(A).y {} 0.7",
    "1 - A.x * NEXT(A).x {} NEXT(A).y",
]


def _edge(condition: str) -> tuple[str, TrendPlan]:
    text = f"RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B?) WHERE {condition}"
    kinds = {"ts": "bigint", "type": "string", "x": "double", "y": "double"}
    return text, TrendPlan.of(query(text, schema=kinds).plan)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_bounds_are_exact_for_odd_doubles(condition: str, operator: str) -> None:
    _, plan = _edge(condition.format(operator))
    (edge,) = plan.edges
    forms = monotone_forms(edge.expression)
    if condition.startswith("ABS") and operator in (">", ">="):
        assert not forms  # The values that it accepts are two ranges.
        assert not edge.monotone
        return
    assert edge.monotone
    prev, later, bound = (np.array(one) for one in zip(*product(ODD, ODD, ODD), strict=True))
    columns = {"x": later, "y": bound}
    for form in forms:
        others = [_values(step.other, columns, len(prev)) for step in form.steps]
        limit = _values(form.bound, columns, len(prev))
        known = np.ones(len(prev), np.bool_)
        value = prev
        for n, (step, other) in enumerate(zip(form.steps, others, strict=True)):
            divisor = value if step.turned else other
            known &= (step.operator != "/") | (divisor != 0.0)
            known &= (step.operator != "*") | (n == 0) | (other != 0.0)
            with np.errstate(all="ignore"):
                left, right = (other, value) if step.turned else (value, other)
                value = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[
                    step.operator
                ](left, right)
        wanted = COMPARE[form.operator](value, -limit if form.negated else limit)
        found = np.ones(len(prev), np.bool_)
        for compare, prev_keys, next_keys in bounds_of(form, prev, others, limit):
            found &= COMPARE[compare](prev_keys, next_keys)
        assert np.array_equal(found[known], wanted[known])


def _values(expression: Expression, columns: dict[str, Any], count: int) -> Any:
    if isinstance(expression, Attribute):
        return columns[expression.attribute.text]
    assert isinstance(expression, Literal)
    assert isinstance(expression.value, int | float)
    return np.full(count, float(expression.value))


DOUBLES = st.sampled_from([*ODD[:12], math.inf, -math.inf, math.nan, None])


@pytest.mark.parametrize("condition", CONDITIONS)
@given(
    values=st.lists(st.tuples(st.sampled_from("AAB"), DOUBLES, DOUBLES), min_size=1, max_size=6),
    operator=st.sampled_from(["<", "<=", ">", ">="]),
)
def test_rows_are_those_of_the_oracle(
    condition: str, values: list[tuple[str, float | None, float | None]], operator: str
) -> None:
    events = [
        {"ts": n, "type": kind, "x": x, "y": y} for n, (kind, x, y) in enumerate(values, start=1)
    ]
    assume(any(event["type"] == "A" for event in events))
    text, _ = _edge(condition.format(operator))
    columns = {"x": pa.float64(), "y": pa.float64()}
    table = pa.table(
        {"ts": [e["ts"] for e in events], "type": [e["type"] for e in events]}
        | {name: pa.array([e[name] for e in events], kind) for name, kind in columns.items()}
    )
    compiled = query(text, schema=table.schema)
    wanted = evaluate(compiled.tree, events)
    assert same_rows(run_table(compiled.plan, table).to_pylist(), wanted)


@pytest.mark.parametrize(
    "condition",
    ["A.n * NEXT(A).n {} 6", "A.n * NEXT(A).n {} NEXT(A).n + 0.5", "NEXT(A).n / A.n {} 1.5"],
)
@given(
    numbers=st.lists(
        st.sampled_from([-3, -1, 0, 2, 3, 2**31, 2**40, None]), min_size=1, max_size=6
    ),
    operator=st.sampled_from(["<", "<=", ">", ">="]),
)
def test_products_of_whole_numbers(
    condition: str, numbers: list[int | None], operator: str
) -> None:
    events = [{"ts": t, "type": "A", "n": n} for t, n in enumerate(numbers, start=1)]
    known = [abs(n) for n in numbers if n is not None]
    assume(max(known, default=0) ** 2 < 2**63)
    text = f"RETURN COUNT(*) PATTERN A+ WHERE {condition.format(operator)}"
    table = table_of(events).set_column(2, "n", pa.array(numbers, pa.int64()))
    compiled = query(text, schema=table.schema)
    wanted = evaluate(compiled.tree, events)
    assert same_rows(run_table(compiled.plan, table).to_pylist(), wanted)


def test_two_conditions_rank_both_zeros_alike() -> None:
    values = [0.0, -0.0, 0.0, -1.0, -0.0]
    events = [{"ts": t, "type": "A", "x": x} for t, x in enumerate(values, start=1)]
    text = "RETURN COUNT(*) PATTERN A+ WHERE A.x - NEXT(A).x <= 0.5 AND A.x >= NEXT(A).x"
    compiled = query(text, schema=table_of(events).schema)
    rows = run_table(compiled.plan, table_of(events)).to_pylist()
    assert same_rows(rows, evaluate(compiled.tree, events))


def test_the_plan_takes_the_index_and_values_decide() -> None:
    _, plan = _edge("ABS(A.x - NEXT(A).x) < 1.5")
    assert plan.choice.evaluator is Evaluator.INDEXED
    for odd, ranges in ((2.0, 2), (math.nan, 0), (math.inf, 0)):
        events = table_of([{"ts": n, "type": "A", "x": x} for n, x in enumerate((1.0, odd))])
        (relation,) = read_relations(plan.edges, Columns(events))
        assert (len(relation.comparisons), len(relation.rest)) == (ranges, int(not ranges))
