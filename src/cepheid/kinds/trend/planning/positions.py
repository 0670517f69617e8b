"""Convert a pattern to Glushkov's position automaton, with negation as guards on its edges.

Every occurrence of an event type in the pattern is a position. A fragment holds the positions that
a match may begin and end with and those that may follow each other; each of these with the guards
that must be clear. A NOT guards the step between its two neighbours; if a neighbour is optional and
absent, it applies to the next one, and at an end of its sequence it extends to the end of the
window (§2.5, §2.6, §2.8).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from cepheid.errors import Span
from cepheid.kinds.trend.planning.greed import events_beside, following
from cepheid.language import tree
from cepheid.plans.template import Place

POSITIONS_MAX = 256
"""Positions of a pattern, with repetitions expanded."""

GUARDS_MAX = 256
"""Guards of a pattern: different negations and places."""

STEPS_MAX = 2 * POSITIONS_MAX**2
"""Steps from position to position; with different guards there can be several for each pair."""

Guards = frozenset[int]
"""The guards that must all be clear; alternatives are sets of these."""

NO_GUARDS: Guards = frozenset()


class TooLargeError(Exception):
    """A pattern exceeds a limit; the compiler reports it as E314."""

    def __init__(self, limit: int, what: str, span: Span, help_: str) -> None:
        super().__init__(limit, what, span, help_)
        self.limit, self.what, self.span, self.help = limit, what, span, help_


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
    _numbers: dict[tree.Negation, int] = field(default_factory=dict)
    _guard_numbers: dict[tuple[Place, int], int] = field(default_factory=dict)
    _negated: list[tree.Negation] = field(default_factory=list)

    @classmethod
    def of(cls, pattern: tree.Pattern) -> Positions:
        """Build the automaton; O(p^2) for p positions, as every position may follow every other.

        Raises
        ------
        TooLargeError
            If there are too many positions, guards or steps.
        """
        automaton = cls()
        automaton.whole = automaton._build(pattern)
        return automaton

    def _build(self, pattern: tree.Pattern, greed: Guards = NO_GUARDS) -> Fragment:
        match pattern:
            case tree.EventPattern():
                if len(self.labels) == POSITIONS_MAX:
                    help_ = "repeat less often, or use `+` for long repetitions"
                    raise TooLargeError(POSITIONS_MAX, "events", pattern.span, help_)
                self.labels.append(pattern)
                here = frozenset({(len(self.labels) - 1, NO_GUARDS)})
                return Fragment(nullable=False, first=here, last=here)
            case tree.Sequence(parts=parts):
                return self._sequence(parts)
            case tree.Disjunction(alternatives=parts):
                return _union([self._build(part) for part in parts])
            case tree.Repeat():
                return _checked(self._repeat(pattern, greed), pattern.span)
        message = f"{type(pattern).__name__} is rejected before positions are built"
        raise AssertionError(message)

    def _guard(self, place: Place, number: int) -> int:
        """Assign the number of a guard; equal negations at one kind of place are one guard."""
        key = (place, number)
        if key not in self._guard_numbers:
            negation = self._negated[number]
            if len(self.negations) == GUARDS_MAX:
                raise TooLargeError(GUARDS_MAX, "negations", negation.span, "use fewer `NOT`")
            self._guard_numbers[key] = len(self.negations)
            self.negations.append((place, negation))
        return self._guard_numbers[key]

    def _guards(self, place: Place, numbers: frozenset[int]) -> Guards:
        return frozenset(self._guard(place, number) for number in sorted(numbers))

    def _number(self, negation: tree.Negation) -> int:
        """Assign the number of a negation; equal ones share it."""
        number = self._numbers.setdefault(negation, len(self._negated))
        if number == len(self._negated):
            self._negated.append(negation)
        return number

    def _sequence(self, parts: tuple[tree.Pattern, ...]) -> Fragment:
        """Chain parts, collecting the NOTs that apply to the next part that is present."""
        nullable = True
        first: set[tuple[int, Guards]] = set()
        follow: set[tuple[int, int, Guards]] = set()
        # Ends of earlier parts, each with the NOTs seen since; and all NOTs seen so far.
        ends: set[tuple[int, Guards, frozenset[int]]] = set()
        seen: frozenset[int] = frozenset()
        greedy: Guards = NO_GUARDS
        for place, part in enumerate(parts):
            if isinstance(part, tree.Negation):
                number = self._number(part)
                ends = {(p, guards, waiting | {number}) for p, guards, waiting in ends}
                seen |= {number}
                continue
            mine = self._greed(part, parts[place + 1 :])
            greedy |= mine
            if mine and _is_reluctant(part):
                ends = {(p, guards | mine, waiting) for p, guards, waiting in ends}
            fragment = self._build(part, mine)
            follow |= fragment.follow
            for p, guards, waiting in sorted(ends, key=_end_order):
                between = guards | self._guards(Place.BETWEEN, waiting)
                follow |= {(p, q, between | entering) for q, entering in fragment.first}
            _check_steps(follow, part.span)
            if nullable:
                leading = self._guards(Place.LEADING, seen) if fragment.first else NO_GUARDS
                first |= {(q, entering | leading) for q, entering in fragment.first}
            kept = ends if fragment.nullable else set()
            ends = kept | {(p, guards, frozenset()) for p, guards in fragment.last}
            ends = {(p, guards | mine, waiting) for p, guards, waiting in ends}
            nullable = nullable and fragment.nullable
        ordered = sorted(ends, key=_end_order)
        # A loop takes no part in what follows another sequence (§2.15).
        last = {
            (p, (g - greedy) | self._guards(Place.TRAILING, waiting)) for p, g, waiting in ordered
        }
        return Fragment(nullable, frozenset(first), frozenset(last), frozenset(follow))

    def _greed(self, part: tree.Pattern, rest: tuple[tree.Pattern, ...]) -> Guards:
        """Assign the guard of a loop with greed: what it, or what follows, would have taken."""
        if not isinstance(part, tree.Repeat) or part.greed is None:
            return NO_GUARDS
        forbidden = events_beside(part, tuple(following(rest)))
        if not forbidden:
            return NO_GUARDS
        pattern: tree.Pattern = forbidden[0]
        if len(forbidden) > 1:
            pattern = tree.Disjunction(span=part.span, alternatives=forbidden)
        negation = tree.Negation(span=part.span, pattern=pattern)
        return self._guards(Place.BETWEEN, frozenset({self._number(negation)}))

    def _repeat(self, repeat: tree.Repeat, greed: Guards = NO_GUARDS) -> Fragment:
        """Chain ``least`` copies, then loop over the last one or nest optional copies."""
        least, most = repeat.least, repeat.most
        if repeat.greed is not None:
            again = greed if repeat.greed is tree.Greed.RELUCTANT else NO_GUARDS
            copies = [self._build(repeat.pattern) for _ in range(max(least, 1))]
            copies[-1] = _loop(copies[-1], again)
            return _chain([*copies[:-1], _optional(copies[-1])] if least == 0 else copies)
        between = NO_GUARDS
        if repeat.without is not None:
            between = self._guards(Place.BETWEEN, frozenset({self._number(repeat.without)}))
        if most is None:
            copies = [self._build(repeat.pattern) for _ in range(max(least, 1))]
            copies[-1] = _loop(copies[-1], between)
            if least == 0:
                copies[-1] = _optional(copies[-1])
            return _chain(copies, between)
        tail = EMPTY
        # Built from the right, so that each optional copy contains the ones after it.
        for _ in range(most - least):
            tail = _optional(_chain([self._build(repeat.pattern), tail], between))
        return _chain([*(self._build(repeat.pattern) for _ in range(least)), tail], between)


def _is_reluctant(part: tree.Pattern) -> bool:
    """Check for a reluctant loop that may have no event, so that it is judged before it begins."""
    if not isinstance(part, tree.Repeat):
        return False
    return part.greed is tree.Greed.RELUCTANT and part.least == 0


def _end_order(end: tuple[int, Guards, frozenset[int]]) -> tuple[int, list[int], list[int]]:
    """Order ends, so that guards get the same numbers in every run."""
    return end[0], sorted(end[1]), sorted(end[2])


def _checked(fragment: Fragment, span: Span) -> Fragment:
    _check_steps(fragment.follow, span)
    return fragment


def _check_steps(follow: Collection[tuple[int, int, Guards]], span: Span) -> None:
    if len(follow) > STEPS_MAX:
        help_ = "nest repetitions and optional parts less deeply around `NOT`"
        raise TooLargeError(STEPS_MAX, "steps from event to event", span, help_)


def _chain(fragments: list[Fragment], between: Guards = NO_GUARDS) -> Fragment:
    whole = EMPTY
    for nxt in fragments:
        follow = set(whole.follow | nxt.follow)
        follow |= {(p, q, g | h | between) for p, g in whole.last for q, h in nxt.first}
        whole = Fragment(
            nullable=whole.nullable and nxt.nullable,
            first=whole.first | nxt.first if whole.nullable else whole.first,
            last=nxt.last | whole.last if nxt.nullable else nxt.last,
            follow=frozenset(follow),
        )
    return whole


def _loop(fragment: Fragment, between: Guards) -> Fragment:
    again = {(p, q, g | h | between) for p, g in fragment.last for q, h in fragment.first}
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
