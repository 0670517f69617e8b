"""Split the states of a template by whether an event is the first or last one of its variable.

``FIRST(b)`` is an event of b that no b precedes, ``LAST(b)`` one that no b follows. So states are
split by the variables before and after them. Those before a state are determined by the path to it,
those after it by the path onwards, so every match still has one path.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.language import tree
from cepheid.plans.marks import variable_of
from cepheid.plans.plan import PlacedEvent
from cepheid.plans.template import START, Edge, Final, State, Template

STATES_MAX = 256
"""Templates that would become larger are not split."""

_Seen = frozenset[str]
_Node = tuple[int, _Seen, _Seen]


class RoleState(State, frozen=True):
    """A state that records whether its event is the first or the last one of its variable.

    This is recorded only for the requested variables.
    """

    is_first: bool
    is_last: bool

    def plays(self, event: PlacedEvent) -> bool:
        """Check whether the event of this state is at the given place."""
        if variable_of(self.variable) != event.variable:
            return False
        match event.anchor:
            case tree.Anchor.FIRST:
                return self.is_first
            case tree.Anchor.LAST:
                return self.is_last
        return True


def tell_roles(template: Template, events: Sequence[PlacedEvent]) -> Template | None:
    """Split the states of a template by role; None if the result would be too large."""
    firsts = frozenset(e.variable for e in events if e.anchor is tree.Anchor.FIRST)
    lasts = frozenset(e.variable for e in events if e.anchor is tree.Anchor.LAST)
    states = template.states

    def also(seen: _Seen, state: int, asked: _Seen) -> _Seen:
        return seen | ({variable_of(states[state].variable)} & asked)

    # First backwards from the ends; the second pass adds the variables before each state.
    incoming: dict[int, list[Edge]] = {}
    for edge in template.edges:
        incoming.setdefault(edge.target, []).append(edge)
    after = {(final.state, frozenset[str]()) for final in template.finals}
    waiting = list(after)
    for state, seen in waiting:
        for edge in incoming.get(state, ()):
            node = (edge.source, also(seen, state, lasts))
            if edge.source != START and node not in after:
                after.add(node)
                waiting.append(node)
        if len(after) > STATES_MAX:
            return None
    numbers: dict[_Node, int] = {}
    edges: list[Edge] = []
    paths: list[_Node] = [(START, frozenset(), frozenset())]
    for source, before, later in paths:
        begin = START if source == START else numbers[source, before, later]
        for edge in (e for e in template.edges if e.source == source):
            seen = before if source == START else also(before, source, firsts)
            for state, rest in after:
                fits = source == START or also(rest, state, lasts) == later
                if state != edge.target or not fits:
                    continue
                target = (state, seen, rest)
                if target not in numbers:
                    numbers[target] = len(numbers)
                    paths.append(target)
                edges.append(Edge(begin, numbers[target], edge.clear, edge.hit))
        if len(numbers) > STATES_MAX:
            return None
    return _with_states(template, numbers, edges)


def _with_states(template: Template, numbers: dict[_Node, int], edges: list[Edge]) -> Template:
    finals = {final.state: final.alternatives for final in template.finals}
    known = [(template.states[q], before, later) for q, before, later in numbers]
    return Template(
        states=tuple(
            RoleState(
                s.variable, s.event_type, s.allowed, variable_of(s.variable) not in before,
                variable_of(s.variable) not in later,
            )
            for s, before, later in known
        ),
        edges=tuple(edges),
        finals=tuple(
            Final(number, finals[q])
            for (q, _, later), number in numbers.items()
            if q in finals and not later
        ),
        guards=template.guards,
        text=template.text,
        span=template.span,
        determinised=template.determinised,
        shortest=template.shortest,
    )  # fmt: skip


def is_always_bound(template: Template, variable: str) -> bool:
    """Check whether every match binds a variable."""
    others = {
        q for q, state in enumerate(template.states) if variable_of(state.variable) != variable
    }
    reached = {START}
    waiting = [START]
    for source in waiting:
        for edge in template.edges:
            if edge.source == source and edge.target in others - reached:
                reached.add(edge.target)
                waiting.append(edge.target)
    return not reached & {final.state for final in template.finals}


def followers(template: Template) -> list[set[int]]:
    """Compute for every state all states that can come later."""
    follow: list[set[int]] = [set() for _ in template.states]
    for edge in template.edges:
        if edge.source != START:
            follow[edge.source].add(edge.target)
    changed = True
    while changed:
        changed = False
        for mine in follow:
            more = set().union(*(follow[q] for q in mine)) - mine
            if more:
                mine |= more
                changed = True
    return follow
