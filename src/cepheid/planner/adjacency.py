"""Templates in, which variables can be neighbours out (§4.4)."""

from __future__ import annotations

from functools import cached_property

from cepheid.planner.template import START, Template


class Adjacency:
    """What the patterns of a query say about pairs of variables."""

    def __init__(self, patterns: tuple[Template, ...]) -> None:
        self._patterns = patterns

    @property
    def known(self) -> bool:
        """Return whether there are templates at all; without, nothing can be said."""
        return bool(self._patterns)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Return the pairs (prev, next) that can be neighbours, also inside negated patterns."""
        return frozenset(pair for template in self._patterns for pair in template.adjacent())

    @cached_property
    def positive(self) -> frozenset[str]:
        """Return the variables that a match can bind."""
        return frozenset(name for template in self._patterns for name in template.variables())

    def always(self, prev: str, later: str) -> bool:
        """Return whether ``later`` directly follows ``prev`` in every match that has both."""
        return all(_always(template, prev, later) for template in self._templates())

    def _templates(self) -> list[Template]:
        found, waiting = [], list(self._patterns)
        while waiting:
            template = waiting.pop()
            found.append(template)
            waiting += [guard.template for guard in template.guards]
        return found


def _always(template: Template, prev: str, later: str) -> bool:
    """Look for a way to the end that binds both variables and never one directly after the other.

    Breadth first over (state, prev seen, later seen); O(edges).
    """
    finals = {final.state for final in template.finals}
    start = (START, False, False)
    seen, waiting = {start}, [start]
    while waiting:
        source, has_prev, has_later = waiting.pop()
        if source in finals and has_prev and has_later:
            return False
        before = template.states[source].variable if source != START else None
        for edge in template.edges:
            here = template.states[edge.target].variable
            if edge.source != source or (before == prev and here == later):
                continue
            nxt = (edge.target, has_prev or here == prev, has_later or here == later)
            if nxt not in seen:
                seen.add(nxt)
                waiting.append(nxt)
    return True
