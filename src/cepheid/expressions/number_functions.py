"""Vectors in, vector out: arithmetic and the functions of numbers, for all events at once.

Rounding and the functions of analysis give the same bits as the C library: NumPy's own versions of
EXP, LN and POWER differ in the last bit from one processor to another, so Arrow computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.events.decimals import Decimals
from cepheid.events.schema import ValueKind
from cepheid.expressions.value_types import arithmetic_kind
from cepheid.expressions.vectors import (
    INT64_MAX,
    INT64_MIN,
    NULL,
    LeftRangeError,
    Vector,
    both_valid,
    constant,
    full_length,
    in_one_zone,
    plain_texts,
    zone_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cepheid.expressions.vectors import Mask, Numbers, Texts

    Doubles = NDArray[np.float64]

DIGITS_MAX = 400
"""No double has a digit so far from its point."""
EXACT_DIGITS_MAX = 22
"""Up to here a power of ten is a double."""


# ---------------------------------------------------------------------------------------
# Arithmetic

_ARITHMETIC: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


_EXACT = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}


def arithmetic(operator: str, left: Vector, right: Vector) -> Vector:
    """Return ``left operator right`` for one of ``+ - * / %`` (§4.6).

    A result in doubles is of kind DOUBLE, also where it stands for a time or a duration.

    Raises
    ------
    LeftRangeError
        If a whole number leaves 64 bits.
    """
    if ValueKind.UNKNOWN in (left.kind, right.kind):
        other = left if right.kind is ValueKind.UNKNOWN else right
        return NULL if other.kind is ValueKind.UNKNOWN else _null_of(operator, other)
    if operator in _EXACT and is_exact(left, right):
        try:
            return _exact(_EXACT[operator], left, right)
        except pa.ArrowInvalid:
            pass  # No type of decimals has room for it, but doubles may have.
    if zone_of(left) != zone_of(right):
        left, right = in_one_zone(left, right)
    a, b, valid = left.numbers, right.numbers, both_valid(left.valid, right.valid)
    if operator in ("/", "%", "DIV"):
        zero = b == 0
        if zero.any():
            valid = both_valid(valid, ~zero)
        if operator == "DIV":
            return _whole_quotient(a, b, valid)
        data: Numbers = _ARITHMETIC[operator](a, b)
    elif np.float64 in (a.dtype, b.dtype):
        data = _ARITHMETIC[operator](a, b)
    else:
        data = _whole_arithmetic(operator, a, b, valid)
    if data.dtype == np.float64:
        return Vector(data, valid, ValueKind.DOUBLE)
    kind = arithmetic_kind(operator, left.kind, right.kind) or ValueKind.INTEGER
    zone = zone_of(left) or zone_of(right)
    zoned = pa.timestamp("us", zone) if zone and kind is ValueKind.TIMESTAMP else None
    return Vector(data, valid, kind, zoned)


def _null_of(operator: str, other: Vector) -> Vector:
    """Return the NULL of an operator beside an untyped NULL."""
    double = operator == "/" or other.kind in (ValueKind.DOUBLE, ValueKind.DECIMAL)
    kind = ValueKind.DOUBLE if double else other.kind
    return Vector(np.zeros(1, np.float64 if double else np.int64), NULL.valid, kind)


def _whole_quotient(a: Numbers, b: Numbers, valid: Mask | None) -> Vector:
    """Return the quotient without what is behind the point."""
    if np.float64 in (a.dtype, b.dtype):
        return whole_of(Vector(np.trunc(a / b), valid, ValueKind.DOUBLE))
    _refuse((a == INT64_MIN) & (b == -1), valid)
    data = a // b
    data += (data * b != a) & ((a < 0) != (b < 0))
    return Vector(data, valid, ValueKind.INTEGER)


def is_exact(*numbers: Vector) -> bool:
    """Check whether numbers are decimals that stay decimals, or whole numbers beside them."""
    exact = [isinstance(n.data, Decimals) and n.type is not None for n in numbers]
    return any(exact) and all(
        known or number.kind is ValueKind.INTEGER
        for known, number in zip(exact, numbers, strict=True)
    )


def _exact(name: str, *numbers: Vector) -> Vector:
    """Return a function of decimals that loses no digit."""
    arrays = [
        n.data.array if isinstance(n.data, Decimals) else pa.array(n.numbers) for n in numbers
    ]
    parts: list[Any] = [array[0] if len(array) == 1 else array for array in arrays]
    found: Any = pc.call_function(name, parts)
    array: Any = pa.array([found]) if isinstance(found, pa.Scalar) else found
    valid = reduce(both_valid, [n.valid for n in numbers])
    return Vector(Decimals(array, ""), valid, ValueKind.DECIMAL, array.type)


def _whole_arithmetic(operator: str, a: Numbers, b: Numbers, valid: Mask | None) -> Numbers:
    data: Numbers = _ARITHMETIC[operator](a, b)
    corners = [
        {"+": x + y, "-": x - y, "*": x * y}[operator] for x in _extremes(a) for y in _extremes(b)
    ]
    # The result lies between the corners, so most columns need no look at single values.
    if min(corners) < INT64_MIN or max(corners) > INT64_MAX:
        _refuse(_wrapped(operator, a, b, data), valid)
    return data


def _extremes(numbers: Numbers) -> tuple[int, int]:
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)


def _wrapped(operator: str, a: Numbers, b: Numbers, result: Numbers) -> Mask:
    """Find where a result of 64 bits is not the true one."""
    if operator == "*":
        # A wrapped product is off by 2**64 or more, which the rounding of doubles cannot hide.
        return np.abs(a.astype(np.float64) * b - result) > 2.0**63
    wrapped: Mask = ((a ^ result) & ((b if operator == "+" else ~b) ^ result)) < 0
    return wrapped


def _refuse(wrong: Mask, valid: Mask | None) -> None:
    if (wrong if valid is None else wrong & valid).any():
        raise LeftRangeError


def minus(number: Vector) -> Vector:
    """Return a number with the other sign."""
    if number.kind is ValueKind.UNKNOWN:
        return NULL
    if is_exact(number):
        return _exact("negate", number)
    if number.numbers.dtype == np.float64:
        return number._replace(data=-number.numbers)
    negative = _whole_arithmetic("-", np.zeros(1, np.int64), number.numbers, number.valid)
    return number._replace(data=negative)


# ---------------------------------------------------------------------------------------
# Functions of numbers


def _doubles(number: Vector) -> Doubles:
    return number.numbers.astype(np.float64, copy=False)


def _analytic(function: Callable[[Doubles], Doubles]) -> Callable[[Vector], Vector]:
    return lambda x: Vector(function(_doubles(x)), x.valid, ValueKind.DOUBLE)


def _arrow(function: Callable[..., Any], *columns: Doubles) -> Doubles:
    result: Doubles = function(*(pa.array(column) for column in columns)).to_numpy()
    return result


def _logarithm(function: Callable[..., Any]) -> Callable[[Vector], Vector]:
    """Return a logarithm that is NULL where mathematics has none."""

    def logarithm(number: Vector) -> Vector:
        x = _doubles(number)
        none = x <= 0
        valid = both_valid(number.valid, ~none) if none.any() else number.valid
        return Vector(_arrow(function, x), valid, ValueKind.DOUBLE)

    return logarithm


def _power(base: Vector, exponent: Vector) -> Vector:
    x, y = np.broadcast_arrays(_doubles(base), _doubles(exponent))
    data = _arrow(pc.power, x, y).copy()
    # One does not stay one whatever the exponent is, as in Spark and unlike the C library.
    data[(np.abs(x) == 1) & np.isinf(y) | (x == 1) & np.isnan(y)] = np.nan
    return Vector(data, both_valid(base.valid, exponent.valid), ValueKind.DOUBLE)


def _absolute(number: Vector) -> Vector:
    if is_exact(number):
        return _exact("abs", number)
    if number.numbers.dtype == np.int64:
        _refuse(number.numbers == INT64_MIN, number.valid)
    return number._replace(data=np.abs(number.numbers))


def _to_whole(function: np.ufunc) -> Callable[[Vector], Vector]:
    """Return FLOOR or CEIL: of a double the whole number, if 64 bits hold it."""

    def to_whole(number: Vector) -> Vector:
        if number.numbers.dtype == np.int64:
            return number
        return whole_of(Vector(function(number.numbers), number.valid, ValueKind.DOUBLE))

    return to_whole


def whole_of(number: Vector) -> Vector:
    """Return doubles without digits behind the point as whole numbers of 64 bits.

    Raises
    ------
    LeftRangeError
        If a double is none: NaN, the infinities, and what is larger than all of them.
    """
    inside = (number.numbers >= -(2.0**63)) & (number.numbers < 2.0**63)
    every = bool(inside.all())
    if not every:
        _refuse(~inside, number.valid)
    data = number.numbers if every else np.where(inside, number.numbers, 0.0)
    return Vector(data.astype(np.int64), number.valid, ValueKind.INTEGER)


def _round(number: Vector, digits: Vector | None = None) -> Vector:
    places = 0 if digits is None else int(digits.numbers[0]) if len(digits.data) == 1 else None
    if places is not None and isinstance(number.data, Decimals) and is_exact(number):
        rounded = pc.round(number.data.array, ndigits=places, round_mode="half_towards_infinity")
        valid = number.valid if digits is None else both_valid(number.valid, digits.valid)
        return number._replace(data=Decimals(rounded, ""), valid=valid, type=rounded.type)
    x = number.numbers if number.valid is None else np.where(number.valid, number.numbers, 0)
    function = _round_doubles if x.dtype == np.float64 else _round_whole
    digits = constant(0) if digits is None else digits
    data = piecewise(x, [digits], function)
    return number._replace(data=data, valid=both_valid(number.valid, digits.valid))


def _round_whole(x: Numbers, digits: int) -> Numbers:
    """Return whole numbers rounded to a power of ten; ties go away from zero."""
    if digits >= 0:
        return x
    unit = 10 ** min(-digits, 20)
    if unit > INT64_MAX:
        # No number is half of 1e20, and half of 1e19 would be rounded to 1e19.
        _refuse((x >= unit // 2) | (x <= -(unit // 2)), None)
        return np.zeros_like(x)
    rest = np.fmod(x, unit)
    away = np.abs(rest) >= unit - np.abs(rest)
    return _whole_arithmetic("+", x - rest, np.where(away, np.sign(x) * unit, 0), None)


def _round_doubles(x: Doubles, digits: int) -> Doubles:
    """Return doubles rounded to decimal places; ties of their decimal text go away from zero."""
    size = np.abs(x)
    if digits == 0:
        whole = np.floor(size)
        return np.asarray(np.copysign(whole + (size - whole >= 0.5), x))
    scale = 10.0 ** min(abs(digits), EXACT_DIGITS_MAX)
    scaled = size * scale if digits > 0 else size / scale
    whole = np.floor(scaled)
    fraction = scaled - whole
    rounded = whole + (fraction > 0.5)
    result: Doubles = np.copysign(rounded / scale if digits > 0 else rounded * scale, x)
    # The text of a double has 17 digits at most; all of them stay, or it is not finite.
    same = (scaled > 1.01e17 if digits > 0 else size == np.inf) | np.isnan(x)
    result[same] = x[same]
    unsure = (np.abs(fraction - 0.5) <= scaled * 2.0**-50) & ~same
    if abs(digits) > EXACT_DIGITS_MAX:
        unsure = ~same
    values, codes = np.unique(x[unsure], return_inverse=True)
    result[unsure] = np.array([_round_text(v, digits) for v in values.tolist()], float)[codes]
    return result


def _round_text(x: float, digits: int) -> float:
    """Return one double rounded by way of its decimal text: 1.005 is 1.005 and not 1.00499."""
    places = max(-DIGITS_MAX, min(digits, DIGITS_MAX))
    with localcontext(prec=2 * DIGITS_MAX):
        whole = Decimal(repr(x)).scaleb(places).to_integral_value(ROUND_HALF_UP)
        return float(whole.scaleb(-places))


def piecewise(
    values: Numbers | Texts,
    parameters: Sequence[Vector],
    function: Callable[..., Numbers | Texts],
) -> Numbers | Texts:
    """Return a function of values and whole numbers, called once for every set of the latter."""
    if all(len(parameter.data) == 1 for parameter in parameters):
        return function(values, *(int(parameter.numbers[0]) for parameter in parameters))
    columns = [
        p.numbers if p.valid is None else np.where(p.valid, p.numbers, 0) for p in parameters
    ]
    keys = np.stack(np.broadcast_arrays(*columns, np.zeros(len(values), np.bool_))[:-1])
    if not keys.size:
        return function(values[:0], *(0 for _ in parameters))
    spread = full_length(Vector(values, None, ValueKind.OTHER), keys.shape[1]).data
    distinct, codes = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))[:-1]
    parts = [
        function(spread.take(places), *key)
        for key, places in zip(distinct.T.tolist(), np.split(order, ends), strict=True)
    ]
    return _concatenated(parts).take(np.argsort(order))


def _concatenated(parts: Sequence[Numbers | Texts]) -> Numbers | Texts:
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    texts = [plain_texts(part) for part in parts if isinstance(part, pa.Array)]
    return np.concatenate(arrays) if arrays else pa.concat_arrays(texts)


# ---------------------------------------------------------------------------------------
# Parts of times


def _part(function: Callable[[Any], Any]) -> Callable[[Vector], Vector]:
    """Return a part of a time, in its zone if it knows one, else in UTC."""

    def part(time: Vector) -> Vector:
        found = function(pa.array(time.numbers, pa.timestamp("us", zone_of(time))))
        return Vector(np.asarray(found, np.int64), time.valid, ValueKind.INTEGER, pa.int32())

    return part


NUMBER_FUNCTIONS: dict[str, Callable[..., Vector]] = {
    "ABS": _absolute,
    "ROUND": _round,
    "FLOOR": _to_whole(np.floor),
    "CEIL": _to_whole(np.ceil),
    "SQRT": _analytic(np.sqrt),
    "POWER": _power,
    "EXP": _analytic(lambda x: _arrow(pc.exp, x)),
    "LN": _logarithm(pc.ln),
    "LOG2": _logarithm(pc.log2),
    "LOG10": _logarithm(pc.log10),
    "SIGN": _analytic(np.sign),
    "MOD": lambda x, y: arithmetic("%", x, y),
    "YEAR": _part(pc.year),
    "MONTH": _part(pc.month),
    "DAY": _part(pc.day),
    "HOUR": _part(pc.hour),
    "MINUTE": _part(pc.minute),
    "SECOND": _part(pc.second),
}
"""Functions of numbers and times, NULL if an argument is."""
