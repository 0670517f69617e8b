"""Plan aggregates over the pairs of a join: the join that gives them, and what follows (§10.11)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cepheid.kinds.selection.items import Aggregated
from cepheid.language import tree
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import (
    SelectColumn,
    Selection,
    SelectKind,
    SelectStream,
    SelectWindow,
    pair_column,
)

PAIRS = "pairs"
"""The name of the stream of pairs in a plan."""


def aggregate_pairs(
    found: Aggregated, grouped: tuple[tree.Attribute, ...], window: SelectWindow, limit: int | None
) -> tuple[tuple[SelectColumn, ...], Selection]:
    """Plan the columns of pairs that are read, and the aggregation over them."""
    arguments = [a.argument for a in found.aggregates if a.argument is not None]
    read = [*grouped, *(node for a in arguments for node in _attributes(a))]
    columns = {pair_column(one): SelectColumn(pair_column(one), one) for one in read}
    aggregates = tuple(
        msgspec.structs.replace(a, argument=_of_pairs(a.argument)) for a in found.aggregates
    )
    then = Selection(
        kind=SelectKind.AGGREGATE,
        streams=(SelectStream(PAIRS, PAIRS, None),),
        where=None,
        keys=found.keys,
        aggregates=aggregates,
        window=window,
        having=found.having,
        results=found.results,
        order=found.order,
        limit=limit,
    )
    return tuple(columns.values()), then


def following(plan: SelectPlan) -> SelectPlan:
    """Build the plan of the aggregation that follows a join."""
    assert plan.select.then is not None, "the caller has looked"
    return msgspec.structs.replace(plan, select=plan.select.then, columns=None)


def _attributes(expression: tree.Expression) -> Iterator[tree.Attribute]:
    return (node for node in tree.walk(expression) if isinstance(node, tree.Attribute))


def _of_pairs(expression: tree.Expression | None) -> tree.Expression | None:
    """Replace the columns of streams by those of pairs."""

    def placed(node: tree.Node) -> tree.Node:
        if not isinstance(node, tree.Attribute):
            return node
        owner = tree.Name(span=node.span, text=PAIRS)
        column = tree.Name(span=node.span, text=pair_column(node))
        return tree.Attribute(span=node.span, variable=owner, attribute=column)

    return None if expression is None else tree.transform(expression, placed)
