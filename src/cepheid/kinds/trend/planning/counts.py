"""Decide whether counts are whole numbers or doubles: how many matches an event can begin (§5.4).

The input is a template and the clauses of its query, the output the bound and its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from cepheid.language import tree
from cepheid.plans.plan import PartialEquivalence
from cepheid.plans.template import START, Template

WHOLE_MAX = 1000
"""The most bindings that an event may begin where they are counted by whole numbers."""


class Counts(NamedTuple):
    """The number of matches that an event can begin, infinite without a bound, and the reason."""

    matches: float
    reason: str
    template: Template | None = None

    def is_whole(self, variable: str | None) -> bool:
        """Check whether the count of matches, or of a variable's bindings, is a whole number."""
        if self.template is None:
            return False
        bound = 1.0 if variable is None else bindings_max(self.template, variable)
        return self.matches * bound <= WHOLE_MAX


def bound_counts(
    patterns: tuple[Template, ...],
    determined: bool,  # noqa: FBT001
    ties: tree.Ties,
    partial: tuple[PartialEquivalence, ...],
    *,
    typed: bool,
) -> Counts:
    """Bound the matches that an event can begin, in any stream.

    Parameters
    ----------
    patterns
        The templates of the patterns without a minimum length, which changes no type.
    determined
        Whether at most one time can extend a partial match: no link is skip-till-any-match.
    typed
        Whether events have types, so that an event fits variables of one type only.
    """
    if len(patterns) != 1:
        return Counts(math.inf, "`AND` makes sets of matches")
    template = patterns[0]
    if any(edge.source != START for edge in template.edges):
        # Without a single next event, even SEQ(A, B) has more matches than events.
        if not determined:
            many = "exponentially" if template.recursive else "polynomially"
            return Counts(math.inf, f"n events can have {many} many matches")
        if partial:
            return Counts(math.inf, f"an event can begin a match for each {partial[0].attribute}")
        if ties is tree.Ties.STRICT:
            return Counts(math.inf, "with strict ties all events of one time can follow an event")
    matches = matches_begun(template, typed=typed)
    if matches > WHOLE_MAX:
        return Counts(matches, f"an event can begin more than {WHOLE_MAX:,} matches")
    most = "one match" if matches <= 1 else f"{matches:.0f} matches"
    return Counts(matches, f"an event begins at most {most}", template)


def matches_begun(template: Template, *, typed: bool) -> float:
    """Count the matches that begin with an event if the next event of each is determined.

    An event has one type, so the variables of one type share it, and the type with most matches
    counts. A variable has one next state, but for guards: the state that allows most counts.
    """
    after = _successors(template)
    finals = {final.state for final in template.finals}
    begun: dict[int, float] = {}
    for component in _components(after):
        largest = 0.0
        cyclic = False
        for state in component:
            for shared in _by_type(template, after[state], typed=typed):
                if any(t in component for targets in shared.values() for t in targets):
                    cyclic = True
                    # Where a loop shares an event, every lap leaves a match behind that ends.
                    largest = math.inf if len(shared) > 1 else largest
                most = (max(begun.get(t, 0.0) for t in targets) for targets in shared.values())
                largest = max(largest, sum(most))
        ends = not finals.isdisjoint(component)
        begun |= dict.fromkeys(component, math.inf if cyclic and ends else largest + ends)
    return begun[START]


def bindings_max(template: Template, variable: str) -> float:
    """Count how often a match can bind a variable; without a bound, it is infinite."""
    after = _successors(template)
    bound: dict[int, float] = {}
    for component in _components(after):
        states = [template.states[s].variable for s in component if s != START]
        targets = [t for s in component for t in after[s]]
        rest = max((bound[t] for t in targets if t not in component), default=0.0)
        own = variable in states
        cyclic = any(t in component for t in targets)
        bound |= dict.fromkeys(component, math.inf if own and cyclic else own + rest)
    return bound[START]


def _successors(template: Template) -> dict[int, list[int]]:
    after: dict[int, list[int]] = {state: [] for state in range(START, len(template.states))}
    for edge in template.edges:
        after[edge.source].append(edge.target)
    return after


def _by_type(
    template: Template, targets: list[int], *, typed: bool
) -> Iterator[dict[str, list[int]]]:
    """Yield for each type the variables that its events can be bound to, with their states."""
    found: dict[str, dict[str, list[int]]] = {}
    for target in targets:
        state = template.states[target]
        shared = found.setdefault(state.event_type if typed else tree.ANY_TYPE, {})
        shared.setdefault(state.variable, []).append(target)
    free = found.pop(tree.ANY_TYPE, {})
    yield free
    for shared in found.values():
        yield shared | free


def _components(after: dict[int, list[int]]) -> Iterator[set[int]]:
    """Yield the strongly connected components, each after those that it leads to (Tarjan)."""
    number: dict[int, int] = {START: 0}
    lowest: dict[int, int] = {START: 0}
    open_: list[int] = [START]
    path = [(START, iter(after[START]))]
    done: set[int] = set()
    while path:
        state, rest = path[-1]
        for target in rest:
            if target not in number:
                number[target] = lowest[target] = len(number)
                open_.append(target)
                path.append((target, iter(after[target])))
                break
            if target not in done:
                lowest[state] = min(lowest[state], number[target])
        else:
            path.pop()
            if path:
                before = path[-1][0]
                lowest[before] = min(lowest[before], lowest[state])
            if lowest[state] == number[state]:
                place = open_.index(state)
                component = set(open_[place:])
                del open_[place:]
                done |= component
                yield component
