"""Group queries that have edge predicates in common: which run together, and why others do not.

Queries with the same partitions, windows and kinds of aggregates run together if a transition of
one, such as S → S with ``S.price > NEXT(S).price``, is a transition of another. The events are then
kept, read and ranked once for all (``look_back_run.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from cepheid.jobs.state_format import meaning_of
from cepheid.kinds.trend.planning.accumulators import parts_of
from cepheid.kinds.trend.program.configurations import (
    forbidding,
    has_long_guards,
    why_not_configured,
)
from cepheid.kinds.workload.look_back_system import (
    NO_RELATION,
    WAITING,
    BackCell,
    Cells,
    Pass,
    choose_passes,
)
from cepheid.kinds.workload.member_shapes import (
    Conditions,
    ExtremeShape,
    PartShape,
    shapes_of,
)
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol, symbols_of, types_of
from cepheid.plans.plan import EdgePredicate, Evaluator, TrendPlan, WindowKind
from cepheid.plans.template import START, Place

CONDITIONS_MAX = 6
"""Distinct local predicates of one type in a group; it distinguishes 2^6 kinds of events."""


class SharedRelation(NamedTuple):
    """An edge predicate between events of two symbols, whatever queries call them."""

    prev: Symbol
    next: Symbol
    operator: str
    left: tree.Expression
    right: tree.Expression


@dataclass(frozen=True)
class LookBackGroup:
    """Queries with common edge predicates, which run together.

    Attributes
    ----------
    members
        Indexes of the queries in the workload; the first one has the state of all.
    orders
        For each member the indexes of the group's parts and extremes among its own.
    edges
        An edge predicate for every relation, with the names of one of the queries.
    """

    members: tuple[int, ...]
    plan: TrendPlan
    symbols: tuple[Symbol, ...]
    parts: tuple[PartShape, ...]
    extremes: tuple[ExtremeShape, ...]
    orders: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    relations: tuple[SharedRelation, ...]
    edges: tuple[EdgePredicate, ...]
    cells: tuple[Cells, ...]

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """Choose the passes over the events."""
        return choose_passes(self.cells)


def group_of(numbered: Sequence[tuple[int, TrendPlan]]) -> LookBackGroup:
    """Build a group of queries that can run together."""
    draft = _Draft()
    for number, plan in numbered:
        draft.add(_Member(number, plan))
    return draft.group()


def why_apart(plan: TrendPlan) -> str:
    """Explain why a query that looks back cannot run together with others; "" if it can."""
    window, related = plan.window, [(e.prev_variable, e.next_variable) for e in plan.edges]
    types = types_of(plan.patterns).values()
    reasons = {
        "some attributes are equal for a part of the variables": bool(plan.partition.partial),
        "links of a pattern have semantics of their own": plan.links is not None,
        f"{plan.semantics.value}": plan.semantics is not tree.Semantics.ANY_MATCH,
        "AND": len(plan.patterns) > 1,
        "squares of values of matches": plan.output.squares_matches,
        "exact numbers": plan.numbers is tree.Numbers.EXACT,
        "conditions on whole matches": bool(plan.globals),
        "conditions on neighbours that no index answers": plan.choice.evaluator
        is not Evaluator.INDEXED
        or any(edge.separation is None for edge in plan.edges),
        "several conditions on the same neighbours": len(set(related)) < len(related),
        why_not_negated(plan): True,
        "windows counted in events": window.kind is WindowKind.COUNT,
        "events of any type": plan.type is not None and tree.ANY_TYPE in types,
    }
    return next((reason for reason, holds in reasons.items() if reason and holds), "")


def why_not_negated(plan: TrendPlan) -> str:
    """Explain why the NOTs of a query are no states of it; "" if they are, or if it has none."""
    template, window = plan.patterns[0], plan.window
    if not template.guards:
        return ""
    if has_long_guards(plan):
        return "negated patterns of several events"
    variables = {state.variable for state in template.states}
    related = {(e.prev_variable, e.next_variable) for e in plan.edges}
    guarded = {
        (template.states[e.source].variable, template.states[e.target].variable)
        for e in template.edges
        if e.source != START and e.clear
    }
    places = {guard.place for guard in template.guards}
    trailing = window.kind is WindowKind.TRAILING
    reasons = {
        "NOT between neighbours that have a condition": bool(related & guarded),
        "conditions on negated events": any(not set(pair) <= variables for pair in related),
        "NOT at the end, in windows without SLIDE": trailing and Place.TRAILING in places,
        "NOT at the beginning, and rows when matches leave": window.emit_on_expiry
        and Place.LEADING in places,
        why_not_configured(plan): True,
    }
    return next((reason for reason, holds in reasons.items() if reason and holds), "")


def needs_expiries(plan: TrendPlan) -> bool:
    """Check whether rows depend on the times at which events leave a trailing window.

    They do if matches that leave are reported, or partitions are added up at times of each other.
    """
    changes = adds_partitions(plan) or plan.window.emit_on_expiry
    return plan.window.kind is WindowKind.TRAILING and changes


def adds_partitions(plan: TrendPlan) -> bool:
    """Check whether a group may have several partitions."""
    return set(plan.partition.group_by) != set(plan.partition.attributes)


def twin_name(plan: TrendPlan) -> tuple[object, ...]:
    """Collect what queries have in common if they differ in RETURN and HAVING only."""
    return meaning_of(plan), plan.columns, plan.output.counts_keys


def share_look_back(
    numbered: Sequence[tuple[int, TrendPlan]],
) -> tuple[tuple[LookBackGroup, ...], dict[int, str]]:
    """Group queries that look back; return the groups, and why others run alone."""
    alone: dict[int, str] = {}
    candidates: dict[tuple[object, ...], list[_Member]] = {}
    for number, plan in numbered:
        if why := why_apart(plan):
            alone[number] = f"events look at events before them, with {why}"
            continue
        member = _Member(number, plan)
        if not _Draft().has_room(member):
            alone[number] = f"more than {CONDITIONS_MAX} local predicates of a type"
            continue
        candidates.setdefault(member.compatible, []).append(member)
    groups = []
    for members in candidates.values():
        for related in _related(members):
            drafts: list[_Draft] = []
            for member in related:
                fitting = next((draft for draft in drafts if draft.has_room(member)), None)
                if fitting is None:
                    fitting = _Draft()
                    drafts.append(fitting)
                fitting.add(member)
            for draft in drafts:
                if len({twin_name(member.plan) for member in draft.members}) > 1:
                    groups.append(draft.group())
                    continue
                # Twins run once anyway, by the algorithm for one query.
                for member in draft.members:
                    alone[member.number] = _LONELY
    return tuple(groups), alone


_LONELY = (
    "events look at events before them, and no other query of the same window, partition and "
    "aggregates has its edge predicates"
)


class _Member:
    """A query that is about to join a group."""

    def __init__(self, number: int, plan: TrendPlan) -> None:
        self.number, self.plan, self.shapes = number, plan, shapes_of(plan)
        self.names = symbols_of(plan)
        self.related: dict[tuple[str, str], SharedRelation] = {}
        self.edges: dict[SharedRelation, EdgePredicate] = {}
        for edge in plan.edges:
            assert edge.separation is not None, "others run alone"
            separation = edge.separation
            relation = SharedRelation(
                self.names[edge.prev_variable],
                self.names[edge.next_variable],
                separation.operator,
                _nameless(separation.prev),
                _nameless(separation.next),
            )
            self.related[edge.prev_variable, edge.next_variable] = relation
            self.edges[relation] = edge

    @property
    def compatible(self) -> tuple[object, ...]:
        """Collect the properties that all queries of a group share."""
        plan, window = self.plan, self.plan.window
        return (
            (plan.time, plan.type, plan.tiebreak, plan.ties),
            (window.kind, window.within, window.slide, window.pane),
            # Others would evaluate windows that they do not report.
            needs_expiries(plan),
            plan.partition.attributes,
            self.shapes.parts,
            self.shapes.extremes,
        )

    @cached_property
    def used(self) -> frozenset[SharedRelation]:
        """Collect the relations of transitions."""
        states = self.plan.patterns[0].states
        names = [
            (states[e.source].variable, states[e.target].variable)
            for e in self.plan.patterns[0].edges
            if e.source != START
        ]
        return frozenset(self.related[name] for name in names if name in self.related)

    def cells(
        self, symbols: dict[Symbol, int], relations: dict[SharedRelation, int]
    ) -> tuple[BackCell, ...]:
        """Build the states with the group's numbers, those that wait behind a NOT last."""
        template = self.plan.patterns[0]
        parts, extremes = parts_of(self.plan)
        places = [{own: a for a, own in enumerate(order)} for order in self.shapes.orders]
        waits: dict[tuple[int, tuple[int, ...]], int] = {}

        def waiting(state: int, guards: Iterable[int]) -> int:
            clears = forbidding(template, guards, self.names)
            name = (state, tuple(sorted(symbols[symbol] for symbol in clears)))
            return waits.setdefault(name, len(template.states) + len(waits))

        ends = {
            waiting(final.state, final.alternatives[0]) if final.alternatives[0] else final.state
            for final in template.finals
        }
        cells = []
        for q, state in enumerate(template.states):
            sources, begins = [], False
            for edge in template.edges:
                if edge.target != q:
                    continue
                if edge.clear:
                    sources.append((waiting(edge.source, edge.clear), NO_RELATION))
                elif edge.source == START:
                    begins = True
                else:
                    name = (template.states[edge.source].variable, state.variable)
                    found = self.related.get(name)
                    relation = NO_RELATION if found is None else relations[found]
                    sources.append((edge.source, relation))
            mine = [a for a, part in enumerate(parts) if part.variable == state.variable]
            least = [a for a, extreme in enumerate(extremes) if extreme.variable == state.variable]
            adds = (
                tuple(sorted(places[0][a] for a in mine)),
                tuple(sorted(places[1][a] for a in least)),
            )
            symbol = symbols[self.names[state.variable]]
            cells.append(BackCell(symbol, tuple(sources), begins, q in ends, adds))
        for (state_, clears), place in waits.items():
            begins = state_ == START
            origin = () if begins else ((state_, NO_RELATION),)
            ended = place in ends
            cells.append(BackCell(WAITING, origin, begins, ended, ((), ()), clears))
        return tuple(cells)


def _nameless(expression: tree.Expression) -> tree.Expression:
    """Remove variables and anchors from a side of a separated predicate, which is of one event."""

    def forget(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            nobody = tree.Name(span=node.span, text="")
            return tree.Attribute(span=node.span, variable=nobody, attribute=node.attribute)
        return node

    return tree.transform(expression, forget)


def _related(members: Sequence[_Member]) -> list[list[_Member]]:
    """Split queries into those that are connected by common relations."""
    found: list[tuple[set[SharedRelation], list[_Member]]] = []
    for member in members:
        mine = [entry for entry in found if entry[0] & member.used]
        found = [entry for entry in found if not entry[0] & member.used]
        relations = set(member.used).union(*(entry[0] for entry in mine))
        together = [m for entry in mine for m in entry[1]]
        found.append((relations, [*together, member]))
    return [sorted(together, key=lambda m: m.number) for _, together in found]


class _Draft:
    """A group that can still accept members."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.conditions = Conditions(CONDITIONS_MAX)

    def has_room(self, member: _Member) -> bool:
        """Check whether the group would distinguish few enough kinds of events with this member."""
        return self.conditions.have_room(member.names.values())

    def add(self, member: _Member) -> None:
        """Add a member."""
        self.members.append(member)
        self.conditions.add(member.names.values())

    def group(self) -> LookBackGroup:
        """Build the group."""
        members, first = self.members, self.members[0]
        symbols = tuple({symbol: None for m in members for symbol in m.names.values()})
        edges = {relation: edge for m in reversed(members) for relation, edge in m.edges.items()}
        relations = tuple({relation: None for m in members for relation in m.edges})
        numbers = {symbol: n for n, symbol in enumerate(symbols)}
        related = {relation: n for n, relation in enumerate(relations)}
        return LookBackGroup(
            tuple(member.number for member in members),
            first.plan,
            symbols,
            first.shapes.parts,
            first.shapes.extremes,
            tuple(member.shapes.orders for member in members),
            relations,
            tuple(edges[relation] for relation in relations),
            tuple(member.cells(numbers, related) for member in members),
        )
