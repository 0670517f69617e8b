"""Conditions that see the match give the same with programs and without, for all types."""

from __future__ import annotations

import datetime as dt
import random
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import cepheid
from cepheid.kinds.row_pattern import find
from cepheid.kinds.row_pattern.programs import NoProgramError

CONDITIONS = [
    "ts - FIRST(A.ts) < INTERVAL '3' SECOND",
    "LAST(A.ts, 1) + INTERVAL '2' SECOND > ts OR LAST(A.ts, 1) IS NULL",
    "gap + A.gap < INTERVAL '4' SECOND",
    "day = A.day",
    "s = A.s",
    "s > FIRST(s) OR s = 'b'",
    "CONCAT(s, A.s) <> 'ab'",
    "ABS(x - A.x) < 2",
    "COALESCE(LAST(A.x, 1), 0) <= x",
    "CASE WHEN A.x > 1 THEN x > 1 ELSE x < 3 END",
    "- A.x < x - 1",
    "d / A.x > 0.5",
    "A.x % 2 = x % 2",
    "MAX(d) - MIN(d) < 2.5",
    "AVG(A.x) >= 1 AND COUNT(*) < 5",
    "SUM(big) > A.big",
    "MIN(s) = 'a' OR COUNT(s) < 2",
    "NOT (A.x = x)",
    "p = A.p",
    "A.p OR p",
    "(A.x > 1) IS NOT NULL",
    "A.d < d",
    "MATCH_NUMBER() < 3 AND A.x IS NOT NULL",
    "PREV(CLASSIFIER(), 2) = 'A'",
    "FIRST(CLASSIFIER()) < CLASSIFIER()",
    "CLASSIFIER(U) = 'B'",
    "MAX(A.ts) > LAST(ts, 2)",
    "MIN(gap) < gap",
    "TRUE AND NULL OR A.x < x",
    "A.ts < TIMESTAMP '2026-01-01 00:00:05'",
    "COUNT(A.x) FILTER (WHERE A.p) < 2",
    "SUM(DISTINCT x) < 4",
]


def table() -> pa.Table:
    rng = random.Random(7)
    start = dt.datetime(2026, 1, 1)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    rows = [
        {
            "ts": start + dt.timedelta(seconds=i),
            "day": start.date() + dt.timedelta(days=rng.randrange(3)),
            "gap": maybe(dt.timedelta(seconds=rng.randrange(4))),
            "s": maybe(rng.choice("abc")),
            "x": maybe(rng.randrange(4)),
            "d": maybe(rng.choice([0.5, 1.5, float("nan"), 3.0])),
            "p": maybe(rng.random() < 0.5),
            "big": rng.randrange(2**52),
        }
        for i in range(60)
    ]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_programs_change_nothing(condition: str) -> None:
    text = f"""SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts
        MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS c ALL ROWS PER MATCH
        PATTERN (A (A | B)* B+?) SUBSET U = (A, B) DEFINE B AS {condition})"""
    fast = cepheid.sql(text, tables={"t": table()})
    with patch.object(find, "build_programs", side_effect=NoProgramError):
        slow = cepheid.sql(text, tables={"t": table()})
    assert str(fast.to_pylist()) == str(slow.to_pylist())
    assert fast.num_rows > 0


@pytest.mark.parametrize("compiled", [True, False], ids=["program", "scalars"])
def test_sums_that_leave_64_bits_are_refused(*, compiled: bool) -> None:
    table = pa.table({"i": [1, 2], "v": [2**62, 2**62]})
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i ALL ROWS PER MATCH PATTERN (A B)
        DEFINE B AS A.v + B.v > 0)"""
    way = patch.object(find, "build_programs", side_effect=NoProgramError)
    with nullcontext() if compiled else way, pytest.raises(cepheid.DataError, match="E614"):
        cepheid.sql(text, tables={"t": table})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("COALESCE(LENGTH(LAST(B.s, 1)), 7) > 6", [1]),
        ("LENGTH(COALESCE(LAST(B.s, 1), 'far')) = 3", [1]),
        ("UPPER(A.s) = 'A' AND LENGTH(B.s) + 1 > LENGTH(A.s)", [1, 2, 3]),
        ("CASE WHEN LOWER(LAST(B.s, 1)) = 'b' THEN 1 ELSE 2 END = 2 OR B.i > 2", [1, 2, 3]),
    ],
)
def test_functions_of_one_row_see_no_row_as_null(condition: str, expected: list[int]) -> None:
    table = pa.table({"i": [0, 1, 2, 3], "s": ["a", "cc", "b", "d"]})
    text = f"""SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES ARRAY_AGG(B.i) AS found
        PATTERN (A B+) DEFINE A AS i = 0, B AS {condition})"""
    found = cepheid.sql(text, tables={"t": table})
    assert found["found"].to_pylist() == [expected]


@pytest.mark.parametrize("near", [0, 1, 8])
@pytest.mark.parametrize("column", ["x", "d", "s"])
def test_neighbours_are_the_same_near_and_far(near: int, column: str) -> None:
    rows = 120
    data = [(7 * i * i + i) % 23 for i in range(rows)]
    keys = [(i * 5) % 7 for i in range(rows)]
    values: dict[str, Any] = {"k": keys, "t": list(range(rows)), "x": data}
    values |= {"d": [v / 2 for v in data], "s": [chr(97 + v) for v in data]}
    events = pa.table(values)
    for shift in (1, 2, 8, 9, 40):
        text = f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
            MEASURES A.t AS a ALL ROWS PER MATCH PATTERN (A | B)
            DEFINE A AS {column} < PREV({column}, {shift}),
              B AS {column} >= NEXT({column}, {shift}))"""
        with patch("cepheid.kinds.row_pattern.arrange.NEAR", near):
            found = cepheid.sql(text, tables={"t": events})
        expected = []
        for key in sorted(set(keys)):
            own = [i for i in range(rows) if keys[i] == key]
            for n, i in enumerate(own):
                before = own[n - shift] if n >= shift else None
                after = own[n + shift] if n + shift < len(own) else None
                is_a = before is not None and data[i] < data[before]
                if is_a or (after is not None and data[i] >= data[after]):
                    expected.append((key, i, i if is_a else None))
        rows_found = zip(*(found[name].to_pylist() for name in ("k", "t", "a")), strict=True)
        assert sorted(rows_found) == sorted(expected)
