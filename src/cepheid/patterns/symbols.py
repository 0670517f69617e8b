"""Compute the symbols of plans: the conditions on an event, independent of variable names.

Variables of different queries with the same type and the same local predicates match the same
events. They get one symbol, so that queries with other names can share work.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.language import tree
from cepheid.language.variables import without_variable
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import Template


class Symbol(NamedTuple):
    """A type (None for ANY, and where events have no types) and the conditions on an event."""

    event_type: str | None
    conditions: frozenset[tree.Expression]


def symbols_of(plan: TrendPlan) -> dict[str, Symbol]:
    """Compute the symbol of every variable, including those of negated patterns."""
    local: dict[str | None, set[tree.Expression]] = {}
    for predicate in plan.local:
        local.setdefault(predicate.variable, set()).add(without_variable(predicate.expression))
    everywhere = local.get(None, set())
    return {
        variable: Symbol(
            event_type if plan.type is not None and event_type != tree.ANY_TYPE else None,
            frozenset(local.get(variable, set()) | everywhere),
        )
        for variable, event_type in types_of(plan.patterns).items()
    }


def types_of(patterns: tuple[Template, ...]) -> dict[str, str]:
    """Collect the type of every variable of templates and of their negated patterns."""
    types: dict[str, str] = {}
    waiting = list(patterns)
    while waiting:
        template = waiting.pop(0)
        types |= {s.variable: s.event_type for s in template.states}
        waiting += [guard.template for guard in template.guards]
    return types
