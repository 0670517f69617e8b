"""Histograms and percentiles are those of all matches, exact or within their error (§17.9)."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest
from tests.amount import share
from tests.engine.comparison import same_rows
from tests.engine.survey_events import Event, random_events, table_of
from tests.engine.test_spread import PATTERNS

import cepheid
from cepheid.errors import DataError
from cepheid.language.parser import parse
from cepheid.runtimes.local import run_table
from cepheid.testing.oracle import evaluate

VALUES = ("LENGTH", "DURATION", "COUNT({v})", "SUM({v}.x)", "SUM({v}.y)")
CONDITIONS = (
    "{v}.x > NEXT({v}).x",
    "{v}.x <= NEXT({v}).x AND {v}.y <> NEXT({v}).y",
    "{v}.x * NEXT({v}).y < 2",
)
WINDOWS = ("", "", "WITHIN 4 seconds SLIDE 4 seconds", "WITHIN 6 seconds SLIDE 2 seconds")
CASES, BLOCK = 3_000, 50


def random_case(seed: int) -> tuple[str, list[Event]]:
    """Draw a histogram or percentiles, and a stream."""
    chance = random.Random(seed)
    pattern, variable = chance.choice(list(PATTERNS.items()))
    value = chance.choice(VALUES).format(v=variable)
    fractions = ", ".join(str(chance.choice((0, 0.1, 0.5, 0.75, 1))) for _ in range(2))
    survey = chance.choice(
        (f"HISTOGRAM({value})", f"PERCENTILE({value}, {fractions})", f"MEDIAN({value})")
    )
    conditions = [f"{variable}.x > 0"] if chance.random() < 0.2 else []
    if pattern in ("A+", "SEQ(A+, B)", "SEQ(A+, NOT C, B)", "ANY z+") and chance.random() < 0.6:
        conditions.append(chance.choice(CONDITIONS).format(v=variable))
    conditions += ["[k]"] if chance.random() < 0.3 else []
    lines = [f"RETURN {survey}", f"PATTERN {pattern}"]
    lines += [f"SEMANTICS {chance.choice(('any', 'any', 'next', 'contiguous'))}"]
    lines += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    lines += ["GROUP-BY g"] if chance.random() < 0.3 else []
    lines += [chance.choice(WINDOWS), chance.choice(("", "TIES arrival"))]
    lines += ["MIN LENGTH 2"] if chance.random() < 0.2 else []
    return "\n".join(filter(None, lines)), random_events(chance)


@share(10)
@pytest.mark.parametrize("block", range(CASES // BLOCK))
def test_random_distributions_equal_the_oracle(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        text, events = random_case(seed)
        table = table_of(events)
        plan = cepheid.query(text).with_schema(table.schema).plan
        actual = run_table(plan, table, batch_rows=1 + seed % 4).to_pylist()
        assert same_rows(actual, evaluate(parse(text), events)), (seed, text, events)


@share(4)
@pytest.mark.parametrize("seed", range(40))
def test_values_in_wide_bins_are_within_their_error(seed: int) -> None:
    chance = random.Random(seed)
    times = sorted(chance.sample(range(10**6), 9))
    events: list[Event] = [
        {"ts": ts, "type": "A", "x": chance.uniform(-1, 3) * 10 ** chance.randrange(3)}
        for ts in times
    ]
    table = pa.Table.from_pylist(events)
    semantics = chance.choice(("any", "any", "next", "contiguous"))
    for value in ("SUM(A.x)", "DURATION"):
        text = f"RETURN PERCENTILE({value}, 0, 0.25, 0.5, 0.9, 1) PATTERN A+ SEMANTICS {semantics}"
        expected = evaluate(parse(text), events)
        with cepheid.limits(state=1):
            found = cepheid.query(text).run(table).to_pylist()
        name = list(expected[0])[1]
        wide = [float(row[name]) for row in found]
        exact: list[Any] = [row[name] for row in expected]
        # Bins are wider than what was asked for by the limit, and tell so.
        assert found[0]["error"] > 0
        assert all(abs(a - b) <= found[0]["error"] for a, b in zip(wide, exact, strict=True))


def test_lengths_of_more_matches_than_atoms_are_binomial() -> None:
    """Of 2^2000 - 1 matches of A+ over 2,000 events, C(2000, n) have n of them."""
    events = pa.table({"ts": range(2000), "type": ["A"] * 2000})
    rows = cepheid.query("RETURN HISTOGRAM(LENGTH) PATTERN A+").run(events).to_pylist()
    assert [row["length"] for row in rows] == list(range(1, 2001))
    for row in rows[::100]:
        count = math.comb(2000, row["length"])
        assert row["log2_matches"] == pytest.approx(math.log2(count), rel=1e-12)
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    half = cepheid.query("RETURN PERCENTILE(LENGTH, 0.5, 0.99) PATTERN A+").run(events)
    assert half["length"].to_pylist() == [1000, 1052]


def test_decimals_are_added_up_exactly() -> None:
    events = pa.table({"ts": [1, 2, 3], "type": ["A"] * 3, "x": [0.1, 0.2, 0.3]})
    rows = cepheid.query("RETURN HISTOGRAM(SUM(A.x)) PATTERN A+").run(events).to_pylist()
    assert [(row["sum_A_x"], row["matches"]) for row in rows] == [
        (0.1, 1.0), (0.2, 1.0), (0.3, 2.0), (0.4, 1.0), (0.5, 1.0), (0.6, 1.0),
    ]  # fmt: skip
    assert {row["error"] for row in rows} == {0.0}


def test_too_many_lengths_are_refused() -> None:
    events = pa.table({"ts": range(100), "type": ["A"] * 100})
    with cepheid.limits(state=1), pytest.raises(DataError, match="E519"):
        cepheid.query("RETURN HISTOGRAM(LENGTH) PATTERN A+").run(events)


def test_sums_of_what_is_not_finite_are_refused() -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [1.0, math.inf]})
    with pytest.raises(DataError, match="E576"):
        cepheid.query("RETURN MEDIAN(SUM(A.x)) PATTERN A+").run(events)
    (row,) = (
        cepheid.query("RETURN MEDIAN(SUM(A.x)) PATTERN A+ WHERE A.x < 9").run(events).to_pylist()
    )
    assert row["sum_A_x"] == 1.0


def test_sums_beyond_doubles_are_refused() -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [1e308, 1e308]})
    with pytest.raises(DataError, match="E576"):
        cepheid.query("RETURN HISTOGRAM(SUM(A.x)) PATTERN A+").run(events)


def test_huge_values_of_many_windows_are_added_up_in_each_of_them() -> None:
    events = pa.table(
        {
            "ts": pa.array(range(0, 120, 2), pa.int64()),
            "type": ["A"] * 60,
            "x": pa.array([1e307] * 40 + [2.0] * 20),
        }
    )
    text = "RETURN HISTOGRAM(SUM(A.x)) PATTERN SEQ(A) WITHIN 4 us SLIDE 4 us"
    rows = cepheid.query(text).run(events).to_pylist()
    counted: dict[int, float] = {}
    for row in rows:
        counted[row["window_start"]] = counted.get(row["window_start"], 0) + row["matches"]
    assert counted == dict.fromkeys(range(0, 120, 4), 2.0)
    huge = [row for row in rows if row["window_start"] < 80]
    assert all(abs(row["sum_A_x"] - 1e307) <= row["error"] + 1e295 for row in huge)
