"""Conditions as device functions: one small function for every node of a form, joined to one.

A function takes the columns and the event of both sides; of one event, both sides are the same. A
condition is false, true or unknown: 0, 1 or 2. See ``cepheid.accelerator.conditions`` for forms.

    ("and" | "or", condition, ...)   ("not", condition)   ("known", side, mask)
    ("compare", operator, "whole" | "double", value, value)
    ("whole" | "double", "column", side, column, mask)
    ("whole" | "double", "constant", place)   ("double", "compute", operator, value, value)
"""

from __future__ import annotations

import functools
from typing import Any

from cepheid.accelerator.kernels.inlining import inlined

FALSE, TRUE, UNKNOWN = 0, 1, 2
Form = tuple[Any, ...]

COMPARED = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
COMPARED_DOUBLES = {
    # NaN equals itself and is greater than every other number (§4.6).
    "=": lambda a, b: a == b or (a != a and b != b),
    "<>": lambda a, b: not (a == b or (a != a and b != b)),
    "<": lambda a, b: a == a and (b != b or a < b),
    "<=": lambda a, b: b != b or a <= b,
    ">": lambda a, b: b == b and (a != a or a > b),
    ">=": lambda a, b: a != a or a >= b,
}
COMPUTED = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


@functools.cache
def condition_of(form: Form) -> Any:
    """Build a function that is true, false or unknown for two events."""
    match form:
        case ("and",):
            return inlined(lambda left, i, right, j: TRUE)
        case ("and" | "or", one):
            return condition_of(one)
        case ("and", *most, last):
            return _both(condition_of(("and", *most)), condition_of(last))
        case ("or", *most, last):
            return _either(condition_of(("or", *most)), condition_of(last))
        case ("not", operand):
            return _negated(condition_of(operand))
        case ("known", side, mask):
            return _has_value(side, mask)
        case ("compare", operator, kind, a, b):
            return _comparison(operator, kind, a, b)
    raise AssertionError(form)


@functools.cache
def predicate_of(form: Form) -> Any:
    """Build a function of one event that checks whether a condition is true."""
    condition = condition_of(form)

    def fits(columns, i):
        return condition(columns, i, columns, i) == TRUE

    return fits


@functools.cache
def pair_predicate_of(form: Form) -> Any:
    """Build a function of two events that checks whether a condition is true."""
    condition = condition_of(form)

    def fits(left, i, right, j):
        return condition(left, i, right, j) == TRUE

    return fits


def _both(a: Any, b: Any) -> Any:
    @inlined
    def both(left, i, right, j):
        first = a(left, i, right, j)
        if first == FALSE:
            return FALSE
        second = b(left, i, right, j)
        if second == FALSE:
            return FALSE
        return max(first, second)

    return both


def _either(a: Any, b: Any) -> Any:
    @inlined
    def either(left, i, right, j):
        first = a(left, i, right, j)
        if first == TRUE:
            return TRUE
        second = b(left, i, right, j)
        if second == TRUE:
            return TRUE
        return max(first, second)

    return either


def _negated(a: Any) -> Any:
    @inlined
    def negated(left, i, right, j):
        found = a(left, i, right, j)
        return found if found == UNKNOWN else TRUE - found

    return negated


def _comparison(operator: str, kind: str, a: Form, b: Form) -> Any:
    compared = inlined((COMPARED_DOUBLES if kind == "double" else COMPARED)[operator])
    known_a, known_b = _known_of(a), _known_of(b)
    value_a, value_b = value_of(a), value_of(b)

    @inlined
    def compare(left, i, right, j):
        if known_a(left, i, right, j) == FALSE or known_b(left, i, right, j) == FALSE:
            return UNKNOWN
        if compared(value_a(left, i, right, j), value_b(left, i, right, j)):
            return TRUE
        return FALSE

    return compare


@functools.cache
def _known_of(value: Form) -> Any:
    """Build a function that checks whether a value is not NULL."""
    match value:
        case (_, "column", side, _, mask):
            return _has_value(side, mask)
        case (_, "compute", _, a, b):
            return _both(_known_of(a), _known_of(b))
    return inlined(lambda left, i, right, j: TRUE)


@functools.cache
def _has_value(side: int, mask: int) -> Any:
    """Build a function that reads a mask of a side; without one, all values are there."""
    if mask < 0:
        return inlined(lambda left, i, right, j: TRUE)
    if side == 0:
        return inlined(lambda left, i, right, j: TRUE if left[2][mask, i] != 0 else FALSE)
    return inlined(lambda left, i, right, j: TRUE if right[2][mask, j] != 0 else FALSE)


@functools.cache
def value_of(value: Form) -> Any:
    """Build a function that reads or computes a value of two events."""
    match value:
        case ("whole", "column", 0, column, _):
            return inlined(lambda left, i, right, j: left[0][column, i])
        case ("whole", "column", 1, column, _):
            return inlined(lambda left, i, right, j: right[0][column, j])
        case ("double", "column", 0, column, _):
            return inlined(lambda left, i, right, j: left[1][column, i])
        case ("double", "column", 1, column, _):
            return inlined(lambda left, i, right, j: right[1][column, j])
        case ("double", "constant", place):
            return inlined(lambda left, i, right, j: left[3][place])
        case ("whole", "constant", place):
            return inlined(lambda left, i, right, j: left[4][place])
        case ("double", "compute", operator, a, b):
            return _computed(operator, value_of(a), value_of(b))
    raise AssertionError(value)


def _computed(operator: str, a: Any, b: Any) -> Any:
    computed = inlined(COMPUTED[operator])

    @inlined
    def compute(left, i, right, j):
        return computed(a(left, i, right, j), b(left, i, right, j))

    return compute
