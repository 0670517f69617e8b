"""Find the events that a condition on a whole match refers to (§4.5).

A condition on one event, such as ``FIRST(b).x > 3``, or one that separates into f(one event) op
g(another event), such as ``c.x < FIRST(b).x``, need not wait for a finished match: it is checked as
soon as its events are bound. All other conditions are checked at the end.
"""

from __future__ import annotations

import msgspec

from cepheid.expressions.value_types import Typing
from cepheid.kinds.trend.planning.separate import separate_predicate
from cepheid.language import tree
from cepheid.plans.plan import GlobalPredicate, PlacedEvent


def place_global(conjunct: tree.Expression, typing: Typing) -> GlobalPredicate:
    """Build a condition on a whole match with the events that it refers to."""
    nodes = list(tree.walk(conjunct))
    if any(isinstance(node, tree.Aggregate) for node in nodes):
        return GlobalPredicate(conjunct, reason="an aggregate needs all events")
    events = tuple(
        dict.fromkeys(
            PlacedEvent(node.variable.text, node.anchor)
            for node in nodes
            if isinstance(node, tree.Attribute)
        )
    )
    if len(events) == 1:
        return GlobalPredicate(conjunct, events)
    if len(events) > 2:
        return GlobalPredicate(conjunct, reason=f"it speaks of {len(events)} events")
    separation, reason = separate_predicate(_as_pair(conjunct, events[0]), typing)
    if separation is None:
        return GlobalPredicate(conjunct, reason=reason)
    return GlobalPredicate(conjunct, events, separation, reason)


def _as_pair(expression: tree.Expression, first: PlacedEvent) -> tree.Expression:
    """Set the anchor of attributes: EACH for one event, NEXT for the other."""

    def place(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Attribute):
            return node
        mine = (node.variable.text, node.anchor) == (first.variable, first.anchor)
        return msgspec.structs.replace(node, anchor=tree.Anchor.EACH if mine else tree.Anchor.NEXT)

    placed = tree.transform(expression, place)
    assert isinstance(placed, tree.Expression)
    return placed
