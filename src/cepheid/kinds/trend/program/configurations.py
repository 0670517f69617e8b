"""Convert a plan to a linear system over symbols, a form in which systems can be merged.

A configuration is a count: the partial matches that are in one state and wait for the same events.
It grows with events of one symbol, by the sum of its sources, and events of some symbols reset it:
under skip-till-next-match those that extend its matches, and with negation those that forbid them.
The empty match is a configuration too, whose count is one when a window begins.

Where one event is enough to find a negated pattern (``NOT N``, ``NOT N+``, ``NOT (N OR O)``), at
any place of a sequence, a match that waits for different events behind different guards is counted
once for each of them, and a guard resets what it guards. A negated pattern of several events has a
count for each of its places (``negated_progress.py``), and its events move matches between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.kinds.trend.program.negated_progress import FOUND, Progress, progress_of
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol, symbols_of
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import START, Edge, Place, Template


class Configuration(NamedTuple):
    """One count of a query; ``sources`` are indexes in the list of configurations.

    ``adds`` are the parts and extremes of the query that an event bound here adds to. If not
    ``kept``, every event resets it (contiguous). If ``once``, it takes the matches of its sources
    over, however many events of its symbol there are at one time.
    """

    symbol: Symbol | None
    sources: tuple[int, ...]
    clears: frozenset[Symbol]
    kept: bool
    initial: bool
    counts: bool
    adds: tuple[tuple[int, ...], tuple[int, ...]]
    name: str
    once: bool = False


Guards = frozenset[int]


def why_not_configured(plan: TrendPlan) -> str:
    """Explain why a linear plan has no such system; "" if it has one."""
    if len(plan.patterns) != 1:
        return "AND makes sets of matches"
    if plan.links is not None:
        return "links with different rules, or UNTIL"
    template = plan.patterns[0]
    if not template.guards:
        return ""
    why = _why_not_guarded(plan, template)
    if why:
        return why
    if any(not _is_plain(template, edge) for edge in template.edges):
        return "negation that decides between derivations"
    for final in template.finals:
        places = {template.guards[g].place for way in final.alternatives for g in way}
        if len(final.alternatives) > 1 or not places <= {Place.TRAILING}:
            return "negation that decides between derivations"
    return ""


def has_long_guards(plan: TrendPlan) -> bool:
    """Check whether a negated pattern needs several events."""
    return any(not _is_simple(guard.template) for t in plan.patterns for guard in t.guards)


def _why_not_guarded(plan: TrendPlan, template: Template) -> str:
    """Explain why negated patterns of several events are no counts; "" if they are."""
    long = {g for g, guard in enumerate(template.guards) if not _is_simple(guard.template)}
    if not long:
        return ""
    if plan.semantics is not tree.Semantics.ANY_MATCH:
        return "a negated pattern of several events, where an event can end what others wait for"
    ways = [e.clear for e in template.edges]
    ways += [way for final in template.finals for way in final.alternatives]
    if any(len(way) > 1 and long & set(way) for way in ways):
        return "a negated pattern of several events beside another one"
    symbols = symbols_of(plan)
    for g in sorted(long):
        found = progress_of(template.guards[g].template, symbols, plan.ties)
        if isinstance(found, str):
            return found
    return ""


def _is_simple(template: Template) -> bool:
    """Check whether one event is enough for a match, and every match begins with such an event."""
    finals = {final.state for final in template.finals}
    return not template.guards and set(template.starts) <= finals


def _is_plain(template: Template, edge: Edge) -> bool:
    place = Place.LEADING if edge.source == START else Place.BETWEEN
    return not edge.hit and all(template.guards[g].place is place for g in edge.clear)


def configurations_of(plan: TrendPlan) -> list[Configuration]:
    """Build the configurations of a plan; ``why_not_configured`` must be empty."""
    return _Builder(plan).build()


class _Place(NamedTuple):
    """The state that all matches of a configuration share.

    ``place`` is that of the negated pattern that they wait behind, and ``symbol`` that of the
    events which moved them there.
    """

    state: int
    guards: Guards
    finished: bool
    place: int = 0
    symbol: Symbol | None = None


class _Builder:
    """Numbers configurations: (state, guards) for open matches, and finished ones beside them."""

    def __init__(self, plan: TrendPlan) -> None:
        self.plan = plan
        (self.template,) = plan.patterns
        self.symbols = symbols_of(plan)
        self.parts, self.extremes = parts_of(plan)
        self.moving = plan.semantics is not tree.Semantics.ANY_MATCH
        self.waiting: dict[int, dict[Guards, None]] = {}
        for edge in self.template.edges:
            self.waiting.setdefault(edge.source, {})[frozenset(edge.clear)] = None
        self.finals = {f.state: frozenset(f.alternatives[0]) for f in self.template.finals}
        self.progress = {
            g: progress_of(guard.template, self.symbols, plan.ties)
            for g, guard in enumerate(self.template.guards)
            if not _is_simple(guard.template)
        }

    def build(self) -> list[Configuration]:
        """Build the configurations, those of the empty match first."""
        places: dict[_Place, int] = {}
        for state in [START, *range(len(self.template.states))]:
            for guards in self.waiting.get(state, {}):
                self._enter(places, state, guards, finished=False)
            if state in self.finals and not self._stays(state):
                self._enter(places, state, self.finals[state], finished=True)
        inflow: dict[int, list[int]] = {}
        for edge in self.template.edges:
            guards = frozenset(edge.clear)
            found = [n for at, n in places.items() if at[:3] == (edge.source, guards, False)]
            inflow.setdefault(edge.target, []).extend(found)
        return [self._configuration(at, places, inflow) for at in places]

    def _enter(
        self, places: dict[_Place, int], state: int, guards: Guards, *, finished: bool
    ) -> None:
        """Add a configuration, and those to which events of a negated pattern move it."""
        places[_Place(state, guards, finished)] = len(places)
        for left in self._moves(guards):
            for symbol, to in left.items():
                if to != FOUND:
                    places.setdefault(_Place(state, guards, finished, to, symbol), len(places))

    def _moves(self, guards: Guards) -> tuple[dict[Symbol, int], ...]:
        """Look up where events move the matches behind a negated pattern of several events."""
        found = next((self.progress[g] for g in guards if g in self.progress), None)
        return found.moves if isinstance(found, Progress) else ()

    def _stays(self, state: int) -> bool:
        """Check whether a finished match can share the configuration of an open one."""
        return (
            not self.moving and not self.finals[state] and Guards() in self.waiting.get(state, {})
        )

    def _configuration(
        self, at: _Place, places: dict[_Place, int], inflow: dict[int, list[int]]
    ) -> Configuration:
        moves = self._moves(at.guards)
        clears = (
            set(moves[at.place]) if moves else forbidding(self.template, at.guards, self.symbols)
        )
        if at.symbol is not None:
            # Matches that events of the negated pattern moved here, with all that they add up.
            sources = [
                n
                for other, n in places.items()
                if other[:3] == at[:3] and moves[other.place].get(at.symbol) == at.place
            ]
            none: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
            name = "start" if at.state == START else self.template.states[at.state].variable
            told = f"{name} ~{at.symbol.event_type or ''}"
            return Configuration(
                at.symbol, tuple(sources), frozenset(clears), True, False, at.finished, none, told,
                once=True,
            )  # fmt: skip
        if at.state == START:
            return Configuration(None, (), frozenset(clears), True, True, False, ((), ()), "start")
        here = self.template.states[at.state]
        semantics, finished = self.plan.semantics, at.finished
        if semantics is tree.Semantics.NEXT_MATCH and not finished:
            clears |= {self.symbols[name] for name in here.allowed}
        name = here.variable
        return Configuration(
            self.symbols[name],
            tuple(inflow.get(at.state, ())),
            frozenset(clears),
            finished or semantics is not tree.Semantics.CONTIGUOUS,
            False,
            finished or (at.state in self.finals and not at.guards and self._stays(at.state)),
            (
                tuple(a for a, part in enumerate(self.parts) if part.variable == name),
                tuple(a for a, extreme in enumerate(self.extremes) if extreme.variable == name),
            ),
            name + ("!" if finished else ""),
        )


def forbidding(
    template: Template, guards: Iterable[int], symbols: Mapping[str, Symbol]
) -> set[Symbol]:
    """Collect the symbols of events that end what waits behind negated single events."""
    return {
        symbols[inner.states[s].variable]
        for inner in (template.guards[g].template for g in guards)
        for s in inner.starts
    }
