from __future__ import annotations

import math

import pytest

from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression

ATTRIBUTES: dict[str, Value] = {
    "one": 1,
    "two": 2.0,
    "big": 2**53 + 1,
    "nan": math.nan,
    "null": None,
    "zero": 0.0,
    "minus_zero": -0.0,
    "inf": math.inf,
    "name": "Ada",
    "yes": True,
    "no": False,
    "ts": 90_000_000,
}


def lookup(leaf: Leaf) -> Value:
    if isinstance(leaf, tree.Word):
        return leaf.text
    assert isinstance(leaf, tree.Attribute)
    return ATTRIBUTES[leaf.attribute.text]


def value_of(text: str) -> Value:
    """Return the value of an expression; ``.name`` is short for an attribute of S."""
    where = parse(f"PATTERN A S WHERE {text.replace(' .', ' S.').replace('(.', '(S.')}").where
    assert where is not None
    return evaluate_expression(where, lookup)


TRUE = [
    " .one = 1.0",
    " .one < .two",
    " .one <> .two",
    " .zero = .minus_zero",
    # NaN: equal to itself and greater than every other number.
    " .nan = .nan",
    " .nan > .inf",
    " .nan >= .nan",
    "NOT .nan < .one",
    " .one < .nan",
    # Whole numbers and doubles compare by value, without rounding.
    " .big > 9007199254740992.0",
    " .big = 9007199254740993",
    " .one + .two * 2 = 5",
    "1 / 2 = 0.5",
    "7 % 3 = 1",
    "-7 % 3 = -1",
    "7 % -3 = 1",
    "-7.5 % 2 = -1.5",
    "MOD(-7, 3) = -1",
    "- .one = -1",
    " .ts - 1 minute = 30 seconds",
    " .ts >= 90 seconds",
    # Words are text on one side of a comparison and in lists.
    " .name = Ada",
    " .name IN (Bob, Ada)",
    " .name NOT IN (Bob)",
    " .name < 'B'",
    " .name LIKE 'A%'",
    " .name LIKE '_d_'",
    " .name NOT LIKE 'a%'",
    "'50%' LIKE '50\\%'",
    "'a_b' LIKE 'a\\_b'",
    "NOT 'axb' LIKE 'a\\_b'",
    "'a.c' LIKE 'a.c'",
    "NOT 'abc' LIKE 'a.c'",
    " .one BETWEEN 1 AND 2",
    " .two NOT BETWEEN 0 AND 1",
    " .null IS NULL",
    " .one IS NOT NULL",
    " .yes",
    "NOT .no",
    # The deciding operand wins over NULL.
    " .yes OR .null = 1",
    "NOT ( .no AND .null = 1)",
    " .one IN (1, NULL)",
    "NOT .one BETWEEN 2 AND NULL",
]

NULL = [
    " .null = 1",
    " .null = .null",
    " .null <> 1",
    " .null + 1 > 0",
    "1 / 0 > 0",
    "1 % 0 = 0",
    " .one / .minus_zero > 0",
    "NOT .null = 1",
    " .no OR .null = 1",
    " .yes AND .null = 1",
    " .null IN (1)",
    " .one IN (2, NULL)",
    " .one NOT IN (2, NULL)",
    " .null BETWEEN 1 AND 2",
    " .one BETWEEN NULL AND 2",
    " .null LIKE 'a'",
    " .name LIKE NULL",
    "- .null = 1",
]


@pytest.mark.parametrize("text", TRUE)
def test_true(text: str) -> None:
    assert value_of(text) is True


@pytest.mark.parametrize("text", NULL)
def test_null(text: str) -> None:
    assert value_of(text) is None


FUNCTIONS: list[tuple[str, Value]] = [
    ("ABS(-3)", 3),
    ("ABS(.minus_zero)", 0.0),
    ("ROUND(2.5)", 3.0),
    ("ROUND(-2.5)", -3.0),
    ("ROUND(3)", 3),
    ("ROUND(1.005, 2)", 1.01),
    ("ROUND(125, -1)", 130),
    ("ROUND(-125, -1)", -130),
    ("ROUND(.nan)", math.nan),
    ("FLOOR(-1.5)", -2),
    ("CEIL(-1.5)", -1),
    ("SQRT(9)", 3.0),
    ("SQRT(-1)", math.nan),
    ("POWER(2, 10)", 1024.0),
    ("POWER(0, -1)", math.inf),
    ("POWER(-0.0, -1)", -math.inf),
    ("POWER(-0.0, -2)", math.inf),
    ("POWER(-8, 0.5)", math.nan),
    ("POWER(10, 400)", math.inf),
    ("POWER(-10, 401)", -math.inf),
    ("EXP(0)", 1.0),
    ("EXP(1000)", math.inf),
    ("LN(1)", 0.0),
    ("LN(0)", None),
    ("LOG2(8)", 3.0),
    ("LOG2(-1)", None),
    ("LOG2(.nan)", math.nan),
    ("LOG2(.inf)", math.inf),
    ("LOG10(1000)", 3.0),
    ("SIGN(-7)", -1.0),
    ("SIGN(.nan)", math.nan),
    ("MOD(7, 0)", None),
    ("GREATEST(1, NULL, 3)", 3),
    ("GREATEST(1, .nan)", math.nan),
    ("LEAST(.nan, NULL, 2)", 2),
    ("GREATEST(NULL, NULL)", None),
    ("LEAST(NULL, NULL)", None),
    ("COALESCE(NULL, 2, 3)", 2),
    ("COALESCE(NULL)", None),
    ("NULLIF(1, 1)", None),
    ("NULLIF(.nan, .nan)", None),
    ("NULLIF(1, 2)", 1),
    ("NULLIF(1, NULL)", 1),
    ("NULLIF(NULL, 1)", None),
    ("LOWER('ABC')", "abc"),
    ("UPPER('abc')", "ABC"),
    ("TRIM('  a b ')", "a b"),
    ("LENGTH('a b')", 3),
    ("CONCAT('a', 'b', 'c')", "abc"),
    ("CONCAT('a', NULL)", None),
    ("SUBSTRING('abcdef', 2, 3)", "bcd"),
    ("SUBSTRING('abcdef', 2)", "bcdef"),
    ("SUBSTRING('abcdef', 0, 2)", "ab"),
    ("SUBSTRING('abcdef', -2)", "ef"),
    ("SUBSTRING('abc', -5, 3)", "a"),
    ("SUBSTRING('abc', 9, 2)", ""),
    ("SUBSTRING('abc', 2, -1)", ""),
    ("LENGTH(NULL)", None),
]


@pytest.mark.parametrize(("text", "expected"), FUNCTIONS)
def test_functions(text: str, expected: Value) -> None:
    found = value_of(text)
    assert repr(found) == repr(expected)


def test_arithmetic_keeps_whole_numbers_whole() -> None:
    assert repr(value_of(" .big + 1")) == repr(2**53 + 2)
    assert repr(value_of(" .one / 1")) == "1.0"
    assert repr(value_of(" .inf % 2")) == "nan"
    assert repr(value_of("5 % .inf")) == "5.0"


def test_whole_numbers_beyond_doubles_divide() -> None:
    ratio = tree.Binary(
        span=parse("PATTERN A").span,
        operator="/",
        left=tree.Literal(span=parse("PATTERN A").span, value=-(10**400)),
        right=tree.Literal(span=parse("PATTERN A").span, value=2),
    )
    assert evaluate_expression(ratio, lookup) == -math.inf


def test_equivalence_has_no_value() -> None:
    with pytest.raises(ValueError, match="Equivalence has no value"):
        value_of("[company]")
