"""Collect the parts of a plan: the numbers from which its aggregates are computed.

A *part* is one number per configuration that the kernels keep: part 0 counts matches, others count
bindings, sum values, or count the values that are not NULL.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.language import tree
from cepheid.plans.plan import TrendPlan


class Part(NamedTuple):
    """One linear number: a ``count``, or ``bindings``, ``sum`` or ``values`` of an attribute."""

    what: str
    variable: str | None = None
    attribute: str | None = None


class Extreme(NamedTuple):
    """The minimum or maximum of an attribute."""

    variable: str
    attribute: str
    largest: bool


def parts_of(plan: TrendPlan) -> tuple[list[Part], list[Extreme]]:
    """Collect the distinct parts and extremes that a plan's aggregates need."""
    parts = [Part("count")]
    extremes: list[Extreme] = []
    function = tree.AggregateFunction
    for column in plan.output.aggregates:
        if column.variable is None:
            continue
        if column.attribute is None:
            parts.append(Part("bindings", column.variable))
        elif column.function in (function.MIN, function.MAX):
            largest = column.function is function.MAX
            extremes.append(Extreme(column.variable, column.attribute, largest))
        else:
            parts.append(Part("sum", column.variable, column.attribute))
            parts.append(Part("values", column.variable, column.attribute))
    return list(dict.fromkeys(parts)), list(dict.fromkeys(extremes))
