"""Collect the parts of a plan: the numbers from which its aggregates are computed.

A *part* is one number per configuration that the kernels keep: part 0 counts matches, others count
bindings, sum values or their squares, or count the values that are not NULL. ``length`` and
``duration`` add up values of whole matches, and a part that begins with SECOND adds up the squares
of the values that the part before it adds up, each of a whole match.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.language import tree
from cepheid.plans.plan import TrendPlan
from cepheid.plans.survey import MatchValue

SECOND = "second "


class Part(NamedTuple):
    """One number: a ``count``, ``bindings``, ``sum`` or ``values`` of an attribute, and others."""

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
    for spread in plan.output.spreads:
        value = spread.value
        if spread.of_matches:
            parts += moments_of(value)
        else:
            names = (value.variable, value.attribute)
            parts += [Part(what, *names) for what in ("sum", "values", "squares")]
    return list(dict.fromkeys(parts)), list(dict.fromkeys(extremes))


def moments_of(value: MatchValue) -> tuple[Part, Part]:
    """Name the parts that add up a value of matches, and its squares."""
    what = "bindings" if value.what == "count" else value.what
    names = (value.variable, value.attribute)
    return Part(what, *names), Part(SECOND + what, *names)
