"""The template of a pattern: an automaton over variables, as data.

A state holds the variable that the last event of a partial match is bound to, and the variables
that may follow. Edges lead from state to state; START stands before the first event. A guard is a
negated pattern; edges and finals list the guards that must be clear (§2.5).

Where a pattern allows several derivations of one match, its positions are merged into sets, so
that every match has one path (§2.2). The derivations that are still alive then depend on guards: an
edge may also require that a guard was *hit*, so that all edges of a state and variable exclude each
other.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cepheid.errors import Span

START = -1
"""The source of edges that begin a match."""


class Place(StrEnum):
    """The place in a match where a guard looks for its negated pattern (§2.5)."""

    LEADING = "leading"
    BETWEEN = "between"
    TRAILING = "trailing"
    LOOP = "loop"
    """The guard forbids nothing; what it finds ends a loop (§3.7)."""


class State(msgspec.Struct, frozen=True):
    """A set of positions of the pattern, all of one variable.

    ``allowed`` are the variables that may follow if negation is ignored: skip-till-next-match uses
    them to decide whether an event can extend the match (§3.2).
    """

    variable: str
    event_type: str
    allowed: tuple[str, ...]


class Edge(msgspec.Struct, frozen=True):
    """A transition from ``source`` to ``target``, which is taken if its guards are as required."""

    source: int
    target: int
    clear: tuple[int, ...] = ()
    hit: tuple[int, ...] = ()


class Final(msgspec.Struct, frozen=True):
    """A state in which a match may end if, in one of the alternatives, all guards are clear."""

    state: int
    alternatives: tuple[tuple[int, ...], ...] = ((),)


UNLIMITED = 1 << 61
"""A deadline in ticks that no stream reaches: times and sums of deadlines stay in 64 bits."""


class Guard(msgspec.Struct, frozen=True, omit_defaults=True):
    """A negated pattern and the place where it is looked for; ``within`` is a deadline in ticks.

    Without a deadline it is 0, and the window bounds where the pattern is looked for (§2.12).
    With ``next``, only the events beside the match are forbidden, and there is always a deadline,
    if only UNLIMITED (§2.14).
    """

    place: Place
    template: Template
    text: str
    span: Span
    within: int = 0
    next: bool = False


class Template(msgspec.Struct, frozen=True):
    """The automaton of a pattern."""

    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    finals: tuple[Final, ...]
    guards: tuple[Guard, ...]
    text: str
    span: Span
    determinised: bool
    shortest: int

    @property
    def starts(self) -> tuple[int, ...]:
        """Collect the states that a match may begin in."""
        return tuple(sorted({edge.target for edge in self.edges if edge.source == START}))

    @property
    def has_deadlines(self) -> bool:
        """Check whether a NOT has a deadline, also inside another NOT (§2.12)."""
        return any(guard.within or guard.template.has_deadlines for guard in self.guards)

    @property
    def sees_neighbours(self) -> bool:
        """Check whether a NOT asks for the events beside a match, so that all events count."""
        return any(guard.next or guard.template.sees_neighbours for guard in self.guards)

    @property
    def single(self) -> bool:
        """Check whether every match has one event."""
        return all(edge.source == START for edge in self.edges)

    @property
    def recursive(self) -> bool:
        """Check whether matches have unbounded length."""
        reach: dict[int, set[int]] = {}
        for edge in self.edges:
            reach.setdefault(edge.source, set()).add(edge.target)
        done: set[int] = set()
        active: set[int] = set()
        stack: list[tuple[int, bool]] = [(START, True)]
        while stack:
            state, entering = stack.pop()
            if not entering:
                active.discard(state)
                done.add(state)
            elif state in active:
                return True
            elif state not in done:
                active.add(state)
                stack.append((state, False))
                if reach.get(state, set()) & active:
                    return True
                stack += [(target, True) for target in reach.get(state, ())]
        return False

    def adjacent(self) -> frozenset[tuple[str, str]]:
        """Collect the pairs of variables that can be adjacent, also in negated patterns."""
        pairs = {
            (self.states[e.source].variable, self.states[e.target].variable)
            for e in self.edges
            if e.source != START
        }
        for guard in self.guards:
            pairs |= guard.template.adjacent()
        return frozenset(pairs)

    def variables(self) -> dict[str, str]:
        """Collect the variables that a match binds, with their types; skip negated ones."""
        return {state.variable: state.event_type for state in self.states}
