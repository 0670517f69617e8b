"""The plan of a query: a frozen value that holds every decision and its reason.

A plan is hashable, compares by value and travels as JSON; nothing in it is executable. It is the
only thing that leaves the planner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self, TypeVar, Union

import msgspec

from cepheid.errors import Diagnostic, Span
from cepheid.events.schema import ValueKind
from cepheid.language import tree
from cepheid.plans.selection import Selection
from cepheid.plans.situations import Situations
from cepheid.plans.template import Template

PlanType = TypeVar("PlanType", bound="Plan")

PLAN_VERSION = 2
"""Goes up whenever old JSON no longer means the same."""


class PredicateKind(StrEnum):
    """What a predicate speaks of (§4); equivalence predicates become partitions."""

    LOCAL = "local"
    EDGE = "edge"
    GLOBAL = "global"


class Granularity(StrEnum):
    """What an aggregate is kept per, in COGRA's words."""

    TYPE = "type"
    MIXED = "mixed"
    PATTERN = "pattern"
    EVENT = "event"


class Evaluator(StrEnum):
    """The algorithm that answers the query."""

    LINEAR = "linear"
    INDEXED = "indexed"
    PREVIOUS = "previous"
    PAIRWISE = "pairwise"
    ENUMERATE = "enumerate"
    SITUATIONS = "situations"
    SELECT = "select"
    ROW_PATTERN = "row pattern"


class WindowKind(StrEnum):
    """How the stream is cut into windows (§6)."""

    NONE = "none"
    TUMBLING = "tumbling"
    SLIDING = "sliding"
    TRAILING = "trailing"
    COUNT = "count"


class OutputKind(StrEnum):
    """What a result row is."""

    AGGREGATES = "aggregates"
    MATCHES = "matches"
    ATTRIBUTES = "attributes"


class Separation(msgspec.Struct, frozen=True):
    """An edge predicate as f(prev) op g(next); g's attributes carry the anchor NEXT."""

    prev: tree.Expression
    operator: str
    next: tree.Expression


class LocalPredicate(msgspec.Struct, frozen=True):
    """Must be true for every event of a variable; without one, for every event."""

    expression: tree.Expression
    variable: str | None


class EdgePredicate(msgspec.Struct, frozen=True):
    """Must be true wherever ``next_variable`` directly follows ``prev_variable`` (§4.4).

    In the expression, attributes of the earlier event have the anchor EACH and those of the later
    one the anchor NEXT, however the user wrote it.
    """

    expression: tree.Expression
    prev_variable: str
    next_variable: str
    separation: Separation | None
    reason: str


class PlacedEvent(msgspec.Struct, frozen=True):
    """The first or last event of a variable in a match, or each of them."""

    variable: str
    anchor: tree.Anchor


class GlobalPredicate(msgspec.Struct, frozen=True):
    """A condition on a whole match (§4.5).

    ``events`` are the one or two events that it speaks of, if it speaks of single events alone and,
    for two, separates: then f in ``separation`` is of the first and g of the second, whichever of
    them is earlier. Such a condition is asked while matches are built.
    """

    expression: tree.Expression
    events: tuple[PlacedEvent, ...] = ()
    separation: Separation | None = None
    reason: str = ""


class PartialEquivalence(msgspec.Struct, frozen=True):
    """An attribute that is equal among the events of some variables only (§4.3)."""

    attribute: str
    variables: tuple[str, ...]
    span: Span


class Partition(msgspec.Struct, frozen=True):
    """How the stream is cut by value: attributes of all events, and of some variables only."""

    attributes: tuple[str, ...]
    partial: tuple[PartialEquivalence, ...]
    group_by: tuple[str, ...]
    reason: str


class WindowPlan(msgspec.Struct, frozen=True):
    """The window: lengths in ticks of time or, for COUNT, in events."""

    kind: WindowKind
    within: int = 0
    slide: int = 0
    pane: int = 0
    overlap: int = 1
    emit_on_expiry: bool = False
    emit_early: bool = False
    reason: str = ""


class AggregateColumn(msgspec.Struct, frozen=True):
    """One aggregate: what is computed, once, however often RETURN and HAVING name it."""

    name: str
    function: tree.AggregateFunction
    variable: str | None
    attribute: str | None
    kind: ValueKind


class ResultColumn(msgspec.Struct, frozen=True):
    """One result column: an aggregate, its LOG2, or an attribute."""

    name: str
    aggregate: str | None = None
    log2: bool = False
    variable: str | None = None
    attribute: str | None = None
    repeated: bool = False


class Output(msgspec.Struct, frozen=True):
    """What leaves: aggregates to compute, columns to show, rows to keep."""

    kind: OutputKind
    aggregates: tuple[AggregateColumn, ...]
    columns: tuple[ResultColumn, ...]
    having: tree.Expression | None
    limit: int | None


class Choice(msgspec.Struct, frozen=True):
    """The evaluator, what it keeps and what it costs, with the reason."""

    evaluator: Evaluator
    granularity: Granularity
    reason: str
    span: Span | None
    time: str
    state: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What the plans of all kinds of query have, so that no kind can forget it.

    ``columns`` are those to be read; None means all, where matches are listed without a schema.
    ``tick_ns`` is the unit of times: a microsecond, unless they are nanoseconds or whole numbers.
    """

    text: str
    time: str
    type: str | None
    tiebreak: tuple[str, ...]
    tick_ns: int = 1000
    partition: Partition
    choice: Choice
    columns: tuple[str, ...] | None
    warnings: tuple[Diagnostic, ...]
    version: int = PLAN_VERSION

    @property
    def what(self) -> str:
        """Return what kind of query this is, for messages."""
        return "a query"

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the names of streams that events may come by; none, if there is one stream."""
        return ()

    @property
    def limit(self) -> int | None:
        """Return how many rows are wanted; None is all of them."""
        return None

    @property
    def lists_matches(self) -> bool:
        """Return whether rows are matches of events, one by one."""
        return False

    @property
    def emits_early(self) -> bool:
        """Return whether rows of open windows leave too, and are replaced later."""
        return False

    @property
    def shares_passes(self) -> bool:
        """Return whether several such queries can run in one pass, as a workload."""
        return False

    @property
    def orders_ties(self) -> bool:
        """Return whether events of equal time come one after the other (§1.3)."""
        return True

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Narrow a plan to a kind; whoever calls this knows the kind."""
        assert isinstance(plan, cls), f"{plan.what} goes another way"
        return plan

    def to_json(self) -> bytes:
        """Return the plan as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Return the plan that ``to_json`` wrote.

        Raises
        ------
        ValueError
            If the bytes are no plan of this kind, or one of another version.
        """
        try:
            plan = msgspec.json.decode(data, type=_union(cls))
        except msgspec.MsgspecError as error:
            message = f"this is no plan: {error}"
            raise ValueError(message) from error
        if plan.version != PLAN_VERSION:
            message = f"the plan has version {plan.version}, this Cepheid reads {PLAN_VERSION}"
            raise ValueError(message)
        return plan


class TrendPlan(Plan, frozen=True, kw_only=True, tag="trend"):
    """The plan of a query with a pattern: aggregates of trends, or matches."""

    semantics: tree.Semantics
    ties: tree.Ties
    numbers: tree.Numbers
    min_length: int
    patterns: tuple[Template, ...]
    local: tuple[LocalPredicate, ...]
    edges: tuple[EdgePredicate, ...]
    globals: tuple[GlobalPredicate, ...]
    window: WindowPlan
    output: Output

    @property
    def shares_passes(self) -> bool:
        """Return whether several such queries can run in one pass, as a workload."""
        return True

    @property
    def limit(self) -> int | None:
        """Return how many rows are wanted; None is all of them."""
        return self.output.limit

    @property
    def lists_matches(self) -> bool:
        """Return whether rows are matches of events, one by one."""
        return self.output.kind is not OutputKind.AGGREGATES

    @property
    def emits_early(self) -> bool:
        """Return whether rows of open windows leave too, and are replaced later."""
        return self.window.emit_early

    @property
    def orders_ties(self) -> bool:
        """Return whether events of equal time come one after the other (§1.3)."""
        return self.ties is tree.Ties.ARRIVAL


class SituationPlan(Plan, frozen=True, kw_only=True, tag="situations"):
    """The plan of a query that defines situations."""

    situations: Situations

    @property
    def what(self) -> str:
        """Return what kind of query this is, for messages."""
        return "a query about situations"


class SelectPlan(Plan, frozen=True, kw_only=True, tag="select"):
    """The plan of a SELECT."""

    select: Selection

    @property
    def what(self) -> str:
        """Return what kind of query this is, for messages."""
        return "a SELECT"

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the names of streams that events may come by."""
        return tuple(stream.name for stream in self.select.streams)


class RowPatternPlan(Plan, frozen=True, kw_only=True, tag="row pattern"):
    """The plan of a MATCH_RECOGNIZE clause over a stream.

    The clause travels as its text, ``SELECT * FROM table MATCH_RECOGNIZE (...)``, which is bound
    again to the columns of its table where it runs. ``steps`` and ``states`` bound its search;
    ``zone`` is that of the session, in which a row has its hour.
    """

    table_columns: tuple[str, ...]
    zone: str
    steps: int | None
    states: int | None

    @property
    def what(self) -> str:
        """Return what kind of query this is, for messages."""
        return "a row pattern"


def _union(kind: type[PlanType]) -> type[PlanType]:
    """Return what bytes may be: a plan of a kind or, for the header of all, of any kind."""
    kinds = kind.__subclasses__()
    return Union[tuple(kinds)] if kinds else kind  # type: ignore[return-value]  # noqa: UP007  # a type made of types
