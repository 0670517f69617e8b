"""One table of expressions over values at the edges, for every evaluator to agree on.

A case is an expression over the columns ``a`` and ``b``, of kinds that say which values they take.
All pairs of values are tried. What is right says the oracle: a value, or the code of an error.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.oracle_expressions import CastError, Leaf, Value, evaluate_expression

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NAN, INF = math.nan, math.inf
LONG = Decimal("12345678901234567890.11")
MOMENT = dt.datetime(2026, 1, 31, 13, 30, 15)

TYPES: dict[str, pa.DataType] = {
    "whole": pa.int64(),
    "double": pa.float64(),
    "text": pa.string(),
    "number text": pa.string(),
    "texts": pa.list_(pa.string()),
    "truth": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "price": pa.decimal128(10, 2),
    "fine": pa.decimal128(38, 18),
    "long": pa.decimal128(30, 2),
    "id": pa.decimal128(18, 0),
}
VALUES: dict[str, tuple[Any, ...]] = {
    "whole": (None, 0, 1, -1, 7, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, INT64_MAX, INT64_MIN),
    "double": (
        *(None, NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.005, 2.0**53, 2.0**53 + 2),
        *(1e300, -1e300, 5e-324, 2.0**63, -(2.0**63), 0.1),
    ),
    "text": (None, "", "a", "A", "ab", " a ", "%", "_", "é", "ß", "𝄞b", "a\nb"),
    "number text": (
        *(None, "", "1", " -7\t", "+07", "1.5", ".5", "1.", "1e3", "-2E-2", "1e400", "a", "1 2"),
        *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "0" * 40 + "3"),
        *("3000000000", "-129", "NaN", "-Infinity", "inf", "true", " F ", "yEs", "n", "0", "é"),
    ),
    "texts": (None, [], ["a"], [""], ["a", None, "b"], ["é", "A b", "a"]),
    "truth": (None, True, False),
    "time": (
        *(None, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        *(MOMENT, dt.datetime(2026, 1, 31), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)),
    ),
    "date": (None, dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 1, 31)),
    "price": tuple(None if t is None else Decimal(t) for t in (None, "0", "0.10", "1.25", "-1.25")),
    "fine": (None, Decimal("0.1"), Decimal("1.25"), Decimal(2**53) + 2),
    "long": (None, LONG, LONG + Decimal("0.01"), Decimal("1.25"), Decimal("1234567890123456789")),
    "id": (None, Decimal(0), Decimal(2**53), Decimal(2**53 + 1), Decimal(-7)),
}

CODES = ("E504", "E570", "E573")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
NUMBERS = ("whole", "double")
DECIMALS = ("price", "fine", "long", "id")


class Case(NamedTuple):
    """An expression, the kinds of its columns, and whether its last digits may differ."""

    text: str
    a: str
    b: str = ""
    close: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of the columns that there are."""
        return (self.a, self.b) if self.b else (self.a,)


def _cases() -> Iterator[Case]:
    for a in NUMBERS:
        yield from (Case(f"{f}(a)", a) for f in ("ABS", "ROUND", "FLOOR", "CEIL", "SQRT", "SIGN"))
        yield from (Case(f"{f}(a)", a, close=True) for f in ("EXP", "LN", "LOG2", "LOG10"))
        yield from (Case(text, a) for text in ("-a", "a IS NULL", "a IS NOT NULL", "a = NULL"))
        yield from (Case(f"ROUND(a, {n})", a) for n in (-20, -19, -18, -1, 0, 1, 2, 17))
        yield Case("a IN (1, 0.5, 9007199254740993)", a)
        yield Case("a NOT IN (1, 9007199254740992.0, NULL)", a)
        yield Case("a BETWEEN -1 AND 9007199254740992", a)
        yield Case("NOT (a > 0.5)", a)
        yield Case("a > 9007199254740993.0 OR a < -9007199254740993.5", a)
        yield from (Case(f"a {o} 9007199254740992", a) for o in COMPARISONS)
        yield from (Case(f"9007199254740992.0 {o} a", a) for o in COMPARISONS)
        for b in NUMBERS:
            yield from (Case(f"a {o} b", a, b) for o in (*COMPARISONS, "+", "-", "*", "/", "%"))
            yield Case("MOD(a, b)", a, b)
            yield Case("POWER(a, b)", a, b, close=True)
            yield from (Case(f"{f}(a, b)", a, b) for f in ("GREATEST", "LEAST", "COALESCE"))
            yield from (Case(f"{f}(a, b)", a, b) for f in ("NULLIF",))
            yield Case("a BETWEEN b AND 7", a, b)
            yield Case("IF(a > b, a, 0.5)", a, b)
            yield Case("IF(a > b, b)", a, b)
            yield Case("a IN (b, 7)", a, b)
            yield Case("a * 2 + b - 1 > 0", a, b)
    for a in DECIMALS:
        yield from (Case(f"a {o} 1.25", a) for o in COMPARISONS)
        yield from (Case(f"a {o} 12345678901234567890.11", a) for o in COMPARISONS)
        yield from (Case(text, a) for text in ("a + 1", "-a", "a * 0.5", "a / 4", "ABS(a)"))
        yield Case("a IN (1.25, 0.1, 9007199254740993)", a)
        for b in (*NUMBERS, a, "price"):
            yield from (Case(f"a {o} b", a, b) for o in COMPARISONS)
        yield Case("COALESCE(a, 1)", a)
    yield from _texts()
    yield from _listed()
    yield from _chosen()
    yield from _converted()


def _listed() -> Iterator[Case]:
    for text in ("ARRAY_JOIN(a, '|')", "ARRAY_JOIN(a, '|', '?')", "CARDINALITY(a)", "a IS NULL"):
        yield Case(text, "texts")
    yield Case("CARDINALITY(a) > 1 AND ARRAY_JOIN(a, '|') LIKE '%b'", "texts")
    yield Case("ARRAY_JOIN(a, b)", "texts", "text")


def _chosen() -> Iterator[Case]:
    for a in (*NUMBERS, "price"):
        for b in NUMBERS:
            yield Case("CASE WHEN a > b THEN a WHEN b > 0 THEN b END", a, b)
            yield Case("CASE a WHEN b THEN 1 WHEN NULL THEN 2 ELSE 0.5 END", a, b)
        yield Case("CASE WHEN a > 1 THEN 'high' WHEN a IS NULL THEN 'none' ELSE 'low' END", a)
        yield Case("1 + CASE WHEN a > 1 THEN 1 ELSE 2 END", a)
    yield Case("CASE a WHEN 'a' THEN b WHEN b THEN 'same' ELSE UPPER(a) END", "text", "text")
    yield Case("CASE WHEN a THEN b ELSE NOT b END", "truth", "truth")
    yield Case("CASE WHEN a IS NULL THEN NULL ELSE NULL END IS NULL", "truth")
    for a, b in (("time", "time"), ("time", "date"), ("date", "date")):
        yield Case("CASE WHEN a < b THEN a WHEN a > b THEN b END", a, b)
        yield Case("CASE WHEN a < b THEN a END IS NOT NULL", a, b)


def _converted() -> Iterator[Case]:
    wholes = ("TINYINT", "SMALLINT", "INT", "BIGINT")
    for a in (*NUMBERS, "truth", "number text"):
        for cast in ("CAST", "TRY_CAST"):
            yield from (Case(f"{cast}(a AS {t})", a) for t in (*wholes, "BOOLEAN", "DOUBLE"))
        yield Case("TRY_CAST(a AS INT) + 1 > 0", a)
    yield from (Case(f"CAST(a AS {t})", "price") for t in ("DOUBLE", "BIGINT", "BOOLEAN"))
    yield from (Case("CAST(a AS STRING)", a) for a in ("whole", "truth", "text"))
    yield from (Case("CAST(a AS DATE)", a) for a in ("time", "date"))
    yield from (Case("CAST(a AS TIMESTAMP)", a) for a in ("time", "date"))
    yield Case("CAST(a AS DATE) = b", "time", "date")


def _texts() -> Iterator[Case]:
    yield from (Case(f"{f}(a)", "text") for f in ("LOWER", "UPPER", "LENGTH", "REVERSE"))
    yield from (Case(f"{f}(a)", "text") for f in ("TRIM", "LTRIM", "RTRIM"))
    for text in ("REPLACE(a, b)", "REPLACE(a, 'a', b)", "REPLACE(a, b, '__')"):
        yield Case(text, "text", "text")
    yield Case("STARTS_WITH(a, b)", "text", "text")
    yield Case("LOCATE(b, a)", "text", "text")
    yield Case("LOCATE('a', a, b)", "text", "whole")
    yield from (Case(f"LOCATE('b', a, {start})", "text") for start in (-1, 0, 1, 2, 9))
    yield Case("STARTS_WITH(a, 'a')", "text")
    yield from (
        Case(f"a LIKE '{p}'", "text") for p in ("", "a", "a%", "%b", "_", "%a%", "\\%", "a_b")
    )
    for text in ("CONCAT(a, b)", "CONCAT(a, 'x', b)", "GREATEST(a, b)", "NULLIF(a, b)"):
        yield Case(text, "text", "text")
    yield from (Case(f"a {o} b", "text", "text") for o in COMPARISONS)
    yield Case("COALESCE(a, b, '')", "text", "text")
    yield Case("a IN ('a', '', b)", "text", "text")
    for start in (-3, -1, 0, 1, 2, 9):
        yield from (Case(f"SUBSTRING(a, {start}{n})", "text") for n in ("", ", 0", ", 1", ", 5"))
    yield Case("SUBSTRING(a, b)", "text", "whole")
    yield Case("SUBSTRING(a, 1, b)", "text", "whole")
    for text in ("a AND b", "a OR b", "NOT a", "NOT (a AND b)", "a = b", "a IS NULL", "a AND NULL"):
        yield Case(text, "truth", "truth" if "b" in text else "")
    yield Case("IF(a, 'yes', 'no')", "truth")
    for a, b in (("time", "time"), ("time", "date"), ("date", "date")):
        yield from (Case(f"a {o} b", a, b) for o in COMPARISONS)
        yield Case("GREATEST(a, b)", a, b)
        yield Case("IF(a < b, a, b)", a, b)
    for part in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"):
        yield from (Case(f"{part}(a)", kind) for kind in ("time", "date"))
        yield Case(f"{part}(COALESCE(a, b))", "time", "time")
    yield from (Case(f"a {o} '2026-01-31 13:30:15'", "time") for o in COMPARISONS)
    yield from (Case(f"a {o} '2026-01-31'", "date") for o in COMPARISONS)
    yield Case("a + 1 hour > '1970-01-01'", "time")
    yield Case("a IN ('1970-01-01', '2026-01-31T00:00:00+00:00')", "time")


CASES = list(dict.fromkeys(_cases()))


@cache
def pairs(kinds: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Return all rows of a table: the values of ``a`` and, if there is one, of ``b``."""
    # By way of Arrow, so that decimals have the digits of their type.
    arrays: list[Any] = [pa.array(VALUES[kind], TYPES[kind]) for kind in kinds]
    columns = [array.to_pylist() for array in arrays]
    return list(product(*columns))


def table_of(case: Case, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Return rows as a table, numbered and with times."""
    columns: dict[str, Any] = {
        "n": pa.array(range(len(rows)), pa.int64()),
        "ts": pa.array(range(len(rows)), pa.int64()),
    }
    for place, (name, kind) in enumerate(zip("ab", case.kinds, strict=False)):
        columns[name] = pa.array([row[place] for row in rows], TYPES[kind])
    return pa.table(columns)


@cache
def expected(case: Case) -> list[Any]:
    """Return the value of a case for every row, or the code of its error."""
    query = parse(f"SELECT {case.text} AS r FROM s")
    assert isinstance(query, tree.SelectQuery)
    item = query.items[0]
    assert isinstance(item, tree.ReturnItem)
    return [_judged(item.expression, row) for row in pairs(case.kinds)]


def _judged(expression: tree.Expression, row: tuple[Any, ...]) -> Any:
    values: dict[str, Value] = dict(zip("ab", map(_ticks, row), strict=False))

    def lookup(leaf: Leaf) -> Value:
        assert isinstance(leaf, tree.Word)
        return values[leaf.text]

    try:
        for part in tree.walk(expression):
            if isinstance(part, tree.Expression):
                found = evaluate_expression(part, lookup)
                if type(found) is int and not INT64_MIN <= found <= INT64_MAX:
                    return "E504"
    except CastError:
        return "E573"
    except OverflowError:
        return "E504"
    except ValueError:
        return "E570"
    return evaluate_expression(expression, lookup)


def _ticks(value: Any) -> Any:
    """Return times as the oracle has them: whole microseconds since 1970."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(0, 0, 1)
    return value


def same(mine: Any, right: Any, *, close: bool = False) -> bool:
    """Return whether two values are the same; 2 is 2.0, and NaN is itself."""
    mine = _ticks(mine)
    if mine is None or right is None or isinstance(right, bool | str):
        return type(mine) is type(right) and mine == right
    if isinstance(mine, float) or isinstance(right, float):
        x, y = float(mine), float(right)
        if math.isnan(y) or math.isinf(y):
            return math.isnan(x) if math.isnan(y) else x == y
        return x == y or (close and math.isclose(x, y, rel_tol=1e-13))
    return bool(mine == right)


Row = tuple[Any, ...]


def differences(case: Case, rows: list[Row], found: list[Any], right: list[Any]) -> list[Any]:
    """Return what an evaluator gets wrong: the row, what it says, and what is right."""
    return [
        (row, mine, wanted)
        for row, mine, wanted in zip(rows, found, right, strict=True)
        if not same(mine, wanted, close=case.close)
    ]


@cache
def split(case: Case) -> tuple[list[Row], list[Any], list[tuple[Row, str]]]:
    """Return rows that have a value and their values, and rows that are an error."""
    both = list(zip(pairs(case.kinds), expected(case), strict=True))
    fine = [pair for pair in both if pair[1] not in CODES]
    wrong = [pair for pair in both if pair[1] in CODES]
    return [row for row, _ in fine], [value for _, value in fine], wrong


def conditions() -> list[Case]:
    """Return the cases that are true or false."""
    kinds = (bool, type(None))
    return [case for case in CASES if {type(value) for value in split(case)[1]} <= set(kinds)]


def name_of(case: Case) -> str:
    """Return what a case is called."""
    return " ".join(filter(None, case[:3]))
