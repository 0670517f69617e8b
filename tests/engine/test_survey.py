"""Surveys tell what the oracle tells about all matches, and draw each of them as often (§17)."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests.amount import share
from tests.engine.comparison import numbered, plain_rows, same_rows
from tests.engine.survey_events import Event, numbered_table, random_events

import cepheid
from cepheid.api import CompiledQuery
from cepheid.jobs.steps import run_steps
from cepheid.kinds.trend.program.job import lower
from cepheid.kinds.trend.survey.steps import SurveySteps
from cepheid.language.parser import parse
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.local import run_table
from cepheid.testing.harness import stream
from cepheid.testing.oracle import Oracle, evaluate

PATTERNS = (
    "A+",
    "SEQ(A, B)",
    "SEQ(A+, B)",
    "SEQ(A, B+, A c)",
    "(SEQ(A, B?))+",
    "A x OR SEQ(A y, B)",
    "SEQ(A, A x*, B)",
    "SEQ(A+, NOT C, B)",
    "SEQ(NOT C, A+, B)",
    "SEQ(A+, B, NOT C)",
    "SEQ(A, NOT C WITHIN 2 seconds, B+)",
    "(A OR B y){1,3}",
    "ANY z+",
)
VALUES = ("LENGTH", "DURATION", "COUNT({v})", "SUM({v}.x)", "SUM({v}.y)")
EDGES = (
    "{v}.x > NEXT({v}).x",
    "{v}.x <= NEXT({v}).x AND {v}.y <> NEXT({v}).y",
    "{v}.y <> NEXT({v}).y",
    "{v}.x = NEXT({v}).x",
)
WINDOWS = ("", "", "WITHIN 4 seconds SLIDE 4 seconds", "WITHIN 6 seconds SLIDE 2 seconds")
CASES, BLOCK = 10_000, 50


def random_case(seed: int) -> tuple[str, list[Event]]:
    """Draw a survey and a stream."""
    chance = random.Random(seed)
    pattern = chance.choice(PATTERNS)
    variable = {"A x OR SEQ(A y, B)": "x", "ANY z+": "z"}.get(pattern, "A")
    value = chance.choice(VALUES).format(v=variable)
    number = chance.choice((1, 2, 3, 10))
    survey = chance.choice((f"TOP({number}, {value})", f"LONGEST({number})", "BLAME()"))
    conditions = [f"{variable}.x > 0"] if chance.random() < 0.2 else []
    repeats = pattern in ("A+", "SEQ(A+, B)", "SEQ(A+, NOT C, B)", "SEQ(NOT C, A+, B)", "ANY z+")
    if repeats and chance.random() < 0.6:
        conditions.append(chance.choice(EDGES).format(v=variable))
    conditions += ["[k]"] if chance.random() < 0.3 else []
    lines = [f"RETURN {survey}", f"PATTERN {pattern}"]
    lines += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
    lines += ["GROUP-BY g"] if chance.random() < 0.3 else []
    lines += [chance.choice(WINDOWS), chance.choice(("", "TIES arrival"))]
    lines += ["MIN LENGTH 2"] if chance.random() < 0.2 else []
    return "\n".join(filter(None, lines)), random_events(chance)


def compiled(text: str, table: pa.Table) -> CompiledQuery:
    return cepheid.query(text).with_schema(table.schema)


@share(20)
@pytest.mark.parametrize("block", range(CASES // BLOCK))
def test_random_surveys_equal_the_oracle(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        text, events = random_case(seed)
        expected, table = evaluate(parse(text), events), numbered_table(events)
        size = 1 + seed % 4
        actual = run_table(compiled(text, table).plan, table, batch_rows=size).to_pylist()
        assert same_rows(plain_rows(actual), expected), (seed, text, events)


@share(5)
@pytest.mark.parametrize("seed", range(50))
def test_steps_and_restarts_give_the_same_rows(seed: int) -> None:
    text, events = random_case(seed)
    text = text.replace("BLAME()", "SAMPLE(3, 7)")
    table = numbered_table(events)
    plan = TrendPlan.of(compiled(text, table).plan)
    steps = SurveySteps(lower(plan), table.schema)
    whole = run_table(plan, table).to_pylist()
    batches = [table.slice(n, 2) for n in range(0, len(table), 2)]
    assert pa.concat_tables(run_steps(steps, batches)).to_pylist() == whole
    state, found = steps.start(), []
    for batch in batches:
        state, rows = steps.step(steps.read(steps.write(state)), batch)
        found += rows.to_pylist()
    assert found + steps.finish(steps.read(steps.write(state)))[1].to_pylist() == whole


# ---------------------------------------------------------------------------------------
# Chance

DRAWS = 4000
SMALL = (
    ("A+", "a1 a2 a3 a4", ""),
    ("A+", "a1(x=3) a2(x=1) a3(x=2) a4(x=0) a5(x=1)", "A.x > NEXT(A).x"),
    ("A+", "a1(x=3) a2(x=1) a3(x=3) a4(x=0)", "A.x <> NEXT(A).x"),
    ("A+", "a1(x=3,y=1) a2(x=1,y=2) a3(x=0,y=3) a4(x=0,y=1)",
     "A.x >= NEXT(A).x AND A.y <= NEXT(A).y"),
    ("SEQ(A+, B)", "a1 a1 a2 b3 a4 b5", ""),
    ("SEQ(A+, NOT C, B)", "a1 a2 c3 a4 b5 a6 b7", ""),
    ("SEQ(A+, NOT C, B)", "a1(x=1) a2(x=2) c3 a4(x=3) a5(x=4) b6 a7(x=0) b8", "A.x < NEXT(A).x"),
    ("SEQ(A, (B OR A y)*, C)", "a1 b2 a3 b4 c5 c6", ""),
    ("A+", "a1(k=1) a2(k=2) a3(k=1) a4(k=2) a5(k=1)", "[k]"),
    ("SEQ(A+, B, NOT C)", "a1 b2 a3 c4 a5 b6", ""),
)  # fmt: skip


def too_uneven(counts: Counter[Any], cells: int, draws: int) -> bool:
    """Return whether equally likely outcomes would differ so much in one of a million cases."""
    mean = draws / cells
    square: float = sum((counts[cell] - mean) ** 2 / mean for cell in counts)
    square += mean * (cells - len(counts))
    freedom = cells - 1
    if not freedom:
        return False
    # The cube root of a chi-square is nearly normal (Wilson and Hilferty).
    place = math.pow(square / freedom, 1 / 3) - (1 - 2 / (9 * freedom))
    return place / math.sqrt(2 / (9 * freedom)) > 4.8


@pytest.mark.parametrize(("pattern", "text", "where"), SMALL)
def test_every_match_is_drawn_as_often(pattern: str, text: str, where: str) -> None:
    events = stream(text)
    condition = f"WHERE {where}" if where else ""
    query = f"RETURN SAMPLE({DRAWS}, 5) PATTERN {pattern} {condition}"
    ((_, _, _, found),) = Oracle(parse(query), events, "ts", "type").cells()
    rows = plain_rows(cepheid.query(query).run(numbered(events)).to_pylist())
    drawn = Counter(row["events"] for row in rows)
    assert set(drawn) <= set(found)
    assert len(rows) == DRAWS
    assert not too_uneven(drawn, len(found), DRAWS), drawn
    # Neither does a draw depend on the one before it.
    matches = [row["events"] for row in rows]
    pairs = Counter(zip(matches[::2], matches[1::2], strict=True))
    assert not too_uneven(pairs, len(found) ** 2, DRAWS // 2)


ALL_SMALL = (
    ("A+", ""),
    ("A+", "A.x < NEXT(A).x"),
    ("A+", "A.x <> NEXT(A).x"),
    ("SEQ(A+, B)", ""),
    ("SEQ(A+, B)", "A.x >= NEXT(A).x"),
    ("SEQ(A, B?)", ""),
    ("SEQ(A+, NOT B, A z)", ""),
    ("ANY z{1,3}", "z.x <= NEXT(z).x"),
)


@pytest.mark.parametrize(("pattern", "where"), ALL_SMALL)
def test_samples_of_all_small_streams_are_even(pattern: str, where: str) -> None:
    """Each group is one of all streams of up to four events of two types and two values."""
    kinds = [(name, x) for name in "AB" for x in (0, 1)]
    streams = [s for length in range(1, 5) for s in itertools.product(kinds, repeat=length)]
    events: list[Event] = [
        {"ts": ts, "type": name, "x": x, "g": g}
        for ts in range(4)
        for g, one in enumerate(streams)
        for name, x in one[ts : ts + 1]
    ]
    condition = f"WHERE {where}" if where else ""
    query = f"RETURN SAMPLE(200, 3) PATTERN {pattern} {condition} GROUP-BY g"
    rows = plain_rows(cepheid.query(query).run(numbered(events)).to_pylist())
    drawn: dict[object, Counter[Any]] = {}
    for row in rows:
        drawn.setdefault(row["g"], Counter())[row["events"]] += 1
    cells = {
        group: found for (group,), *_, found in Oracle(parse(query), events, "ts", "type").cells()
    }
    assert drawn.keys() == cells.keys()
    square, freedom = 0.0, 0
    for group, found in cells.items():
        counts, mean = drawn[group], 200 / len(found)
        assert set(counts) <= set(found)
        square += sum((counts[match] - mean) ** 2 / mean for match in found)
        freedom += len(found) - 1
    # The sum of all has as many degrees of freedom as there are matches to choose from.
    place = math.pow(square / freedom, 1 / 3) - (1 - 2 / (9 * freedom))
    assert abs(place / math.sqrt(2 / (9 * freedom))) < 4.8


@share(8)
@pytest.mark.parametrize("seed", range(200))
def test_random_samples_are_matches_in_equal_shares(seed: int) -> None:
    text, events = random_case(seed)
    lines = [f"RETURN SAMPLE(400, {seed})", *text.split("\n")[1:]]
    query = "\n".join(lines)
    table = numbered_table(events)
    rows = plain_rows(run_table(compiled(query, table).plan, table).to_pylist())
    cells = list(Oracle(parse(query), events, "ts", "type").cells())
    assert len(rows) == 400 * len(cells)
    for group, start, _, found in cells:
        mine = [
            row["events"]
            for row in rows
            if row.get("window_start") == start and row.get("g") == (group[0] if group else None)
        ]
        assert set(mine) <= set(found)
        assert not too_uneven(Counter(mine), len(found), 400)


def test_samples_of_more_matches_than_atoms_are_right() -> None:
    """Of 2^2000 matches of A+, each event is in half, whatever the others."""
    events = pa.table({"ts": range(2000), "type": ["A"] * 2000})
    rows = cepheid.query("RETURN SAMPLE(200) PATTERN A+").run(events)
    matches: list[Any] = rows["events"].to_pylist()
    lengths = [len(match) for match in matches]
    mean = sum(lengths) / len(lengths)
    assert abs(mean - 1000) < 5 * math.sqrt(500 / 200)
    first = Counter(match[0]["ts"] for match in matches)
    assert 70 <= first[0] <= 130


def test_blame_of_more_matches_than_atoms_is_right() -> None:
    events = pa.table({"ts": range(2000), "type": ["A"] * 2000})
    rows = cepheid.query("RETURN BLAME() PATTERN A+").run(events)
    assert rows["matches"].to_pylist() == [math.inf] * 2000
    assert rows["share"].to_pylist() == pytest.approx([0.5] * 2000)
    assert rows["log2_matches"].to_pylist() == pytest.approx([1999.0] * 2000)


def test_seeds_repeat_and_differ() -> None:
    events = pa.table({"ts": range(50), "type": ["A"] * 50})
    same = [cepheid.query("RETURN SAMPLE(5) PATTERN A+").run(events) for _ in range(2)]
    other = cepheid.query("RETURN SAMPLE(5, 1) PATTERN A+").run(events)
    assert same[0] == same[1] != other
