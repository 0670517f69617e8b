"""Edge predicate in, f(prev) op g(next) out, where that is exact (§4.8).

The indexed evaluator needs this form. Doubles are never rearranged: ``NEXT(S).x - S.x > 0.1`` and
``NEXT(S).x > S.x + 0.1`` round differently, and every evaluator must give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.language import tree
from cepheid.language.formatter import format_expression
from cepheid.planner.plan import Separation
from cepheid.planner.value_types import Typing

INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

_EXACT = frozenset(
    {ValueKind.INTEGER, ValueKind.TIMESTAMP, ValueKind.DATE, ValueKind.DURATION}
)  # fmt: skip

_PREV, _NEXT = "prev", "next"


class _Term(NamedTuple):
    """One summand of ``left - right``: added or taken away, and which event it speaks of."""

    positive: bool
    expression: tree.Expression
    side: frozenset[str]


def separate_predicate(
    expression: tree.Expression, typing: Typing
) -> tuple[Separation | None, str]:
    """Return the separated form of an edge predicate, or None, and the reason in words.

    In ``expression`` attributes of the later event have the anchor NEXT.
    """
    comparison = _without_not(expression)
    if comparison is None:
        return None, "it is no comparison of two values"
    left, right = _sides(comparison.left), _sides(comparison.right)
    operator = comparison.operator
    if _NEXT not in left and _PREV not in right:
        separation = Separation(comparison.left, operator, comparison.right)
    elif _PREV not in left and _NEXT not in right:
        separation = Separation(comparison.right, MIRRORED[operator], comparison.left)
    else:
        return _move_terms(comparison, typing)
    return separation, "each side speaks of one event"


def _without_not(expression: tree.Expression) -> tree.Binary | None:
    """Return a comparison with NOT worked into its operator; exact also for NULL and NaN."""
    negated = False
    while isinstance(expression, tree.Unary) and expression.operator == "NOT":
        expression, negated = expression.operand, not negated
    if not isinstance(expression, tree.Binary) or expression.operator not in INVERSE:
        return None
    if not negated:
        return expression
    return tree.Binary(
        span=expression.span,
        operator=INVERSE[expression.operator],
        left=expression.left,
        right=expression.right,
    )


def _sides(expression: tree.Expression) -> frozenset[str]:
    """Return which of the two events an expression speaks of."""
    return frozenset(
        _NEXT if node.anchor is tree.Anchor.NEXT else _PREV
        for node in tree.walk(expression)
        if isinstance(node, tree.Attribute)
    )


def _move_terms(comparison: tree.Binary, typing: Typing) -> tuple[Separation | None, str]:
    """Bring all terms of the earlier event to the left and those of the later one to the right."""
    terms = [*_terms(comparison.left, positive=True), *_terms(comparison.right, positive=False)]
    if any(len(term.side) > 1 for term in terms):
        mixed = next(term.expression for term in terms if len(term.side) > 1)
        return None, f"`{format_expression(mixed)}` mixes the two events"
    kinds = {typing.infer(term.expression) for term in terms}
    if ValueKind.UNKNOWN in kinds:
        return None, "moving terms is exact for whole numbers and times only; a schema would tell"
    if not kinds <= _EXACT:
        return None, "doubles are not rearranged, since that would round differently"
    prev = [term for term in terms if _NEXT not in term.side]
    later = [term for term in terms if _NEXT in term.side]
    operator = comparison.operator
    own = next(term for term in prev if term.side)
    if not own.positive:
        # Turn all signs round, so that the first term of the earlier event is added.
        prev = [term._replace(positive=not term.positive) for term in prev]
        later = [term._replace(positive=not term.positive) for term in later]
        operator = MIRRORED[operator]
    prev.sort(key=lambda term: (not term.side, not term.positive))
    later = [term._replace(positive=not term.positive) for term in later]
    later.sort(key=lambda term: not term.positive)
    separation = Separation(_sum(prev, comparison.span), operator, _sum(later, comparison.span))
    return separation, "moving terms is exact for whole numbers and times"


def _terms(expression: tree.Expression, *, positive: bool) -> Iterator[_Term]:
    """Yield the summands of an expression of ``+`` and ``-``."""
    match expression:
        case tree.Binary(operator="+" | "-" as operator, left=left, right=right):
            yield from _terms(left, positive=positive)
            yield from _terms(right, positive=positive == (operator == "+"))
        case tree.Unary(operator="-", operand=operand):
            yield from _terms(operand, positive=not positive)
        case _:
            yield _Term(positive, expression, _sides(expression))


def _sum(terms: list[_Term], span: Span) -> tree.Expression:
    first, *rest = terms
    total = first.expression
    if not first.positive:
        total = tree.Unary(span=span, operator="-", operand=total)
    for term in rest:
        operator = "+" if term.positive else "-"
        total = tree.Binary(span=span, operator=operator, left=total, right=term.expression)
    return total
