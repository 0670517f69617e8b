"""Separate an edge predicate into f(prev) op g(next), where that is exact (§4.8).

The indexed evaluator needs this form. Doubles are never rearranged: ``NEXT(S).x - S.x > 0.1`` and
``NEXT(S).x > S.x + 0.1`` round differently, and every evaluator must give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.events.comparisons import MIRRORED
from cepheid.events.schema import ValueKind
from cepheid.expressions.format import format_expression
from cepheid.expressions.value_types import Typing
from cepheid.language import tree
from cepheid.plans.plan import Separation

INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

_TIME, _DURATION = ValueKind.TIMESTAMP, ValueKind.DURATION
_REASONS = {
    ValueKind.UNKNOWN: "moving terms is exact for whole numbers and times only; "
    "a schema would tell",
    ValueKind.DOUBLE: "doubles are not rearranged, since that would round differently",
    ValueKind.DECIMAL: "decimals are not rearranged, since their digits are limited",
    ValueKind.DATE: "dates are not rearranged, since a sum of them may be no date",
}
"""The reasons why terms of a kind are not moved; the first that applies is reported."""

_PREV, _NEXT = "prev", "next"


class _Term(NamedTuple):
    """One summand of ``left - right``: its sign, and the event that it refers to."""

    positive: bool
    expression: tree.Expression
    side: frozenset[str]

    def turned(self) -> _Term:
        """Negate the summand."""
        return self._replace(positive=not self.positive)


def separate_predicate(
    expression: tree.Expression, typing: Typing
) -> tuple[Separation | None, str]:
    """Separate an edge predicate, if possible, and give the reason in words.

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
    """Move NOT into the operator of a comparison; exact also for NULL and NaN."""
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
    """Determine which of the two events an expression refers to."""
    return frozenset(
        _NEXT if node.anchor is tree.Anchor.NEXT else _PREV
        for node in tree.walk(expression)
        if isinstance(node, tree.Attribute)
    )


def _move_terms(comparison: tree.Binary, typing: Typing) -> tuple[Separation | None, str]:
    """Move all terms of the earlier event to the left and those of the later one to the right."""
    terms = [*_terms(comparison.left, positive=True), *_terms(comparison.right, positive=False)]
    if any(len(term.side) > 1 for term in terms):
        mixed = next(term.expression for term in terms if len(term.side) > 1)
        return None, f"`{format_expression(mixed)}` mixes the two events"
    quiet = typing.quiet()
    kinds = {quiet.infer(term.expression) for term in terms}
    reason = next((_REASONS[kind] for kind in _REASONS if kind in kinds), None)
    if reason is None and not all(_is_exact(term.expression, quiet) for term in terms):
        reason = "moving terms is exact for whole numbers, times and their differences only"
    if reason is not None:
        return None, reason
    return _rearrange(terms, comparison, quiet)


def _is_exact(expression: tree.Expression, typing: Typing) -> bool:
    """Check whether the value is an integer (or whole microseconds) without rounding.

    Values of kind INTEGER are computed from integers alone. Durations can be multiplied by doubles
    and divided, so their terms are checked.
    """
    kind = typing.infer(expression)
    if kind not in (_TIME, _DURATION):
        return kind is ValueKind.INTEGER
    match expression:
        case tree.Binary(operator="+" | "-", left=left, right=right):
            return _is_exact(left, typing) and _is_exact(right, typing)
        case tree.Binary(operator="*", left=left, right=right):
            factor, duration = (left, right) if isinstance(left, tree.Literal) else (right, left)
            whole = isinstance(factor, tree.Literal) and type(factor.value) is int
            return whole and _is_exact(duration, typing)
        case tree.Unary(operand=operand):
            return _is_exact(operand, typing)
        case tree.Call(arguments=arguments):
            return all(_is_exact(argument, typing) for argument in arguments)
    return not isinstance(expression, tree.Binary)


def _rearrange(
    terms: list[_Term], comparison: tree.Binary, typing: Typing
) -> tuple[Separation | None, str]:
    """Put the terms of the earlier event on the left, in an order in which every sum has a kind."""
    prev = [term for term in terms if _NEXT not in term.side]
    later = [term.turned() for term in terms if _NEXT in term.side]
    operator = comparison.operator
    # Times added minus times subtracted: 0 is a duration, 1 a time, anything else is invalid.
    # Both sides have the same number, since the comparison itself is valid.
    times = [term.positive for term in prev if typing.infer(term.expression) is _TIME]
    surplus = 2 * sum(times) - len(times)
    if abs(surplus) > 1:
        return None, "moving its terms would add times to times"
    own = next(term for term in prev if term.side)
    if surplus < 0 or (surplus == 0 and not own.positive):
        # Negate all terms, so that the first term of the earlier event is added.
        prev, later = [t.turned() for t in prev], [t.turned() for t in later]
        operator = MIRRORED[operator]
    prev.sort(key=lambda term: (not term.side, not term.positive))
    later.sort(key=lambda term: not term.positive)
    left = _sum(_typed_order(prev, typing), comparison.span)
    right = _sum(_typed_order(later, typing), comparison.span)
    return Separation(left, operator, right), "moving terms is exact for whole numbers and times"


def _typed_order(terms: list[_Term], typing: Typing) -> list[_Term]:
    """Put times first, with alternating signs: ``a - b + c`` has a kind, ``a + c`` none."""
    times = [term for term in terms if typing.infer(term.expression) is _TIME]
    others = [term for term in terms if typing.infer(term.expression) is not _TIME]
    added = [term for term in times if term.positive]
    taken = [term for term in times if not term.positive]
    in_turn = [term for pair in zip(added, taken, strict=False) for term in pair]
    return [*in_turn, *added[len(taken) :], *others]


def _terms(expression: tree.Expression, *, positive: bool) -> Iterator[_Term]:
    """Collect the summands of an expression of ``+`` and ``-``."""
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
