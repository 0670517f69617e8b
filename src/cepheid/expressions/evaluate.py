"""Expression in, its values for all events of a batch out: whole columns at once, as vectors.

The language and SQL have one evaluator. They differ in their leaves, in their messages, and in that
SQL makes text of other values where text is needed (``Context``).

Three-valued logic, comparison and arithmetic are those of docs/semantics.md §4.6. A sub-expression
of constants stays one value (``vectors.Vector``) until the end. Every operand is computed for every
event, so a number that leaves 64 bits is an error also where another operand of AND would decide.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from cepheid.errors import CepheidError, DataError, Diagnostic
from cepheid.events.schema import TEMPORAL, ValueKind
from cepheid.expressions import tree
from cepheid.expressions.array_functions import ARRAY_FUNCTIONS
from cepheid.expressions.arrow import is_text
from cepheid.expressions.casts import as_text, cast, moment
from cepheid.expressions.conversions import ConversionError
from cepheid.expressions.format import as_written
from cepheid.expressions.functions import FUNCTIONS
from cepheid.expressions.logic import CHOICES, choose, combined, in_list, is_true, negated
from cepheid.expressions.match_functions import MATCH_FUNCTIONS
from cepheid.expressions.number_functions import NUMBER_FUNCTIONS, arithmetic, minus
from cepheid.expressions.own_calls import call_vectors
from cepheid.expressions.text_functions import TEXT_FUNCTIONS, concat, like
from cepheid.expressions.value_types import arithmetic_kind, family_of
from cepheid.expressions.vectors import (
    NULL,
    LeftRangeError,
    MisfitError,
    Vector,
    compare,
    constant,
    full_length,
    times_of,
)

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask

Lookup = Callable[[tree.Attribute], Vector]
"""Gives the column of an attribute."""

MEANINGS = {
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **MATCH_FUNCTIONS,
    **CHOICES,
    **ARRAY_FUNCTIONS,
}
"""The implementation of each function."""

_BOOLEAN, _TEXT, _UNKNOWN = ValueKind.BOOLEAN, ValueKind.TEXT, ValueKind.UNKNOWN
_ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "DIV"})
FAULTS = (TypeError, ValueError, ArithmeticError, pa.ArrowException)
"""The exceptions of values that do not fit."""


class Context(NamedTuple):
    """The surroundings of an expression.

    Attributes
    ----------
    lookup
        Gives the column of a leaf.
    explain
        Makes the error that a user sees of an expression and what was raised for it.
    sql
        Whether the text was SQL, which makes text of other values and has no schema to check kinds
        with before.
    """

    lookup: Callable[[Any], Vector]
    explain: Callable[[tree.Expression, Exception], Exception]
    sql: bool = False


def _explain(expression: tree.Expression, error: Exception) -> Exception:
    """Return an error in the words of the language."""
    if isinstance(error, LeftRangeError):
        message = f"a whole number overflowed 64 bits in `{as_written(expression)}`"
        helps = ("make one operand a double: `1.0 * S.volume`",)
        return DataError([Diagnostic("E504", message, helps=helps)])
    if isinstance(error, ConversionError):
        message = f"{error}, in `{as_written(expression)}`"
        helps = ("write `TRY_CAST`, which gives NULL there",)
        return DataError([Diagnostic("E573", message, helps=helps)])
    if isinstance(error, MisfitError):
        # The binder could not see it, because it had no schema.
        return DataError([Diagnostic("E507", f"`{as_written(expression)}` is {error}")])
    return error


def evaluate_vector(expression: tree.Expression, lookup: Lookup, length: int) -> Vector:
    """Return the value of an expression for every event.

    Parameters
    ----------
    expression
        A bound expression: without aggregates, and without words that stand for text.
    lookup
        Gives the column of an attribute, of the given length.
    length
        The number of events.

    Raises
    ------
    DataError
        E504 if a whole number leaves 64 bits, E507 if the kinds of the columns do not fit, E508 if
        a text is compared with a time and is not one.

    Examples
    --------
    >>> from cepheid.expressions.vectors import vector_of
    >>> from cepheid.language.parser import parse
    >>> where = parse("PATTERN A S WHERE S.x * 2 > 5").where
    >>> evaluate_vector(where, lambda _: vector_of(pa.array([1, 2, None, 4])), 4)[:2]
    (array([False, False, False,  True]), array([ True,  True, False,  True]))
    """
    with np.errstate(all="ignore"):
        found = full_length(value_in(expression, Context(lookup, _explain)), length)
    return found._replace(type=None)


def true_mask(expression: tree.Expression, lookup: Lookup, length: int) -> Mask:
    """Return for which events an expression is true, and neither false nor NULL.

    Parameters and errors are those of ``evaluate_vector``.
    """
    with np.errstate(all="ignore"):
        mask = mask_in(expression, Context(lookup, _explain))
    return mask if len(mask) == length else np.full(length, mask[0])


def mask_in(expression: tree.Expression, at: Context) -> Mask:
    """Find where an expression is true, as one truth value if it is the same everywhere."""
    if isinstance(expression, tree.Logical):
        # NULL and false are the same here, so that two truth values are enough.
        combine = np.logical_and if expression.operator == "AND" else np.logical_or
        return reduce(combine, [mask_in(operand, at) for operand in expression.operands])
    return is_true(_condition(expression, at))


def value_in(expression: tree.Expression, at: Context) -> Vector:
    """Return the value of an expression, as a vector of one value if it is a constant."""
    try:
        return _value_of(expression, at)
    except CepheidError:
        raise
    except FAULTS as error:
        found = at.explain(expression, error)
        if found is error:
            raise
        raise found from None


def _value_of(expression: tree.Expression, at: Context) -> Vector:
    match expression:
        case tree.Literal(value=value, digits=digits):
            return constant(value, digits)
        case tree.Duration(microseconds=microseconds):
            return constant(microseconds)._replace(kind=ValueKind.DURATION)
        case tree.Attribute() | tree.Leaf():
            return at.lookup(expression)
        case tree.Call():
            return _call(expression, at)
        case tree.Unary(operator="NOT", operand=operand):
            return negated(_condition(operand, at))
        case tree.Unary(operand=operand):
            return minus(_number(operand, at))
        case tree.Binary():
            return _binary(expression, at)
        case tree.Logical(operator=operator, operands=operands):
            return combined(operator, [_condition(operand, at) for operand in operands])
        case tree.Case(conditions=conditions, results=results, default=default):
            chosen = value_in(default, at)
            for condition, result in zip(reversed(conditions), reversed(results), strict=True):
                holds = is_true(_condition(condition, at))
                chosen = choose(holds, value_in(result, at), chosen)
            return chosen
        case tree.Cast(operand=operand):
            return cast(value_in(operand, at), expression, sql=at.sql)
        case tree.Moment(kind=kind, text=text):
            return moment(kind, text)
        case tree.Array(items=items):
            return MEANINGS["ARRAY"](*(value_in(item, at) for item in items))
    return _test(expression, at)


def _test(expression: tree.Expression, at: Context) -> Vector:
    match expression:
        case tree.IsNull(operand=operand, negated=no):
            valid = value_in(operand, at).valid
            missing = np.zeros(1, np.bool_) if valid is None else ~valid
            return Vector(~missing if no else missing, None, _BOOLEAN)
        case tree.IsTruth(operand=operand, truth=truth, negated=no):
            condition = _condition(operand, at)
            holds = is_true(condition if truth else negated(condition))
            return Vector(~holds if no else holds, None, _BOOLEAN)
        case tree.InList(operand=operand, items=items, negated=no):
            one, others = value_in(operand, at), [value_in(item, at) for item in items]
            for other in others:
                _check_comparable(one, other, at)
            found = in_list(one, others)
        case tree.Between(operand=operand, low=low, high=high, negated=no):
            one = value_in(operand, at)
            above = compare(">=", one, value_in(low, at))
            found = combined("AND", [above, compare("<=", one, value_in(high, at))])
        case tree.Like(operand=operand, pattern=pattern, escape=escape, negated=no):
            found = like(_text(operand, at), _text(pattern, at), escape)
        case _:
            message = f"{type(expression).__name__} has no value for one event"
            raise AssertionError(message)
    return negated(found) if no else found


def _binary(expression: tree.Binary, at: Context) -> Vector:
    operator = expression.operator
    if operator == "||":
        return concat(_text(expression.left, at), _text(expression.right, at))
    if operator in _ARITHMETIC:
        a, b = _number(expression.left, at), _number(expression.right, at)
        if at.sql and arithmetic_kind(operator.replace("DIV", "/"), a.kind, b.kind) is None:
            _misfit(f"arithmetic of {a.kind.value} and {b.kind.value}")
        return arithmetic(operator, a, b)
    a, b = value_in(expression.left, at), value_in(expression.right, at)
    _check_comparable(a, b, at)
    if operator != "DISTINCT":
        return compare(operator, a, b)
    known = [np.ones(1, np.bool_) if v.valid is None else v.valid for v in (a, b)]
    return Vector(is_true(compare("<>", a, b)) | (known[0] != known[1]), None, _BOOLEAN)


def _check_comparable(a: Vector, b: Vector, at: Context) -> None:
    """Refuse what SQL does not compare; the language has looked before."""
    kinds = {a.kind, b.kind}
    if not at.sql or _UNKNOWN in kinds or family_of(a.kind) == family_of(b.kind):
        return
    if not (_TEXT in kinds and kinds & TEMPORAL):
        _misfit(f"a comparison of {a.kind.value} with {b.kind.value}")


def _misfit(message: str) -> NoReturn:
    raise MisfitError(message)


def _of_kind(expression: tree.Expression, value: Vector, what: str, at: Context) -> NoReturn:
    error = MisfitError(f"of kind {value.kind.value}, not {what}")
    raise at.explain(expression, error)


def _condition(expression: tree.Expression, at: Context) -> Vector:
    value = value_in(expression, at)
    if value.kind not in (_BOOLEAN, _UNKNOWN):
        _of_kind(expression, value, "a condition", at)
    return value


def _number(expression: tree.Expression, at: Context) -> Vector:
    value = value_in(expression, at)
    if value.kind in (_TEXT, ValueKind.OTHER) or (at.sql and value.kind is _BOOLEAN):
        _of_kind(expression, value, "a number", at)
    if value.kind is _BOOLEAN:
        return Vector(value.numbers.astype(np.int64), value.valid, ValueKind.INTEGER)
    return value


def _whole_number(expression: tree.Expression, at: Context) -> Vector:
    value = _number(expression, at)
    if value.kind not in (ValueKind.INTEGER, _UNKNOWN):
        _of_kind(expression, value, "a whole number", at)
    return value


def _text(expression: tree.Expression, at: Context) -> Vector:
    value = value_in(expression, at)
    if at.sql:
        return as_text(value)
    if value.kind not in (_TEXT, _UNKNOWN):
        _of_kind(expression, value, "text", at)
    return value


def _time(expression: tree.Expression, at: Context) -> Vector:
    value = value_in(expression, at)
    if at.sql and value.kind is _TEXT:
        return times_of(value)
    if value.kind not in TEMPORAL | {_UNKNOWN}:
        _of_kind(expression, value, "a time", at)
    return value


def _call(call: tree.Call, at: Context) -> Vector:
    name, arguments = call.function, call.arguments
    if isinstance(call, tree.OwnCall):
        return call_vectors(call.own, [value_in(argument, at) for argument in arguments])
    known, meaning = FUNCTIONS[name], MEANINGS[name]
    if known.takes is None:
        values = [value_in(argument, at) for argument in arguments]
        if known.conditional:
            _condition(arguments[0], at)
        if known.arrays and not at.sql and values[0].kind is _UNKNOWN:
            return NULL
        if known.arrays and not at.sql:
            _check_list(arguments[0], values[0], at, of_texts=name == "ARRAY_JOIN")
        if not known.arrays and any(value.kind is _TEXT for value in values[known.conditional :]):
            pairs = zip(arguments, values, strict=True)
            for argument, value in [*pairs][known.conditional :]:
                if value.kind not in (_TEXT, _UNKNOWN):
                    _of_kind(argument, value, "text", at)
        return meaning(*values)
    read = _text if _TEXT in known.takes else _time if known.takes & TEMPORAL else _number
    whole = len(arguments) if known.whole is None else known.whole
    values = [read(argument, at) for argument in arguments[:whole]]
    for argument, value in zip(arguments, values, strict=False):
        if at.sql and value.kind not in known.takes:
            _of_kind(argument, value, f"what {known.usage} takes", at)
    values += [_whole_number(argument, at) for argument in arguments[whole:]]
    if any(value.kind is _UNKNOWN for value in values):
        return NULL if known.gives is None else NULL._replace(kind=_null_kind(known.gives))
    return meaning(*values)


def _check_list(expression: tree.Expression, value: Vector, at: Context, *, of_texts: bool) -> None:
    """Refuse what is no list, or none of texts: before, it is only known that it is nested."""
    kind: Any = value.type
    if kind is None or not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        _of_kind(expression, value, "a list", at)
    if of_texts and not (is_text(kind.value_type) or pa.types.is_null(kind.value_type)):
        _of_kind(expression, value, "a list of texts", at)


def _null_kind(kind: ValueKind) -> ValueKind:
    """Return the kind of a NULL, whose data are truth values."""
    return kind if kind is _BOOLEAN else _UNKNOWN
