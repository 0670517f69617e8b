"""Evaluate an expression: a tree and the values of its leaves in, one Python value out.

The oracle's own evaluator follows docs/semantics.md §4.6 and §4.7: three-valued logic, NULL is
``None``, times and durations are integer microseconds. It shares no code with the engines.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import socket
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cmp_to_key
from typing import Any

import pyarrow as pa

from cepheid.language import tree

Value = bool | int | float | Decimal | str | None
Leaf = tree.Attribute | tree.Aggregate | tree.Word
Lookup = Callable[[Leaf], Value]


def evaluate_expression(expression: tree.Expression, lookup: Lookup) -> Value:
    """Evaluate an expression; ``lookup`` resolves attributes, aggregates and words."""

    def value_of(operand: tree.Expression) -> Value:
        return evaluate_expression(operand, lookup)

    match expression:
        case tree.Literal(value=value):
            return Written.of(expression) if expression.digits else value
        case tree.Duration(microseconds=microseconds):
            return microseconds
        case tree.Attribute() | tree.Aggregate() | tree.Word():
            found = lookup(expression)
            if isinstance(found, Decimal) and found.as_tuple().exponent == 0:
                return int(found)
            return found
        case tree.OwnCall(own=own, arguments=arguments):
            # One event at a time (§20.3).
            given: list[list[Any]] = [[as_number(value_of(a))] for a in arguments]
            answer: Value = own.callee(*map(pa.array, given))[0].as_py()
            return answer
        case tree.Call(function=function, arguments=arguments):
            return call_function(function, [value_of(a) for a in arguments])
        case tree.Unary(operator="NOT", operand=operand):
            return negate(value_of(operand))
        case tree.Unary(operator="-", operand=operand):
            number = as_number(value_of(operand))
            assert not isinstance(number, str | Decimal), "text has no sign"
            return None if number is None else -number
        case tree.Binary(operator=operator, left=left, right=right):
            return compute(operator, value_of(left), value_of(right))
        case tree.Logical(operator=operator, operands=operands):
            return combine(operator, [value_of(o) for o in operands])
        case tree.IsNull(operand=operand, negated=negated):
            return (value_of(operand) is None) != negated
        case tree.InList(operand=operand, items=items, negated=negated):
            one = value_of(operand)
            found = combine("OR", [compute("=", one, value_of(item)) for item in items])
            return negate(found) if negated else found
        case tree.Between(operand=operand, low=low, high=high, negated=negated):
            above = compute(">=", value_of(operand), value_of(low))
            below = compute("<=", value_of(operand), value_of(high))
            inside = combine("AND", [above, below])
            return negate(inside) if negated else inside
        case tree.Like(operand=operand, pattern=pattern, negated=negated):
            alike = like(value_of(operand), value_of(pattern))
            return negate(alike) if negated else alike
        case tree.Case(conditions=conditions, results=results, default=default):
            for condition, result in zip(conditions, results, strict=True):
                if value_of(condition) is True:
                    return as_number(value_of(result))
            return as_number(value_of(default))
        case tree.Cast(operand=operand, type_name=name, lenient=lenient):
            try:
                return cast_value(as_number(value_of(operand)), name)
            except CastError:
                if lenient:
                    return None
                raise
    message = f"{type(expression).__name__} has no value: it is not an expression of one match"
    raise ValueError(message)


# ---------------------------------------------------------------------------------------
# Decimals (§4.10)


class Written(float):
    """A decimal literal that has more digits than a double."""

    digits: str

    @staticmethod
    def of(literal: tree.Literal) -> Written:
        """Convert a constant of the query."""
        assert isinstance(literal.value, float)
        found = Written(literal.value)
        found.digits = literal.digits
        return found


def _beside(value: Value, other: Value) -> Value:
    """Convert a double to the decimal for which it stands beside another number."""
    if isinstance(value, Written) and isinstance(other, int | Decimal):
        return Decimal(value.digits)
    if isinstance(value, float) and isinstance(other, Decimal) and math.isfinite(value):
        return Decimal(int(value)) if value.is_integer() else Decimal(repr(value))
    return value


def as_number(value: Value) -> bool | int | float | str | None:
    """Convert a decimal to the double that stands for it.

    Raises
    ------
    ValueError
        If there is no such double (E570).
    """
    if not isinstance(value, Decimal):
        return value
    double = float(value)
    if _beside(double, value) != value:
        message = f"no double stands for {value}"
        raise ValueError(message)
    return double


# ---------------------------------------------------------------------------------------
# Logic, comparison and arithmetic


def negate(value: Value) -> Value:
    """Negate a truth value; NOT NULL is NULL."""
    return None if value is None else not value


def combine(operator: str, values: Sequence[Value]) -> Value:
    """Combine truth values by AND or OR: the deciding value wins, then NULL, then the other."""
    decisive = operator == "OR"
    if any(value is decisive for value in values):
        return decisive
    return None if None in values else not decisive


def compare(left: Value, right: Value) -> int:
    """Compare two values that are not NULL: -1, 0 or 1.

    Numbers compare by value whatever their type, NaN equals itself and exceeds every other
    number (§4.6); Python already says that 0.0 equals -0.0.
    """
    left, right = _beside(left, right), _beside(right, left)
    left_is_nan, right_is_nan = left != left, right != right  # True for NaN alone.
    if left_is_nan or right_is_nan:
        return left_is_nan - right_is_nan
    return (left > right) - (left < right)  # type: ignore[operator]  # The binder checked the types.


order = cmp_to_key(compare)
"""A sort key in the order of ``compare``."""


def compute(operator: str, left: Value, right: Value) -> Value:
    """Evaluate a comparison or arithmetic; NULL if either side is NULL."""
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        left, right = _time_of_text(left), _time_of_text(right)
    match operator:
        case "=":
            return compare(left, right) == 0
        case "<>":
            return compare(left, right) != 0
        case "<":
            return compare(left, right) < 0
        case "<=":
            return compare(left, right) <= 0
        case ">":
            return compare(left, right) > 0
        case ">=":
            return compare(left, right) >= 0
    left, right = as_number(left), as_number(right)
    assert isinstance(left, int | float), "text has no arithmetic"
    assert isinstance(right, int | float), "text has no arithmetic"
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return _double(left) / _double(right) if right else None
        case "%":
            return _remainder(left, right) if right else None
    message = f"unknown operator {operator!r}"
    raise ValueError(message)


def _time_of_text(value: float | Decimal | str) -> float | Decimal:
    """Parse a text that is compared with a time: ISO 8601, UTC if it names no zone."""
    if not isinstance(value, str):
        return value
    moment = dt.datetime.fromisoformat(value)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (zoned - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1)


def _double(value: float) -> float:
    """Convert a number to a double; integers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _remainder(left: float, right: float) -> float:
    """Compute the remainder with the sign of the dividend."""
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return math.nan if math.isinf(left) else math.fmod(left, right)


def like(text: Value, pattern: Value) -> Value:
    """Match a text against a LIKE pattern: ``%`` any text, ``_`` one character."""
    if text is None or pattern is None:
        return None
    parts = re.findall(r"\\.|.", str(pattern), flags=re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(regex, str(text), flags=re.DOTALL) is not None


# ---------------------------------------------------------------------------------------
# CAST (§4.12)


class CastError(Exception):
    """A value has no counterpart of the type (E573)."""


_DAY_US = 24 * 60 * 60 * 1_000_000
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64, "LONG": 64}
_TRUTHS = dict.fromkeys(("true", "t", "yes", "y", "1"), True)
_TRUTHS |= dict.fromkeys(("false", "f", "no", "n", "0"), False)


def cast_value(value: float | str | None, name: str) -> Value:
    """Convert a value to a type.

    Raises
    ------
    CastError
        If there is none.
    """
    if value is None:
        return None
    text = value.strip(" \t\n\r\f\v") if isinstance(value, str) else None
    if name in ("STRING", "VARCHAR"):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if name == "DATE":
        assert isinstance(value, int), "times are microseconds"
        return value // _DAY_US * _DAY_US
    if name == "TIMESTAMP":
        return value
    if name == "BOOLEAN":
        if text is None:
            return value != 0
        if text.lower() not in _TRUTHS:
            raise CastError(value)
        return _TRUTHS[text.lower()]
    if name == "DOUBLE":
        number = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?"
        if text is not None and not re.fullmatch(rf"[+-]?({number}|inf|infinity|nan)", text, re.I):
            raise CastError(value)
        return _double(value) if text is None else float(text)  # type: ignore[arg-type]  # no text
    bits = _BITS[name]
    if text is not None:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise CastError(value)
        whole = int(text)
    else:
        if isinstance(value, float) and not math.isfinite(value):
            raise CastError(value)
        whole = int(value)
    if not -(2 ** (bits - 1)) <= whole < 2 ** (bits - 1):
        raise CastError(value)
    return whole


# ---------------------------------------------------------------------------------------
# Scalar functions


def call_function(name: str, arguments: Sequence[Value]) -> Value:
    """Evaluate a scalar function; most return NULL for a NULL argument."""
    present = [as_number(a) for a in arguments if a is not None]
    match name.upper():
        case "COALESCE":
            return present[0] if present else None
        case "NULLIF":
            return None if compute("=", arguments[0], arguments[1]) else as_number(arguments[0])
        case "GREATEST":
            return max(present, key=order) if present else None
        case "LEAST":
            return min(present, key=order) if present else None
        case "IF":
            chosen = arguments[1:2] if arguments[0] is True else arguments[2:]
            return as_number(chosen[0]) if chosen else None
    if len(present) < len(arguments):
        return None
    return FUNCTIONS[name.upper()](*map(as_number, arguments))


def _logarithm(function: Callable[[float], float]) -> Callable[[float], Value]:
    """Compute a logarithm; NULL where it is undefined."""
    return lambda x: None if x <= 0 else math.inf if x == math.inf else function(x)


def round_half_up(x: int | float, digits: int = 0) -> int | float:
    """Round x to a number of decimal places; ties go away from zero."""
    if not math.isfinite(x):
        return x
    # The decimal text of a double is what users see, so 1.005 rounds as 1.005 and not as 1.00499.
    exact = Decimal(repr(x)) if isinstance(x, float) else Decimal(x)
    with localcontext(prec=2000):
        rounded = exact.scaleb(digits).to_integral_value(ROUND_HALF_UP).scaleb(-digits)
    return float(rounded) if isinstance(x, float) else int(rounded)


def power(base: float, exponent: float) -> float:
    """Raise base to exponent as a double, infinite or NaN instead of an error."""
    base, exponent = _double(base), _double(exponent)
    # Spark knows no exception for one, where the C library has two.
    if (abs(base) == 1 and math.isinf(exponent)) or (base == 1 and exponent != exponent):
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        odd = exponent % 2 == 1
        return math.nan if base else math.copysign(math.inf, base) if odd else math.inf


def exponential(x: float) -> float:
    """Compute e to the power of x, infinite instead of an error."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def substring(text: str, start: int, length: int | None = None) -> str:
    """Cut a part out of a text; ``start`` counts from 1, or from the end if it is negative."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + length
    return text[max(begin, 0) : max(end, 0)]


def _whole(function: Callable[[float], int]) -> Callable[[float], Value]:
    """Return FLOOR or CEIL, which are whole numbers; NaN and the infinities have none."""

    def whole(x: float) -> Value:
        if not math.isfinite(x):
            message = f"{x} is no whole number"
            raise OverflowError(message)
        return function(x)

    return whole


def _part(name: str) -> Callable[[int], Value]:
    """Return a part of a time in UTC."""
    start = dt.datetime(1970, 1, 1)  # in UTC throughout
    return lambda micros: int(getattr(start + dt.timedelta(microseconds=micros), name))


def in_network(address: str, network: str) -> bool:
    """Tell whether a text is an address with the leading bits of a network's."""
    base, _, given = network.partition("/")
    ours, theirs = _bits(address), _bits(base)
    assert theirs is not None, "a network begins with an address"
    kept = int(given) if given else len(theirs)
    return ours is not None and len(ours) == len(theirs) and ours[:kept] == theirs[:kept]


def _bits(address: str) -> str | None:
    """Write an address in binary, with 32 or 128 digits."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, address)
        except (OSError, ValueError):
            continue
        return "".join(f"{byte:08b}" for byte in packed)
    return None


def join(cells: list[str | None], mark: str, missing: str | None = None) -> str:
    """Return the texts of a list with a mark between them; NULLs are left out, or replaced."""
    texts = [missing if cell is None else cell for cell in cells]
    return mark.join([text for text in texts if text is not None])


def locate(part: str, text: str, start: int = 1) -> int:
    """Return the place of a part from a place on, counted from 1, or 0; nothing is at place 1."""
    places = [n + 1 for n in range(len(text)) if text[n : n + len(part)] == part]
    return 0 if start < 1 else next((n for n in places if n >= start), 0) if part else 1


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "ABS": abs,
    "ROUND": round_half_up,
    "FLOOR": _whole(math.floor),
    "CEIL": _whole(math.ceil),
    "SQRT": lambda x: math.nan if x < 0 else math.sqrt(x),
    "POWER": power,
    "EXP": exponential,
    "LN": _logarithm(math.log),
    "LOG2": _logarithm(math.log2),
    "LOG10": _logarithm(math.log10),
    "SIGN": lambda x: x if math.isnan(x) else float((x > 0) - (x < 0)),
    "MOD": lambda x, y: compute("%", x, y),
    "LOWER": str.lower,
    "UPPER": str.upper,
    "TRIM": lambda text: text.strip(" "),
    "LTRIM": lambda text: text.lstrip(" "),
    "RTRIM": lambda text: text.rstrip(" "),
    "REPLACE": lambda text, old, new="": text.replace(old, new) if old else text,
    "REVERSE": lambda text: "".join(reversed(text)),
    "LOCATE": locate,
    "STARTS_WITH": str.startswith,
    "REGEX_MATCH": lambda text, pattern: re.search(pattern, text) is not None,
    "IN_NETWORK": in_network,
    "CARDINALITY": len,
    "ARRAY_JOIN": join,
    "LENGTH": len,
    "CONCAT": lambda *texts: "".join(texts),
    "SUBSTRING": substring,
    **{name: _part(name.lower()) for name in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")},
}
"""The functions that are NULL if any argument is NULL."""
