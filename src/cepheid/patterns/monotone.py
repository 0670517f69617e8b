"""Conditions on a sum or difference of two doubles: of one event, they accept a range (§4.8).

``a.x - NEXT(a).x > 5`` cannot be rearranged, since that would round differently. But a rounded
difference never falls while ``a.x`` rises, so for each later event the earlier values that the
condition accepts lie on one side of a bound, which a search finds exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cepheid.events.comparisons import MIRRORED
from cepheid.language import tree


class Monotone(NamedTuple):
    """A condition ``prev ± next op bound``; its left side rises with ``prev``, or falls.

    ``turned`` is ``next - prev``, and ``negated`` says that the bound has the other sign.
    """

    prev: tree.Expression
    sign: str
    turned: bool
    next: tree.Expression
    operator: str
    bound: tree.Expression
    negated: bool = False


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
        case tree.Binary(operator="+" | "-" as sign, left=one, right=two):
            sides = _sides(one), _sides(two)
            if sides == ({False}, {True}):
                yield Monotone(one, sign, False, two, operator, bound)
            elif sides == ({True}, {False}):
                yield Monotone(two, sign, True, one, operator, bound)


def _sides(expression: tree.Expression) -> set[bool]:
    """Tell which events an expression is about: True is the later one."""
    return {
        node.anchor is tree.Anchor.NEXT
        for node in tree.walk(expression)
        if isinstance(node, tree.Attribute)
    }
