"""Numbers at any size: exact up to 38 digits, residues against big integers, an error beyond."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.comparison import table_of

from cepheid.api import query
from cepheid.errors import BindError, DataError
from cepheid.kernels.ring import MERSENNE
from cepheid.kinds.trend.program.conjunction import Whole, combine
from cepheid.kinds.trend.program.job import EXACT_MODULI, Job
from cepheid.kinds.trend.windows.step import PartitionState, finish, step
from cepheid.plans.plan import TrendPlan
from cepheid.testing.harness import stream
from cepheid.testing.oracle import evaluate
from cepheid.workloads import workload


@pytest.mark.parametrize("window", ["", "WITHIN 40 s SLIDE 40 s", "WITHIN 40 s SLIDE 10 s"])
def test_exact_numbers_are_those_of_big_integers(window: str) -> None:
    text = f"RETURN COUNT(*), COUNT(A), SUM(A.n) PATTERN A+ {window} NUMBERS exact"
    events = [{"ts": i * 1_000_000, "type": "A", "n": (i * 7919) % 101 - 50} for i in range(100)]
    result = query(text).run(table_of(events[: 100 if not window else 90])).to_pylist()
    assert result
    for row in result:
        start = row.get("window_start", 0) // 1_000_000 if window else 0
        inside = [e for e in events[: 100 if not window else 90] if _inside(e, start, window)]
        count = 2 ** len(inside)
        total = sum(int(str(e["n"])) for e in inside)
        assert row["count"] == Decimal(count - 1)
        assert row["count_A"] == Decimal(len(inside) * count // 2)
        assert row["sum_A_n"] == Decimal(total * count // 2)


def _inside(event: dict[str, object], start: int, window: str) -> bool:
    return not window or start <= int(str(event["ts"])) // 1_000_000 < start + 40


@pytest.mark.parametrize(
    "window", ["WITHIN 3 s", "WITHIN 2 s EMIT ON EXPIRY", "WITHIN 3 EVENTS SLIDE 1 EVENT"]
)
@pytest.mark.parametrize("where", ["", "WHERE [key]"])
def test_exact_numbers_of_windows_that_keep_their_events(window: str, where: str) -> None:
    text = f"RETURN COUNT(*), SUM(A.n), COUNT(A) PATTERN SEQ(A+, B) {where} {window} NUMBERS exact"
    events = stream(
        "a1(n=5, key='p') b2(key='p') a3(n=-7, key='q') a4(n=1, key='p') b5(key='q') b6(key='p') c7"
    )
    compiled = query(text)
    actual = compiled.run(table_of(events)).to_pylist()
    assert actual == evaluate(compiled.tree, events)


def test_exact_numbers_equal_the_oracle_on_conjunctions_and_groups() -> None:
    text = "RETURN COUNT(*) PATTERN A+ AND SEQ(A, B) WHERE [key] GROUP-BY zone NUMBERS exact"
    events = stream(
        "a1(key='p', zone='x') a2(key='q', zone='x') b3(key='p', zone='x') a4(key='p', zone='x') "
        "b5(key='q', zone='x') a6(key='q', zone='y') b7(key='q', zone='y')"
    )
    compiled = query(text)
    actual = compiled.run(table_of(events)).to_pylist()
    assert actual == evaluate(compiled.tree, events)


@pytest.mark.parametrize("where", ["", "WHERE [key]", "WHERE [key] GROUP-BY zone"])
@pytest.mark.parametrize("expiry", ["", "EMIT ON EXPIRY"])
def test_exact_pairs_of_the_time_up_to_now_equal_the_oracle(where: str, expiry: str) -> None:
    pattern = "SEQ(NOT C, A+) AND SEQ(A, B?)"
    text = f"RETURN COUNT(*) PATTERN {pattern} {where} WITHIN 4 s {expiry} NUMBERS exact"
    events = stream(
        "c1(key='p', zone='x') a2(key='p', zone='x') a3(key='q', zone='x') a3(key='p', zone='x') "
        "b4(key='p', zone='x') a5(key='q', zone='x') a6(key='p', zone='y') b7(key='p', zone='x') "
        "a8(key='p', zone='x') b9(key='q', zone='x')"
    )
    compiled = query(text)
    actual = compiled.run(table_of(events)).to_pylist()
    assert actual
    assert actual == evaluate(compiled.tree, events)


def test_exact_pairs_beyond_doubles() -> None:
    text = "RETURN COUNT(*) PATTERN A+ AND A+ WITHIN 60 s EMIT ON EXPIRY NUMBERS exact"
    rows = query(text).run(table_of(stream(" ".join(f"a{i}" for i in range(1, 101))))).to_pylist()
    for row in rows:
        end = row["window_end"] // 1_000_000
        trends = 2 ** (min(end, 100) - max(end - 60, 0)) - 1
        assert row["count"] == Decimal(trends * (trends - 1) // 2)
    # One A is no pair, so neither the first one nor the last one that leaves changes anything.
    assert [row["window_end"] // 1_000_000 for row in rows] == list(range(2, 160))


@pytest.mark.parametrize("modulus", [MERSENNE, *EXACT_MODULI])
def test_residues_of_pairs_are_those_of_big_integers(modulus: int) -> None:
    rng = random.Random(modulus)
    both = [0, 1, 2, *(rng.randrange(2**200) for _ in range(50))]
    first = [c + rng.randrange(2**200) for c in both]
    second = [c + rng.randrange(2**200) for c in both]
    columns = [[Whole(side, modulus)] for side in (first, second, both)]
    expected = [p * q - c - c * (c - 1) // 2 for p, q, c in zip(first, second, both, strict=True)]
    assert combine(columns)[0].values == [n % modulus for n in expected]


def test_what_no_match_begins_with_leaves_without_a_row_at_any_size() -> None:
    # Bs and Zs begin no match; that counts beyond 2^53 are rounded is no change.
    events = stream(" ".join(f"{'zab'[i % 3]}{i}" for i in range(1, 400)))
    text = "RETURN COUNT(*) PATTERN (SEQ(A+, B))+ WITHIN 300 s EMIT ON EXPIRY"
    rows = query(text).run(table_of(events)).to_pylist()
    ends = [i for i in range(1, 400) if i % 3 == 2]
    leaves = [i + 300 for i in range(1, 398) if i % 3 == 1]
    assert [row["window_end"] // 1_000_000 for row in rows] == sorted({*ends, *leaves})


def test_numbers_of_more_than_38_digits_are_an_error_that_says_where() -> None:
    events = [{"ts": i, "type": "A"} for i in range(200)]
    with pytest.raises(DataError) as caught:
        query("RETURN COUNT(*) PATTERN A+ NUMBERS exact").run(table_of(events))
    assert caught.value.diagnostics[0].message == "`count` has about 61 digits, more than 38"


WHERE_LARGE = [
    ("GROUP-BY g", ", where `g` is 'paris'"),
    ("GROUP-BY g, h", ", where `g` is 'paris' and `h` is 7"),
    ("GROUP-BY g WITHIN 1 hour SLIDE 1 hour", ", in the window from 0 to 3600000000, where `g`"),
    ("WITHIN 150 EVENTS SLIDE 150 EVENTS", ", in the window from 0 to 150"),
]


@pytest.mark.parametrize(("clauses", "told"), WHERE_LARGE)
@pytest.mark.parametrize("place", ["alone", "workload"])
def test_the_window_and_the_group_are_those_of_the_query(
    clauses: str, told: str, place: str
) -> None:
    table = pa.table({"ts": range(150), "type": ["A"] * 150, "g": ["paris"] * 150, "h": [7] * 150})
    others = pa.table({"ts": [0], "type": ["A"], "g": ["oslo"], "h": [1]})
    events = pa.concat_tables([others, table])
    text = f"RETURN COUNT(*) PATTERN A+ {clauses} NUMBERS exact"
    with pytest.raises(DataError, match="E510") as caught:
        query(text).run(events) if place == "alone" else workload([text, text]).run(events)
    found = caught.value.diagnostics[0].message
    if "EVENTS" not in clauses:
        assert told in found
    assert ("window" in found) == ("WITHIN" in clauses)


def test_times_that_python_has_not_are_told_too() -> None:
    times = pa.array(
        [-(10**17)] * 1 + [(1 << 62) - 151 + n for n in range(150)], pa.timestamp("us")
    )
    table = pa.table({"ts": times, "type": ["A"] * 151})
    with pytest.raises(DataError, match="in the window from"):
        query("RETURN COUNT(*) PATTERN A+ WITHIN 1 hour SLIDE 1 hour NUMBERS exact").run(table)


def test_counts_modulo_a_large_prime_equal_big_integers_on_100000_events() -> None:
    rng = random.Random(7)
    types = [rng.choice("ABC") for _ in range(100_000)]
    a = b = 0
    for kind in types:
        # The recurrence of (SEQ(A+, B))+ by hand, modulo the prime.
        if kind == "A":
            a = (2 * a + b + 1) % MERSENNE
        elif kind == "B":
            b = (b + a) % MERSENNE
    job = Job(TrendPlan.of(query("RETURN COUNT(*) PATTERN (SEQ(A+, B))+").plan), moduli=(MERSENNE,))
    table = pa.table({"ts": pa.array(np.arange(100_000)), "type": pa.array(types)})
    state, _ = step(job, PartitionState(job), table)
    _, rows = finish(job, state)
    assert int(rows[1][-1].numbers[0, 0]) == b


def test_exact_numbers_of_a_partition_that_falls_silent() -> None:
    # The window of key 1 is closed by an event of key 2, and closed again at the end.
    events = pa.table({"ts": [1, 2, 30], "type": ["A", "B", "A"], "key": [1, 1, 2]})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] NUMBERS exact WITHIN 9 us SLIDE 9 us"
    assert query(text).run(events)["count"].to_pylist() == [1]


def test_exact_averages_are_those_of_whole_numbers() -> None:
    text = "RETURN AVG(A.n) PATTERN A+ NUMBERS exact"
    whole = table_of([{"ts": 1, "type": "A", "n": 3}, {"ts": 2, "type": "A", "n": 4}])
    assert query(text).run(whole).to_pylist() == [{"avg_A_n": 3.5}]
    parts = table_of([{"ts": 1, "type": "A", "n": 3.5}])
    with pytest.raises(BindError, match=r"E321\]: `NUMBERS exact` cannot average values of kind"):
        query(text).run(parts)


def test_logarithms_of_averages_and_extremes_are_theirs() -> None:
    table = pa.table({"ts": range(3), "type": ["A"] * 3, "x": [2, 8, None], "y": [-1.0, None, 0.0]})
    text = "RETURN LOG2(AVG(A.x)) AS a, LOG2(MIN(A.x)) AS b, LOG2(MAX(A.x)) AS c, "
    text += "LOG2(MAX(A.ts)) AS d, LOG2(MAX(A.y)) AS e, LOG2(AVG(A.y)) AS f PATTERN A"
    (row,) = query(text).run(table).to_pylist()
    assert row == {"a": math.log2(5), "b": 1.0, "c": 3.0, "d": 1.0, "e": None, "f": None}
    undefined = pa.table({"ts": [1], "type": ["A"], "x": [math.nan]})
    text = "RETURN LOG2(AVG(A.x)) AS a, LOG2(MIN(A.x)) AS b, LOG2(SUM(A.x)) AS c PATTERN A"
    (row,) = query(text).run(undefined).to_pylist()
    assert all(math.isnan(value) for value in row.values())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("RETURN COUNT(*) PATTERN A WHERE A.x*4 > 0", "A.x*4"),
        ("RETURN COUNT(*) PATTERN SEQ(A a, A b) WHERE a.x  *  4 > NEXT(b).x", "a.x * 4"),
        ("RETURN COUNT(*) PATTERN A+ WHERE NEXT(A).x*4 > A.x", "NEXT(A).x*4"),
        ("RETURN COUNT(*) PATTERN SEQ(A a, A b) WHERE FIRST(a).x*4 > LAST(b).x", "FIRST(a).x*4"),
        ("RETURN COUNT(*) PATTERN A WHERE SUM(A.x)*5 > 4", "SUM(A.x)*5"),
        ("DEFINE A AS x*4 > 1 SITUATIONS A", "x*4"),
        ("SELECT x FROM s WHERE  -x*4>1", "-x*4"),
        ("SELECT a.x*4 AS y FROM s a JOIN s b ON a.x = b.x WINDOW 5 us", "a.x*4"),
    ],
)
def test_a_number_that_left_64_bits_is_quoted_as_it_was_written(text: str, part: str) -> None:
    events = pa.table({"ts": [1, 2], "type": ["A", "A"], "x": [2**61 + 1, 2**61 + 1]})
    with pytest.raises(DataError) as caught:
        query(text).run(events)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E504"
    assert diagnostic.message == f"a whole number overflowed 64 bits in `{part}`"


@pytest.mark.parametrize(
    "text",
    [
        "RETURN {f}(A.x) AS y PATTERN A",
        "RETURN {f}(A.x) AS y PATTERN A+ WHERE A.n < NEXT(A).n",
        "FROM s DEFINE S AS n > 0 SITUATIONS S RETURN {f}(S.x) AS y",
    ],
)
@pytest.mark.parametrize(("function", "edge"), [("MIN", 2**63 - 1), ("MAX", -(2**63))])
def test_the_ends_of_64_bits_are_not_taken_for_null(text: str, function: str, edge: int) -> None:
    def found(x: list[int | None]) -> pa.Table:
        columns = ([1, 2, 3], ["A", "B", "B"], [1, 0, 0], x)
        table = pa.table([pa.array(c) for c in columns], names=["ts", "type", "n", "x"])
        result: pa.Table = query(text.format(f=function)).run(table)
        return result

    with pytest.raises(DataError, match=r"E504.*from NULL"):
        found([edge, 0, 0])
    near = edge - 1 if edge > 0 else edge + 1
    assert found([near, None, None])["y"].to_pylist() == [near]
    assert found([None, None, 0])["y"].to_pylist() == [None]


@pytest.mark.parametrize("where", ["A.x < 1", "[key]"])
def test_the_largest_number_counts_only_where_an_event_is_bound(where: str) -> None:
    table = pa.table({"ts": [0, 1], "type": ["A", "A"], "key": [None, 1], "x": [2**63 - 1, 0]})
    asked = query(f"RETURN MIN(A.x) AS least PATTERN A WHERE {where}")
    assert asked.run(table).to_pylist() == [{"least": 0}]
    several = workload({"one": asked.text, "two": asked.text}).run(table, separate=True)
    assert several["two"].to_pylist() == [{"least": 0}]
    with pytest.raises(DataError, match="E504"):
        query("RETURN MIN(A.x) PATTERN A").run(table)


@pytest.mark.parametrize("each", [3, 127])
def test_exact_counts_are_whole_below_and_above_the_digits_of_a_double(each: int) -> None:
    types = [name for name in "ABCDEFGH" for _ in range(each)]
    events = pa.table({"ts": range(len(types)), "type": types})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B, C, D, E, F, G, H) NUMBERS exact"
    (row,) = query(text).run(events).to_pylist()
    assert row == {"count": Decimal(each**8)}
