"""Bind PREV, FIRST and aggregates of the situation so far in the condition of a definition."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from cepheid.errors import Span
from cepheid.events.schema import ValueKind
from cepheid.language import tree
from cepheid.plans.situations import Relative

if TYPE_CHECKING:
    from cepheid.kinds.situation.bind import SituationScope

FUNCTIONS = ("PREV", "FIRST", "COUNT", "SUM", "AVG", "MIN", "MAX")
_NUMBERS = (ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.UNKNOWN)


def relative_to(condition: tree.Expression, own: str, scope: SituationScope) -> tree.Expression:
    """Let columns stand for PREV, FIRST and aggregates in a condition (§9.10).

    Parameters
    ----------
    own
        The name of the situation: `AVG(A.speed)` in the condition of A is `AVG(speed)`.
    """

    def as_column(node: tree.Node) -> tree.Node:
        use = _use_of(node, own, scope.names.keys() - {own})
        if use is None:
            return node
        scope.uses[use.column] = use
        nobody = tree.Name(span=node.span, text="")
        name = tree.Name(span=node.span, text=use.column)
        return tree.Attribute(span=node.span, variable=nobody, attribute=name)

    return tree.transform(condition, as_column)


def _use_of(node: tree.Node, own: str, others: Set[str]) -> Relative | None:
    match node:
        case tree.Call(function=function, arguments=(tree.Word(text=text),)):
            return Relative(function, text) if function in FUNCTIONS else None
        case tree.Aggregate(function=function, variable=None, distinct=()):
            return Relative(str(function.value))
        case tree.Aggregate(function=function, variable=variable, attribute=attribute, distinct=()):
            names = [name.text for name in (variable, attribute) if name is not None]
        case tree.Attribute(anchor=anchor, variable=variable, attribute=attribute):
            if anchor not in (tree.Anchor.PREV, tree.Anchor.FIRST):
                return None
            function, names = anchor.value, [variable.text, attribute.text]
        case _:
            return None
    if names[0] in others:
        return None
    # `COUNT(A)` counts the events of the situation, `AVG(place.height)` reads a structure.
    rest = names[1:] if names[0] == own else names
    return Relative(str(function), ".".join(rest) or None)


def kind_of_use(scope: SituationScope, use: Relative, span: Span) -> ValueKind:
    """Look up the kind of PREV, FIRST or an aggregate; report attributes that have none."""
    if use.attribute is None:
        return ValueKind.INTEGER
    kind = scope.attribute_kind(tree.Name(span=span, text=use.attribute))
    if use.function == "PREV":
        return kind
    if use.function == "COUNT":
        return ValueKind.INTEGER
    if kind not in _NUMBERS:
        message = f"`{use.column}` needs numbers, but `{use.attribute}` is of kind {kind.value}"
        scope.findings.add("E206", message, span, "aggregate a column of numbers, or use COUNT")
    return ValueKind.DOUBLE
