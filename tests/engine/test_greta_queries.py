"""GRETA's Q1, Q2 and Q3 with their variations, on samples of the data that benchmarks use.

The expected rows come from a computation of their own for each query: Python's whole numbers, one
window after the other, sums per value instead of edges. It shares nothing with engine and oracle.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks import edge_streams
from benchmarks.edge_methods import variations

from cepheid import query

Event = dict[str, Any]
Holds = Callable[[float, float], bool]
Expected = dict[tuple[int, object], tuple[float, ...]]
SECOND_US = 1_000_000


def events_of(table: pa.Table) -> list[Event]:
    return table.set_column(
        0, "ts", table["ts"].cast(pa.timestamp("us")).cast(pa.int64())
    ).to_pylist()


def windows(events: list[Event], within_s: int, slide_s: int) -> Iterator[tuple[int, list[Event]]]:
    within, slide = within_s * SECOND_US, slide_s * SECOND_US
    first = (events[0]["ts"] - within) // slide + 1
    for start in range(first * slide, events[-1]["ts"] + 1, slide):
        inside = [event for event in events if start <= event["ts"] < start + within]
        if inside:
            yield start, inside


def parts(events: Iterable[Event], *names: str) -> dict[tuple[Any, ...], list[Event]]:
    found: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        found[tuple(event[name] for name in names)].append(event)
    return found


def grow(
    events: Iterable[Event],
    value: str,
    weight: str,
    holds: Holds,
    starts_at: Callable[[int], int],
) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield each time and the (trends, bindings, sum of weights) that its events end, strict ties.

    Trends are gathered by the value of their last event: a later event asks every value, not every
    event.
    """
    ended: dict[float, list[int]] = {}
    for time, together in groupby(events, key=itemgetter("ts")):
        fresh = []
        for event in together:
            before = [sums for last, sums in ended.items() if holds(last, event[value])]
            trends = starts_at(time) + sum(sums[0] for sums in before)
            bindings = trends + sum(sums[1] for sums in before)
            total = trends * event[weight] + sum(sums[2] for sums in before)
            fresh.append((event[value], [trends, bindings, total]))
        for last, sums in fresh:
            ended[last] = [a + b for a, b in zip(ended.get(last, [0, 0, 0]), sums, strict=True)]
        yield time, [sums for _, sums in fresh]


def expect_q1(events: list[Event], holds: Holds) -> Expected:
    found: dict[tuple[int, object], int] = defaultdict(int)
    for start, inside in windows(events, 600, 10):
        for (_, sector), mine in parts(inside, "company", "sector").items():
            for _, fresh in grow(mine, "price", "one", holds, lambda _: 1):
                found[start, sector] += sum(sums[0] for sums in fresh)
    return {place: (count,) for place, count in found.items() if count}


def expect_q2(events: list[Event], holds: Holds) -> Expected:
    found: dict[tuple[int, object], list[int]] = defaultdict(lambda: [0, 0])
    for start, inside in windows(events, 60, 30):
        for (_, mapper), mine in parts(inside, "job", "mapper").items():
            of = {kind: [e for e in mine if e["type"] == kind] for kind in ("Start", "End")}

            def starts_before(time: int, of: dict[str, list[Event]] = of) -> int:
                return sum(event["ts"] < time for event in of["Start"])

            loads = [event for event in mine if event["type"] == "Measurement"]
            for time, fresh in grow(loads, "load", "cpu", holds, starts_before):
                ends = sum(event["ts"] > time for event in of["End"])
                for trends, _, total in fresh:
                    found[start, mapper][0] += trends * ends
                    found[start, mapper][1] += total * ends
    return {place: (total, count) for place, (count, total) in found.items() if count}


def expect_q3(events: list[Event], holds: Holds) -> Expected:
    found: dict[tuple[int, object], list[int]] = defaultdict(lambda: [0, 0, 0])
    for start, inside in windows(events, 300, 60):
        accidents: dict[object, int] = {}
        for event in inside:
            if event["type"] == "Accident":
                accidents.setdefault(event["segment"], event["ts"])
        cars = [event for event in inside if event["type"] == "Position"]
        for (_, segment), mine in parts(cars, "vehicle", "segment").items():
            accident = int(accidents.get(segment) or mine[-1]["ts"])

            def may_start(time: int, accident: int = accident) -> int:
                return int(time <= accident)

            for _, fresh in grow(mine, "speed", "speed", holds, may_start):
                for sums in fresh:
                    for n, number in enumerate(sums):
                        found[start, segment][n] += number
    return {p: (count, total / bound) for p, (count, bound, total) in found.items() if count}


def holds_of(name: str) -> Holds:
    direction, factor = name.split(", x ")
    # Times 1 as the query has it: 1 is a whole number and changes nothing.
    x = float(factor)
    if direction == "falls":
        return lambda earlier, later: earlier > later * x
    return lambda earlier, later: earlier * x < later


def check(
    key: str,
    table: pa.Table,
    expect: Callable[[list[Event], Holds], Expected],
    group: str,
    columns: tuple[str, ...],
    differing: int = 10,
) -> None:
    events = [event | {"one": 1} for event in events_of(table)]
    sizes = set()
    for name, text in variations(key).items():
        expected = expect(events, holds_of(name))
        rows: Any = query(text).run(table)
        starts = rows["window_start"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        places = list(zip(starts, rows[group].to_pylist(), strict=True))
        assert len(set(places)) == len(places)
        assert set(places) == set(expected), name
        for number, column in enumerate(columns):
            wanted = [float(expected[place][number]) for place in places]
            np.testing.assert_allclose(rows[column].to_numpy(), wanted, rtol=1e-11, err_msg=name)
        sizes.add(sum(numbers[0] for numbers in expected.values()))
    assert len(sizes) == differing, "the variations differ"


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(os.environ["CEPHEID_DATA"])  # The folder that holds the files of real data.


@pytest.mark.slow
def test_q1_on_real_trades(folder: Path) -> None:
    trades = edge_streams.trades(folder)
    begin = int(np.searchsorted(trades["ts"].to_numpy(), np.datetime64("2013-10-07T09:30:00")))
    sample = trades.slice(begin, 60_000).take(np.arange(0, 60_000, 40))
    check("q1", sample, expect_q1, "sector", ("count",), differing=3)
    # No price changes by 5 % in an hour; the prices of several companies differ by more.
    one = pa.array(["all"] * len(sample))
    mixed = sample.set_column(2, "company", one).set_column(4, "sector", one).slice(0, 500)
    check("q1", mixed, expect_q1, "sector", ("count",), differing=6)


@pytest.mark.slow
def test_q2_on_a_cluster_of_the_papers_distributions() -> None:
    events = edge_streams.cluster(360_000)
    sample = events.take(np.arange(0, len(events), 36))
    check("q2", sample, expect_q2, "mapper", ("sum_M_cpu",))


@pytest.mark.slow
def test_q3_on_linear_road(folder: Path) -> None:
    road = edge_streams.road(folder)
    accidents = road.filter(pc.equal(road["type"].cast(pa.string()), pa.scalar("Accident")))
    assert len(accidents) > 10
    first = accidents["ts"][0].as_py()
    near = pc.equal(road["segment"], accidents["segment"][0])
    for other in (accidents["segment"][len(accidents) // 2].as_py(), 0, 50):
        near = pc.or_(near, pc.equal(road["segment"], pa.scalar(other)))
    times = road["ts"].to_numpy()
    minute = np.timedelta64(60, "s")
    late = (times > np.datetime64(first) - 4 * minute) & (times < np.datetime64(first) + 9 * minute)
    sample = road.filter(pc.and_(near, pa.array(late)))
    check("q3", sample, expect_q3, "segment", ("count", "avg_P_speed"))
