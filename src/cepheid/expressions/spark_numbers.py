"""Numbers of Spark that neither wrap nor round in silence, whatever the settings of the session.

What leaves 64 bits or has too many digits is refused with the diagnostics of the engine, which
Spark raises from within an expression (docs/semantics.md §4.6, §4.10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sf

from cepheid.errors import DataError, Diagnostic
from cepheid.events.comparisons import COMPARE
from cepheid.events.constants import decimal_of

if TYPE_CHECKING:
    from pyspark.sql import Column

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
WHOLE_DIGITS = 18
"""Decimals with so many digits and none behind the point fit 64 bits."""
SAFE_DIGITS = 15
"""Every decimal with so many digits has a double of its own."""
DIGITS_MAX = 38
"""Digits of Spark's decimals."""
_LONG_DIGITS = 19

_TRY: dict[str, Callable[[Column, Column], Column]] = {
    "+": sf.try_add,
    "-": sf.try_subtract,
    "*": sf.try_multiply,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class DecimalType(NamedTuple):
    """The precision and the scale of the decimals of a column."""

    precision: int
    scale: int

    @staticmethod
    def of(type_name: str) -> DecimalType | None:
        """Return the type that Spark calls so, or None if it is none of decimals."""
        found = _DECIMAL.fullmatch(type_name)
        return DecimalType(int(found[1]), int(found[2])) if found else None


def refused(code: str, message: str, help_: str) -> Column:
    """Return a column that has no value: it says what is wrong."""
    return sf.raise_error(sf.lit(f"error[{code}]: {message}\n = help: {help_}"))


def long(number: int) -> Column:
    """Return a whole number of 64 bits."""
    return sf.lit(number).cast("long")


# ---------------------------------------------------------------------------------------
# Whole numbers


def left_range(written: str) -> Column:
    """Return the refusal of an expression whose value has no 64 bits."""
    message = f"a whole number overflowed 64 bits in `{written}`"
    return refused("E504", message, "make one operand a double: `1.0 * S.volume`")


def tried(operator: str, a: Column, b: Column) -> Column:
    """Return ``a operator b`` of whole numbers, NULL where it leaves 64 bits."""
    return _TRY[operator](a, b)


def checked(value: Column, leaves: Sequence[Column], written: str) -> Column:
    """Return a value that is NULL where a leaf is; refuse it where it is NULL otherwise."""
    known = [leaf.isNotNull() for leaf in leaves]
    left = reduce(lambda a, b: a & b, known, value.isNull())
    return sf.when(left, left_range(written)).otherwise(value)


def absolute(value: Column, written: str) -> Column:
    """Return the absolute value of a whole number."""
    return sf.when(value == long(INT64_MIN), left_range(written)).otherwise(sf.abs(value))


def round_whole(value: Column, digits: int, written: str) -> Column:
    """Return a whole number rounded to a power of ten; ties go away from zero."""
    if digits >= 0:
        return value
    unit = 10 ** min(-digits, 20)
    if unit > INT64_MAX:
        half = unit // 2
        if half > INT64_MAX:
            return sf.when(value.isNotNull(), long(0))
        far = (value >= long(half)) | (value <= long(-half))
        return sf.when(far, left_range(written)).when(value.isNotNull(), long(0))
    rest = sf.try_mod(value, long(unit))
    away = sf.abs(rest) >= long(unit) - sf.abs(rest)
    step = sf.when(away & (value > 0), long(unit)).when(away, long(-unit)).otherwise(long(0))
    return checked(sf.try_add(value - rest, step), [value], written)


def _halves(value: Column) -> tuple[Column, Column]:
    """Return sums of the upper and lower 32 bits of whole numbers: neither can leave 64 bits."""
    mask = long(2**32 - 1)
    low = sf.sum(value.bitwiseAND(mask))
    high = sf.sum(sf.shiftright(value, 32)) + sf.shiftright(low, 32)
    return high, low.bitwiseAND(mask)


def sum_whole(value: Column, written: str) -> Column:
    """Return the sum of whole numbers, whatever the order in which they are added."""
    high, low = _halves(value)
    message = f"a sum of `{written}` overflowed 64 bits"
    wrong = refused("E504", message, "make one operand a double: `SUM(1.0 * x)`")
    fits = (high >= long(-(2**31))) & (high < long(2**31))
    total = sf.shiftleft(high, 32).bitwiseOR(low)
    return sf.when(fits, total).when(high.isNotNull(), wrong)


def mean_whole(value: Column) -> Column:
    """Return the mean of whole numbers, from their sum."""
    high, low = _halves(value)
    fits = (high >= long(-(2**31))) & (high < long(2**31))
    exact = sf.shiftleft(high, 32).bitwiseOR(low).cast("double")
    wide = high.cast("double") * sf.lit(2.0**32) + low.cast("double")
    return sf.when(fits, exact).otherwise(wide) / sf.count(value).cast("double")


def compare_mixed(operator: str, whole: Column, doubles: Column) -> Column:
    """Compare whole numbers with doubles; where the nearest doubles are equal, the rest decides."""
    near = whole.cast("double")
    inside = (doubles >= sf.lit(-(2.0**63))) & (doubles < sf.lit(2.0**63))
    back = sf.when(inside, doubles).otherwise(sf.lit(0.0)).cast("long")
    rest = sf.when(inside, COMPARE[operator](whole, back)).otherwise(operator in ("<", "<=", "<>"))
    compared: Column = sf.when(near == doubles, rest).otherwise(COMPARE[operator](near, doubles))
    return compared


# ---------------------------------------------------------------------------------------
# Decimals


def as_number(column: Column, kind: DecimalType, name: str) -> Column:
    """Return decimals as whole numbers, or as the doubles with the same digits."""
    precision, scale = kind
    message = (
        f"a decimal in column `{name}` of type decimal({precision}, {scale}) has more digits than "
        "a number that the query can compute with"
    )
    help_ = "cast the column to DOUBLE if rounding is acceptable; comparisons work without a cast"
    wrong = refused("E570", message, help_)
    if scale == 0:
        if precision <= WHOLE_DIGITS:
            return column.cast("long")
        fits = column.between(_decimal(INT64_MIN, kind), _decimal(INT64_MAX, kind))
        if precision <= _LONG_DIGITS:
            fits = column.cast("decimal(38,0)").between(
                _decimal(INT64_MIN, DecimalType(38, 0)), _decimal(INT64_MAX, DecimalType(38, 0))
            )
        return sf.when(fits, column.cast("long")).when(column.isNotNull(), wrong)
    double = column.cast("double")
    if precision <= SAFE_DIGITS:
        return double
    small, large = f"decimal(38,{max(22, scale)})", f"decimal(38,{min(scale, 18)})"
    same = (
        sf.when(sf.abs(double) < sf.lit(2.0**53), double.cast(small) == column.cast(small))
        .when(
            sf.abs(double) < sf.lit(2.0**63), double.cast("long").cast(large) == column.cast(large)
        )
        .otherwise(sf.lit(False))  # it is the value
    )
    return sf.when(same, double).when(column.isNotNull(), wrong)


def _decimal(number: int | Decimal, kind: DecimalType) -> Column:
    return sf.lit(format(Decimal(number), "f")).cast(f"decimal({kind.precision},{kind.scale})")


def exact_constant(value: float, digits: str) -> Decimal:
    """Return the decimal that a constant stands for."""
    if digits:
        return Decimal(digits)
    return Decimal(value) if isinstance(value, int) else decimal_of(value)


def against_constant(
    operator: str, column: Column, constant: Decimal, kind: DecimalType | None
) -> Column:
    """Compare decimals, or whole numbers of 64 bits, with a constant, by way of the values near it.

    So the constant needs no digits that the column's type has not.
    """
    scale = kind.scale if kind else 0
    most = 10**kind.precision - 1 if kind else INT64_MAX
    least = -most if kind else INT64_MIN
    with localcontext(prec=400):
        scaled = constant.scaleb(scale)
        below = int(scaled.to_integral_value(ROUND_FLOOR))
        above = int(scaled.to_integral_value(ROUND_CEILING))
    bound = above if operator in ("<", ">=") else below
    equal = operator in ("=", "<>")
    if (equal and below != above) or not least <= bound <= most:
        truth = operator == "<>" if equal else COMPARE[operator](0, bound)
        return sf.when(column.isNotNull(), sf.lit(bool(truth)))
    if kind is None:
        return COMPARE[operator](column, long(bound))  # type: ignore[no-any-return]  # an operator
    with localcontext(prec=400):
        exact = _decimal(Decimal(bound).scaleb(-scale), kind)
    return COMPARE[operator](column, exact)  # type: ignore[no-any-return]  # an operator


def compare_decimals(
    operator: str, sides: Sequence[tuple[Column, DecimalType | None]], written: Sequence[str]
) -> Column:
    """Compare decimals with each other, or with whole numbers, which have no type of decimals.

    Raises
    ------
    DataError
        E571 if no type of Spark holds both sides.
    """
    types = [kind or DecimalType(_LONG_DIGITS, 0) for _, kind in sides]
    scale = max(kind.scale for kind in types)
    if max(kind.precision - kind.scale for kind in types) + scale > DIGITS_MAX:
        names = " and ".join(f"`{text}`" for text in written)
        message = f"{names} have no type of Spark in common that keeps all their digits"
        helps = ("cast one of them to a decimal of fewer digits",)
        raise DataError([Diagnostic("E571", message, helps=helps)])
    a, b = (column.cast("decimal(19,0)") if kind is None else column for column, kind in sides)
    found: Column = COMPARE[operator](a, b)
    return found
