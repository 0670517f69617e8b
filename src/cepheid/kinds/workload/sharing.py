"""Group the plans of many queries: which run as one merged system, and why others do not.

Queries can be merged if they have the same partitions and windows, the same event selection
semantics, and the same kinds of aggregates. Patterns, names and local predicates may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import msgspec

from cepheid.kinds.trend.program.configurations import (
    Configuration,
    configurations_of,
    has_long_guards,
    why_not_configured,
)
from cepheid.kinds.workload.look_back_sharing import (
    LookBackGroup,
    adds_partitions,
    needs_expiries,
    share_look_back,
    twin_name,
)
from cepheid.kinds.workload.member_shapes import (
    Conditions,
    ExtremeShape,
    PartShape,
    shapes_of,
)
from cepheid.kinds.workload.shared_system import Cell, SharedSystem, merge_matrices, merge_vectors
from cepheid.language import tree
from cepheid.patterns.symbols import Symbol, types_of
from cepheid.plans.plan import (
    Evaluator,
    OutputKind,
    PipelinePlan,
    Plan,
    TrendPlan,
    WindowKind,
)
from cepheid.plans.template import Place

CONDITIONS_MAX = 10
"""Distinct local predicates of one type in a group; it distinguishes 2^10 kinds of events."""

MATRIX_STATES_MAX = 24
"""Configurations of a query that is merged where windows overlap: a matrix has their square."""


class Method(StrEnum):
    """The state that a group keeps."""

    VECTOR = "one vector"
    MATRIX = "one matrix a pane"
    STACKS = "two stacks of events"


class Shares(StrEnum):
    """Shapes of queries that versions have begun to share, one after the other."""

    TRAILING = "windows without SLIDE"
    EDGES = "edge predicates"
    NEGATED_CONTIGUOUS = "contiguous, with negation"
    EXACT = "exact numbers"
    NEGATED_SEQUENCES = "negated patterns of several events"
    EXPIRIES = "edge predicates, and rows when events leave"
    EXPIRIES_OF_COUNTS = "counts, and rows when events leave"
    NEGATED_EDGES = "edge predicates with negation"


ASKED = "asked for"
"""Why queries run alone that were not to be merged."""

FORMERLY = "an earlier version ran it alone"
"""Why queries run alone that go on with a state of theirs."""

LOOKS_BACK = "events look at events before them"
"""Why queries are not merged by their counts; those with common edge predicates may be."""

METHODS = {WindowKind.SLIDING: Method.MATRIX, WindowKind.TRAILING: Method.STACKS}
"""The methods for windows that overlap."""


@dataclass(frozen=True)
class Group:
    """Queries that run as one merged system.

    Attributes
    ----------
    members
        Indexes of the queries in the workload.
    orders
        For each member the indexes of the group's parts and extremes among its own.
    """

    method: Method
    members: tuple[int, ...]
    plan: TrendPlan
    symbols: tuple[Symbol, ...]
    parts: tuple[PartShape, ...]
    extremes: tuple[ExtremeShape, ...]
    orders: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    cells: tuple[tuple[Cell, ...], ...]

    @cached_property
    def system(self) -> SharedSystem:
        """Build the merged system."""
        if self.method is Method.VECTOR:
            return merge_vectors(self.cells)
        return merge_matrices(self.cells)


@dataclass(frozen=True)
class SharedPlan:
    """The plans of a workload and how they run together."""

    names: tuple[str, ...]
    plans: tuple[TrendPlan, ...]
    groups: tuple[Group, ...]
    alone: dict[int, str]
    looking: tuple[LookBackGroup, ...] = ()
    """Groups of queries with common edge predicates."""
    beside: dict[str, PipelinePlan] = field(default_factory=dict)
    """Queries that are no trends, as pipelines: each runs beside the others."""

    @cached_property
    def twins(self) -> dict[int, int]:
        """Map queries that run alone to the first one that differs in RETURN and HAVING only.

        Its rows are theirs, because both are evaluated when rows leave.
        """
        first: dict[tuple[object, ...], int] = {}
        found: dict[int, int] = {}
        for n in sorted(self.alone):
            plan = self.plans[n]
            listing = plan.output.kind is not OutputKind.AGGREGATES
            if self.alone[n] == ASKED or listing or plan.has_deadlines:
                continue
            name = twin_name(plan)
            if first.setdefault(name, n) != n:
                found[n] = first[name]
        return found

    @property
    def first(self) -> Plan:
        """Return one of the plans; all have the same time and ties."""
        return self.plans[0] if self.plans else next(iter(self.beside.values()))

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """Return the plans of all queries."""
        return (*self.plans, *self.beside.values())


def share(
    names: Sequence[str],
    plans: Sequence[TrendPlan],
    *,
    merge: bool = True,
    without: Set[Shares] = frozenset(),
    beside: Mapping[str, PipelinePlan] | None = None,
) -> SharedPlan:
    """Group queries that can run together; without ``merge`` they share only the reading.

    So do queries that need what is in ``without``: earlier versions did not share it. ``beside``
    are queries of other kinds.
    """
    plans = tuple(_in_order(plan) for plan in plans)
    alone: dict[int, str] = {}
    looking: list[tuple[int, TrendPlan]] = []
    candidates: dict[tuple[object, ...], list[_Draft]] = {}
    for number, plan in enumerate(plans):
        why = ASKED if not merge else why_alone(plan)
        if why in ("", LOOKS_BACK) and needs_of(plan) & without:
            why = FORMERLY
        if why == LOOKS_BACK:
            looking.append((number, plan))
            continue
        if why:
            alone[number] = why
            continue
        member = _Member(number, plan)
        drafts = candidates.setdefault(_compatible(plan, member), [])
        fitting = next((draft for draft in drafts if draft.has_room(member)), None)
        if fitting is None:
            fitting = _Draft()
            drafts.append(fitting)
        fitting.add(member)
    groups = []
    for draft in (draft for drafts in candidates.values() for draft in drafts):
        if len(draft.members) == 1:
            alone[draft.members[0].number] = "no other query goes with it"
        else:
            groups.append(draft.group())
    together, others = share_look_back(looking)
    return SharedPlan(
        tuple(names), plans, tuple(groups), alone | others, together, dict(beside or {})
    )


def why_alone(plan: TrendPlan) -> str:
    """Explain why a plan cannot be merged with others; "" if it can."""
    if plan.output.kind is not OutputKind.AGGREGATES:
        return "it lists matches"
    if plan.has_deadlines:
        return "events wait for the deadline of a NOT"
    if plan.skip is not None:
        return "it chooses matches"
    if plan.choice.evaluator is not Evaluator.LINEAR or plan.partition.partial:
        return LOOKS_BACK
    if plan.window.kind is WindowKind.COUNT:
        return "windows counted in events"
    if plan.type is not None and tree.ANY_TYPE in types_of(plan.patterns).values():
        return "events of any type"
    why = why_not_configured(plan)
    if why:
        return why
    trailing = plan.window.kind is WindowKind.TRAILING
    overlap = trailing or plan.window.kind is WindowKind.SLIDING
    if overlap and plan.numbers is tree.Numbers.EXACT:
        # Which entries of a matrix are zero is not known of residues, so all are multiplied.
        return "exact numbers, where windows overlap"
    if overlap and len(plan.patterns[0].states) > MATRIX_STATES_MAX:
        return f"more than {MATRIX_STATES_MAX} states, where windows overlap"
    return _why_no_stacks(plan) if trailing else ""


def needs_of(plan: TrendPlan) -> set[Shares]:
    """Collect what a plan needs to share, of all that some version did not share yet."""
    negated = any(template.guards for template in plan.patterns)
    edges = plan.choice.evaluator is not Evaluator.LINEAR or bool(plan.partition.partial)
    needs = {
        Shares.TRAILING: plan.window.kind is WindowKind.TRAILING,
        Shares.EDGES: edges,
        Shares.NEGATED_CONTIGUOUS: negated and plan.semantics is tree.Semantics.CONTIGUOUS,
        Shares.EXACT: plan.numbers is tree.Numbers.EXACT,
        Shares.NEGATED_SEQUENCES: has_long_guards(plan),
        Shares.EXPIRIES: edges and needs_expiries(plan),
        Shares.EXPIRIES_OF_COUNTS: not edges and needs_expiries(plan),
        Shares.NEGATED_EDGES: edges and negated,
    }
    return {need for need, holds in needs.items() if holds}


def _why_no_stacks(plan: TrendPlan) -> str:
    """Explain why a plan with a trailing window cannot be merged with others; "" if it can."""
    leading = any(g.place is Place.LEADING for t in plan.patterns for g in t.guards)
    if needs_expiries(plan) and leading and plan.ties is tree.Ties.ARRIVAL:
        # What leaves at one time may have forbidden matches of each other.
        return "rows when events leave the window, with NOT at the beginning and TIES arrival"
    if plan.semantics is tree.Semantics.CONTIGUOUS:
        return "contiguous, in windows without SLIDE"
    if has_long_guards(plan) and plan.ties is tree.Ties.STRICT:
        # Read backwards, each of several events of one time would move the same matches.
        return "a negated pattern of several events, in windows without SLIDE and without order"
    return ""


def _in_order(plan: TrendPlan) -> TrendPlan:
    """Sort the partition attributes of a plan, so that their order does not depend on the text."""
    attributes = tuple(sorted(plan.partition.attributes))
    partition = msgspec.structs.replace(plan.partition, attributes=attributes)
    return msgspec.structs.replace(plan, partition=partition)


def _compatible(plan: TrendPlan, member: _Member) -> tuple[object, ...]:
    """Collect the properties that all queries of a group share."""
    window = plan.window
    return (
        (plan.time, plan.type, plan.tiebreak, plan.semantics, plan.ties, plan.numbers),
        (window.kind, window.within, window.slide, window.pane),
        (plan.partition.attributes, *_expiries_of(plan)),
        member.parts,
        member.extremes,
    )


def _expiries_of(plan: TrendPlan) -> tuple[bool, bool]:
    """Tell whether rows come when events leave a window, and whether partitions are added up."""
    trailing = plan.window.kind is WindowKind.TRAILING
    return needs_expiries(plan), trailing and adds_partitions(plan)


class _Member:
    """A query that is about to join a group."""

    def __init__(self, number: int, plan: TrendPlan) -> None:
        self.number, self.plan = number, plan
        self.configurations: list[Configuration] = configurations_of(plan)
        self.parts, self.extremes, self.orders = shapes_of(plan)
        self.symbols = {
            symbol: None
            for c in self.configurations
            for symbol in ([c.symbol] if c.symbol is not None else []) + sorted(c.clears, key=repr)
        }

    def cells(self, numbers: dict[Symbol, int]) -> tuple[Cell, ...]:
        """Build the configurations with the group's symbol numbers."""
        places = [{own: a for a, own in enumerate(order)} for order in self.orders]
        return tuple(
            Cell(
                -1 if c.symbol is None else numbers[c.symbol],
                c.sources,
                tuple(sorted(numbers[s] for s in c.clears)),
                c.kept,
                c.initial,
                c.counts,
                (
                    tuple(sorted(places[0][a] for a in c.adds[0])),
                    tuple(sorted(places[1][a] for a in c.adds[1])),
                ),
                c.name,
                c.once,
            )
            for c in self.configurations
        )


class _Draft:
    """A group that can still accept members."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.conditions = Conditions(CONDITIONS_MAX)

    def has_room(self, member: _Member) -> bool:
        """Check whether the group would distinguish few enough kinds of events with this member."""
        return self.conditions.have_room(member.symbols)

    def add(self, member: _Member) -> None:
        """Add a member."""
        self.members.append(member)
        self.conditions.add(member.symbols)

    def group(self) -> Group:
        """Build the group."""
        symbols = tuple({symbol: None for m in self.members for symbol in m.symbols})
        numbers = {symbol: number for number, symbol in enumerate(symbols)}
        first = self.members[0]
        return Group(
            METHODS.get(first.plan.window.kind, Method.VECTOR),
            tuple(member.number for member in self.members),
            first.plan,
            symbols,
            first.parts,
            first.extremes,
            tuple(member.orders for member in self.members),
            tuple(member.cells(numbers) for member in self.members),
        )
