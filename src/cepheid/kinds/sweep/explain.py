"""Explain the plan of a sweep: that of its query, and how the values are answered."""

from __future__ import annotations

from typing import Any

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import format_literal
from cepheid.jobs.explain_parts import Section
from cepheid.kinds.sweep.same_events import same_events
from cepheid.language import tree
from cepheid.plans.plan import FunnelPlan, TrendPlan
from cepheid.plans.sweep import Parameter, SweepPlan, ValuesKind, Way

SHOWN_MAX = 4
"""Values of a parameter that are shown one by one."""


def title_of(plan: SweepPlan, inner: str) -> str:
    """Describe the rows of the result."""
    names = " and ".join(parameter.name for parameter in plan.parameters)
    return f"{inner}, for every {names}"


def query_of(plan: SweepPlan) -> TrendPlan | FunnelPlan:
    """Return the plan of the query with the names of parameters in the places of their values."""
    names = {parameter.place: parameter.name for parameter in plan.parameters}

    def change(node: tree.Node) -> tree.Node:
        constant = isinstance(node, tree.Literal | tree.Duration)
        if constant and node.span.start in names:
            return tree.Word(span=node.span, text=names[node.span.start])
        return node

    def named(value: Any) -> Any:
        if isinstance(value, tree.Node):
            return tree.transform_node(value, change)
        if isinstance(value, tuple):
            return tuple(named(item) for item in value)
        if isinstance(value, msgspec.Struct):
            fields = {name: named(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        return value

    query: TrendPlan | FunnelPlan = named(plan.plans[0])
    if not isinstance(query, TrendPlan) or not plan.hidden:
        return query
    columns = tuple(c for c in query.output.columns if c.name not in plan.hidden)
    output = msgspec.structs.replace(query.output, columns=columns)
    return msgspec.structs.replace(query, output=output)


def describe_sweep(plan: SweepPlan) -> list[Section]:
    """Describe the parameters, and how their values are answered."""
    lines = [line for parameter in plan.parameters for line in _describe(parameter)]
    groups = same_events(plan.plans) if len(plan.plans) > 1 else []
    lines += [f"{len(group):,} queries keep and read the same events once" for group in groups]
    rest = len(plan.plans) - sum(len(group) for group in groups)
    if rest and len(plan.plans) > 1:
        lines.append(f"{rest:,} queries run together, as one workload")
    if len(plan.parameters) > 1:
        lines.append(f"{plan.combinations:,} combinations of values")
    return [("sweep", lines)]


def _describe(parameter: Parameter) -> list[str]:
    values = [_shown(parameter, value) for value in parameter.values[:SHOWN_MAX]]
    if len(parameter.values) > SHOWN_MAX:
        values[-1] = f"… {_shown(parameter, parameter.values[-1])}"
    count = f"{len(parameter.values):,} value{'s' if len(parameter.values) > 1 else ''}"
    told = {Way.EACH: "a query for each value"}.get(parameter.way, parameter.way.value)
    return [
        f"{parameter.name}: {count}, {', '.join(values)}",
        f"{told}: {parameter.reason}",
    ]


def _shown(parameter: Parameter, value: float | str) -> str:
    if parameter.kind is ValuesKind.DURATION:
        return format_duration(int(value))
    return format_literal(value)
