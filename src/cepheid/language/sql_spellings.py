"""Other spellings that SQL has for what the language has: their parts in, one tree node out.

They become the nodes of the usual spelling, so nothing after the parser knows of them.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from typing import Any

from cepheid.errors import Span
from cepheid.language import tree


def concatenated(c: Children[Any]) -> tree.Call:
    """Read `a || b || c` as `CONCAT(a, b, c)`."""
    left, _, right = c
    joined = isinstance(left, tree.Call) and left.function == "CONCAT"
    arguments = (*(left.arguments if joined else (left,)), right)
    return tree.Call(span=left.span.to(right.span), function="CONCAT", arguments=arguments)


def other_like(
    word: str, span: Span, operand: tree.Expression, pattern: tree.Expression, *, negated: bool
) -> tree.Expression:
    """Read ILIKE as LIKE of small letters, RLIKE and REGEXP as REGEX_MATCH."""
    if word == "ILIKE":
        operand, pattern = _small(operand), _small(pattern)
        return tree.Like(span=span, operand=operand, pattern=pattern, negated=negated)
    found = tree.Call(span=span, function="REGEX_MATCH", arguments=(operand, pattern))
    return tree.Unary(span=span, operator="NOT", operand=found) if negated else found


def _small(text: tree.Expression) -> tree.Expression:
    if isinstance(text, tree.Literal) and isinstance(text.value, str):
        return tree.Literal(span=text.span, value=text.value.lower())
    return tree.Call(span=text.span, function="LOWER", arguments=(text,))


def distinct_from(
    span: Span, left: tree.Expression, right: tree.Expression, *, negated: bool
) -> tree.Expression:
    """Read `a IS DISTINCT FROM b` as conditions that are never NULL; ``negated`` with NOT."""

    def null(operand: tree.Expression, *, known: bool) -> tree.IsNull:
        return tree.IsNull(span=span, operand=operand, negated=known)

    def both(operator: str, *operands: tree.Expression) -> tree.Logical:
        return tree.Logical(span=span, operator=operator, operands=operands)

    if isinstance(right, tree.Literal) and right.value is None:
        return null(left, known=not negated)
    compared = tree.Binary(span=span, operator="=" if negated else "<>", left=left, right=right)
    constant = isinstance(right, tree.Literal)
    if negated:
        same = both("AND", compared, null(left, known=True))
        if constant:
            return same
        same = both("AND", *same.operands, null(right, known=True))
        return both("OR", same, both("AND", null(left, known=False), null(right, known=False)))
    if constant:
        return both("OR", compared, null(left, known=False))
    one = both("AND", null(left, known=False), null(right, known=True))
    other = both("AND", null(left, known=True), null(right, known=False))
    differ = both("AND", compared, null(left, known=True), null(right, known=True))
    return both("OR", differ, one, other)


def filtered(call: tree.Call | tree.Aggregate, condition: tree.Expression, span: Span) -> tree.Call:
    """Read `SUM(x) FILTER (WHERE c)` as `SUM(CASE WHEN c THEN x END)`."""
    rest: tuple[tree.Expression, ...] = ()
    if isinstance(call, tree.Call):
        function, (value, *rest_of) = call.function, call.arguments
        rest = tuple(rest_of)
    else:
        function, value = call.function.value, _value_of(call)
    case = tree.Case(
        span=span,
        conditions=(condition,),
        results=(value,),
        default=tree.Literal(span=span, value=None),
    )
    return tree.Call(span=span, function=function, arguments=(case, *rest))


def _value_of(aggregate: tree.Aggregate) -> tree.Expression:
    """Return the argument of an aggregate: a column, or any value for `COUNT(*)`."""
    variable, attribute = aggregate.variable, aggregate.attribute
    if variable is None:
        return tree.Literal(span=aggregate.span, value=1)
    if attribute is None:
        return tree.Word(span=variable.span, text=variable.text)
    return tree.Attribute(span=aggregate.span, variable=variable, attribute=attribute)
