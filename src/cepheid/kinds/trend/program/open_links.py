"""Which links of a partial match are still open, and what closes them (§3.6, §3.7).

A partial match in a state remembers the variables that it may no longer take. This is a finite set,
so that partial matches with equal sets are one configuration of the linear system (``gaps.py``).
"""

from __future__ import annotations

from collections.abc import Collection

from cepheid.language import tree
from cepheid.plans.links import Links
from cepheid.plans.template import START, Template

SEVERAL = frozenset({""})
"""In a letter: there are several events of this time. No variable has this name."""

Closed = frozenset[str]
"""The variables that a partial match may no longer take."""

NOTHING: Closed = frozenset()


class OpenLinks:
    """The rules of the links of a template."""

    def __init__(self, template: Template, links: Links) -> None:
        self._states = template.states
        self._rules = [
            {later: links.rule(state.variable, later) for later in state.allowed}
            for state in template.states
        ]
        # Of two patterns with AND, what may follow in one need not be a state of both.
        names = {name for state in template.states for name in (state.variable, *state.allowed)}
        self._stops = {name: links.stops(name) for name in names}
        self._every = frozenset(loop.stop for loop in links.loops)
        self._contiguous = [
            frozenset(v for v, rule in rules.items() if rule is tree.Semantics.CONTIGUOUS)
            for rules in self._rules
        ]

    def takes(self, variable: str, event: Collection[str]) -> bool:
        """Check that an event fits a variable and does not end a loop of it."""
        return variable in event and not self._stops[variable] & frozenset(event)

    def after(self, state: int, closed: Closed, letter: Collection[frozenset[str]]) -> Closed:
        """Close links by the events of one time, none of which the match takes."""
        if state == START:
            return NOTHING
        rules = self._rules[state]
        following = any(
            rule is not tree.Semantics.ANY_MATCH
            and variable not in closed
            and any(self.takes(variable, event) for event in letter)
            for variable, rule in rules.items()
        )
        ended = self._ended(letter)
        return closed | {
            variable
            for variable, rule in rules.items()
            if rule is tree.Semantics.CONTIGUOUS
            or (following and rule is tree.Semantics.NEXT_MATCH)
            or self._stops[variable] & ended
        }

    def at_first(self, source: int, target: int, letter: Collection[frozenset[str]]) -> Closed:
        """Find the links of a match that are closed as soon as it takes an event.

        Only other events of the same time close any: they lie between the event before the loop,
        or before a contiguous link, and what comes next.
        """
        if source == START:
            return NOTHING
        here = self._states[target].variable
        ended = self._stops[here] & self._ended(letter)
        closed = {v for v in self._rules[target] if self._stops[v] & ended}
        if SEVERAL in letter and here in self._contiguous[source]:
            closed |= self._contiguous[target]
        return frozenset(closed)

    def _ended(self, letter: Collection[frozenset[str]]) -> frozenset[str]:
        return self._every & frozenset[str]().union(*letter)
