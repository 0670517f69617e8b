"""Build the automata of a plan as graphs: states with their conditions, edges with theirs."""

from __future__ import annotations

from cepheid.jobs.picture import Condition, Graph, Link
from cepheid.kinds.trend.planning.explain import guards_of, state_names
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import START, Edge, Template


def graphs_of_trends(plan: TrendPlan) -> tuple[Graph, ...]:
    """Build the graph of each pattern: a start, its states, and edges with their guards."""
    return tuple(_graph_of(plan, template) for template in plan.patterns)


def _graph_of(plan: TrendPlan, template: Template) -> Graph:
    variables = [state.variable for state in template.states]
    links = tuple(
        Link(
            edge.source - START,
            edge.target - START,
            guards_of(template, edge),
            _conditions_of(plan, template, edge),
        )
        for edge in template.edges
    )
    ends = frozenset(final.state - START for final in template.finals)
    local = [
        tuple(
            _condition(plan, one.expression)
            for one in plan.local
            if one.variable in (None, variable)
        )
        for variable in variables
    ]
    types = ("", *(state.event_type for state in template.states))
    return Graph(("start", *state_names(template)), links, ends, types, ((), *local))


def _conditions_of(plan: TrendPlan, template: Template, edge: Edge) -> tuple[Condition, ...]:
    """Collect the predicates between the two events of an edge."""
    if edge.source == START:
        return ()
    pair = (template.states[edge.source].variable, template.states[edge.target].variable)
    return tuple(
        _condition(plan, one.expression)
        for one in plan.edges
        if (one.prev_variable, one.next_variable) == pair
    )


def _condition(plan: TrendPlan, expression: tree.Expression) -> Condition:
    span = expression.span
    return Condition(" ".join(plan.text[span.start : span.end].split()), span, expression)
