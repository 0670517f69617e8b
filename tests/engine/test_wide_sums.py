"""Prefix sums of numbers that outgrow doubles, of values of any size, and of NaN and infinity."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from tests.engine.comparison import same_rows, table_of

from cepheid.api import query
from cepheid.testing.oracle import evaluate

PREDICATES = {
    "A.x * 0.2 < NEXT(A).x": lambda p, n: p * 0.2 < n,
    "A.x <> NEXT(A).x": lambda p, n: p != n,
    "A.x <= NEXT(A).x": lambda p, n: p <= n,
    "A.x < NEXT(A).x": lambda p, n: p < n,
}
EVENTS = 6000


def log2(number: int | Fraction) -> float:
    """Return the logarithm of a number of any size."""
    top, bottom = Fraction(number).as_integer_ratio()
    shift = max(0, top.bit_length() - 1000) - max(0, bottom.bit_length() - 1000)
    return math.log2(Fraction(number) / Fraction(2) ** shift) + shift


class Sums:
    """Prefix sums of big integers (Fenwick)."""

    def __init__(self, size: int) -> None:
        self.nodes = [0] * (size + 1)

    def add(self, place: int, amount: int) -> None:
        place += 1
        while place < len(self.nodes):
            self.nodes[place] += amount
            place += place & -place

    def below(self, upto: int) -> int:
        total = 0
        while upto:
            total += self.nodes[upto]
            upto &= upto - 1
        return total


def counts_and_sums(values: list[int], holds: Any) -> tuple[int, int]:
    """Return the number of matches of A+, and the sum of their values, in big integers."""
    known = sorted(set(values))
    counts, sums = Sums(len(known)), Sums(len(known))
    # Every predicate here holds for a range of earlier values, or for all but one.
    for value in values:
        fits = [place for place, earlier in enumerate(known) if holds(earlier, value)]
        ranges = [(fits[0], fits[-1] + 1)] if fits else []
        if fits and len(fits) < fits[-1] + 1 - fits[0]:
            hole = known.index(value)
            ranges = [(fits[0], hole), (hole + 1, fits[-1] + 1)]
        count = 1 + sum(counts.below(b) - counts.below(a) for a, b in ranges)
        total = value * count + sum(sums.below(b) - sums.below(a) for a, b in ranges)
        place = known.index(value)
        counts.add(place, count)
        sums.add(place, total)
    return counts.below(len(known)), sums.below(len(known))


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("order", ["drawn", "rising"])
def test_numbers_far_beyond_doubles_are_those_of_big_integers(predicate: str, order: str) -> None:
    values = random.Random(5).choices(range(1, 300), k=EVENTS)
    if order == "rising":
        values.sort()
    count, total = counts_and_sums(values, PREDICATES[predicate])
    events = pa.table(
        {"ts": range(EVENTS), "type": ["A"] * EVENTS, "x": [float(v) for v in values]}
    )
    items = "LOG2(COUNT(*)) AS count, LOG2(SUM(A.x)) AS sum, AVG(A.x) AS mean, MIN(A.x) AS least"
    (row,) = query(f"RETURN {items} PATTERN A+ WHERE {predicate}").run(events).to_pylist()
    assert row["count"] == pytest.approx(log2(count), rel=1e-12)
    assert row["sum"] == pytest.approx(log2(total), rel=1e-12)
    assert row["least"] == min(values)
    # Counting alone has ways of its own.
    end = pa.table({"ts": [EVENTS], "type": ["B"], "x": [0.0]})
    for pattern, some in (("A+", events), ("SEQ(A+, B)", pa.concat_tables([events, end]))):
        text = f"RETURN LOG2(COUNT(*)) AS count PATTERN {pattern} WHERE {predicate}"
        (row,) = query(text).run(some).to_pylist()
        assert row["count"] == pytest.approx(log2(count), rel=1e-12)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e-310, 1e300, -1e300])
@pytest.mark.parametrize("window", ["", "WITHIN 4 us SLIDE 1 us", "WITHIN 4 us SLIDE 4 us"])
@pytest.mark.parametrize("pattern", ["A+", "SEQ(A+, B)"])
def test_odd_values_stay_in_their_own_matches(odd: float, window: str, pattern: str) -> None:
    x = [3.0, 1.0, odd, 2.0, 5.0, 4.0, 1.0, 7.0]
    kinds = "AAAABAAB"
    events = [
        {"ts": n, "type": kind, "x": value, "rank": float(n * 5 % 8)}
        for n, (kind, value) in enumerate(zip(kinds, x, strict=True))
    ]
    text = f"RETURN COUNT(*), SUM(A.x), AVG(A.x), MIN(A.x), MAX(A.x) PATTERN {pattern} "
    compiled = query(text + f"WHERE A.rank > NEXT(A).rank {window}")
    assert same_rows(compiled.run(table_of(events)).to_pylist(), evaluate(compiled.tree, events))
