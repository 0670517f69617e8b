"""Expression in, kind of its value out, with a diagnostic where operands do not fit.

Without a schema attributes are UNKNOWN, which fits everywhere: those checks wait for the data.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

from cepheid.errors import suggest_names
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind
from cepheid.language import tree
from cepheid.language.formatter import format_expression
from cepheid.planner.findings import Findings

KindOf = Callable[[tree.Attribute | tree.Aggregate | tree.Word], ValueKind]
"""Looks up the kind of a name."""

_B, _I, _D, _T = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
_UNKNOWN = ValueKind.UNKNOWN
_NUMBER = NUMERIC | {_UNKNOWN}
_TEXT = frozenset({_T, _UNKNOWN})


class Function(NamedTuple):
    """A scalar function: number and kinds of arguments, kind of the result (None: the same)."""

    least: int
    most: int | None
    takes: frozenset[ValueKind] | None
    gives: ValueKind | None
    usage: str


FUNCTIONS = {
    "ABS": Function(1, 1, _NUMBER, None, "ABS(number)"),
    "ROUND": Function(1, 2, _NUMBER, None, "ROUND(number, digits)"),
    "FLOOR": Function(1, 1, _NUMBER, _I, "FLOOR(number)"),
    "CEIL": Function(1, 1, _NUMBER, _I, "CEIL(number)"),
    "SQRT": Function(1, 1, _NUMBER, _D, "SQRT(number)"),
    "POWER": Function(2, 2, _NUMBER, _D, "POWER(base, exponent)"),
    "EXP": Function(1, 1, _NUMBER, _D, "EXP(number)"),
    "LN": Function(1, 1, _NUMBER, _D, "LN(number)"),
    "LOG2": Function(1, 1, _NUMBER, _D, "LOG2(number)"),
    "LOG10": Function(1, 1, _NUMBER, _D, "LOG10(number)"),
    "SIGN": Function(1, 1, _NUMBER, _D, "SIGN(number)"),
    "MOD": Function(2, 2, _NUMBER, None, "MOD(number, divisor)"),
    "GREATEST": Function(2, None, None, None, "GREATEST(a, b, ...)"),
    "LEAST": Function(2, None, None, None, "LEAST(a, b, ...)"),
    "COALESCE": Function(1, None, None, None, "COALESCE(a, b, ...)"),
    "NULLIF": Function(2, 2, None, None, "NULLIF(a, b)"),
    "LOWER": Function(1, 1, _TEXT, _T, "LOWER(text)"),
    "UPPER": Function(1, 1, _TEXT, _T, "UPPER(text)"),
    "TRIM": Function(1, 1, _TEXT, _T, "TRIM(text)"),
    "LENGTH": Function(1, 1, _TEXT, _I, "LENGTH(text)"),
    "CONCAT": Function(1, None, _TEXT, _T, "CONCAT(text, ...)"),
    "SUBSTRING": Function(2, 3, None, _T, "SUBSTRING(text, from, length)"),
}
"""The scalar functions, by their upper-case names; they mean what they mean in Spark SQL."""


class Typing:
    """Infers kinds and reports what does not fit."""

    def __init__(self, kind_of: KindOf, findings: Findings) -> None:
        self._kind_of = kind_of
        self._findings = findings

    def check_condition(self, expression: tree.Expression, clause: str) -> None:
        """Report an expression that is neither true nor false."""
        kind = self.infer(expression)
        if kind is _B or (kind is _UNKNOWN and not _computes(expression)):
            return
        what = "a computed value" if kind is _UNKNOWN else f"a value of kind {kind.value}"
        self._findings.add(
            "E207",
            f"`{clause}` needs a condition, and this is {what}",
            expression.span,
            "compare it with something: `S.price > 10`",
        )

    def infer(self, expression: tree.Expression) -> ValueKind:
        """Return the kind of an expression's value."""
        match expression:
            case tree.Literal(value=value):
                return _literal_kind(value)
            case tree.Duration():
                return ValueKind.DURATION
            case tree.Attribute() | tree.Aggregate() | tree.Word():
                return self._kind_of(expression)
            case tree.Equivalence():
                return _B
            case tree.Logical(operands=operands):
                return self._all_boolean(operands)
            case tree.Unary(operator="NOT", operand=operand):
                return self._all_boolean((operand,))
            case tree.Unary(operand=operand):
                allowed = _NUMBER | {ValueKind.DURATION}
                return self._needs(operand, allowed, "a number after `-`")
            case tree.Binary(operator=operator):
                arithmetic = operator in "+-*/%"
                return self._arithmetic(expression) if arithmetic else self._comparison(expression)
            case tree.Call():
                return self._call(expression)
            case tree.IsNull(operand=operand):
                self.infer(operand)
                return _B
            case tree.InList(operand=operand, items=items):
                for item in items:
                    self._check_comparable(operand, item, expression)
                return _B
            case tree.Between(operand=operand, low=low, high=high):
                self._check_comparable(operand, low, expression)
                self._check_comparable(operand, high, expression)
                return _B
            case tree.Like(operand=operand, pattern=pattern):
                self._needs(operand, _TEXT, "text before LIKE")
                self._needs(pattern, _TEXT, "text after LIKE")
                return _B

    def _needs(self, operand: tree.Expression, kinds: frozenset[ValueKind], what: str) -> ValueKind:
        kind = self.infer(operand)
        if kind not in kinds:
            message = f"`{format_expression(operand)}` is of kind {kind.value}, not {what}"
            self._findings.add("E206", message, operand.span)
        return kind

    def _all_boolean(self, operands: tuple[tree.Expression, ...]) -> ValueKind:
        for operand in operands:
            if not isinstance(operand, tree.Literal) or operand.value is not None:
                self._needs(operand, frozenset({_B, _UNKNOWN}), "a condition")
        return _B

    def _comparison(self, comparison: tree.Binary) -> ValueKind:
        self._check_comparable(comparison.left, comparison.right, comparison)
        return _B

    def _check_comparable(
        self, left: tree.Expression, right: tree.Expression, whole: tree.Expression
    ) -> None:
        a, b = self.infer(left), self.infer(right)
        if _UNKNOWN in (a, b) or _family(a) == _family(b):
            return
        for time_kind, other in ((a, right), (b, left)):
            if time_kind in TEMPORAL and isinstance(other, tree.Literal) and _is_text(other):
                self._check_time_text(other)
                return
        self._findings.add(
            "E206",
            f"`{format_expression(left)}` is of kind {a.value} and cannot be compared with "
            f"`{format_expression(right)}` of kind {b.value}",
            whole.span,
        )

    def _check_time_text(self, literal: tree.Literal) -> None:
        try:
            dt.datetime.fromisoformat(str(literal.value))
        except ValueError:
            message = f"`{format_expression(literal)}` is not a time"
            help_ = "write times as '2026-01-31' or '2026-01-31 13:30:00'"
            self._findings.add("E213", message, literal.span, help_)

    def _arithmetic(self, expression: tree.Binary) -> ValueKind:
        a, b = self.infer(expression.left), self.infer(expression.right)
        kind = arithmetic_kind(expression.operator, a, b)
        if kind is None:
            self._findings.add(
                "E206",
                f"`{expression.operator}` does not go with values of kinds {a.value} and {b.value}",
                expression.span,
            )
            return _UNKNOWN
        return kind

    def _call(self, call: tree.Call) -> ValueKind:
        kinds = [self.infer(argument) for argument in call.arguments]
        function = FUNCTIONS.get(call.function)
        if function is None:
            helps = suggest_names(call.function, FUNCTIONS, owner="Cepheid")
            self._findings.add("E203", f"there is no function `{call.function}`", call.span, helps)
            return _UNKNOWN
        most = len(kinds) if function.most is None else function.most
        if not function.least <= len(kinds) <= most:
            count = f"{len(kinds)} argument{'' if len(kinds) == 1 else 's'}"
            message = f"`{call.function}` does not take {count}"
            self._findings.add("E205", message, call.span, f"its form is `{function.usage}`")
            return function.gives or _UNKNOWN
        if function.takes is not None:
            for argument in call.arguments:
                self._needs(argument, function.takes, f"what `{function.usage}` takes")
        return function.gives or next((k for k in kinds if k is not _UNKNOWN), _UNKNOWN)


def _computes(expression: tree.Expression) -> bool:
    """Return whether an expression is arithmetic: no condition, whatever its operands are."""
    if isinstance(expression, tree.Unary):
        return expression.operator == "-"
    return isinstance(expression, tree.Binary) and expression.operator in "+-*/%"


def _literal_kind(value: bool | float | str | None) -> ValueKind:  # noqa: FBT001  # it is the value
    if value is None:
        return _UNKNOWN
    return {bool: _B, int: _I, float: _D, str: _T}[type(value)]


def _is_text(literal: tree.Literal) -> bool:
    return isinstance(literal.value, str)


def _family(kind: ValueKind) -> str:
    """Return what a kind is compared with: numbers with numbers, times with times."""
    if kind in NUMERIC:
        return "number"
    return "time" if kind in TEMPORAL else kind.value


def arithmetic_kind(operator: str, a: ValueKind, b: ValueKind) -> ValueKind | None:
    """Return the kind of ``a operator b``, or None if there is no such operation.

    Examples
    --------
    >>> arithmetic_kind("-", ValueKind.TIMESTAMP, ValueKind.TIMESTAMP).value
    'duration'
    >>> arithmetic_kind("/", ValueKind.INTEGER, ValueKind.INTEGER).value
    'double'
    """
    duration = ValueKind.DURATION
    if _UNKNOWN in (a, b):
        return _D if operator == "/" and {a, b} <= _NUMBER else _UNKNOWN
    if a in NUMERIC and b in NUMERIC:
        if operator == "/" or _D in (a, b):
            return _D
        return ValueKind.DECIMAL if ValueKind.DECIMAL in (a, b) else _I
    if a in TEMPORAL and b in TEMPORAL:
        return duration if operator == "-" else None
    if a in TEMPORAL and b is duration:
        return a if operator in "+-" else None
    if a is duration and b in TEMPORAL:
        return b if operator == "+" else None
    if a is duration and b is duration:
        return {"+": duration, "-": duration, "/": _D}.get(operator)
    if duration in (a, b) and {a, b} - {duration} <= NUMERIC:
        return duration if operator == "*" or (operator == "/" and a is duration) else None
    return None
