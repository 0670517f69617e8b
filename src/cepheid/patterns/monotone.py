"""Conditions on sums, products and quotients of two doubles accept a range of the earlier (§4.8).

``a.x - NEXT(a).x > 5`` cannot be rearranged, since that would round differently. But a rounded
difference never falls while ``a.x`` rises, so for each later event the earlier values that the
condition accepts lie on one side of a bound, which a search finds exactly. A product rises or falls
by the sign of its other factor. So does ``NEXT(a).x / a.x`` along 1 / a.x, and a chain such as
``(NEXT(a).x / a.x - 1) * 100``, one step after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cepheid.events.comparisons import MIRRORED
from cepheid.language import tree

OPERATORS = ("+", "-", "*", "/")


class Step(NamedTuple):
    """What is done to a value of the earlier event: ``value operator other``, or turned round."""

    operator: str
    other: tree.Expression
    turned: bool


class Monotone(NamedTuple):
    """A condition on a value of the earlier event after some steps: ``steps(prev) operator bound``.

    ``negated`` says that the bound has the other sign. Only the first step may divide by the value.
    """

    prev: tree.Expression
    steps: tuple[Step, ...]
    operator: str
    bound: tree.Expression
    negated: bool = False

    @property
    def is_reciprocal(self) -> bool:
        """Check whether 1 / prev is what rises or falls, and not prev."""
        return self.steps[0].operator == "/" and self.steps[0].turned


def monotone_forms(expression: tree.Expression) -> tuple[Monotone, ...]:
    """Read a condition as one or two of these forms, which hold together; empty if it has none.

    Attributes of the later event have the anchor NEXT.
    """
    if not isinstance(expression, tree.Binary) or expression.operator not in ("<", "<=", ">", ">="):
        return ()
    for left, operator, right in (
        (expression.left, expression.operator, expression.right),
        (expression.right, MIRRORED[expression.operator], expression.left),
    ):
        if _sides(right) <= {True}:
            found = tuple(_forms(left, operator, right))
            if found:
                return found
    return ()


def _forms(left: tree.Expression, operator: str, bound: tree.Expression) -> Iterator[Monotone]:
    match left:
        case tree.Call(function="ABS", arguments=(inside,)):
            if operator in ("<", "<="):
                for one in _forms(inside, operator, bound):
                    yield one
                    yield one._replace(operator=MIRRORED[operator], negated=True)
        case tree.Binary():
            found = _steps(left)
            if found is not None and found[1]:
                yield Monotone(found[0], tuple(found[1]), operator, bound)


def _steps(expression: tree.Expression) -> tuple[tree.Expression, list[Step]] | None:
    """Take an expression apart, down to what is about the earlier event alone."""
    if _sides(expression) == {False}:
        return expression, []
    if not isinstance(expression, tree.Binary) or expression.operator not in OPERATORS:
        return None
    turned = _sides(expression.left) <= {True}
    value, other = expression.left, expression.right
    if turned:
        value, other = other, value
    found = _steps(value)
    if found is None or not _sides(other) <= {True}:
        return None
    prev, steps = found
    if expression.operator == "/" and turned and steps:
        return None
    return prev, [*steps, Step(expression.operator, other, turned)]


def _sides(expression: tree.Expression) -> set[bool]:
    """Tell which events an expression is about: True is the later one."""
    return {
        node.anchor is tree.Anchor.NEXT
        for node in tree.walk(expression)
        if isinstance(node, tree.Attribute)
    }
