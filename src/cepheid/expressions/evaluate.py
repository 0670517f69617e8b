"""Expression in, its values for all events of a batch out: whole columns at once, as vectors.

Three-valued logic, comparison and arithmetic are those of docs/semantics.md §4.6. A sub-expression
of constants stays one value (``vectors.Vector``) until the end. Every operand is computed for every
event, so a number that leaves 64 bits is an error also where another operand of AND would decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import DataError, Diagnostic
from cepheid.events.decimals import Decimals
from cepheid.events.schema import NUMERIC, TEMPORAL, ValueKind
from cepheid.expressions.value_types import FUNCTIONS
from cepheid.expressions.vector_functions import (
    LeftRangeError,
    arithmetic,
    call_function,
    minus,
    piecewise,
)
from cepheid.expressions.vectors import (
    INT64_MAX,
    INT64_MIN,
    NULL,
    Vector,
    both_valid,
    compare,
    constant,
    full_length,
    map_texts,
    plain_texts,
    truth_of,
)
from cepheid.language import tree
from cepheid.language.formatter import as_written

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask, Numbers, Texts

Lookup = Callable[[tree.Attribute], Vector]
"""Gives the column of an attribute."""

_BOOLEAN, _INTEGER, _DOUBLE = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.DOUBLE
_TEXT, _UNKNOWN = ValueKind.TEXT, ValueKind.UNKNOWN

LIST_SCANNED_MAX = 8
"""A longer list of numbers after IN is searched instead of compared one by one."""


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
        return full_length(_value(expression, lookup), length)


def true_mask(expression: tree.Expression, lookup: Lookup, length: int) -> Mask:
    """Return for which events an expression is true, and neither false nor NULL.

    Parameters and errors are those of ``evaluate_vector``.
    """
    with np.errstate(all="ignore"):
        mask = _mask(expression, lookup)
    return mask if len(mask) == length else np.full(length, mask[0])


def _mask(expression: tree.Expression, lookup: Lookup) -> Mask:
    if isinstance(expression, tree.Logical):
        # NULL and false are the same here, so that two truth values are enough.
        combine = np.logical_and if expression.operator == "AND" else np.logical_or
        return reduce(combine, [_mask(operand, lookup) for operand in expression.operands])
    condition = _condition(expression, lookup)
    return _true(condition)


def _true(condition: Vector) -> Mask:
    data: Mask = condition.numbers
    return data if condition.valid is None else data & condition.valid


def _value(expression: tree.Expression, lookup: Lookup) -> Vector:
    try:
        return _value_of(expression, lookup)
    except LeftRangeError:
        message = f"a whole number left 64 bits in `{as_written(expression)}`"
        helps = ("make one number of it a double: `1.0 * S.volume`",)
        raise DataError([Diagnostic("E504", message, helps=helps)]) from None


def _value_of(expression: tree.Expression, lookup: Lookup) -> Vector:
    match expression:
        case tree.Literal(value=value, digits=digits):
            return constant(value, digits)
        case tree.Duration(microseconds=microseconds):
            return constant(microseconds)._replace(kind=ValueKind.DURATION)
        case tree.Attribute():
            return lookup(expression)
        case tree.Call():
            return _call(expression, lookup)
        case tree.Unary(operator="NOT", operand=operand):
            return _negated(_condition(operand, lookup))
        case tree.Unary(operand=operand):
            return minus(_number(operand, lookup))
        case tree.Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
            return arithmetic(operator, _number(left, lookup), _number(right, lookup))
        case tree.Binary(operator=operator, left=left, right=right):
            return compare(operator, _value(left, lookup), _value(right, lookup))
        case tree.Logical(operator=operator, operands=operands):
            return _combined(operator, [_condition(operand, lookup) for operand in operands])
        case tree.IsNull(operand=operand, negated=negated):
            valid = _value(operand, lookup).valid
            missing = np.zeros(1, np.bool_) if valid is None else ~valid
            return Vector(~missing if negated else missing, None, _BOOLEAN)
        case tree.InList(operand=operand, items=items, negated=negated):
            found = _in_list(_value(operand, lookup), [_value(item, lookup) for item in items])
            return _negated(found) if negated else found
        case tree.Between(operand=operand, low=low, high=high, negated=negated):
            one = _value(operand, lookup)
            above = compare(">=", one, _value(low, lookup))
            inside = _combined("AND", [above, compare("<=", one, _value(high, lookup))])
            return _negated(inside) if negated else inside
        case tree.Like(operand=operand, pattern=pattern, negated=negated):
            alike = _like(_text(operand, lookup), _text(pattern, lookup))
            return _negated(alike) if negated else alike
    message = f"{type(expression).__name__} has no value for one event"
    raise AssertionError(message)


def _condition(expression: tree.Expression, lookup: Lookup) -> Vector:
    value = _value(expression, lookup)
    if value.kind not in (_BOOLEAN, _UNKNOWN):
        _refuse(expression, value, "a condition")
    return value


def _number(expression: tree.Expression, lookup: Lookup) -> Vector:
    value = _value(expression, lookup)
    if value.kind is _TEXT:
        _refuse(expression, value, "a number")
    if value.kind is _BOOLEAN:
        return Vector(value.numbers.astype(np.int64), value.valid, _INTEGER)
    return value


def _whole_number(expression: tree.Expression, lookup: Lookup) -> Vector:
    value = _number(expression, lookup)
    if value.numbers.dtype != np.float64:
        return value
    # FLOOR and CEIL give doubles that are whole numbers, where they are any.
    doubles = value.numbers if value.valid is None else np.where(value.valid, value.numbers, 0.0)
    whole = np.clip(doubles, -(2.0**62), 2.0**62).astype(np.int64)
    if (whole != doubles).any():
        _refuse(expression, value, "a whole number")
    return value._replace(data=whole, kind=_INTEGER)


def _text(expression: tree.Expression, lookup: Lookup) -> Vector:
    return _check_text(expression, _value(expression, lookup))


def _check_text(expression: tree.Expression, value: Vector) -> Vector:
    if value.kind not in (_TEXT, _UNKNOWN):
        _refuse(expression, value, "text")
    return value


def _call(call: tree.Call, lookup: Lookup) -> Vector:
    name, arguments = call.function, call.arguments
    takes = FUNCTIONS[name].takes
    if name == "SUBSTRING":
        numbers = [_whole_number(argument, lookup) for argument in arguments[1:]]
        return call_function(name, [_text(arguments[0], lookup), *numbers])
    if name == "ROUND":
        numbers = [_whole_number(argument, lookup) for argument in arguments[1:]]
        return call_function(name, [_number(arguments[0], lookup), *numbers])
    if takes is not None:
        read = _text if _TEXT in takes else _number
        return call_function(name, [read(argument, lookup) for argument in arguments])
    values = [_value(argument, lookup) for argument in arguments]
    if name == "NULLIF":
        return _null_if(values[0], values[1])
    if any(value.kind is _TEXT for value in values):
        for argument, value in zip(arguments, values, strict=True):
            _check_text(argument, value)
    present = [value for value in values if value.kind is not _UNKNOWN]
    return reduce(_CHOICES[name], present) if present else NULL


def _refuse(expression: tree.Expression, value: Vector, what: str) -> NoReturn:
    """Report what the binder could not see, because it had no schema."""
    message = f"`{as_written(expression)}` is of kind {value.kind.value}, not {what}"
    raise DataError([Diagnostic("E507", message)])


# ---------------------------------------------------------------------------------------
# Logic and lists


def _negated(condition: Vector) -> Vector:
    return Vector(~condition.numbers, condition.valid, condition.kind)


def _combined(operator: str, conditions: Sequence[Vector]) -> Vector:
    """Return AND or OR: the deciding value wins, then NULL, then the other."""
    valid = reduce(both_valid, [c.valid for c in conditions])
    if operator == "OR":
        data = reduce(np.logical_or, [_true(c) for c in conditions])
        return Vector(data, None if valid is None else valid | data, _BOOLEAN)
    # What is not false: true or NULL.
    data = reduce(
        np.logical_and,
        [c.numbers if c.valid is None else c.numbers | ~c.valid for c in conditions],
    )
    return Vector(data, None if valid is None else valid | ~data, _BOOLEAN)


def _in_list(one: Vector, items: Sequence[Vector]) -> Vector:
    present = [item for item in items if item.kind is not _UNKNOWN]
    kinds = {one.kind, *(item.kind for item in present)}
    constants = all(len(item.data) == 1 and item.valid is None for item in present)
    if constants and kinds == {_TEXT}:
        data = _in_texts(one.texts, [plain_texts(item.texts)[0].as_py() for item in present])
    elif constants and kinds <= NUMERIC and not any(map(_is_decimal, (one, *present))):
        data = _in_numbers(one.numbers, [item.numbers[0].item() for item in present])
    else:
        return _combined("OR", [compare("=", one, item) for item in items])
    some_null = len(present) < len(items)
    return Vector(data, both_valid(one.valid, data) if some_null else one.valid, _BOOLEAN)


def _is_decimal(vector: Vector) -> bool:
    return isinstance(vector.data, Decimals)


def _in_texts(texts: Texts, wanted: list[str]) -> Mask:
    def search(values: Texts) -> Mask:
        if len(wanted) == 1:  # Arrow's search costs as much as two comparisons.
            return truth_of(pc.equal(values, pa.scalar(wanted[0])))
        return truth_of(pc.is_in(values, value_set=pa.array(wanted, values.type)))

    return _as_mask(map_texts(texts, search))


def _in_numbers(numbers: Numbers, wanted: list[int | float]) -> Mask:
    # A number that the column's type cannot hold equals none of its values.
    fitting = [value for value in wanted if _fits(value, numbers.dtype)]
    table = np.unique(np.array(fitting, numbers.dtype))
    if len(table) <= LIST_SCANNED_MAX:
        found: Mask = reduce(np.logical_or, [numbers == v for v in table], np.zeros(1, np.bool_))
    else:
        nearest = np.searchsorted(table, numbers).clip(max=len(table) - 1)
        found = table[nearest] == numbers
    if np.isnan(table[-1:]).any():
        found |= np.isnan(numbers)
    return found


def _fits(value: float, dtype: np.dtype[Any]) -> bool:
    if dtype == np.float64:
        return value != value or float(value) == value
    return value == value and INT64_MIN <= value <= INT64_MAX and value == int(value)


def _as_mask(data: Numbers | Texts) -> Mask:
    assert isinstance(data, np.ndarray), "a predicate of text is true or false"
    return data


def _like(one: Vector, pattern: Vector) -> Vector:
    if _UNKNOWN in (one.kind, pattern.kind):
        return NULL
    encoded = plain_texts(pattern.texts).dictionary_encode()
    patterns = encoded.dictionary.to_pylist() or [""]
    codes = Vector(encoded.indices.to_numpy(), pattern.valid, _INTEGER)
    data = piecewise(
        one.texts, [codes], lambda texts, code: map_texts(texts, _matcher(str(patterns[code])))
    )
    return Vector(data, both_valid(one.valid, pattern.valid), _BOOLEAN)


def _matcher(pattern: str) -> Callable[[Texts], Mask]:
    """Return a function that says which texts are like a pattern."""
    parts = re.findall(r"\\.|.", pattern, flags=re.DOTALL)
    literal = "".join(part[-1] for part in parts if part not in ("%", "_"))
    shape = re.sub("x+", "x", "".join(part if part in ("%", "_") else "x" for part in parts))
    match shape:
        case "x":
            return lambda texts: truth_of(pc.equal(texts, pa.scalar(literal)))
        case "x%":
            return lambda texts: truth_of(pc.starts_with(texts, pattern=literal))
        case "%x":
            return lambda texts: truth_of(pc.ends_with(texts, pattern=literal))
        case "%x%":
            return lambda texts: truth_of(pc.match_substring(texts, pattern=literal))
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or f"\\x{{{ord(part[-1]):x}}}" for part in parts)
    whole = rf"(?s)\A(?:{regex})\z"
    return lambda texts: truth_of(pc.match_substring_regex(texts, pattern=whole))


# ---------------------------------------------------------------------------------------
# Functions that choose


def _chosen(mask: Mask, a: Vector, b: Vector) -> Vector:
    """Return a where a mask is true, else b; the caller knows which values are NULL."""
    if a.kind is not _TEXT:
        data = np.where(mask, a.numbers, b.numbers)
        kind: ValueKind = a.kind
        if a.kind is not b.kind:
            times = {a.kind, b.kind} <= TEMPORAL
            whole = ValueKind.TIMESTAMP if times else _INTEGER
            kind = _DOUBLE if data.dtype == np.float64 else whole
        return Vector(data, None, kind)
    texts = [plain_texts(v.texts) for v in (a, b)]
    length = np.broadcast_shapes(mask.shape, *((len(t),) for t in texts))[0]
    parts = [t if len(t) == length else t[0] for t in texts]
    where = pa.array(np.broadcast_to(mask, length))
    return Vector(pc.if_else(where, *parts), None, _TEXT)


def _either_valid(a: Vector, b: Vector) -> Mask | None:
    return None if a.valid is None or b.valid is None else a.valid | b.valid


def _coalesce(a: Vector, b: Vector) -> Vector:
    if a.valid is None:
        return a
    return _chosen(a.valid, a, b)._replace(valid=_either_valid(a, b))


def _extreme(operator: str) -> Callable[[Vector, Vector], Vector]:
    """Return GREATEST or LEAST of two; NULL counts only if both are."""

    def extreme(a: Vector, b: Vector) -> Vector:
        second: Mask = compare(operator, b, a).numbers
        second = second if a.valid is None else second | ~a.valid
        second = second if b.valid is None else second & b.valid
        return _chosen(second, b, a)._replace(valid=_either_valid(a, b))

    return extreme


def _null_if(a: Vector, b: Vector) -> Vector:
    same = _true(compare("=", a, b))
    return a._replace(valid=both_valid(a.valid, ~same)) if same.any() else a


_CHOICES = {"COALESCE": _coalesce, "GREATEST": _extreme(">"), "LEAST": _extreme("<")}
