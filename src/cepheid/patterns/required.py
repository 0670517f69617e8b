"""Find the variables that every match must bind: every path of the template passes them.

A set of variables is *required* if every path through the automaton passes one of its states, so
that every match binds one of them. A single such variable is a basic symbol in Körber's terms
(section 3.4.1); sets handle alternatives, and repeated parts need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from cepheid.plans.template import START, Place, Template


class Required(NamedTuple):
    """A set of variables; every match binds one of them.

    ``first`` and ``last`` say that the first or the last event of every match is bound to one of
    them, and that no event before or after it matters, since no NOT looks there.
    """

    variables: tuple[str, ...]
    first: bool
    last: bool


def required_chain(template: Template, costs: Mapping[str, float]) -> list[Required]:
    """Find required variables in an order that every match follows.

    Parameters
    ----------
    template
        The pattern.
    costs
        The variables that can be looked up, and the number of events that each lookup finds: where
        single variables are not required, the cheapest set is tried.
    """
    usable = [name for name in template.variables() if name in costs]
    single = [name for name in usable if is_required(template, {name})]
    if single:
        # If a variable is unreachable without another, the other comes first.
        ordered = sorted(single, key=lambda n: sum(_before(template, o, n) for o in single))
        chain = [ordered[0]]
        for name in ordered[1:]:
            if _before(template, chain[-1], name):
                chain.append(name)
            elif costs[name] < costs[chain[-1]] and len(chain) == 1:
                chain = [name]
        return [_describe(template, [name]) for name in chain]
    chosen = set(usable)
    if not is_required(template, chosen):
        return []
    for name in sorted(usable, key=lambda n: -costs[n]):
        if is_required(template, chosen - {name}):
            chosen.remove(name)
    return [_describe(template, sorted(chosen))]


def _describe(template: Template, names: Collection[str]) -> Required:
    # Deadlines look further than the window, and replays are longer by them (§2.12).
    places = {guard.place for guard in template.guards if not guard.within}
    variables = [state.variable for state in template.states]
    first = all(variables[state] in names for state in template.starts)
    last = all(variables[final.state] in names for final in template.finals)
    return Required(
        tuple(names),
        first and Place.LEADING not in places,
        last and Place.TRAILING not in places,
    )


def is_required(template: Template, names: Collection[str]) -> bool:
    """Check that every match binds one of some variables."""
    reached = _reached(template, names)
    return not any(final.state in reached for final in template.finals)


def _before(template: Template, name: str, other: str) -> bool:
    return name != other and comes_before(template, {name}, {other})


def comes_before(template: Template, names: Collection[str], others: Collection[str]) -> bool:
    """Check that no path reaches some variables without passing one of the others before."""
    reached = _reached(template, names)
    return not any(template.states[state].variable in others for state in reached)


def _reached(template: Template, without: Collection[str]) -> set[int]:
    """Collect the states that a match can reach without some variables."""
    reached: set[int] = set()
    waiting = [START]
    while waiting:
        source = waiting.pop()
        for edge in template.edges:
            target = edge.target
            if edge.source != source or target in reached:
                continue
            if template.states[target].variable not in without:
                reached.add(target)
                waiting.append(target)
    return reached
