"""SQL expressions give what SQL says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cepheid.errors import BindError, CepheidError, DataError
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.expressions import parse_expression
from cepheid.kinds.row_pattern.lexer import tokenize
from cepheid.kinds.row_pattern.reader import Reader
from cepheid.kinds.row_pattern.values import evaluate

NAN = float("nan")
MOMENT = dt.datetime(2026, 1, 31, 13, 30, 15)
QUARTER = dt.timedelta(seconds=15)
LONG = ("12345678901234567890.10", "12345678901234567890.11")
TABLE = {
    "i": pa.array([1, None, -3], pa.int32()),
    "b": pa.array([2**62, 5, 0], pa.int64()),
    "d": pa.array([1.5, NAN, None], pa.float64()),
    "s": pa.array(["abc", None, "A%c"], pa.string()),
    "p": pa.array([True, None, False]),
    "t": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
    "z": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "Europe/Berlin")),
    "day": pa.array([MOMENT.date(), None, dt.date(2026, 2, 1)], pa.date32()),
    "m": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
    "w": pa.array([*map(Decimal, LONG), None], pa.decimal128(38, 2)),
    "l": pa.array([["x", None, "y"], None, []], pa.list_(pa.string())),
}


def value(text: str) -> Any:
    reader = Reader(tokenize(text), text)
    expression = parse_expression(reader)
    assert reader.token.value == ""

    def leaf(node: tree.Expression) -> Any:
        assert isinstance(node, tree.Column)
        return TABLE[node.name]

    found = evaluate(expression, leaf, text)
    return found.to_pylist() if isinstance(found, pa.Array) else found.as_py()


CASES = [
    ("1 + 2 * 3", 7),
    ("-(2 - 5)", 3),
    ("+i", [1, None, -3]),
    ("7 / 2", 3.5),
    ("7 DIV 2", 3),
    ("-7 DIV 2", -3),
    ("7.5 DIV 2", 3),
    ("-7 % 3", -1),
    ("7.5 % 2", 1.5),
    ("1 / 0", None),
    ("1 % 0", None),
    ("i / 2", [0.5, None, -1.5]),
    ("i + NULL", [None, None, None]),
    ("NULL = 1", None),
    ("NULL AND FALSE", False),
    ("NULL OR TRUE", True),
    ("NOT NULL", None),
    ("i = 1", [True, None, False]),
    ("i <> 1 OR p", [True, None, True]),
    ("d = d", [True, True, None]),
    ("d > 1e300", [False, True, None]),
    ("1e300 < d", [False, True, None]),
    ("i IS NULL", [False, True, False]),
    ("i IS NOT NULL", [True, False, True]),
    ("p IS TRUE", [True, False, False]),
    ("p IS NOT FALSE", [True, True, False]),
    ("i IS DISTINCT FROM 1", [False, True, True]),
    ("i IS NOT DISTINCT FROM NULL", [False, True, False]),
    ("i IN (1, 2)", [True, None, False]),
    ("i NOT IN (1, NULL)", [False, None, None]),
    ("i BETWEEN -5 AND 0", [False, None, True]),
    ("i NOT BETWEEN -5 AND 0", [True, None, False]),
    ("s LIKE 'a%'", [True, None, False]),
    ("s NOT LIKE '_b_'", [False, None, True]),
    ("s LIKE 'A!%c' ESCAPE '!'", [False, None, True]),
    ("s LIKE NULL", [None, None, None]),
    ("s || '-' || i", ["abc-1", None, "A%c--3"]),
    ("CASE WHEN i > 0 THEN 'up' WHEN i < 0 THEN 'down' END", ["up", None, "down"]),
    ("CASE i WHEN 1 THEN 1 ELSE 2.5 END", [1.0, 2.5, 2.5]),
    ("CAST(i AS VARCHAR)", ["1", None, "-3"]),
    ("CAST('abcdef' AS VARCHAR(3))", "abc"),
    ("CAST(1.9 AS INT)", 1),
    ("CAST('12' AS BIGINT) + 1", 13),
    ("CAST(3 AS DECIMAL(5, 2))", Decimal("3.00")),
    ("CAST(TRUE AS INT)", 1),
    ("CAST(60 AS TIMESTAMP)", dt.datetime(1970, 1, 1, 0, 1)),
    ("TRY_CAST('x' AS INT)", None),
    ("TRY_CAST(s AS INT)", [None, None, None]),
    ("COALESCE(i, 0)", [1, 0, -3]),
    ("COALESCE(NULL, i, 0.5)", [1.0, 0.5, -3.0]),
    ("COALESCE(NULL, NULL)", None),
    ("NULLIF(i, 1)", [None, None, -3]),
    ("IF(i > 0, 'yes', 'no')", ["yes", "no", "no"]),
    ("IF(i > 0, 1)", [1, None, None]),
    ("GREATEST(i, 0, NULL)", [1, 0, 0]),
    ("LEAST(i, 0)", [0, 0, -3]),
    ("ABS(i)", [1, None, 3]),
    ("ROUND(2.5)", 3.0),
    ("ROUND(-2.5)", -3.0),
    ("ROUND(1.255, 1)", 1.3),
    ("ROUND(15, -1)", 20),
    ("FLOOR(-1.5)", -2),
    ("CEIL(1.2)", 2),
    ("CEILING(i)", [1, None, -3]),
    ("SIGN(-2)", -1.0),
    ("SQRT(16)", 4.0),
    ("LN(0)", None),
    ("LOG2(8)", 3.0),
    ("LOG10(1000)", 3.0),
    ("EXP(0)", 1.0),
    ("POWER(2, 10)", 1024.0),
    ("MOD(7, 4)", 3),
    ("UPPER(s)", ["ABC", None, "A%C"]),
    ("LOWER('ÄB')", "äb"),
    ("TRIM('  x ')", "x"),
    ("LTRIM(' x ') || RTRIM(' y ')", "x  y"),
    ("LENGTH(s)", [3, None, 3]),
    ("SUBSTRING('abcdef', 2, 3)", "bcd"),
    ("SUBSTR('abcdef', -2)", "ef"),
    ("REPLACE('banana', 'an', 'A')", "bAAa"),
    ("REPLACE('banana', 'an')", "ba"),
    ("STARTS_WITH(s, 'a')", [True, None, False]),
    ("CONCAT('a', 1, TRUE)", "a1true"),
    ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
    ("CONCAT_WS('-', l)", ["x-y", "", ""]),
    ("ARRAY_JOIN(l, '+')", ["x+y", None, ""]),
    ("ARRAY_JOIN(l, '+', '?')", ["x+?+y", None, ""]),
    ("CARDINALITY(l)", [3, None, 0]),
    ("l[1]", ["x", None, None]),
    ("ELEMENT_AT(l, -1)", ["y", None, None]),
    ("ARRAY_SORT(l)", [["x", "y", None], None, []]),
    ("ARRAY_MIN(l) || ARRAY_MAX(l)", ["xy", None, None]),
    ("CONTAINS(l, 'y')", [True, None, False]),
    ("ARRAY[1, 2] = ARRAY[1, 2]", True),
    ("ARRAY[] = ARRAY[1]", False),
    ("l <> ARRAY['x']", [True, None, True]),
    ("t = '2026-01-31 13:30:15'", [True, None, True]),
    ("TIMESTAMP '2026-01-31 13:30:15' >= t", [True, None, True]),
    ("z = TIMESTAMP '2026-01-31 14:30:15'", [True, None, True]),
    ("z = '2026-01-31 14:30:15'", [True, None, True]),
    ("z = '2026-01-31T13:30:15+00:00' AND z = t + INTERVAL '1' HOUR", [True, None, True]),
    ("HOUR(z) - HOUR(t)", [1, None, 1]),
    ("COALESCE(z, t) - z", [dt.timedelta(0), None, dt.timedelta(0)]),
    ("s LIKE s", [True, None, True]),
    ("ROUND(d, i)", [1.5, None, None]),
    ("t - TIMESTAMP '2026-01-31 13:30:00'", [QUARTER, None, QUARTER]),
    ("t + INTERVAL '1' MINUTE > t", [True, None, True]),
    ("t - t < INTERVAL '1 second'", [True, None, True]),
    ("day = DATE '2026-01-31'", [True, None, False]),
    ("day < t", [True, None, False]),
    ("day + INTERVAL 1 DAY = TIMESTAMP '2026-02-01 00:00:00'", [True, None, False]),
    ("YEAR(t) * 100 + MONTH(t)", [202601, None, 202601]),
    ("DAY(day) + HOUR(t) + MINUTE(t) + SECOND(t)", [31 + 13 + 30 + 15, None, 1 + 13 + 30 + 15]),
    ("m + m", [Decimal("3.00"), None, Decimal("4.50")]),
    ("m > 2", [False, None, True]),
    ("m = 1.5", [True, None, False]),
    ("m < d", [False, None, None]),
    ("b > 4611686018427387903.5", [True, False, False]),
    ("b = 4611686018427387904.0", [True, False, False]),
    ("b - 1 = 4611686018427387904.0", [False, False, False]),
    ("w = 12345678901234567890.11", [False, True, None]),
    ("w > -12345678901234567890.11", [True, True, None]),
    ("w IN (1, 12345678901234567890.10)", [True, False, None]),
    ("w IS DISTINCT FROM 12345678901234567890.10", [False, True, True]),
    ("w > m AND w > b", [True, None, None]),
    ("m = CAST(1.5 AS DECIMAL(30, 20))", [True, None, False]),
    ("(" * 40 + "1" + ")" * 40, 1),
    (" OR ".join(["i = 1"] * 3000), [True, None, False]),
    ("1" + " + 1" * 99, 100),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_values(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("b + b", DataError, "E614"),
        ("w * 1.5", DataError, "E570"),
        ("SQRT(w)", DataError, "E570"),
        ("b * 4", DataError, "E614"),
        ("CAST('x' AS INT)", DataError, "E614"),
        ("DATE 'tomorrow' = day", DataError, "E614"),
        ("i + s", BindError, "E609"),
        ("i AND p", BindError, "E609"),
        ("NOT i", BindError, "E609"),
        ("ABS(s)", BindError, "E609"),
        ("p + p", BindError, "E609"),
        ("l < l", BindError, "E609"),
        ("i[1]", BindError, "E609"),
        ("CAST(i AS BLOB)", BindError, "E609"),
        ("CASE WHEN p THEN i ELSE s END", BindError, "E609"),
        ("i = s", BindError, "E609"),
        ("t + 1", BindError, "E609"),
    ],
)
def test_mistakes(text: str, error: type[CepheidError], code: str) -> None:
    with pytest.raises(error) as caught:
        value(text)
    assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    "text",
    ["1 +", "(1", "a IS 5", "CASE END", "x IN ()", "INTERVAL '1' MONTH", "9223372036854775808",
     "a LIKE 'x' ESCAPE 'ab'", "CAST(1 INT)", "AND", "FIRST(a, b)", "NOT " * 200 + "a",
     "(" * 200 + "a", "- " * 200 + "a", "a" + " + a" * 200, "a" + " IS NULL" * 200],
)  # fmt: skip
def test_text_that_cannot_be_read(text: str) -> None:
    with pytest.raises(CepheidError, match="E601"):
        value(text)
