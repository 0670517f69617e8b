"""Rewrite a plan with deadlines to one over marked events, in which no NOT has a deadline (§2.12).

Whether an occurrence of N starts after an event p and ends before t + d is a fact about p alone: a
*mark* ahead. So is, for an event q, whether one starts after t - d and ends before q: a mark back.
With these marks, a deadline is settled as soon as an event is bound:

    trailing  p must not be marked
    leading   q must not be marked
    between   if p is not marked, nothing is forbidden; else ``NOT N`` without a deadline forbids
              the same, since an occurrence in time ends before every q after the deadline

For ``NOT NEXT N`` (§2.14) the mark says whether an event directly after p, or before q, is an N;
between two events it settles the NOT as well.

States are therefore split by the marks of their event, and their variables become variants with
conditions on the columns of marks. Marks play no part in selection (§3.4): all variants of a
variable may follow where the variable may.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import msgspec

from cepheid.errors import Span
from cepheid.language import tree
from cepheid.patterns.symbols import types_of
from cepheid.plans.links import LinkRule, Links
from cepheid.plans.marks import mark_name, variable_of, variant_name
from cepheid.plans.plan import EdgePredicate, LocalPredicate, TrendPlan
from cepheid.plans.template import START, Edge, Final, Guard, Place, State, Template

_NOWHERE = Span(0, 0)

Hits = tuple[bool, ...]
"""Which marks of a variable an event has."""

Level = dict[str, tuple[int, ...]]
"""The marks of the variables of a pattern; a negated pattern is a level of its own."""


class Mark(NamedTuple):
    """A column of marks: whether N occurs within a deadline, ahead of an event or before it.

    With ``next``, N is an event directly beside it.

    ``horizon`` and ``past`` are the times after and before an event that its mark depends on; both
    include those of the marks that N itself depends on.
    """

    name: str
    ahead: bool
    within: int
    template: Template
    horizon: int
    past: int
    next: bool


class Marked(NamedTuple):
    """A plan over marked events, and the marks that it needs, those of inner patterns first.

    ``whole`` has the predicates of all variables, also of those that only marks depend on.
    """

    plan: TrendPlan
    marks: tuple[Mark, ...]
    whole: TrendPlan


def mark_plan(plan: TrendPlan) -> Marked:
    """Rewrite a plan with deadlines to one over marked events."""
    rewriting = _Rewriting(plan)
    whole = rewriting.plan(plan)
    return Marked(with_predicates_of(whole, whole.patterns), rewriting.marks(), whole)


def with_predicates_of(plan: TrendPlan, patterns: tuple[Template, ...]) -> TrendPlan:
    """Drop the predicates of variables that some patterns do not have."""
    names = types_of(patterns)
    return msgspec.structs.replace(
        plan,
        local=tuple(p for p in plan.local if p.variable is None or p.variable in names),
        edges=tuple(e for e in plan.edges if {e.prev_variable, e.next_variable} <= names.keys()),
    )


def reach_of(plan: TrendPlan) -> tuple[int, int]:
    """Compute how far before and after an event its marks look, in ticks; 0 without deadlines."""
    if not plan.has_deadlines:
        return 0, 0
    marks = _Rewriting(plan).marks()
    return max(mark.past for mark in marks), max(mark.horizon for mark in marks)


def variants_count(plan: TrendPlan) -> int:
    """Count the variables of the plan over marked events."""
    return sum(map(len, _Rewriting(plan).variants.values()))


class _Rewriting:
    """The marks of a plan, and the variants of its variables with the marks that they ask for."""

    def __init__(self, plan: TrendPlan) -> None:
        self.guards: list[Guard] = []
        self.variants: dict[str, dict[str, dict[int, bool]]] = {}
        self._numbers: dict[tuple[bool, int, str, bool], int] = {}
        # Patterns that AND joins have one level, since a match may be of both (§2.10).
        self._collect(plan.patterns)

    def _collect(self, templates: tuple[Template, ...]) -> None:
        """Assign numbers to the deadlines of a level, after those inside; collect its variants."""
        for guard in (guard for template in templates for guard in template.guards):
            self._collect((guard.template,))
            if guard.within and self._key(guard) not in self._numbers:
                self._numbers[self._key(guard)] = len(self.guards)
                self.guards.append(guard)
        level = self._level(templates)
        for state in (state for template in templates for state in template.states):
            marks = level.get(state.variable, ())
            for hits in _choices(marks):
                asked = dict(zip(marks, hits, strict=True))
                name = variant_name(state.variable, asked)
                self.variants.setdefault(state.variable, {})[name] = asked

    def _level(self, templates: tuple[Template, ...]) -> Level:
        """Find the events that each deadline of a level is about: a source, or a target."""
        found: dict[str, set[int]] = {}
        for template in templates:
            for edge in template.edges:
                for guard in (template.guards[g] for g in (*edge.clear, *edge.hit)):
                    place = edge.target if guard.place is Place.LEADING else edge.source
                    if guard.within:
                        variable = template.states[place].variable
                        found.setdefault(variable, set()).add(self._numbers[self._key(guard)])
            for final in template.finals:
                for guard in (template.guards[g] for way in final.alternatives for g in way):
                    if guard.within:
                        variable = template.states[final.state].variable
                        found.setdefault(variable, set()).add(self._numbers[self._key(guard)])
        return {variable: tuple(sorted(marks)) for variable, marks in found.items()}

    def _key(self, guard: Guard) -> tuple[bool, int, str, bool]:
        """Identify a mark: between and trailing look ahead alike, and equal patterns are one."""
        return guard.place is not Place.LEADING, guard.within, guard.text, guard.next

    def marks(self) -> tuple[Mark, ...]:
        """List the marks, with the marks that they need before them."""
        found: list[Mark] = []
        for number, guard in enumerate(self.guards):
            inner = [found[n] for n in self._needed(guard.template)]
            ahead = guard.place is not Place.LEADING
            horizon = max((mark.horizon for mark in inner), default=0)
            past = max((mark.past for mark in inner), default=0)
            found.append(
                Mark(
                    mark_name(number),
                    ahead,
                    guard.within,
                    self._alone(guard.template),
                    horizon + (guard.within if ahead else 0),
                    past + (0 if ahead else guard.within),
                    guard.next,
                )
            )
        return tuple(found)

    def _needed(self, template: Template) -> Iterator[int]:
        """Yield the marks that decide whether a pattern occurs."""
        for guard in template.guards:
            yield from self._needed(guard.template)
            if guard.within:
                yield self._numbers[self._key(guard)]

    # Variants ------------------------------------------------------------------------------------

    def plan(self, plan: TrendPlan) -> TrendPlan:
        """Rewrite templates, and repeat for every variant what is said of its variable."""
        level = self._level(plan.patterns)
        partial = tuple(
            msgspec.structs.replace(
                entry, variables=tuple(name for v in entry.variables for name in self.variants[v])
            )
            for entry in plan.partition.partial
        )
        columns = plan.columns
        if columns is not None:
            columns = (*columns, *(mark_name(number) for number in range(len(self.guards))))
        return msgspec.structs.replace(
            plan,
            patterns=tuple(self._template(template, level) for template in plan.patterns),
            local=tuple(self._local(plan)),
            edges=tuple(self._edges(plan)),
            links=None if plan.links is None else self._links(plan.links),
            partition=msgspec.structs.replace(plan.partition, partial=partial),
            columns=columns,
        )

    def _local(self, plan: TrendPlan) -> Iterator[LocalPredicate]:
        for predicate in plan.local:
            if predicate.variable is None:
                yield predicate
                continue
            for name in self.variants[predicate.variable]:
                yield LocalPredicate(predicate.expression, name)
        for variants in self.variants.values():
            for name, marks in variants.items():
                for number, hit in marks.items():
                    yield LocalPredicate(_has_mark(name, number, hit=hit), name)

    def _edges(self, plan: TrendPlan) -> Iterator[EdgePredicate]:
        for edge in plan.edges:
            for prev in self.variants[edge.prev_variable]:
                for later in self.variants[edge.next_variable]:
                    yield msgspec.structs.replace(edge, prev_variable=prev, next_variable=later)

    def _links(self, links: Links) -> Links:
        """Give all variants the rules of their variables; marks are no part of selection."""
        rules = tuple(
            LinkRule(prev, later, rule.semantics)
            for rule in links.rules
            for prev in self.variants[rule.prev]
            for later in self.variants[rule.next]
        )
        loops = tuple(
            msgspec.structs.replace(
                loop, variables=tuple(name for v in loop.variables for name in self.variants[v])
            )
            for loop in links.loops
        )
        return Links(links.default, rules, loops)

    # Templates -----------------------------------------------------------------------------------

    def _alone(self, template: Template) -> Template:
        """Rewrite a negated pattern, a level of its own."""
        return self._template(template, self._level((template,)))

    def _template(self, template: Template, level: Level) -> Template:
        """Split the states of a template by the marks of their event."""
        kept = [
            n
            for n, guard in enumerate(template.guards)
            if not guard.within or (guard.place is Place.BETWEEN and not guard.next)
        ]
        renumbered = {old: new for new, old in enumerate(kept)}
        states: dict[tuple[int, Hits], int] = {}
        edges: list[Edge] = []
        waiting: list[tuple[int, Hits]] = [(START, ())]
        for source, hits in waiting:
            for edge in (e for e in template.edges if e.source == source):
                for later in _choices(level.get(template.states[edge.target].variable, ())):
                    left = self._settle(template, level, edge, hits, later)
                    if left is None:
                        continue
                    target = (edge.target, later)
                    if target not in states:
                        states[target] = len(states)
                        waiting.append(target)
                    begin = START if source == START else states[source, hits]
                    clear, hit = (tuple(renumbered[g] for g in side) for side in left)
                    edges.append(Edge(begin, states[target], clear, hit))
        _add_unreachable(template, level, states)
        reached = {edge.target for edge in edges}
        return msgspec.structs.replace(
            template,
            states=tuple(_state(template.states[state], level, hits) for state, hits in states),
            edges=tuple(edges),
            finals=tuple(self._finals(template, level, states, renumbered, reached)),
            guards=tuple(
                msgspec.structs.replace(g, template=self._alone(g.template), within=0)
                for g in (template.guards[n] for n in kept)
            ),
        )

    def _settle(
        self, template: Template, level: Level, edge: Edge, hits: Hits, later: Hits
    ) -> tuple[list[int], list[int]] | None:
        """Return the guards of an edge that marks do not settle; None if they forbid the edge."""
        left: tuple[list[int], list[int]] = ([], [])
        for must_be_hit, guards in enumerate((edge.clear, edge.hit)):
            for number in guards:
                guard = template.guards[number]
                leading = guard.place is Place.LEADING
                state, own = (edge.target, later) if leading else (edge.source, hits)
                marked = guard.within and self._is_hit(
                    guard, level[template.states[state].variable], own
                )
                looks_on = guard.place is Place.BETWEEN and marked and not guard.next
                if not guard.within or looks_on:
                    left[must_be_hit].append(number)
                elif bool(marked) != bool(must_be_hit):
                    return None
        return left

    def _is_hit(self, guard: Guard, marks: tuple[int, ...], hits: Hits) -> bool:
        return hits[marks.index(self._numbers[self._key(guard)])]

    def _finals(
        self,
        template: Template,
        level: Level,
        states: dict[tuple[int, Hits], int],
        renumbered: dict[int, int],
        reached: set[int],
    ) -> Iterator[Final]:
        ways = {final.state: final.alternatives for final in template.finals}
        for (state, hits), number in states.items():
            marks = level.get(template.states[state].variable, ())
            left: dict[tuple[int, ...], None] = {}
            for way in ways.get(state, ()):
                due = [g for g in way if template.guards[g].within]
                if not any(self._is_hit(template.guards[g], marks, hits) for g in due):
                    left[tuple(renumbered[g] for g in way if g not in due)] = None
            if left and number in reached:
                yield Final(number, ((),) if () in left else tuple(left))


def _choices(marks: tuple[int, ...]) -> Iterator[Hits]:
    return product((False, True), repeat=len(marks))


def _add_unreachable(template: Template, level: Level, states: dict[tuple[int, Hits], int]) -> None:
    """Add states for the variants that no edge leads to: selection has to know them (§3.2)."""
    known = {(template.states[state].variable, hits) for state, hits in states}
    for number, state in enumerate(template.states):
        for hits in _choices(level.get(state.variable, ())):
            if (state.variable, hits) not in known:
                known.add((state.variable, hits))
                states[number, hits] = len(states)


def _state(state: State, level: Level, hits: Hits) -> State:
    """Build the state of an event with some marks; all variants may follow that were allowed."""

    def named(variable: str, hits: Hits) -> str:
        return variant_name(variable, dict(zip(level.get(variable, ()), hits, strict=True)))

    allowed = tuple(named(v, own) for v in state.allowed for own in _choices(level.get(v, ())))
    return State(named(state.variable, hits), state.event_type, allowed)


def _has_mark(variable: str, number: int, *, hit: bool) -> tree.Expression:
    """Build the condition that an event has a mark, or has it not."""
    attribute = tree.Attribute(
        span=_NOWHERE,
        variable=tree.Name(span=_NOWHERE, text=variable_of(variable)),
        attribute=tree.Name(span=_NOWHERE, text=mark_name(number)),
    )
    value = tree.Literal(span=_NOWHERE, value=hit)
    return tree.Binary(span=_NOWHERE, operator="=", left=attribute, right=value)
