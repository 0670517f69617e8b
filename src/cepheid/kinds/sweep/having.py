"""HAVING with a parameter: one run serves all values, because HAVING filters finished rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cepheid.language import tree
from cepheid.plans.plan import FunnelPlan, ResultColumn, TrendPlan

HIDDEN = "\0having"
"""Begins the names of columns that only HAVING reads; no name of a query has such a character."""


def having_over_columns(
    plans: Sequence[TrendPlan | FunnelPlan],
) -> tuple[tree.Expression, tuple[str, ...], list[TrendPlan | FunnelPlan]]:
    """Move HAVING out of plans that differ in other values only.

    Returns HAVING over columns, the columns that only HAVING reads, and the plans without HAVING.
    """
    first = plans[0]
    assert isinstance(first, TrendPlan), "a funnel has no HAVING"
    assert first.output.having is not None, "a parameter stands in it"
    names = {
        (a.function, a.variable, a.attribute, a.distinct): f"{HIDDEN}{number}"
        for number, a in enumerate(first.output.aggregates)
    }

    def as_column(node: tree.Node) -> tree.Node:
        match node:
            case tree.Aggregate(function=function, variable=variable, attribute=attribute):
                texts = [name.text if name else None for name in (variable, attribute)]
                keys = tuple(name.text for name in node.distinct)
                column = names[function, texts[0], texts[1], keys]
            case tree.Word(text=text):
                column = text
            case _:
                return node
        label = tree.Name(span=node.span, text=column)
        return tree.Attribute(span=node.span, variable=label, attribute=label)

    having = tree.transform(first.output.having, as_column)
    hidden = tuple(names.values())
    return having, hidden, [_without_having(plan, hidden) for plan in plans]


def _without_having(plan: Any, hidden: tuple[str, ...]) -> TrendPlan:
    output = plan.output
    shown = [
        ResultColumn(name, aggregate=aggregate.name)
        for name, aggregate in zip(hidden, output.aggregates, strict=True)
    ]
    output = msgspec.structs.replace(output, having=None, columns=(*output.columns, *shown))
    changed: TrendPlan = msgspec.structs.replace(plan, output=output)
    return changed
