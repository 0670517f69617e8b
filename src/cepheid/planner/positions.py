"""Pattern in, Glushkov's position automaton out, with negation as guards on its edges.

Every occurrence of an event type in the pattern is a position. A fragment says which positions a
match may begin and end with and which may follow each other; each of these with the guards that
must be clear. A NOT guards the step between the two parts around it; beside an absent optional
part it looks past it, and at an end of its sequence it reaches to the end of the window (§2.5,
§2.6, §2.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cepheid.errors import Span
from cepheid.language import tree
from cepheid.planner.template import Place

POSITIONS_MAX = 256
"""Positions of a pattern, repetitions written out."""

Guards = frozenset[int]
"""The guards that must all be clear; alternatives are sets of these."""

NO_GUARDS: Guards = frozenset()


class TooLargeError(Exception):
    """A pattern exceeds a limit; the compiler turns it into E314."""

    def __init__(self, limit: int, what: str, span: Span) -> None:
        super().__init__(limit, what, span)
        self.limit, self.what, self.span = limit, what, span


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of the automaton; entries are (position, guards) or ((from, to), guards)."""

    nullable: bool
    first: frozenset[tuple[int, Guards]] = frozenset()
    last: frozenset[tuple[int, Guards]] = frozenset()
    follow: frozenset[tuple[int, int, Guards]] = frozenset()


EMPTY = Fragment(nullable=True)


@dataclass(slots=True)
class Positions:
    """The position automaton of a pattern: labels, guards and the whole fragment."""

    labels: list[tree.EventPattern] = field(default_factory=list)
    negations: list[tuple[Place, tree.Negation]] = field(default_factory=list)
    whole: Fragment = EMPTY

    @classmethod
    def of(cls, pattern: tree.Pattern) -> Positions:
        """Build the automaton; O(p^2) for p positions, as every position may follow every other.

        Raises
        ------
        TooLargeError
            If there are more than ``POSITIONS_MAX`` positions.
        """
        automaton = cls()
        automaton.whole = automaton._build(pattern)
        return automaton

    def _build(self, pattern: tree.Pattern) -> Fragment:
        match pattern:
            case tree.EventPattern():
                if len(self.labels) == POSITIONS_MAX:
                    raise TooLargeError(POSITIONS_MAX, "events", pattern.span)
                self.labels.append(pattern)
                here = frozenset({(len(self.labels) - 1, NO_GUARDS)})
                return Fragment(nullable=False, first=here, last=here)
            case tree.Sequence(parts=parts):
                return self._sequence(parts)
            case tree.Disjunction(alternatives=parts):
                return _union([self._build(part) for part in parts])
            case tree.Repeat():
                return self._repeat(pattern)
        message = f"{type(pattern).__name__} is rejected before positions are built"
        raise AssertionError(message)

    def _guard(self, place: Place, negation: tree.Negation) -> int:
        """Return the number of a guard; equal prohibitions at one kind of place are one guard."""
        key = (place, negation)
        if key not in self.negations:
            self.negations.append(key)
        return self.negations.index(key)

    def _guards(self, place: Place, negations: frozenset[tree.Negation]) -> Guards:
        return frozenset(self._guard(place, negation) for negation in negations)

    def _sequence(self, parts: tuple[tree.Pattern, ...]) -> Fragment:
        """Chain parts, collecting the NOTs that wait for the next part that is present."""
        nullable = True
        first: set[tuple[int, Guards]] = set()
        follow: set[tuple[int, int, Guards]] = set()
        # Ends of what stands before, each with the NOTs seen since; and all NOTs seen so far.
        ends: set[tuple[int, Guards, frozenset[tree.Negation]]] = set()
        seen: frozenset[tree.Negation] = frozenset()
        for part in parts:
            if isinstance(part, tree.Negation):
                ends = {(p, guards, waiting | {part}) for p, guards, waiting in ends}
                seen |= {part}
                continue
            fragment = self._build(part)
            follow |= fragment.follow
            for p, guards, waiting in ends:
                between = guards | self._guards(Place.BETWEEN, waiting)
                follow |= {(p, q, between | entering) for q, entering in fragment.first}
            if nullable:
                leading = self._guards(Place.LEADING, seen) if fragment.first else NO_GUARDS
                first |= {(q, entering | leading) for q, entering in fragment.first}
            kept = ends if fragment.nullable else set()
            ends = kept | {(p, guards, frozenset()) for p, guards in fragment.last}
            nullable = nullable and fragment.nullable
        last = {(p, g | self._guards(Place.TRAILING, waiting)) for p, g, waiting in ends}
        return Fragment(nullable, frozenset(first), frozenset(last), frozenset(follow))

    def _repeat(self, repeat: tree.Repeat) -> Fragment:
        """Chain ``least`` copies, then loop over the last one or nest optional copies."""
        least, most = repeat.least, repeat.most
        if most is None:
            copies = [self._build(repeat.pattern) for _ in range(max(least, 1))]
            copies[-1] = _loop(copies[-1])
            if least == 0:
                copies[-1] = _optional(copies[-1])
            return _chain(copies)
        tail = EMPTY
        # Built from the right, so that each optional copy contains the ones after it.
        for _ in range(most - least):
            tail = _optional(_chain([self._build(repeat.pattern), tail]))
        return _chain([*(self._build(repeat.pattern) for _ in range(least)), tail])


def _chain(fragments: list[Fragment]) -> Fragment:
    whole = EMPTY
    for nxt in fragments:
        follow = set(whole.follow | nxt.follow)
        follow |= {(p, q, g | h) for p, g in whole.last for q, h in nxt.first}
        whole = Fragment(
            nullable=whole.nullable and nxt.nullable,
            first=whole.first | nxt.first if whole.nullable else whole.first,
            last=nxt.last | whole.last if nxt.nullable else nxt.last,
            follow=frozenset(follow),
        )
    return whole


def _loop(fragment: Fragment) -> Fragment:
    again = {(p, q, g | h) for p, g in fragment.last for q, h in fragment.first}
    return Fragment(fragment.nullable, fragment.first, fragment.last, fragment.follow | again)


def _optional(fragment: Fragment) -> Fragment:
    return Fragment(nullable=True, first=fragment.first, last=fragment.last, follow=fragment.follow)


def _union(fragments: list[Fragment]) -> Fragment:
    return Fragment(
        nullable=any(f.nullable for f in fragments),
        first=frozenset[tuple[int, Guards]]().union(*(f.first for f in fragments)),
        last=frozenset[tuple[int, Guards]]().union(*(f.last for f in fragments)),
        follow=frozenset[tuple[int, int, Guards]]().union(*(f.follow for f in fragments)),
    )
