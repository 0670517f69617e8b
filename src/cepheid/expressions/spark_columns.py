"""Bound expressions in, columns of Spark out: what an expression means in process, it means there.

Whole numbers have 64 bits and do not wrap, decimals compare exactly, division and remainder by zero
give NULL, and text that is compared with a time is one in UTC, whatever the settings of the session
(§4.6, §4.10).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sf

from cepheid.errors import DataError, Diagnostic
from cepheid.events.comparisons import COMPARE, MIRRORED
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind
from cepheid.expressions import spark_numbers as numbers
from cepheid.expressions import tree
from cepheid.expressions.cast_types import TARGETS
from cepheid.expressions.format import as_written
from cepheid.expressions.functions import FUNCTIONS
from cepheid.expressions.own import OwnFunction
from cepheid.expressions.spark_casts import converted
from cepheid.expressions.spark_matches import match_column
from cepheid.expressions.spark_own import is_instant, own_column
from cepheid.expressions.value_types import Typing

if TYPE_CHECKING:
    from pyspark.sql import Column

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
DIGITS_MAX = 400
"""No double has a digit so far from its point."""
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class Typed(NamedTuple):
    """A column of Spark, what it holds, and the name of its type."""

    column: Column
    kind: ValueKind
    type_name: str = ""
    name: str = ""


Lookup = Callable[[tree.Attribute], Typed]


class Expressions:
    """Translates expressions over the columns that a lookup gives."""

    def __init__(self, lookup: Lookup, prepare: Callable[[], None] | None = None) -> None:
        self._lookup = lookup
        self._prepare = prepare or (lambda: None)
        """Is called before a column that Spark's Python workers compute is built."""
        self._typing = Typing(self._kind_of)

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
            case tree.OwnCall(own=own, arguments=arguments):
                return self._own_call(own, arguments)
            case tree.Call(function=function, arguments=arguments):
                return self._call(expression, function, arguments)
            case tree.Unary(operator="NOT", operand=operand):
                return ~self._truth(operand)
            case tree.Unary(operand=operand):
                if self._kind(expression) is ValueKind.INTEGER:
                    return self._checked(expression)
                return -self.column(operand)
            case tree.Binary():
                return self._binary(expression)
            case tree.Logical(operator=operator, operands=operands):
                parts = [self._truth(operand) for operand in operands]
                return reduce(
                    (lambda a, b: a & b) if operator == "AND" else lambda a, b: a | b, parts
                )
            case tree.Case(conditions=conditions, results=results, default=default):
                return self._case(conditions, (*results, default))
            case tree.Cast():
                return self._cast(expression)
        return self._test(expression)

    def _case(
        self, conditions: tuple[tree.Expression, ...], values: tuple[tree.Expression, ...]
    ) -> Column:
        *results, otherwise = self._of_one_type(values)
        first, *rest = zip(map(self._truth, conditions), results, strict=True)
        chosen = sf.when(*first)
        for condition, result in rest:
            chosen = chosen.when(condition, result)
        return chosen.otherwise(otherwise)

    def _of_one_type(self, values: tuple[tree.Expression, ...]) -> list[Column]:
        """Return values among which one is chosen."""
        given = [value for value in values if self._kind(value) is not ValueKind.UNKNOWN]
        if len({self._type_of(value) for value in given}) > 1 and all(map(self._is_time, given)):
            # Spark would make one of the other in the zone of the session.
            return [self._instant(v) if v in given else self.column(v) for v in values]
        return [self.column(value) for value in values]

    def _cast(self, cast: tree.Cast) -> Column:
        operand, target = cast.operand, TARGETS[cast.type_name]
        if target.kind in TEMPORAL:
            return self._instant(operand).cast(
                "date" if target.kind is ValueKind.DATE else "timestamp_ntz"
            )
        found, fine = converted(self.column(operand), self._kind(operand), target)
        if fine is None:
            return found
        message = f"a value cannot be converted, in `{as_written(cast)}`"
        wrong = numbers.refused("E573", message, "write `TRY_CAST`, which gives NULL there")
        known = self.column(operand).isNotNull()
        return sf.when(fine, found) if cast.lenient else sf.when(fine, found).when(known, wrong)

    def _truth(self, expression: tree.Expression) -> Column:
        return self.column(expression).cast("boolean")

    def _test(self, expression: tree.Expression) -> Column:
        match expression:
            case tree.IsNull(operand=operand, negated=negated):
                one = self.column(operand)
                return one.isNotNull() if negated else one.isNull()
            case tree.InList(operand=operand, items=items, negated=negated):
                equal = [self._compared("=", operand, item) for item in items]
                found = reduce(lambda a, b: a | b, equal)
                return ~found if negated else found
            case tree.Between(operand=operand, low=low, high=high, negated=negated):
                above = self._compared(">=", operand, low)
                inside = above & self._compared("<=", operand, high)
                return ~inside if negated else inside
            case tree.Like(operand=operand, pattern=pattern, negated=negated):
                alike = sf.call_function("like", self.column(operand), self._pattern(pattern))
                return ~alike if negated else alike
        message = f"{type(expression).__name__} has no value for one event"
        raise AssertionError(message)

    def _pattern(self, expression: tree.Expression) -> Column:
        """Return a pattern of LIKE; Spark wants an escape before what means something only."""
        if not isinstance(expression, tree.Literal) or not isinstance(expression.value, str):
            return self.column(expression)
        parts = re.findall(r"\\.|.", expression.value, flags=re.DOTALL)
        plain = (p if p in ("%", "_") else re.sub(r"([%_\\])", r"\\\1", p[-1]) for p in parts)
        return sf.lit("".join(plain))

    def _kind(self, expression: tree.Expression) -> ValueKind:
        return self._typing.infer(expression)

    def is_whole(self, expression: tree.Expression) -> bool:
        """Check whether an expression is a whole number of 64 bits."""
        return self._kind(expression) is ValueKind.INTEGER

    def _checked(self, expression: tree.Expression) -> Column:
        """Return sums and products of whole numbers; what leaves 64 bits is looked for once."""
        leaves: list[Column] = []

        def tried(node: tree.Expression) -> Column:
            match node:
                case tree.Unary(operator="-", operand=operand):
                    return numbers.tried("-", numbers.long(0), tried(operand))
                case tree.Binary(operator="+" | "-" | "*" as operator, left=left, right=right):
                    return numbers.tried(operator, tried(left), tried(right))
            leaves.append(self.column(node))
            return leaves[-1]

        return numbers.checked(tried(expression), leaves, as_written(expression))

    def _binary(self, expression: tree.Binary) -> Column:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator in COMPARE:
            return self._compared(operator, left, right)
        if operator in _ARITHMETIC and self.is_whole(left) and self.is_whole(right):
            return self._checked(expression)
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
        elif all(self._kind(side) in NUMERIC for side in sides):
            return self._compared_numbers(operator, left, right)
        else:
            a, b = (self.column(side) for side in sides)
        return COMPARE[operator](a, b)  # type: ignore[no-any-return]  # an operator

    def _compared_numbers(
        self, operator: str, left: tree.Expression, right: tree.Expression
    ) -> Column:
        """Compare numbers by value: neither side is rounded."""
        if isinstance(left, tree.Literal) and not isinstance(right, tree.Literal):
            return self._compared_numbers(MIRRORED[operator], right, left)
        kinds = [self._decimal_type(side) for side in (left, right)]
        whole = [self.is_whole(side) for side in (left, right)]
        if isinstance(right, tree.Literal) and (kinds[0] is not None or whole[0]):
            assert isinstance(right.value, int | float), "a number"
            constant = numbers.exact_constant(right.value, right.digits)
            column = self._plain(left) if kinds[0] is not None else self.column(left)
            return numbers.against_constant(operator, column, constant, kinds[0])
        exact = [kind is not None or is_whole for kind, is_whole in zip(kinds, whole, strict=True)]
        if all(exact) and any(kind is not None for kind in kinds):
            columns = [
                self.column(side) if kind is None else self._plain(side)
                for side, kind in zip((left, right), kinds, strict=True)
            ]
            sides = list(zip(columns, kinds, strict=True))
            return numbers.compare_decimals(operator, sides, [as_written(left), as_written(right)])
        a, b = self.column(left), self.column(right)
        if whole[0] and not whole[1]:
            return numbers.compare_mixed(operator, a, b)
        if whole[1] and not whole[0]:
            return numbers.compare_mixed(MIRRORED[operator], b, a)
        return COMPARE[operator](a, b)  # type: ignore[no-any-return]  # an operator

    def _decimal_type(self, expression: tree.Expression) -> numbers.DecimalType | None:
        """Return the type of a column of decimals, None for everything else."""
        if not isinstance(expression, tree.Attribute):
            return None
        return numbers.DecimalType.of(self._lookup(expression).type_name)

    def _plain(self, expression: tree.Expression) -> Column:
        """Return a column as it is."""
        assert isinstance(expression, tree.Attribute), "the caller has looked"
        return self._lookup(expression).column

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
        column, type_name = self.column(expression), self._type_of(expression)
        if type_name == "timestamp":
            return instant_of(sf.unix_micros(column))
        return column.cast("timestamp_ntz") if type_name == "date" else column

    def _call(
        self, call: tree.Expression, function: str, arguments: tuple[tree.Expression, ...]
    ) -> Column:
        values = arguments[FUNCTIONS[function].conditional :]
        columns = self._of_one_type(values)
        whole = self.is_whole(arguments[0])
        match function:
            case "MOD":
                return sf.try_mod(*columns)
            case "IF":
                chosen = sf.when(self._truth(arguments[0]), columns[0])
                return chosen.otherwise(columns[1]) if len(columns) > 1 else chosen
            case "REGEX_MATCH" | "IN_NETWORK":
                self._prepare()
                return match_column(function, columns)
            case "LOCATE":
                # Spark finds nothing from a place that is NULL.
                known = columns[2].isNotNull() if len(columns) > 2 else sf.lit(True)
                columns[2:] = [_place(column) for column in columns[2:]]
                return sf.when(known, sf.call_function("locate", *columns).cast("long"))
            case "STARTS_WITH":
                return sf.startswith(*columns)
            case "ARRAY_JOIN" | "CARDINALITY":
                return self._of_list(function, arguments[0], columns)
            case "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND":
                return sf.call_function(function, self._instant(arguments[0])).cast("long")
            case "ABS" if whole:
                return numbers.absolute(columns[0], as_written(call))
            case "ROUND":
                return self._rounded(call, columns[0], arguments)
            case "POWER":
                return sf.power(*(column.cast("double") for column in columns))
            case "NULLIF":
                same = self._compared("=", arguments[0], arguments[1])
                return sf.when(same, sf.lit(None)).otherwise(columns[0])
            case "SUBSTRING":
                columns[1:] = [_place(column) for column in columns[1:]]
            case "FLOOR" | "CEIL" if whole:
                return columns[0]
            case "FLOOR" | "CEIL":
                found = sf.call_function(function.lower(), columns[0])
                inside = (columns[0] >= sf.lit(-(2.0**63))) & (columns[0] < sf.lit(2.0**63))
                none = numbers.left_range(as_written(call))
                return sf.when(inside, found).when(columns[0].isNotNull(), none)
        found = sf.call_function(function.lower(), *columns)
        return found.cast("long") if function == "LENGTH" else found

    def _of_list(self, function: str, listed: tree.Expression, columns: list[Column]) -> Column:
        if function == "CARDINALITY":
            size = sf.call_function("size", columns[0]).cast("long")
            return sf.when(columns[0].isNotNull(), size)
        if isinstance(listed, tree.Attribute) and self._kind(listed) is ValueKind.OTHER:
            kind = self._lookup(listed).type_name
            if kind not in ("array<string>", "array<void>", ""):
                message = f"`{as_written(listed)}` is of type {kind}, not a list of texts"
                raise DataError([Diagnostic("E507", message)])
        return sf.call_function("array_join", *columns)

    def _own_call(self, own: OwnFunction, arguments: tuple[tree.Expression, ...]) -> Column:
        kinds = [self._kind(argument) for argument in arguments]
        columns = [
            self._instant(argument) if is_instant(kind) else self.column(argument)
            for argument, kind in zip(arguments, kinds, strict=True)
        ]
        self._prepare()
        return own_column(own, columns, kinds)

    def _type_of(self, expression: tree.Expression) -> str:
        """Return the type of a time in Spark's words."""
        if isinstance(expression, tree.Attribute):
            return self._lookup(expression).type_name
        if isinstance(expression, tree.Cast):
            return "date" if expression.type_name == "DATE" else "timestamp_ntz"
        if isinstance(expression, tree.OwnCall):
            return "date" if expression.own.gives is ValueKind.DATE else "timestamp_ntz"
        if isinstance(expression, tree.Call | tree.Case):
            values: tuple[tree.Expression, ...]
            if isinstance(expression, tree.Case):
                every = (*expression.results, expression.default)
                values = tuple(v for v in every if self._kind(v) is not ValueKind.UNKNOWN)
            else:
                values = expression.arguments[FUNCTIONS[expression.function].conditional :]
            types = {self._type_of(value) for value in values}
            return types.pop() if len(types) == 1 else "timestamp_ntz"
        return "timestamp_ntz"

    def _rounded(
        self, call: tree.Expression, column: Column, arguments: tuple[tree.Expression, ...]
    ) -> Column:
        """Return ROUND; the digits stand in the query, as Spark wants them."""
        digits: object = 0
        if len(arguments) > 1:
            if not isinstance(arguments[1], tree.Literal):
                message = f"`{as_written(call)}` needs a constant number of digits on Spark"
                helps = ("write the digits as a number: `ROUND(x, 2)`",)
                raise DataError([Diagnostic("E572", message, helps=helps)])
            digits = arguments[1].value
        if not isinstance(digits, int):
            return sf.lit(None).cast("double")
        if self.is_whole(arguments[0]):
            return numbers.round_whole(column, digits, as_written(call))
        return sf.round(column, max(-DIGITS_MAX, min(digits, DIGITS_MAX)))


def _literal(value: bool | float | str | None) -> Column:  # noqa: FBT001  # it is the value
    if isinstance(value, int) and not isinstance(value, bool):
        return sf.lit(value).cast("long")
    return sf.lit(value)


def _widened(typed: Typed) -> Column:
    """Return a column in the width in which expressions compute."""
    decimal = numbers.DecimalType.of(typed.type_name)
    if decimal is not None:
        return numbers.as_number(typed.column, decimal, typed.name)
    if typed.kind is ValueKind.INTEGER:
        return typed.column if typed.type_name == "bigint" else typed.column.cast("long")
    if typed.kind is ValueKind.DOUBLE:
        return typed.column if typed.type_name == "double" else typed.column.cast("double")
    return typed.column


def _place(number: Column) -> Column:
    """Return a place in a text as Spark wants it; no text is longer than its numbers reach."""
    far = 2**31 - 1
    clamped = sf.greatest(sf.least(number, sf.lit(far)), sf.lit(-far))
    # The least and the greatest leave NULL out.
    return sf.when(number.isNotNull(), clamped.cast("int"))


def _micros(text: str) -> int:
    moment = dt.datetime.fromisoformat(text)
    utc = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (utc - _EPOCH) // dt.timedelta(microseconds=1)


def instant_of(micros: Column) -> Column:
    """Return microseconds since 1970 as a time without a zone, in UTC."""
    origin = sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return sf.timestamp_add("MICROSECOND", micros, origin)
