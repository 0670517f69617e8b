"""Vectors in, vector out: arithmetic and the scalar functions, for all events at once.

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

from cepheid.events.schema import ValueKind
from cepheid.expressions.value_types import arithmetic_kind
from cepheid.expressions.vectors import (
    INT64_MAX,
    INT64_MIN,
    NULL,
    Vector,
    both_valid,
    constant,
    full_length,
    map_texts,
    plain_texts,
    truth_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cepheid.expressions.vectors import Mask, Numbers, Texts

    Doubles = NDArray[np.float64]

DIGITS_MAX = 400
"""No double has a digit so far from its point."""
EXACT_DIGITS_MAX = 22
"""Up to here a power of ten is a double."""


class LeftRangeError(Exception):
    """A whole number left 64 bits."""


# ---------------------------------------------------------------------------------------
# Arithmetic

_ARITHMETIC: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
}


def arithmetic(operator: str, left: Vector, right: Vector) -> Vector:
    """Return ``left operator right`` for one of ``+ - * / %`` (§4.6).

    A result in doubles is of kind DOUBLE, also where it stands for a time or a duration.

    Raises
    ------
    LeftRangeError
        If a whole number leaves 64 bits.
    """
    if ValueKind.UNKNOWN in (left.kind, right.kind):
        return NULL
    a, b, valid = left.numbers, right.numbers, both_valid(left.valid, right.valid)
    if operator in "/%":
        zero = b == 0
        if zero.any():
            valid = both_valid(valid, ~zero)
        data: Numbers = _ARITHMETIC[operator](a, b)
    elif np.float64 in (a.dtype, b.dtype):
        data = _ARITHMETIC[operator](a, b)
    else:
        data = _whole_arithmetic(operator, a, b, valid)
    if data.dtype == np.float64:
        return Vector(data, valid, ValueKind.DOUBLE)
    kind = arithmetic_kind(operator, left.kind, right.kind) or ValueKind.INTEGER
    return Vector(data, valid, kind)


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
    """Return where a result of 64 bits is not the true one."""
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
    if number.numbers.dtype == np.float64:
        return number._replace(data=-number.numbers)
    return arithmetic("-", constant(0), number)._replace(kind=number.kind)


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
    # The C library tells the sign of zero apart here, and the language does not.
    data = np.where((x == 0) & (y < 0), np.inf, _arrow(pc.power, x, y))
    # Nor does one stay one whatever the exponent is, as in Spark.
    data[(np.abs(x) == 1) & np.isinf(y) | (x == 1) & np.isnan(y)] = np.nan
    return Vector(data, both_valid(base.valid, exponent.valid), ValueKind.DOUBLE)


def _absolute(number: Vector) -> Vector:
    if number.numbers.dtype == np.int64:
        _refuse(number.numbers == INT64_MIN, number.valid)
    return number._replace(data=np.abs(number.numbers))


def _to_whole(function: np.ufunc) -> Callable[[Vector], Vector]:
    """Return FLOOR or CEIL, of a double a double: not every one has an int64."""

    def to_whole(number: Vector) -> Vector:
        if number.numbers.dtype == np.int64:
            return number
        return Vector(function(number.numbers), number.valid, ValueKind.DOUBLE)

    return to_whole


def _round(number: Vector, digits: Vector | None = None) -> Vector:
    x = number.numbers if number.valid is None else np.where(number.valid, number.numbers, 0)
    function = _round_doubles if x.dtype == np.float64 else _round_whole
    digits = constant(0) if digits is None else digits
    data = piecewise(x, [digits], function)
    return Vector(data, both_valid(number.valid, digits.valid), number.kind)


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
# Functions of text


def _textual(function: Callable[[Texts], Numbers | Texts]) -> Callable[[Vector], Vector]:
    return lambda text: text._replace(data=map_texts(text.texts, function))


def _cased(
    ascii_function: Callable[[Texts], Texts], function: Callable[[str], str]
) -> Callable[[Texts], Texts]:
    """Return LOWER or UPPER; beyond ASCII, Arrow and Python do not agree on every letter."""

    def change(texts: Texts) -> Texts:
        if truth_of(pc.string_is_ascii(texts)).all():
            return ascii_function(texts)
        encoded = texts.dictionary_encode()
        changed = [function(str(text)) for text in encoded.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(
            encoded.indices, pa.array(changed, texts.type)
        ).dictionary_decode()

    return change


def _length(text: Vector) -> Vector:
    def count(texts: Texts) -> Numbers:
        lengths = pc.call_function("utf8_length", [texts])
        return np.asarray(lengths, np.int64)

    return Vector(map_texts(text.texts, count), text.valid, ValueKind.INTEGER)


def _concat(*texts: Vector) -> Vector:
    length = max(len(t.data) for t in texts) if all(len(t.data) for t in texts) else 0
    columns = [plain_texts(t.texts) for t in texts]
    wide = any(pa.types.is_large_string(column.type) for column in columns)
    columns = [c.cast(pa.large_string()) if wide else c for c in columns]
    parts = [c if len(c) == length else c[0] for c in columns]
    data = pc.binary_join_element_wise(*parts, pa.scalar("", columns[0].type))
    return Vector(data, reduce(both_valid, [t.valid for t in texts]), ValueKind.TEXT)


def _substring(text: Vector, *extent: Vector) -> Vector:
    data = piecewise(
        text.texts, extent, lambda texts, *key: map_texts(texts, lambda t: _sliced(t, *key))
    )
    valid = reduce(both_valid, [v.valid for v in extent], text.valid)
    return Vector(data, valid, ValueKind.TEXT)


def _sliced(texts: Texts, start: int, length: int | None = None) -> Texts:
    """Return parts of texts; ``start`` counts from 1, or from the end if it is negative."""
    begin = start - 1 if start > 0 else start
    end = None if length is None else begin + max(0, length)
    if begin == end:
        begin = end = 0
    elif end is not None and begin < 0 <= end:
        end = None  # From the end and beyond it.
    return pc.utf8_slice_codeunits(texts, _bounded(begin), end if end is None else _bounded(end))


def _bounded(place: int) -> int:
    """Return a place in a text such that sums of two stay far from overflow."""
    return max(-(2**40), min(place, 2**40))


# ---------------------------------------------------------------------------------------
# All functions

_FUNCTIONS: dict[str, Callable[..., Vector]] = {
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
    "LOWER": _textual(_cased(pc.ascii_lower, str.lower)),
    "UPPER": _textual(_cased(pc.ascii_upper, str.upper)),
    "TRIM": _textual(lambda texts: pc.utf8_trim(texts, " ")),
    "LENGTH": _length,
    "CONCAT": _concat,
    "SUBSTRING": _substring,
}


def call_function(name: str, arguments: Sequence[Vector]) -> Vector:
    """Return the value of a function that is NULL if an argument is; the kinds are right.

    Raises
    ------
    LeftRangeError
        If a whole number leaves 64 bits.
    """
    if any(argument.kind is ValueKind.UNKNOWN for argument in arguments):
        return NULL
    return _FUNCTIONS[name](*arguments)
