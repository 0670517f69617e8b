"""The types that patterns name, and whether a match needs an event of each."""

from __future__ import annotations

from collections.abc import Iterator

from cepheid.jobs.kind import NamedType
from cepheid.patterns.required import is_required
from cepheid.plans.plan import TrendPlan, WindowKind
from cepheid.plans.template import Template


def types_in_patterns(plan: TrendPlan) -> tuple[NamedType, ...]:
    """List the variables of patterns with their types; none where events have no types."""
    if plan.type is None:
        return ()
    # The last events of windows counted in events may not have been read.
    known = plan.window.kind is not WindowKind.COUNT
    found = []
    for template in plan.patterns:
        variables = template.variables()
        for variable, name in _bound(template):
            own = {one for one, of in variables.items() if of == name}
            required = bool(own) and is_required(template, own)
            found.append(NamedType(variable, name, required, known))
    return tuple(found)


def _bound(template: Template) -> Iterator[tuple[str, str]]:
    """Yield the variables of a pattern with their types, also of negated patterns."""
    yield from template.variables().items()
    for guard in template.guards:
        yield from _bound(guard.template)
