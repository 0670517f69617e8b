"""Sums of values of any size stay right: AVG and LOG2(SUM) beyond doubles, and beside infinity.

Of ``A+`` over m events there are 2^m - 1 matches, and every event is in 2^(m-1) of them: so
AVG is the mean of the window's values, and SUM is 2^(m-1) times their sum.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.amount import share

from cepheid.api import CompiledQuery, query
from cepheid.workloads import workload

ITEMS = "AVG(A.x) AS mean, LOG2(SUM(A.x)) AS sum, LOG2(COUNT(*)) AS count"
TRAILING = "WITHIN 40 us"
WINDOWS = (
    "",
    "WITHIN 40 us SLIDE 40 us",
    "WITHIN 40 us SLIDE 10 us",
    "WITHIN 40 EVENTS SLIDE 40 EVENTS",
    TRAILING,
)
FORMS = {
    "plain": "RETURN {items} PATTERN A+ {window}",
    "tied": "RETURN {items} PATTERN A+ {window} TIES arrival",
    "five parts": "RETURN {items}, SUM(A.y) AS a, AVG(A.z) AS b, AVG(A.w) AS c PATTERN A+ {window}",
    "with NOT": "RETURN {items} PATTERN SEQ(NOT C, A+) {window}",
    "edges": "RETURN {items} PATTERN A+ WHERE A.n < NEXT(A).n {window}",
    "whole match": "RETURN {items} PATTERN A+ WHERE FIRST(A).n <= LAST(A).n {window}",
    "two edges": "RETURN {items} PATTERN A+ WHERE A.n < NEXT(A).n + A.n {window}",
}
SIZES = (1e300, 1.5e308, 1e200, 1e154, 1e100, 1.0, 1e-100, 1e-200, 1e-300, 1e-310)


@cache
def _compiled(text: str) -> CompiledQuery:
    return query(text)


@cache
def _log2(number: Fraction) -> float:
    shift = number.numerator.bit_length() - number.denominator.bit_length()
    return math.log2(number / Fraction(2) ** shift) + shift


def _events(values: list[float]) -> pa.Table:
    n = len(values)
    other = pa.array([1.0] * n)
    return pa.table(
        {"ts": range(n), "type": ["A"] * n, "x": values, "n": range(n)}
        | dict.fromkeys(("y", "z", "w"), other)
    )


def _check(row: dict[str, Any], values: list[float]) -> None:
    start, end = row.get("window_start", 0), row.get("window_end", len(values))
    trailing = "trailing" in row
    inside = values[max(0, start + trailing) : end + trailing]
    m = len(inside)
    assert row["count"] == pytest.approx(_log2(Fraction(2**m - 1)), rel=1e-12, abs=1e-12)
    total = sum((Fraction(v) * n for v, n in Counter(inside).items()), Fraction(0))
    assert row["mean"] == pytest.approx(float(total / m), rel=1e-12)
    assert row["sum"] == pytest.approx(_log2(total) + m - 1, rel=1e-12, abs=1e-12)


@share(3)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.sampled_from(SIZES), min_size=1, max_size=4), st.sampled_from([1, 3, 29, 400]))
@example([1e300], 29)
@example([1e200], 400)
@example([1.5e308], 3)
def test_means_and_logarithms_are_right(form: str, window: str, few: list[float], n: int) -> None:
    if window == TRAILING and n > 29:
        n = 60
    values = (few * n)[:n] if form != "whole match" else (few * 9)[: min(n, 9)]
    text = FORMS[form].format(items=ITEMS, window=window)
    compiled = _compiled(text)
    ways = [compiled.run(_events(values))]
    if form == "plain":
        ways.append(workload([text, text.replace("AVG", "MAX")]).run(_events(values)))
    if "edges" in form:
        evaluators = ("pairwise", "indexed")[: 1 if form == "two edges" else 2]
        ways += [compiled.with_evaluator(name).run(_events(values)) for name in evaluators]
    for found in ways:
        rows = [row for row in found.to_pylist() if row.get("query", "q1") == "q1"]
        assert rows
        for row in rows:
            _check(row | ({"trailing": 1} if window == TRAILING else {}), values)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("window", ["", "WITHIN 2 s SLIDE 2 s", "WITHIN 2 s SLIDE 1 s"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_number_spoils_its_own_sum_only(form: str, window: str, odd: float) -> None:
    n = 2100 if form != "whole match" else 9
    values = [1.0] * n
    values[7] = odd
    items = ITEMS + ", AVG(A.y) AS other"
    text = FORMS[form].format(items=items, window=window)
    (row,) = query(text).run(_events(values)).to_pylist()[-1:]
    assert row["count"] == pytest.approx(_log2(Fraction(2**n - 1)), rel=1e-12)
    assert row["other"] == pytest.approx(1, rel=1e-12)
    expected = pytest.approx(odd, nan_ok=True)
    assert row["mean"] == expected
    # A number below zero has no logarithm.
    assert row["sum"] == (None if odd < 0 else expected)


@pytest.mark.parametrize("semantics", ["contiguous", "next", "any"])
def test_an_infinite_value_of_no_match_is_not_counted(semantics: str) -> None:
    """The first event ends no match of two: none times infinity would be NaN."""
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [math.inf, 1.0]})
    text = "RETURN SUM(A.x) PATTERN A+ WHERE A.x >= NEXT(A).x MIN LENGTH 2"
    found = query(f"{text} SEMANTICS {semantics}").run(events)
    assert found.to_pylist() == [{"sum_A_x": math.inf}]


@pytest.mark.parametrize("function", ["MIN", "MAX"])
def test_logarithms_of_whole_numbers_beyond_doubles(function: str) -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [2**63 - 2, 2**63 - 2]})
    found = query(f"RETURN LOG2({function}(A.x)) AS bits PATTERN A+").run(events)
    assert found.to_pylist() == [{"bits": 63.0}]
