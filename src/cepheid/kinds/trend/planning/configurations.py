"""Convert a plan to a linear system over symbols, a form in which systems can be merged.

A configuration is a count: the partial matches that are in one state and wait for the same events.
It grows with events of one symbol, by the sum of its sources, and events of some symbols reset it:
under skip-till-next-match those that extend its matches, and with negation those that forbid them.
The empty match is a configuration too, whose count is one when a window begins.

Negation is supported here where one event is enough to find the negated pattern: ``NOT N``,
``NOT N+``, ``NOT (N OR O)``, at any place of a sequence. Then a match that waits for different
events behind different guards is counted once for each of them, and a guard resets what it guards.
"""

from __future__ import annotations

from typing import NamedTuple

from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol, symbols_of
from cepheid.plans.plan import TrendPlan
from cepheid.plans.template import START, Edge, Place, Template


class Configuration(NamedTuple):
    """One count of a query; ``sources`` are indexes in the list of configurations.

    ``adds`` are the parts and extremes of the query that an event bound here adds to. If not
    ``kept``, every event resets it (contiguous).
    """

    symbol: Symbol | None
    sources: tuple[int, ...]
    clears: frozenset[Symbol]
    kept: bool
    initial: bool
    counts: bool
    adds: tuple[tuple[int, ...], tuple[int, ...]]
    name: str


Guards = frozenset[int]


def why_not_configured(plan: TrendPlan) -> str:
    """Explain why a linear plan has no such system; "" if it has one."""
    if len(plan.patterns) != 1:
        return "AND counts pairs of matches"
    if plan.links is not None:
        return "links with different rules, or UNTIL"
    template = plan.patterns[0]
    if not template.guards:
        return ""
    if any(not _is_simple(guard.template) for guard in template.guards):
        return "a negated pattern of several events"
    if any(not _is_plain(template, edge) for edge in template.edges):
        return "negation that decides between derivations"
    for final in template.finals:
        places = {template.guards[g].place for way in final.alternatives for g in way}
        if len(final.alternatives) > 1 or not places <= {Place.TRAILING}:
            return "negation that decides between derivations"
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

    def build(self) -> list[Configuration]:
        """Build the configurations, those of the empty match first."""
        places: dict[tuple[int, Guards, bool], int] = {}
        for state in [START, *range(len(self.template.states))]:
            for guards in self.waiting.get(state, {}):
                places[state, guards, False] = len(places)
            if state in self.finals and not self._stays(state):
                places[state, self.finals[state], True] = len(places)
        inflow: dict[int, list[int]] = {}
        for edge in self.template.edges:
            source = places[edge.source, frozenset(edge.clear), False]
            inflow.setdefault(edge.target, []).append(source)
        return [
            self._configuration(state, guards, tuple(inflow.get(state, ())), finished=finished)
            for state, guards, finished in places
        ]

    def _stays(self, state: int) -> bool:
        """Check whether a finished match can share the configuration of an open one."""
        return (
            not self.moving and not self.finals[state] and Guards() in self.waiting.get(state, {})
        )

    def _configuration(
        self, state: int, guards: Guards, sources: tuple[int, ...], *, finished: bool
    ) -> Configuration:
        clears = {
            self.symbols[inner.states[s].variable]
            for inner in (self.template.guards[g].template for g in guards)
            for s in inner.starts
        }
        if state == START:
            return Configuration(None, (), frozenset(clears), True, True, False, ((), ()), "start")
        here = self.template.states[state]
        semantics = self.plan.semantics
        if semantics is tree.Semantics.NEXT_MATCH and not finished:
            clears |= {self.symbols[name] for name in here.allowed}
        name = here.variable
        return Configuration(
            self.symbols[name],
            sources,
            frozenset(clears),
            finished or semantics is not tree.Semantics.CONTIGUOUS,
            False,
            finished or (state in self.finals and not guards and self._stays(state)),
            (
                tuple(a for a, part in enumerate(self.parts) if part.variable == name),
                tuple(a for a, extreme in enumerate(self.extremes) if extreme.variable == name),
            ),
            name + ("!" if finished else ""),
        )
