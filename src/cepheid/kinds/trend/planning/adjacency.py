"""Find the variables that can be adjacent in a match, from the templates (§4.4)."""

from __future__ import annotations

from functools import cached_property

from cepheid.plans.template import START, Template


class Adjacency:
    """Adjacency of the variables in the patterns of a query."""

    def __init__(self, patterns: tuple[Template, ...]) -> None:
        self._patterns = patterns
        self._always: dict[tuple[str, str], bool] = {}

    @property
    def known(self) -> bool:
        """Check whether there are templates at all; without them adjacency is unknown."""
        return bool(self._patterns)

    @property
    def joined(self) -> bool:
        """Check whether AND joins two patterns: then no query can list matches (§2.10)."""
        return len(self._patterns) > 1

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Collect the pairs (prev, next) that can be adjacent, also inside negated patterns."""
        return frozenset(pair for template in self._patterns for pair in template.adjacent())

    @cached_property
    def positive(self) -> frozenset[str]:
        """Collect the variables that a match can bind."""
        return frozenset(name for template in self._patterns for name in template.variables())

    def always(self, prev: str, later: str) -> bool:
        """Check whether ``later`` directly follows ``prev`` in every match that has both."""
        pair = prev, later
        if pair not in self._always:
            self._always[pair] = all(graph.always(prev, later) for graph in self._graphs)
        return self._always[pair]

    @cached_property
    def repeated(self) -> frozenset[str]:
        """Collect the variables that one match can bind more than once."""
        return frozenset(name for t in self._patterns for name in _Graph(t).repeated())

    @cached_property
    def _graphs(self) -> list[_Graph]:
        """Build graphs of the patterns and of all negated patterns in them."""
        found, waiting = [], list(self._patterns)
        while waiting:
            template = waiting.pop()
            found.append(_Graph(template))
            waiting += [guard.template for guard in template.guards]
        return found


class _Graph:
    """A template as variables of states and lists of successors."""

    def __init__(self, template: Template) -> None:
        self._variables = [state.variable for state in template.states]
        self._names = frozenset(self._variables)
        self._finals = {final.state for final in template.finals}
        self._after: dict[int, list[int]] = {}
        for edge in template.edges:
            self._after.setdefault(edge.source, []).append(edge.target)

    def always(self, prev: str, later: str) -> bool:
        """Search for a path to the end that binds both, but never one directly after the other.

        Depth first over (state, prev seen, later seen); O(edges).
        """
        if not {prev, later} <= self._names:
            return True
        start = (START, False, False)
        seen, waiting = {start}, [start]
        while waiting:
            source, has_prev, has_later = waiting.pop()
            if source in self._finals and has_prev and has_later:
                return False
            leaving = source != START and self._variables[source] == prev
            for target in self._after.get(source, ()):
                here = self._variables[target]
                if leaving and here == later:
                    continue
                nxt = (target, has_prev or here == prev, has_later or here == later)
                if nxt not in seen:
                    seen.add(nxt)
                    waiting.append(nxt)
        return True

    def repeated(self) -> set[str]:
        """Collect the variables of states from which a state of the same variable is reached.

        Sets of variables are integer bit masks. States are numbered breadth first, so most
        successors come later and a few backward rounds reach the fixed point; O(edges) each.
        """
        bit = {name: 1 << idx for idx, name in enumerate(self._names)}
        reached = [0] * len(self._variables)
        changed = True
        while changed:
            changed = False
            for source in reversed(range(len(reached))):
                bits = reached[source]
                for target in self._after.get(source, ()):
                    bits |= reached[target] | bit[self._variables[target]]
                changed |= bits != reached[source]
                reached[source] = bits
        states = zip(self._variables, reached, strict=True)
        return {name for name, bits in states if bits & bit[name]}
