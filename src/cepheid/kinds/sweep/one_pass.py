"""Decide whether all values of a parameter can be answered in one pass, and say why not."""

from __future__ import annotations

from typing import Any

import msgspec

from cepheid.events.schema import ValueKind
from cepheid.expressions.value_types import Typing
from cepheid.kinds.trend.planning.needs import why_not_composed
from cepheid.language import tree
from cepheid.patterns.scope import Source
from cepheid.patterns.symbols import types_of
from cepheid.plans.plan import Plan, TrendPlan, WindowKind
from cepheid.plans.sweep import Parameter, Threshold, ValuesKind

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with its sides exchanged."""

PANES_MAX = 100
"""Panes of a window that are multiplied anew for each window."""

EXACT_MAX = 2**53
"""Whole numbers up to this are doubles too."""


def find_threshold(
    plan: Plan, number: int, parameter: Parameter, source: Source
) -> tuple[Threshold | None, str]:
    """Find the condition of a parameter that is answered in one pass; else None and why not."""
    if not isinstance(plan, TrendPlan):
        return None, f"{plan.what} is no linear system"
    if why := _why_not_linear(plan):
        return None, why
    holders = [
        place
        for place, predicate in enumerate(plan.local)
        if any(node.span.start == parameter.place for node in _constants(predicate.expression))
    ]
    if len(holders) != 1 or _occurrences(plan, parameter.place) != 1:
        return None, "it is not compared with values of single events"
    predicate = plan.local[holders[0]]
    if predicate.variable is not None and predicate.variable not in types_of(plan.patterns):
        return None, "its condition ends a loop"
    value, operator = _sides(predicate.expression, parameter.place)
    if value is None:
        return None, "its condition is no comparison by <, <=, > or >= with the parameter alone"
    if why := _why_not_numbers(value, parameter, source):
        return None, why
    threshold = Threshold(number, holders[0], value, operator, predicate.variable)
    return threshold, "each event passes the condition up to one of the values"


def _why_not_linear(plan: TrendPlan) -> str:
    """Explain why stretches of a query's events are no matrices; empty if they are."""
    if plan.lists_matches:
        return "matches are listed"
    if why := why_not_composed(plan):
        return why
    if len(plan.patterns) > 1:
        return "AND makes sets of matches"
    if plan.numbers is tree.Numbers.EXACT:
        return "exact numbers are computed by residues"
    if plan.output.counts_keys:
        return "COUNT(DISTINCT ...) counts keys"
    window = plan.window
    if window.kind is WindowKind.SLIDING and window.within // window.pane > PANES_MAX:
        return f"a window has more than {PANES_MAX} panes"
    return ""


def _why_not_numbers(value: tree.Expression, parameter: Parameter, source: Source) -> str:
    """Explain why values cannot be ranked among the parameter's; empty if they can."""

    def kind_of(node: Any) -> ValueKind:
        known = source.schema is not None and isinstance(node, tree.Attribute)
        kind = source.schema.kind(node.attribute.text) if known and source.schema else None
        return kind or ValueKind.UNKNOWN

    kind = Typing(kind_of).infer(value)
    if parameter.kind is ValuesKind.DURATION:
        fits = kind in (ValueKind.DURATION, ValueKind.UNKNOWN)
        return "" if fits else f"a value of kind {kind.value} has no rank among durations"
    if parameter.kind is ValuesKind.TEXT:
        return "texts have no rank"
    if kind not in (ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.UNKNOWN):
        return f"a value of kind {kind.value} has no rank among numbers"
    if parameter.digits or any(abs(float(v)) > EXACT_MAX for v in parameter.values):
        return "doubles have not all digits of its values"
    return ""


def _constants(expression: tree.Expression) -> list[tree.Node]:
    nodes = tree.walk(expression)
    return [node for node in nodes if isinstance(node, tree.Literal | tree.Duration)]


def _sides(condition: tree.Expression, place: int) -> tuple[tree.Expression | None, str]:
    """Write a condition as ``value operator parameter``, if it is one."""
    if not isinstance(condition, tree.Binary) or condition.operator not in TURNED:
        return None, ""
    for value, constant, operator in (
        (condition.left, condition.right, condition.operator),
        (condition.right, condition.left, TURNED[condition.operator]),
    ):
        there = isinstance(constant, tree.Literal | tree.Duration)
        if there and constant.span.start == place:
            return value, operator
    return None, ""


def _occurrences(plan: TrendPlan, place: int) -> int:
    """Count the constants of a plan that stand at a place of the text."""
    count = 0
    stack = [msgspec.to_builtins(plan)]
    while stack:
        here = stack.pop()
        if isinstance(here, dict):
            kind, span = here.get("type"), here.get("span")
            if kind in ("Literal", "Duration") and isinstance(span, dict):
                count += span.get("start") == place
            stack.extend(here.values())
        elif isinstance(here, list | tuple):
            stack.extend(here)
    return count
