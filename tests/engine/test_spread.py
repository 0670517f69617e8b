"""Variances and standard deviations over all matches are those of the definition (§5.7)."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.amount import share
from tests.engine.comparison import same_rows
from tests.engine.survey_events import Event, random_events, table_of

import cepheid
from cepheid.kinds.trend.planning.granularity import force_evaluator, legal_evaluators
from cepheid.language.parser import parse
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

PATTERNS = {
    "A+": "A",
    "SEQ(A, B)": "A",
    "SEQ(A+, B)": "A",
    "SEQ(A, B+, A c)": "B",
    "(SEQ(A, B?))+": "A",
    "A x OR SEQ(A y, B)": "y",
    "SEQ(A+, NOT C, B)": "A",
    "SEQ(NOT C, A+, B)": "A",
    "SEQ(A, NOT C WITHIN 2 seconds, B+)": "B",
    "ANY z+": "z",
}
VALUES = ("LENGTH", "DURATION", "COUNT({v})", "SUM({v}.x)", "SUM({v}.y)", "{v}.x", "{v}.y")
FUNCTIONS = ("VAR", "VARIANCE", "VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_SAMP", "STDDEV_POP")
CONDITIONS = (
    "{v}.x > NEXT({v}).x",
    "{v}.x <= NEXT({v}).x AND {v}.y <> NEXT({v}).y",
    "{v}.x * NEXT({v}).y < 2",
    "{v}.x < LAST({v}).y",
    "[A.k]",
)
WINDOWS = (
    "",
    "",
    "WITHIN 4 seconds SLIDE 4 seconds",
    "WITHIN 6 seconds SLIDE 2 seconds",
    "WITHIN 5 seconds",
    "WITHIN 5 seconds EMIT ON EXPIRY",
    "WITHIN 4 EVENTS SLIDE 2 EVENTS",
)
SEMANTICS = ("any", "any", "next", "contiguous", "next, A TO A any")
CASES, BLOCK = 3_000, 50


def random_case(seed: int) -> tuple[str, list[Event]]:
    """Draw a query and a stream."""
    chance = random.Random(seed)
    pattern, variable = chance.choice(list(PATTERNS.items()))
    semantics = chance.choice(SEMANTICS if "A+" in pattern else SEMANTICS[:4])
    values = [value.format(v=variable) for value in chance.sample(VALUES, 2)]
    items = [f"{chance.choice(FUNCTIONS)}({value})" for value in values]
    items += ["COUNT(*)"] if chance.random() < 0.5 else []
    conditions = [f"{variable}.x > 0"] if chance.random() < 0.2 else []
    window = chance.choice(WINDOWS)
    if pattern in ("A+", "SEQ(A+, B)", "SEQ(A+, NOT C, B)", "ANY z+") and chance.random() < 0.6:
        condition = chance.choice(CONDITIONS).format(v=variable)
        plain = "EVENTS" not in window and "TO" not in semantics and pattern != "ANY z+"
        conditions += [condition] if plain or "A.k" not in condition else []
    conditions += ["[k]"] if chance.random() < 0.3 and "[A.k]" not in conditions else []
    skip = chance.random() < 0.1 and "NOT C, A" not in pattern and "TO" not in semantics
    lines = [f"RETURN {', '.join(items)}", f"PATTERN {pattern}", f"SEMANTICS {semantics}"]
    lines += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    lines += ["GROUP-BY g"] if chance.random() < 0.3 else []
    lines += [window, chance.choice(("", "TIES arrival"))]
    lines += ["AFTER MATCH SKIP PAST LAST ROW"] if skip and "EMIT" not in window else []
    lines += [f"HAVING {items[0]} >= 0.5"] if chance.random() < 0.2 else []
    return "\n".join(filter(None, lines)), random_events(chance)


@share(10)
@pytest.mark.parametrize("block", range(CASES // BLOCK))
def test_random_spreads_equal_the_oracle(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        text, events = random_case(seed)
        table = table_of(events)
        plan = TrendPlan.of(cepheid.query(text).with_schema(table.schema).plan)
        expected = evaluate(parse(text), events)
        for evaluator in legal_evaluators(plan):
            forced = force_evaluator(plan, evaluator)
            actual = run_table(forced, table, batch_rows=1 + seed % 4).to_pylist()
            assert same_rows(actual, expected), (seed, evaluator, text, events)


def test_spreads_of_more_matches_than_atoms_are_right() -> None:
    """Each of 2000 events is in half of the matches of A+, whatever the others."""
    events = pa.table({"ts": range(2000), "type": ["A"] * 2000, "x": [3] * 2000})
    text = "RETURN VAR(LENGTH), STDDEV(SUM(A.x)), VAR(A.x), LOG2(COUNT(*)) PATTERN A+"
    (row,) = cepheid.query(text).run(events).to_pylist()
    assert row["log2_count"] == pytest.approx(2000)
    assert row["var_length"] == pytest.approx(500, rel=1e-6)
    assert row["stddev_sum_A_x"] == pytest.approx(3 * math.sqrt(500), rel=1e-6)
    assert row["var_A_x"] == 0


@pytest.mark.parametrize("value", ["LENGTH", "SUM(A.x)", "DURATION", "A.x"])
def test_numbers_that_are_none_are_told(value: str) -> None:
    events: Any = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [math.nan, math.inf]})
    (row,) = cepheid.query(f"RETURN VAR({value}) AS v PATTERN A+").run(events).to_pylist()
    assert math.isnan(row["v"]) == value.endswith(("x", "x)"))


@pytest.mark.parametrize("semantics", ["any", "next", "contiguous"])
def test_spreads_of_huge_values_are_right_or_infinite(semantics: str) -> None:
    """Deviations stay finite where squares do not."""
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [3e200, -1e200]})
    values = "STDDEV_POP(SUM(A.x)) AS deviation, VAR(SUM(A.x)) AS spread, VAR(A.x) AS each"
    (row,) = (
        cepheid.query(f"RETURN {values} PATTERN A+ SEMANTICS {semantics}").run(events).to_pylist()
    )
    # Sums are 3, -1 and 2, times 1e200.
    assert row["deviation"] == pytest.approx(math.sqrt(26 / 9) * 1e200)
    assert (row["spread"], row["each"]) == (math.inf, math.inf)


def test_spreads_of_tiny_values_do_not_vanish() -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [3e-200, -1e-200]})
    (row,) = cepheid.query("RETURN STDDEV_POP(SUM(A.x)) AS s PATTERN A+").run(events).to_pylist()
    assert row["s"] == pytest.approx(math.sqrt(26 / 9) * 1e-200)
