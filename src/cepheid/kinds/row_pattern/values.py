"""Expressions in, Arrow columns out: whole columns at once.

A number with a point is a double. What operators do is said in ``operators``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from cepheid.errors import BindError, CepheidError, DataError, Diagnostic
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrow import Value, pa, pc
from cepheid.kinds.row_pattern.functions import FUNCTIONS
from cepheid.kinds.row_pattern.operators import (
    COMPARISONS,
    as_truth,
    binary,
    cast,
    like_expression,
    moment,
    null_like,
    unify,
)
from cepheid.kinds.row_pattern.texts import choose

Leaf: TypeAlias = Callable[[tree.Expression], Value]
"""Gives the value of a cell, an aggregate, a column or MATCH_NUMBER()."""

LEAVES = (tree.Cell, tree.Aggregate, tree.MatchNumber, tree.RowColumn, tree.RowLabel, tree.Column)


def evaluate(node: tree.Expression, leaf: Leaf, text: str = "") -> Value:
    """Return the value of an expression.

    Raises
    ------
    BindError
        E609 if the types of operands do not fit.
    DataError
        E614 if a value cannot be computed: a number leaves its type, a text is no number.

    Examples
    --------
    >>> from cepheid.kinds.row_pattern.expressions import parse_expression
    >>> from cepheid.kinds.row_pattern.lexer import tokenize
    >>> from cepheid.kinds.row_pattern.reader import Reader
    >>> expression = parse_expression(Reader(tokenize("x * 2 > 5"), "x * 2 > 5"))
    >>> evaluate(expression, lambda _: pa.array([1, None, 3])).to_pylist()
    [False, None, True]
    """
    try:
        return _evaluate(node, leaf, text)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
        raise _misfit(node, error, text) from error
    except (pa.ArrowInvalid, ArithmeticError, ValueError) as error:
        if isinstance(error, CepheidError):
            raise
        message = f"a value cannot be computed: {_reason(error)}"
        raise DataError([Diagnostic("E614", message, node.span)], text) from error


def evaluate_condition(node: tree.Expression, leaf: Leaf, text: str = "") -> Value:
    """Return the value of a condition; an untyped NULL is one too.

    Raises
    ------
    BindError
        E609 if its value is no truth value.
    """
    value = evaluate(node, leaf, text)
    try:
        return as_truth(value)
    except TypeError as error:
        raise _misfit(node, error, text) from error


def _misfit(node: tree.Expression, error: Exception, text: str) -> BindError:
    message = f"the types do not fit: {_reason(error)}"
    return BindError([Diagnostic("E609", message, node.span)], text)


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _evaluate(node: tree.Expression, leaf: Leaf, text: str) -> Value:
    if isinstance(node, LEAVES):
        return leaf(node)
    match node:
        case tree.Literal(value=value):
            return pa.scalar(value)
        case tree.Interval(microseconds=microseconds):
            return pa.scalar(dt.timedelta(microseconds=microseconds), pa.duration("us"))
        case tree.Moment(kind=kind, text=written):
            return moment(kind, written)
        case tree.Binary(operator=operator, left=left, right=right):
            a, b = evaluate(left, leaf, text), evaluate(right, leaf, text)
            if operator in COMPARISONS:
                a, b = as_written(left, a, b), as_written(right, b, a)
            return binary(operator, a, b)
        case tree.Unary(operator="NOT", operand=operand):
            return pc.invert(as_truth(evaluate(operand, leaf, text)))
        case tree.Unary(operand=operand):
            return pc.call_function("negate_checked", [evaluate(operand, leaf, text)])
        case tree.IsNull(operand=operand, negated=negated):
            value = evaluate(operand, leaf, text)
            return pc.is_valid(value) if negated else pc.is_null(value)
        case tree.IsTruth(operand=operand, truth=truth, negated=negated):
            value = as_truth(evaluate(operand, leaf, text))
            found = pc.fill_null(value if truth else pc.invert(value), fill_value=False)
            return pc.invert(found) if negated else found
        case tree.InList(operand=operand, items=items, negated=negated):
            one = evaluate(operand, leaf, text)
            found = pa.scalar(value=False)
            for item in items:
                equal = binary("=", one, as_written(item, evaluate(item, leaf, text), one))
                found = pc.or_kleene(found, as_truth(equal))
            return pc.invert(found) if negated else found
        case tree.Like():
            found = _like(evaluate(node.operand, leaf, text), node, leaf, text)
            return pc.invert(found) if node.negated else found
        case tree.Case():
            return _case(node, leaf, text)
        case tree.Cast():
            return cast(evaluate(node.operand, leaf, text), node)
    return _call(node, leaf, text)


def as_written(node: tree.Expression, value: Value, other: Value) -> Value:
    """Return a constant with all its digits, if it is compared with decimals or whole numbers."""
    sign = ""
    if isinstance(node, tree.Unary) and node.operator == "-":
        sign, node = "-", node.operand
    if not isinstance(node, tree.Literal) or not node.digits:
        return value
    exact = pa.types.is_decimal(other.type) or pa.types.is_integer(other.type)
    return pa.scalar(Decimal(sign + node.digits)) if exact else value


def _call(node: tree.Expression, leaf: Leaf, text: str) -> Value:
    inner = [evaluate(child, leaf, text) for child in tree.children(node)]
    if isinstance(node, tree.ArrayOf):
        return FUNCTIONS["ARRAY"](*inner)
    assert isinstance(node, tree.Call), "every other node has its case"
    return FUNCTIONS[node.name](*inner)


def _like(value: Value, node: tree.Like, leaf: Leaf, text: str) -> Value:
    """Return where a text is like a pattern of ``%`` and ``_``."""
    pattern = evaluate(node.pattern, leaf, text)
    if not isinstance(pattern, pa.Scalar):
        message = "LIKE takes a constant pattern"
        raise TypeError(message)
    if pattern.as_py() is None or pa.types.is_null(value.type):
        return null_like("=", value, pattern)
    expression = like_expression(str(pattern.as_py()), node.escape)
    return pc.match_substring_regex(value, expression)


def _case(node: tree.Case, leaf: Leaf, text: str) -> Value:
    result = evaluate(node.default, leaf, text)
    for condition, value in reversed(node.branches):
        when = as_truth(evaluate(condition, leaf, text))
        then = evaluate(value, leaf, text)
        then, result = unify(then, result)
        result = choose(pc.fill_null(when, fill_value=False), then, result)
    return result
