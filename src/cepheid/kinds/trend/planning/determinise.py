"""Determinise positions to a template: one path per match (§2.2), minimum lengths unrolled (§2.11).

A template state is a pair of position sets: *free*, the positions that the variables so far allow
if negation is ignored, and *alive*, those of them whose guards were clear. An unambiguous pattern
has sets of size one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import combinations

from cepheid.errors import Span
from cepheid.kinds.trend.planning.positions import Guards, Positions, TooLargeError
from cepheid.language import tree
from cepheid.language.formatter import format_pattern
from cepheid.plans.template import START, UNLIMITED, Edge, Final, Guard, State, Template

STATES_MAX = 2048
"""States of a template and its guards; each costs a number per partition and window."""

EDGES_MAX = 20_000
"""Edges of a template and its guards; each costs a step per event."""

CHOICES_MAX = 8
"""Guards that together decide between derivations: each doubles the number of edges."""

_AMBIGUOUS = "give parts that can match the same events different variables, or repeat less often"

Set = frozenset[int]
Key = tuple[Set, Set, int]
"""Free positions, alive positions, events so far (up to the minimum length)."""


class Size:
    """The size of a template and its guards so far."""

    def __init__(self) -> None:
        self.states = 0
        self.edges = 0

    def add_state(self, span: Span) -> None:
        """Count a state, or raise TooLargeError."""
        self.states += 1
        if self.states > STATES_MAX:
            raise TooLargeError(STATES_MAX, "states", span, _AMBIGUOUS)

    def add_edge(self, span: Span) -> None:
        """Count an edge, or raise TooLargeError."""
        self.edges += 1
        if self.edges > EDGES_MAX:
            raise TooLargeError(EDGES_MAX, "edges", span, _AMBIGUOUS)


def build_template(
    pattern: tree.Pattern, *, min_length: int = 1, size: Size | None = None, tick_ns: int = 1000
) -> Template:
    """Build the template of a pattern without AND; deadlines are in ticks.

    Determinising takes O(2^p) in the worst case and O(p^2) without ambiguity, for p positions.

    Raises
    ------
    TooLargeError
        If a limit is exceeded.
    """
    size = size or Size()
    positions = Positions.of(pattern)
    guards = tuple(
        Guard(
            place,
            build_template(n.pattern, size=size, tick_ns=tick_ns),
            format_pattern(n.pattern),
            n.span,
            UNLIMITED if n.next and n.within is None else _ticks(n.within, tick_ns),
            n.next,
        )
        for place, n in positions.negations
    )
    construction = _Construction(positions, pattern.span, min_length, size)
    return construction.run(format_pattern(pattern), guards)


def _ticks(within: tree.Duration | tree.EventCount | None, tick_ns: int) -> int:
    """Convert a deadline to ticks; other deadlines than times are refused by the binder."""
    return within.microseconds * 1000 // tick_ns if isinstance(within, tree.Duration) else 0


class _Construction:
    """The subset construction over variables, breadth first, so states keep the pattern's order."""

    def __init__(self, positions: Positions, span: Span, min_length: int, size: Size) -> None:
        self.size = size
        self.labels = positions.labels
        self.span = span
        self.steps: dict[int, list[tuple[int, Guards]]] = {
            START: sorted(positions.whole.first, key=_step_order)
        }
        for p, q, guards in sorted(
            positions.whole.follow, key=lambda s: (s[0], *_step_order(s[1:]))
        ):
            self.steps.setdefault(p, []).append((q, guards))
        self.last: dict[int, list[Guards]] = {}
        for p, guards in positions.whole.last:
            self.last.setdefault(p, []).append(guards)
        self.min_length = min_length
        self.shortest = self._shortest()
        # Unrolling is needed only if a match can be shorter than the minimum.
        self.counted = min_length if self.shortest < min_length else 0
        self.states: dict[Key, int] = {}

    def run(self, text: str, guards: tuple[Guard, ...]) -> Template:
        start: Key = (frozenset({START}), frozenset({START}), 0)
        edges: list[Edge] = []
        queue: deque[tuple[int, Key]] = deque([(START, start)])
        while queue:
            source, key = queue.popleft()
            for variable in self._allowed(key[0]):
                for target, clear, hit in self._targets(key, variable):
                    if target not in self.states:
                        self.size.add_state(self.span)
                        self.states[target] = len(self.states)
                        queue.append((self.states[target], target))
                    self.size.add_edge(self.span)
                    edges.append(Edge(source, self.states[target], clear, hit))
        return Template(
            states=tuple(self._state(key) for key in self.states),
            edges=tuple(edges),
            finals=tuple(self._finals()),
            guards=guards,
            text=text,
            span=self.span,
            determinised=any(len(free) > 1 for free, _, _ in self.states),
            shortest=self.shortest,
        )

    def _targets(
        self, key: Key, variable: str
    ) -> Iterator[tuple[Key, tuple[int, ...], tuple[int, ...]]]:
        """Compute the targets of a variable, for every relevant outcome of the guards."""
        free, alive, length = key
        steps = [
            s for p in alive for s in self.steps.get(p, ()) if self._variable(s[0]) == variable
        ]
        ways: dict[int, list[Guards]] = {}
        for q, guards in steps:
            ways.setdefault(q, []).append(guards)
        ways = {q: _smallest(alternatives) for q, alternatives in ways.items()}
        asked = [guards for alternatives in ways.values() for guards in alternatives]
        if not asked:
            return
        watched = frozenset[int]().union(*asked)
        # Guards that all paths require must be clear and decide nothing.
        deciding = sorted(watched - asked[0].intersection(*asked))
        if len(deciding) > CHOICES_MAX:
            help_ = (
                "give parts that can match the same events different variables, or use fewer `NOT`"
            )
            raise TooLargeError(CHOICES_MAX, "negations that decide together", self.span, help_)
        next_free = self._step_free(free, variable)
        next_length = min(length + 1, self.counted)
        for size in range(len(deciding) + 1):
            for hit in combinations(deciding, size):
                reached = frozenset(
                    q
                    for q, alternatives in ways.items()
                    if any(not g & set(hit) for g in alternatives)
                )
                if reached:
                    clear = tuple(sorted(watched.difference(hit)))
                    yield (next_free, reached, next_length), clear, hit

    def _step_free(self, free: Set, variable: str) -> Set:
        return frozenset(
            q for p in free for q, _ in self.steps.get(p, ()) if self._variable(q) == variable
        )

    def _variable(self, position: int) -> str:
        return self.labels[position].variable.text

    def _allowed(self, free: Set) -> list[str]:
        """List the variables that may follow, in the order of the pattern."""
        after = sorted({q for p in free for q, _ in self.steps.get(p, ())})
        return list(dict.fromkeys(self._variable(q) for q in after))

    def _state(self, key: Key) -> State:
        label = self.labels[min(key[0])]
        allowed = tuple(self._allowed(key[0]))
        return State(label.variable.text, label.event_type.text, allowed)

    def _finals(self) -> Iterator[Final]:
        for (_, alive, length), index in self.states.items():
            ways = [guards for p in alive for guards in self.last.get(p, ())]
            if ways and length >= self.counted:
                yield Final(index, tuple(tuple(sorted(g)) for g in _smallest(ways)))

    def _shortest(self) -> int:
        """Compute the length of the shortest match, breadth first."""
        level, length, seen = {START}, 0, {START}
        while level and not level & self.last.keys():
            level = {q for p in level for q, _ in self.steps.get(p, ())} - seen
            seen |= level
            length += 1
        return length


def _step_order(step: tuple[int, Guards]) -> tuple[int, list[int]]:
    return step[0], sorted(step[1])


def _smallest(alternatives: Iterable[Guards]) -> list[Guards]:
    """Keep the minimal alternatives: a subset of guards covers all its supersets."""
    distinct = set(alternatives)
    least = (a for a in distinct if not any(other < a for other in distinct))
    return sorted(least, key=lambda guards: (len(guards), sorted(guards)))
