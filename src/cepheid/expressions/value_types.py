"""Expression in, kind of its value out, with a diagnostic where operands do not fit.

Without a schema attributes are UNKNOWN, which fits everywhere: those checks wait for the data.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Protocol

from cepheid.errors import Span
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind
from cepheid.expressions import tree
from cepheid.expressions.cast_types import TARGETS, is_convertible
from cepheid.expressions.format import format_expression
from cepheid.expressions.functions import LANGUAGE_FUNCTIONS, Function, nearest_function

KindOf = Callable[[tree.Attribute | tree.Aggregate | tree.Word], ValueKind]
"""Looks up the kind of a name."""


class Report(Protocol):
    """Takes what does not fit."""

    def add(self, code: str, message: str, span: Span, *helps: str) -> None:
        """Add a finding."""


class _Nobody:
    def add(self, code: str, message: str, span: Span, *helps: str) -> None:
        pass


NOBODY: Report = _Nobody()
"""Takes findings and forgets them, for expressions that were checked before."""

_B, _I, _D, _T = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.TEXT
_UNKNOWN = ValueKind.UNKNOWN
_NUMBER = NUMERIC | {_UNKNOWN}
_TEXT = frozenset({_T, _UNKNOWN})
_WHOLE = frozenset({_I, _UNKNOWN})
_SCALAR = frozenset(ValueKind) - {ValueKind.OTHER}
_OTHER_TYPES = frozenset({"TINYINT", "SMALLINT", "INTEGER", "LONG", "VARCHAR"})
"""Types that a help does not list beside the usual ones."""
_NOT_COMPUTED = frozenset({_T, _B, ValueKind.OTHER})


class Typing:
    """Infers kinds and reports what does not fit."""

    def __init__(self, kind_of: KindOf, findings: Report = NOBODY) -> None:
        self._kind_of = kind_of
        self._findings = findings
        # Each node once, by identity: nested calls would take 2^depth otherwise. The node is kept,
        # so that no other one gets its number.
        self._inferred: dict[int, tuple[tree.Expression, ValueKind]] = {}

    def quiet(self) -> Typing:
        """Return a typing of the same names that reports nothing, for rewritten expressions."""
        return Typing(self._kind_of)

    def check_condition(self, expression: tree.Expression, clause: str) -> None:
        """Report an expression that is neither true nor false."""
        kind = self.infer(expression)
        if kind is _B or (kind is _UNKNOWN and not _computes(expression)):
            return
        what = "a computed value" if kind is _UNKNOWN else f"a value of kind {kind.value}"
        self._findings.add(
            "E207",
            f"`{clause}` needs a condition, but this is {what}",
            expression.span,
            "compare it with something: `S.price > 10`",
        )

    def infer(self, expression: tree.Expression) -> ValueKind:
        """Return the kind of an expression's value; O(1) for what was inferred before."""
        known = self._inferred.get(id(expression))
        if known is None:
            known = self._inferred[id(expression)] = expression, self._infer(expression)
        return known[1]

    def _infer(self, expression: tree.Expression) -> ValueKind:
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
                self._check_items(operand, items, expression)
                return _B
            case tree.Between(operand=operand, low=low, high=high):
                self._check_comparable(operand, low, expression)
                self._check_comparable(operand, high, expression)
                return _B
            case tree.Like(operand=operand, pattern=pattern):
                self._needs(operand, _TEXT, "text before LIKE")
                self._needs(pattern, _TEXT, "text after LIKE")
                return _B
            case tree.Case():
                return self._case(expression)
            case tree.Cast():
                return self._cast(expression)
        message = f"{type(expression).__name__} is no expression of the language"
        raise AssertionError(message)

    def _case(self, case: tree.Case) -> ValueKind:
        self._all_boolean(case.conditions)
        values = (*case.results, case.default)
        if not self._is_one_family("CASE", values, case):
            return _UNKNOWN
        return widest_kind([self.infer(value) for value in values if not _is_null(value)])

    def _cast(self, cast: tree.Cast) -> ValueKind:
        kind, target = self.infer(cast.operand), TARGETS.get(cast.type_name)
        if target is None or cast.parameters:
            message = (
                f"there is no type `{format_expression(cast)[:-1].rpartition(' AS ')[2]}` here"
            )
            types = ", ".join(name for name in TARGETS if name not in _OTHER_TYPES)
            self._findings.add("E217", message, cast.span, f"the types are {types}")
            return _UNKNOWN
        if not is_convertible(kind, target):
            message = f"a value of kind {kind.value} cannot be cast to {cast.type_name}"
            help_ = "round it first: `CAST(CAST(x AS BIGINT) AS STRING)`"
            rounded = kind in NUMERIC and target.kind is _T
            self._findings.add("E217", message, cast.span, help_ if rounded else "")
        return target.kind

    def _check_items(
        self, operand: tree.Expression, items: tuple[tree.Expression, ...], whole: tree.InList
    ) -> None:
        """Report the first item of each kind that does not fit; a list can be long."""
        seen = set()
        as_time = self.infer(operand) in TEMPORAL
        for item in items:
            kind = self.infer(item)
            written = isinstance(item, tree.Literal) and _is_text(item)
            if kind not in seen or (as_time and written):
                seen.add(kind)
                self._check_comparable(operand, item, whole)

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
        left, right = comparison.left, comparison.right
        self._check_comparable(left, right, comparison)
        if _is_null(left) or _is_null(right):
            test = tree.IsNull(
                span=comparison.span,
                operand=right if _is_null(left) else left,
                negated=comparison.operator == "<>",
            )
            message = "a comparison with `NULL` is never true"
            help_ = f"write `{format_expression(test)}`"
            self._findings.add("W205", message, comparison.span, help_)
        if isinstance(left, tree.Literal) and isinstance(right, tree.Literal):
            self._check_texts(left, right, comparison)
        return _B

    def _check_texts(self, left: tree.Literal, right: tree.Literal, whole: tree.Binary) -> None:
        """Warn of two texts that are compared: one is a column in the quotes of other SQL."""
        if _is_text(left) and _is_text(right):
            message = "this compares two texts, so it is the same for all events"
            help_ = "both kinds of quotes make a text: write a column without them"
            self._findings.add("W210", message, whole.span, help_)

    def _check_comparable(
        self, left: tree.Expression, right: tree.Expression, whole: tree.Expression
    ) -> None:
        a, b = self.infer(left), self.infer(right)
        if _UNKNOWN in (a, b) or (family_of(a) == family_of(b) and a is not ValueKind.OTHER):
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
            _help_compared(a, right) or _help_compared(b, left),
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
            known = [kind.value for kind in (a, b) if kind is not _UNKNOWN]
            kinds = "values of kinds " if len(known) > 1 else "a value of kind "
            message = f"`{expression.operator}` cannot be applied to {kinds}{' and '.join(known)}"
            self._findings.add("E206", message, expression.span)
            return _UNKNOWN
        return kind

    def _call(self, call: tree.Call) -> ValueKind:
        kinds = [self.infer(argument) for argument in call.arguments]
        if isinstance(call, tree.OwnCall):
            return self._own_call(call)
        function = LANGUAGE_FUNCTIONS.get(call.function)
        if function is None:
            helps = nearest_function(call.function)
            self._findings.add("E203", f"there is no function `{call.function}`", call.span, helps)
            return _UNKNOWN
        most = len(kinds) if function.most is None else function.most
        if not function.least <= len(kinds) <= most:
            count = f"{len(kinds)} argument{'' if len(kinds) == 1 else 's'}"
            message = f"`{call.function}` does not take {count}"
            self._findings.add("E205", message, call.span, f"its form is `{function.usage}`")
            return function.gives or _UNKNOWN
        if function.arrays:
            return self._of_list(call, function)
        self._check_arguments(call, function)
        values = call.arguments[function.conditional :]
        if function.takes is None and not self._is_one_family(call.function, values, call):
            return _UNKNOWN
        if function.gives is not None:
            return function.gives
        given = [a for a in call.arguments[function.conditional :] if not _is_null(a)]
        return widest_kind([self.infer(argument) for argument in given])

    def _of_list(self, call: tree.Call, function: Function) -> ValueKind:
        """Check a function of a list; of what, the data tell."""
        what = f"what `{function.usage}` takes"
        self._needs(call.arguments[0], frozenset({ValueKind.OTHER, _UNKNOWN}), what)
        for argument in call.arguments[1:]:
            self._needs(argument, _TEXT, what)
        return function.gives or _UNKNOWN

    def _own_call(self, call: tree.OwnCall) -> ValueKind:
        own, count = call.own, len(call.arguments)
        if not count or (own.takes is not None and count != len(own.takes)):
            message = f"`{own.name}` does not take {count} argument{'' if count == 1 else 's'}"
            help_ = f"its form is `{own.usage}`"
            if not count:
                help_ += ": the arguments tell how many values there are"
            self._findings.add("E205", message, call.span, help_)
            return own.gives
        for argument in call.arguments if own.takes is None else ():
            self._needs(argument, _SCALAR, f"what `{own.usage}` takes")
        for kind, argument in zip(own.takes or (), call.arguments, strict=False):
            takes = NUMERIC if kind is _D else frozenset({kind})
            self._needs(argument, takes | {_UNKNOWN}, f"what `{own.usage}` takes")
        return own.gives

    def _check_arguments(self, call: tree.Call, function: Function) -> None:
        what = f"what `{function.usage}` takes"
        for idx, argument in enumerate(call.arguments):
            if function.whole is not None and idx >= function.whole:
                self._needs(argument, _WHOLE, what)
            elif function.conditional and idx == 0:
                self._all_boolean((argument,))
            elif function.takes is not None:
                self._needs(argument, function.takes, what)

    def _is_one_family(
        self, name: str, values: tuple[tree.Expression, ...], whole: tree.Expression
    ) -> bool:
        known = [a for a in values if self.infer(a) is not _UNKNOWN]
        nested = [a for a in known if self.infer(a) is ValueKind.OTHER]
        for argument in nested:
            self._needs(argument, _SCALAR, f"what `{name}` takes")
        known = [a for a in known if a not in nested]
        families = {family_of(self.infer(argument)): argument for argument in reversed(known)}
        if len(families) > 1:
            first, second, *_ = reversed(families.values())
            self._findings.add(
                "E206",
                f"`{name}` takes values of one kind, and "
                f"`{format_expression(first)}` is of kind {self.infer(first).value}, "
                f"`{format_expression(second)}` of kind {self.infer(second).value}",
                whole.span,
            )
        return len(families) <= 1


def _computes(expression: tree.Expression) -> bool:
    """Check whether an expression is arithmetic: no condition, whatever its operands are."""
    if isinstance(expression, tree.Unary):
        return expression.operator == "-"
    return isinstance(expression, tree.Binary) and expression.operator in "+-*/%"


def _literal_kind(value: bool | float | str | None) -> ValueKind:  # noqa: FBT001  # it is the value
    if value is None:
        return _UNKNOWN
    return {bool: _B, int: _I, float: _D, str: _T}[type(value)]


def _help_compared(kind: ValueKind, other: tree.Expression) -> str:
    """Suggest the notation of a constant for values of a kind, or an empty text."""
    if isinstance(other, tree.Duration) and kind is _I:
        seconds, rest = divmod(other.microseconds, 1_000_000)
        length = f"{other.microseconds} in microseconds" if rest else f"{seconds} in seconds"
        return f"write a whole number of the times' unit: {length}"
    if kind is ValueKind.OTHER:
        return "of a column with lists of texts write `ARRAY_JOIN(tags, ',') LIKE '%a%'`"
    if not isinstance(other, tree.Literal):
        return ""
    if kind is _T and type(other.value) in (int, float, Decimal):
        return f"write the text in quotes: '{format_expression(other)}'"
    if kind not in NUMERIC or not _is_text(other):
        return ""
    text = str(other.value).strip()
    if re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        return f"write the number without quotes: {text}"
    with contextlib.suppress(ValueError):
        at = dt.datetime.fromisoformat(text)
        since = (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()
        return f"write a number of the times' unit since 1970: {since:.12g} in seconds"
    return ""


def _is_text(literal: tree.Literal) -> bool:
    return isinstance(literal.value, str)


def _is_null(expression: tree.Expression) -> bool:
    return isinstance(expression, tree.Literal) and expression.value is None


def family_of(kind: ValueKind) -> str:
    """Map a kind to its comparison class: numbers with numbers, times with times."""
    if kind in NUMERIC:
        return "number"
    return "time" if kind in TEMPORAL else kind.value


def widest_kind(kinds: Sequence[ValueKind]) -> ValueKind:
    """Return a kind that holds the values of all kinds, which are of one family.

    Examples
    --------
    >>> widest_kind([ValueKind.INTEGER, ValueKind.DOUBLE]).value
    'double'
    >>> widest_kind([ValueKind.INTEGER, ValueKind.UNKNOWN]).value
    'unknown'
    """
    for kind in (_T, _B):
        if kind in kinds:
            return kind
    if not kinds or _UNKNOWN in kinds:
        return _UNKNOWN
    wide = (_D, ValueKind.DECIMAL, ValueKind.TIMESTAMP)
    return next((kind for kind in wide if kind in kinds), kinds[0])


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
    if {a, b} & _NOT_COMPUTED:
        return None
    if _UNKNOWN in (a, b):
        return _D if operator == "/" and {a, b} <= _NUMBER else _UNKNOWN
    if a in NUMERIC and b in NUMERIC:
        if operator == "/" or _D in (a, b):
            return _D
        return ValueKind.DECIMAL if ValueKind.DECIMAL in (a, b) else _I
    if a in TEMPORAL and b in TEMPORAL:
        return duration if operator == "-" else None
    # A date and a duration make a time of day.
    if a in TEMPORAL and b is duration:
        return ValueKind.TIMESTAMP if operator in "+-" else None
    if a is duration and b in TEMPORAL:
        return ValueKind.TIMESTAMP if operator == "+" else None
    if a is duration and b is duration:
        return {"+": duration, "-": duration, "/": _D}.get(operator)
    if duration in (a, b) and {a, b} - {duration} <= NUMERIC:
        return duration if operator == "*" or (operator == "/" and a is duration) else None
    return None
