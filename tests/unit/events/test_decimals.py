"""Decimals lose no digit, or say so (docs/semantics.md §4.10)."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cepheid
from cepheid.errors import DataError
from cepheid.events.constants import loses_digits
from cepheid.events.schema import ValueKind
from cepheid.expressions.vectors import Vector, compare, vector_of

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
LONG = ("12345678901234567890.10", "12345678901234567890.11", "12345678901234567890.12")


@st.composite
def columns(draw: st.DrawFn, length: int) -> pa.Array[Any]:
    """Draw decimals of any type, close to each other and to what doubles hold."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    near = draw(st.sampled_from([0, 1, 10**14, 2**53, 10**17, most - 2]))
    whole = st.one_of(
        st.none(), st.integers(near - 2, near + 2), st.integers(-most, most), st.just(0)
    )
    values = draw(st.lists(whole, min_size=length, max_size=length))
    with localcontext(prec=80):
        cells = [
            None if v is None else Decimal(max(-most, min(v, most))).scaleb(-scale) for v in values
        ]
    return pa.array(cells, pa.decimal128(precision, scale))


def compared(operator: str, a: Any, b: Any) -> bool | None:
    """Compare two values by definition: a double is the decimal of its text."""
    if a is None or b is None:
        return None
    if isinstance(b, float):
        if b != b or b in (float("inf"), float("-inf")):
            sign = 1 if b == float("-inf") else -1
            a, b = Decimal(sign), Decimal(0)
        else:
            b = Decimal(int(b)) if b.is_integer() else Decimal(repr(b))
    sign = int(a > b) - int(a < b)
    truths = {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0,
              ">=": sign >= 0}  # fmt: skip
    return truths[operator]


def values_of(vector: Vector) -> list[bool | None]:
    valid = np.ones(len(vector.numbers), bool) if vector.valid is None else vector.valid
    pairs = zip(vector.numbers.tolist(), valid.tolist(), strict=True)
    return [value if known else None for value, known in pairs]


@given(st.data(), st.sampled_from(OPERATORS), st.integers(2, 5))
def test_decimals_compare_by_value(data: st.DataObject, operator: str, length: int) -> None:
    left, right = data.draw(columns(length)), data.draw(columns(length))
    found = compare(operator, vector_of(left), vector_of(right))
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    assert values_of(found) == [compared(operator, a, b) for a, b in pairs]


@given(st.data(), st.sampled_from(OPERATORS))
def test_decimals_compare_with_other_numbers(data: st.DataObject, operator: str) -> None:
    left = data.draw(columns(3))
    edges = [0.1, -0.0, 2.0**53, 1e17, 1e300, float("nan"), float("inf"), float("-inf")]
    near = [float(cell) for cell in left.to_pylist() if cell is not None] or [0.0]
    # Whole numbers that a double beside the decimal would hide.
    whole = [max(-(2**62), min(int(number), 2**62)) for number in near]
    around = st.tuples(st.sampled_from(whole), st.integers(-9, 9)).map(sum)
    for right in (
        data.draw(st.lists(st.sampled_from(edges + near), min_size=3, max_size=3)),
        data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3)),
        data.draw(st.lists(around, min_size=3, max_size=3)),
    ):
        found = compare(operator, vector_of(left), vector_of(pa.array(right)))
        pairs = zip(left.to_pylist(), right, strict=True)
        assert values_of(found) == [compared(operator, a, b) for a, b in pairs]


def test_decimals_without_a_point_are_whole_numbers() -> None:
    wide = vector_of(pa.array([Decimal(2**63 - 1), None], pa.decimal128(38, 0)))
    assert (wide.kind, int(wide.numbers[0])) == (ValueKind.INTEGER, 2**63 - 1)


def test_more_digits_than_a_double_are_refused_for_arithmetic() -> None:
    events = pa.table({"ts": [1], "type": ["A"], "x": pa.array([Decimal(LONG[0])])})
    for text in (
        "SELECT x + 1 AS y FROM s",
        "SELECT MAX(x) FROM s",
        "RETURN SUM(A.x) PATTERN A",
        "RETURN MIN(A.x) PATTERN A",
        "RETURN COUNT(*) PATTERN A WHERE A.x * 2 > 3",
    ):
        with pytest.raises(DataError, match="E570"):
            cepheid.query(text).run(events)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x", [7.0]),
        ("RETURN COUNT(*) PATTERN A+ WHERE A.x = NEXT(A).x", [3.0]),
        (f"RETURN COUNT(*) PATTERN A WHERE A.x = {LONG[1]}", [1.0]),
        (f"RETURN COUNT(*) PATTERN A WHERE A.x > -{LONG[1]}", [3.0]),
        (f"RETURN COUNT(*) PATTERN A WHERE A.x IN ({LONG[1]}, {LONG[2]}, 5)", [2.0]),
        (f"RETURN COUNT(*) PATTERN A WHERE A.x BETWEEN {LONG[1]} AND 1e30", [2.0]),
        ("RETURN COUNT(*) PATTERN SEQ(A a, A b) WHERE FIRST(a).x < LAST(b).x", [3.0]),
        (f"SELECT COUNT(*) AS count FROM s WHERE x > {LONG[0]}", [2]),
        ("SELECT COUNT(*) AS count FROM s WHERE x IS NOT NULL GROUP BY x", [1, 1, 1]),
        ("SELECT a.ts AS count FROM s a JOIN s b ON a.x = b.x WINDOW 1 min", [1, 2, 3]),
        (f"DEFINE H AS x >= {LONG[1]} SITUATIONS H RETURN COUNT(H) AS count", []),
    ],
)
def test_long_decimals_compare_everywhere(text: str, expected: list[float]) -> None:
    x = pa.array([Decimal(digits) for digits in LONG], pa.decimal128(30, 2))
    events = pa.table({"ts": [1, 2, 3], "type": ["A"] * 3, "x": x})
    assert cepheid.query(text).run(events).column("count").to_pylist() == expected


def test_a_constant_keeps_its_digits_beside_decimals_and_is_a_double_elsewhere() -> None:
    digits = "0.10000000000000000001"
    x = pa.array([Decimal("0.1"), Decimal(digits)], pa.decimal128(38, 20))
    events = pa.table({"ts": [1, 2], "x": x.slice(0, 1).take([0, 0]), "y": [0.1, 0.2]})
    found = cepheid.query(f"SELECT x < {digits} AS a, y = {digits} AS b, {digits} AS c FROM s")
    assert found.run(events).to_pylist()[0] == {"a": True, "b": True, "c": 0.1}


def test_constants_that_lose_digits() -> None:
    for text in (LONG[0], "0.10000000000000000001", "9007199254740993.0"):
        assert loses_digits(text), text
    for text in (
        "0.1",
        "1e300",
        "1e-300",
        "1.5e3",
        "123456789.123456",
    ):
        assert not loses_digits(text), text


def test_whole_decimals_sum_and_compare_as_whole_numbers() -> None:
    values = [Decimal("9007199254740993"), Decimal("9007199254740992"), None]
    for kind in (pa.decimal128(18, 0), pa.decimal128(38, 0), pa.decimal256(60, 0)):
        events = pa.table({"ts": [1, 2, 3], "type": ["A"] * 3, "x": pa.array(values, kind)})
        text = "SELECT SUM(x) AS s, MIN(x) AS a, MAX(x) AS b FROM s"
        row = cepheid.query(text).run(events).to_pylist()[0]
        assert row == {"s": 2**54 + 1, "a": 2**53, "b": 2**53 + 1}
        least = cepheid.query("RETURN MIN(A.x) AS a PATTERN A").run(events).to_pylist()
        assert least == [{"a": 2**53}]
        text = "RETURN COUNT(*) PATTERN A WHERE A.x = 9007199254740993"
        assert cepheid.query(text).run(events).to_pylist() == [{"count": 1.0}]
