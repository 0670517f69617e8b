"""Bound expressions in, columns of Spark out: what an expression means in process, it means there.

Whole numbers have 64 bits, decimals are doubles, division and remainder by zero give NULL, and text
that is compared with a time is one in UTC, whatever the settings of the session (§4.6).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sf

from cepheid.events.schema import TEMPORAL, ValueKind
from cepheid.language import tree
from cepheid.planner.findings import Findings
from cepheid.planner.value_types import Typing

if TYPE_CHECKING:
    from pyspark.sql import Column

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
"""Comparisons of columns; Spark overloads the operators."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class Typed(NamedTuple):
    """A column of Spark, what it holds, and the name of its type."""

    column: Column
    kind: ValueKind
    type_name: str = ""


Lookup = Callable[[tree.Attribute], Typed]


class Expressions:
    """Translates expressions over the columns that a lookup gives."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._typing = Typing(self._kind_of, Findings())

    def _kind_of(self, node: Any) -> ValueKind:
        return self._lookup(node).kind

    def column(self, expression: tree.Expression) -> Column:
        """Return an expression as a column."""
        match expression:
            case tree.Literal(value=value):
                return _literal(value)
            case tree.Duration(microseconds=microseconds):
                return sf.lit(dt.timedelta(microseconds=microseconds))
            case tree.Attribute():
                return _widened(self._lookup(expression))
            case tree.Call(function=function, arguments=arguments):
                return self._call(function, arguments)
            case tree.Unary(operator="NOT", operand=operand):
                return ~self._truth(operand)
            case tree.Unary(operand=operand):
                return -self.column(operand)
            case tree.Binary(operator=operator, left=left, right=right):
                return self._binary(operator, left, right)
            case tree.Logical(operator=operator, operands=operands):
                parts = [self._truth(operand) for operand in operands]
                return reduce(
                    (lambda a, b: a & b) if operator == "AND" else lambda a, b: a | b, parts
                )
        return self._test(expression)

    def _truth(self, expression: tree.Expression) -> Column:
        return self.column(expression).cast("boolean")

    def _test(self, expression: tree.Expression) -> Column:
        match expression:
            case tree.IsNull(operand=operand, negated=negated):
                one = self.column(operand)
                return one.isNotNull() if negated else one.isNull()
            case tree.InList(operand=operand, items=items, negated=negated):
                found = reduce(
                    lambda a, b: a | b, [self._compared("=", operand, item) for item in items]
                )
                return ~found if negated else found
            case tree.Between(operand=operand, low=low, high=high, negated=negated):
                above = self._compared(">=", operand, low)
                inside = above & self._compared("<=", operand, high)
                return ~inside if negated else inside
            case tree.Like(operand=operand, pattern=pattern, negated=negated):
                alike = sf.call_function("like", self.column(operand), self.column(pattern))
                return ~alike if negated else alike
        message = f"{type(expression).__name__} has no value for one event"
        raise AssertionError(message)

    def _binary(self, operator: str, left: tree.Expression, right: tree.Expression) -> Column:
        if operator in COMPARE:
            return self._compared(operator, left, right)
        a, b = (self._instant(side) if self._is_time(side) else self.column(side)
                for side in (left, right))  # fmt: skip
        if operator in _ARITHMETIC:
            return _ARITHMETIC[operator](a, b)  # type: ignore[no-any-return]  # an operator
        return sf.try_divide(a, b) if operator == "/" else sf.try_mod(a, b)

    def _compared(self, operator: str, left: tree.Expression, right: tree.Expression) -> Column:
        sides = (left, right)
        if any(map(self._is_time, sides)):
            kinds = {self._lookup(s).type_name for s in sides if isinstance(s, tree.Attribute)}
            plain = all(isinstance(side, tree.Attribute | tree.Literal) for side in sides)
            # As they are, files can be read by them.
            if plain and kinds == {"timestamp"}:
                a, b = (self._zoned(side) for side in sides)
            else:
                a, b = (self._instant(side) for side in sides)
        else:
            a, b = (self.column(side) for side in sides)
        return COMPARE[operator](a, b)  # type: ignore[no-any-return]  # an operator

    def _is_time(self, expression: tree.Expression) -> bool:
        return self._typing.infer(expression) in TEMPORAL

    def _zoned(self, expression: tree.Expression) -> Column:
        """Return a time, or text that is one, as a moment of Spark's type with a zone."""
        if isinstance(expression, tree.Literal) and isinstance(expression.value, str):
            return sf.timestamp_micros(sf.lit(_micros(expression.value)))
        return self.column(expression)

    def _instant(self, expression: tree.Expression) -> Column:
        """Return a time in UTC, of the type without a zone: Spark computes with it as we do.

        With the other type, days are those of the session's time zone.
        """
        if isinstance(expression, tree.Literal) and isinstance(expression.value, str):
            return instant_of(sf.lit(_micros(expression.value)))
        column = self.column(expression)
        if not isinstance(expression, tree.Attribute):
            return column
        type_name = self._lookup(expression).type_name
        if type_name == "timestamp":
            return instant_of(sf.unix_micros(column))
        return column.cast("timestamp_ntz") if type_name == "date" else column

    def _call(self, function: str, arguments: tuple[tree.Expression, ...]) -> Column:
        columns = [self.column(argument) for argument in arguments]
        if function == "MOD":
            return sf.try_mod(*columns)
        if function in ("SUBSTRING", "ROUND"):
            columns[1:] = [column.cast("int") for column in columns[1:]]
        found = sf.call_function(function.lower(), *columns)
        if function in ("FLOOR", "CEIL") and self._typing.infer(arguments[0]) is ValueKind.DOUBLE:
            # NaN and the infinities are no whole numbers.
            finite = sf.abs(columns[0]) < sf.lit(2.0**53)
            return sf.when(finite, found.cast("double")).otherwise(columns[0])
        return found.cast("long") if function == "LENGTH" else found


def _literal(value: bool | float | str | None) -> Column:  # noqa: FBT001  # it is the value
    if isinstance(value, int) and not isinstance(value, bool):
        return sf.lit(value).cast("long")
    return sf.lit(value)


def _widened(typed: Typed) -> Column:
    """Return a column in the width in which expressions compute."""
    if typed.kind is ValueKind.INTEGER:
        return typed.column if typed.type_name == "bigint" else typed.column.cast("long")
    if typed.kind in (ValueKind.DOUBLE, ValueKind.DECIMAL):
        return typed.column if typed.type_name == "double" else typed.column.cast("double")
    return typed.column


def _micros(text: str) -> int:
    moment = dt.datetime.fromisoformat(text)
    utc = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (utc - _EPOCH) // dt.timedelta(microseconds=1)


def instant_of(micros: Column) -> Column:
    """Return microseconds since 1970 as a time without a zone, in UTC."""
    origin = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return sf.timestamp_add("MICROSECOND", micros, origin)
