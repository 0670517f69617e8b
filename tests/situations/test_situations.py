"""Situations of the engine against those of the oracle: random and all small inputs."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from tests.amount import share
from tests.situations.cases import GROUPS, RELATIVE, SECOND_US, Case, cases, streams

import cepheid
from cepheid.kinds.situation import relative
from cepheid.kinds.situation import tuning as situation_tuning
from cepheid.language.tree import Relation
from cepheid.runtimes.local import run_table
from cepheid.testing import evaluate

KINDS: dict[str, pa.DataType] = {"ts": pa.int64(), **dict.fromkeys("abcd", pa.bool_())}
KINDS |= {"n": pa.int64(), "x": pa.float64(), "k": pa.string()}
SCHEMA = pa.schema(KINDS)


def table_of(events: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(events, SCHEMA)


def check(text: str, events: list[dict[str, object]], sizes: tuple[int, ...] = (1, 3, 100)) -> int:
    """Compare engine and oracle in steps of several sizes; return how many rows there are."""
    query = cepheid.query(text)
    expected = evaluate(query.tree, events)
    table = table_of(events)
    plan = query.with_schema(table.schema).plan
    for size in sizes:
        actual = run_table(plan, table, batch_rows=size).to_pylist()
        assert actual == expected, (text, size)
    return len(expected)


@given(cases(relative=True))
def test_random_queries_give_the_rows_of_the_oracle(case: Case) -> None:
    check(case.query, case.events)


@given(cases(relative=True))
def test_situations_without_partners_are_left_out(case: Case) -> None:
    with patch.object(situation_tuning, "PARTIAL_MATCHES_MIN", 0.0):
        check(case.query, case.events)


@share(2)
@pytest.mark.parametrize("condition", RELATIVE)
@given(streams(most=10))
def test_conditions_that_look_at_more_than_one_event(
    condition: str, events: list[dict[str, object]]
) -> None:
    text = condition.format(name="A", own="a")
    listed = f"DEFINE A AS {text}, B AS b SITUATIONS A RETURN COUNT(A), SUM(A.x)"
    check(f"PARTITION BY k {listed}", events)
    check(f"WHERE n <> 2 {listed}", events)


@pytest.mark.parametrize("condition", [*RELATIVE, "x < 2 UNTIL SUM(n) > 30", "COUNT(*) < 12"])
@pytest.mark.parametrize("span", [2, 64])
def test_many_short_situations_are_stepped_over(condition: str, span: int) -> None:
    """Situations of all lengths, many of them in one partition, with an event that ends each."""
    chance = random.Random(f"{condition}{span}")
    events: list[dict[str, object]] = []
    for time in range(150):
        event: dict[str, object] = {
            "ts": time // 2 * SECOND_US,
            "n": chance.choice((0, 1, 3, None)),
        }
        event |= {name: chance.random() < 0.7 for name in "abcd"}
        event |= {"x": chance.choice((-1.5, 0.0, 2.5, None)), "k": chance.choice("pqqqqqq")}
        events.append(event)
    text = (
        f"DEFINE A AS {condition.format(name='A', own='a')} SITUATIONS A RETURN COUNT(A), SUM(A.n)"
    )
    with patch.object(relative, "SPAN_MIN", span):
        check(text, events, sizes=(40, 1000))
        check(f"PARTITION BY k {text}", events, sizes=(40, 1000))


@given(streams(most=10))
def test_situations_themselves(events: list[dict[str, object]]) -> None:
    check("DEFINE A AS a, B AS b AT LEAST 2 s, C AS c AT MOST 3 s SITUATIONS A, B, C", events)
    check(
        "PARTITION BY k DEFINE A AS a AND x > 0 OR b, B AS b SITUATIONS B, A "
        "RETURN COUNT(A), LAST(A.x), AVG(B.x), FIRST(B.n)",
        events,
    )


def small_streams(length: int) -> list[dict[str, object]]:
    """Return all streams of some length with two conditions and ties, as partitions of one."""
    steps = [(gap, a, b) for gap in (0, 1) for a in (False, True) for b in (False, True)]
    events: list[dict[str, object]] = []
    for number, stream in enumerate(product(steps, repeat=length)):
        time = 0
        for gap, a, b in stream:
            time += gap * SECOND_US
            events.append({"ts": time, "a": a, "b": b, "n": number, "k": f"{number:06}"})
    return sorted(events, key=lambda event: int(str(event["ts"])))


@pytest.mark.parametrize("relation", [*(r.value for r in Relation), *GROUPS])
@pytest.mark.parametrize("window", ["", "WITHIN 2 s", "DETECTED WITHIN 1 s"])
def test_all_small_streams(relation: str, window: str) -> None:
    text = f"PARTITION BY k DEFINE A AS a, B AS b PATTERN A {relation} B {window}"
    check(text, small_streams(3), sizes=(1 << 20,))


BOUNDS = ("AT LEAST 1 s", "AT LEAST 2 s", "AT MOST 1 s", "AT LEAST 2 EVENTS", "AT MOST 1 EVENT")


@pytest.mark.parametrize("bound", BOUNDS)
def test_all_small_streams_with_bounded_lengths(bound: str) -> None:
    for relation in ("overlaps", "starts;equals;started by", "overlaps;contains;finished by"):
        text = f"PARTITION BY k DEFINE A AS a {bound}, B AS b PATTERN A {relation} B"
        check(text, small_streams(3), sizes=(1 << 20,))


def test_finishes_is_that_of_allen_and_not_of_the_thesis() -> None:
    # A ##......
    # B .#####..
    # C ....##..
    events = pa.table(
        {"ts": range(8), "a": [1, 1, 0, 0, 0, 0, 0, 0], "b": [0, 1, 1, 1, 1, 1, 0, 0]}
    )
    events = events.append_column("c", pa.array([0, 0, 0, 0, 1, 1, 0, 0]))
    text = (
        "DEFINE A AS a > 0, B AS b > 0, C AS c > 0 PATTERN A overlaps B AND B {} C AND A before C "
        "WITHIN 1 min"
    )
    thesis, ours = (cepheid.query(text.format(word)) for word in ("finishes", "finished by"))
    assert [w.code for w in thesis.warnings] == ["W305"]
    assert (len(thesis.run(events)), len(ours.run(events)), len(ours.warnings)) == (0, 1, 0)


def test_the_number_of_events_in_a_store(tmp_path: Path) -> None:
    held = [3 <= n < 9 or 12 <= n < 15 for n in range(20)]
    rides = pa.table({"ts": [10**6 * n for n in range(20)], "a": held})
    query = cepheid.query(
        "DEFINE A AS a AT MOST 5 EVENTS, B AS a AT LEAST 4 EVENTS SITUATIONS A, B"
    )
    store = cepheid.EventStore(tmp_path)
    for begin in range(0, 20, 7):
        store.append(rides.slice(begin, 7))
    found = query.run(store).to_pylist()
    assert found == query.run(rides).to_pylist()
    ends = [(row["situation"], row["ts"] // 10**6, row["te"] // 10**6) for row in found]
    assert ends == [("B", 3, 9), ("A", 12, 15)]
