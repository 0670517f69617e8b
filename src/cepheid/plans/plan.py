"""The plan of a query: an immutable value that holds every decision and its reason.

A plan is hashable, compares by value and is sent as JSON; it contains no executable code. It is the
only output of the planner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self, TypeVar, Union

import msgspec

from cepheid.decoding import from_json
from cepheid.errors import Diagnostic, Span
from cepheid.events.schema import ValueKind
from cepheid.expressions.own import OwnFunction
from cepheid.language import tree
from cepheid.plans.funnel import Funnel
from cepheid.plans.links import Links
from cepheid.plans.selection import Selection
from cepheid.plans.situations import Situations
from cepheid.plans.spread import Spread
from cepheid.plans.survey import Survey
from cepheid.plans.template import Template

PlanType = TypeVar("PlanType", bound="Plan")

PLAN_VERSION = 2
"""Goes up whenever old JSON no longer means the same."""


class PredicateKind(StrEnum):
    """The events that a predicate refers to (§4); equivalence predicates become partitions."""

    LOCAL = "local"
    EDGE = "edge"
    GLOBAL = "global"


class Granularity(StrEnum):
    """The granularity at which an aggregate is kept, in COGRA's terms."""

    TYPE = "type"
    MIXED = "mixed"
    PATTERN = "pattern"
    EVENT = "event"


class Evaluator(StrEnum):
    """The algorithm that evaluates the query."""

    LINEAR = "linear"
    INDEXED = "indexed"
    PREVIOUS = "previous"
    PAIRWISE = "pairwise"
    ENUMERATE = "enumerate"
    SITUATIONS = "situations"
    SELECT = "select"
    ROW_PATTERN = "row pattern"
    FUNNEL = "funnel"
    PIPELINE = "pipeline"


class WindowKind(StrEnum):
    """The windows that the stream is split into (§6)."""

    NONE = "none"
    TUMBLING = "tumbling"
    SLIDING = "sliding"
    TRAILING = "trailing"
    COUNT = "count"


class OutputKind(StrEnum):
    """The kind of a result row."""

    AGGREGATES = "aggregates"
    MATCHES = "matches"
    ATTRIBUTES = "attributes"
    SURVEY = "survey"


class Separation(msgspec.Struct, frozen=True):
    """An edge predicate as f(prev) op g(next); g's attributes carry the anchor NEXT."""

    prev: tree.Expression
    operator: str
    next: tree.Expression


class LocalPredicate(msgspec.Struct, frozen=True):
    """A condition on every event of a variable; without a variable, on every event."""

    expression: tree.Expression
    variable: str | None


class EdgePredicate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition on ``next_variable`` wherever it directly follows ``prev_variable`` (§4.4).

    In the expression, attributes of the earlier event have the anchor EACH and those of the later
    one the anchor NEXT, however the user wrote it. If it is ``monotone``, the finite doubles of the
    earlier event that it accepts are a range (``patterns/monotone.py``).
    """

    expression: tree.Expression
    prev_variable: str
    next_variable: str
    separation: Separation | None
    reason: str
    monotone: bool = False

    @property
    def has_ranges(self) -> bool:
        """Whether the earlier events that it accepts can be found by ranks."""
        return self.separation is not None or self.monotone


class PlacedEvent(msgspec.Struct, frozen=True):
    """The first or last event of a variable in a match, or each of them."""

    variable: str
    anchor: tree.Anchor


class GlobalPredicate(msgspec.Struct, frozen=True):
    """A condition on a whole match (§4.5).

    ``events`` are the one or two events that the condition refers to, if it refers only to single
    events and, for two, separates: then f in ``separation`` is of the first and g of the second,
    whichever of them is earlier. Such a condition is evaluated while matches are built.
    """

    expression: tree.Expression
    events: tuple[PlacedEvent, ...] = ()
    separation: Separation | None = None
    reason: str = ""


class PartialEquivalence(msgspec.Struct, frozen=True):
    """An attribute that is equal only among the events of some variables (§4.3)."""

    attribute: str
    variables: tuple[str, ...]
    span: Span


class Partition(msgspec.Struct, frozen=True):
    """Partition attributes: those of all events, and those of some variables only."""

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


class SkipPlan(msgspec.Struct, frozen=True):
    """Which matches a chosen match drops (§14); ``written`` are the variables in order."""

    mode: tree.SkipMode
    variable: str | None
    written: tuple[str, ...]
    span: Span


class AggregateColumn(msgspec.Struct, frozen=True):
    """One aggregate, computed once, however often RETURN and HAVING name it.

    A count is of kind INTEGER where it is a whole number, else a double (§5.4). ``distinct`` are
    the attributes of the keys that are counted (§5.6).
    """

    name: str
    function: tree.AggregateFunction
    variable: str | None
    attribute: str | None
    kind: ValueKind
    distinct: tuple[str, ...] = ()


LAST_EVENT = ""
"""In place of a variable: the last event of a match, whatever its variable."""


class ResultColumn(msgspec.Struct, frozen=True):
    """One result column: an aggregate, its LOG2, an attribute, or an expression over a match."""

    name: str
    aggregate: str | None = None
    log2: bool = False
    variable: str | None = None
    attribute: str | None = None
    repeated: bool = False
    expression: tree.Expression | None = None


class Output(msgspec.Struct, frozen=True):
    """The output of a query: aggregates to compute, columns to show, rows to keep.

    ``counts`` is the reason why counts are whole numbers or doubles. ``survey`` is what is told
    about matches that are never built (§17). ``spreads`` are variances and deviations (§5.7).
    """

    kind: OutputKind
    aggregates: tuple[AggregateColumn, ...]
    columns: tuple[ResultColumn, ...]
    having: tree.Expression | None
    limit: int | None
    counts: str = ""
    survey: Survey | None = None
    spreads: tuple[Spread, ...] = ()

    @property
    def counts_keys(self) -> bool:
        """Check whether an aggregate counts the keys that have a match (§5.6)."""
        return any(column.distinct for column in self.aggregates)

    @property
    def squares_matches(self) -> bool:
        """Check whether squares of values of whole matches are added up (§5.7)."""
        return any(spread.of_matches for spread in self.spreads)


class Choice(msgspec.Struct, frozen=True):
    """The evaluator, the state it keeps and its cost, with the reason."""

    evaluator: Evaluator
    granularity: Granularity
    reason: str
    span: Span | None
    time: str
    state: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The fields that the plans of all kinds of query share.

    ``columns`` are those to read; None means all, where matches are listed without a schema.
    ``tick_ns`` is the unit of times: a microsecond, unless they are nanoseconds or whole numbers.
    ``functions`` are those of the user's own that the query calls (§20).
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
    functions: tuple[OwnFunction, ...] = ()
    version: int = PLAN_VERSION

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a query"

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the names of the input streams; empty if there is one unnamed stream."""
        return ()

    @property
    def limit(self) -> int | None:
        """Return the maximum number of result rows; None is unlimited."""
        return None

    @property
    def lists_matches(self) -> bool:
        """Check whether each result row is a match of events."""
        return False

    @property
    def emits_early(self) -> bool:
        """Check whether rows of open windows are emitted early, and replaced later."""
        return False

    @property
    def shares_passes(self) -> bool:
        """Check whether several such queries can share one pass, as a workload."""
        return False

    @property
    def orders_ties(self) -> bool:
        """Check whether events of equal time are ordered (§1.3)."""
        return True

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Narrow the type of a plan; the caller knows the kind."""
        assert isinstance(plan, cls), f"{plan.what} goes another way"
        return plan

    def to_json(self) -> bytes:
        """Serialize the plan as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Deserialize a plan that ``to_json`` wrote.

        Raises
        ------
        ValueError
            If the bytes are no plan of this kind, or a plan of another version.
        """
        try:
            plan = from_json(data, _union(cls))
        except msgspec.MsgspecError as error:
            message = f"this is not a plan: {error}"
            raise ValueError(message) from error
        if plan.version != PLAN_VERSION:
            message = f"the plan has version {plan.version}, this Cepheid reads {PLAN_VERSION}"
            raise ValueError(message)
        return plan


class TrendPlan(Plan, frozen=True, kw_only=True, tag="trend"):
    """The plan of a query with a pattern: aggregates of trends, or matches.

    ``links`` are the rules of single links where ``semantics`` is BY_LINK.
    """

    semantics: tree.Semantics
    links: Links | None = None
    ties: tree.Ties
    numbers: tree.Numbers
    min_length: int
    patterns: tuple[Template, ...]
    local: tuple[LocalPredicate, ...]
    edges: tuple[EdgePredicate, ...]
    globals: tuple[GlobalPredicate, ...]
    window: WindowPlan
    output: Output
    skip: SkipPlan | None = None

    @property
    def shares_passes(self) -> bool:
        """Check whether several such queries can share one pass, as a workload."""
        return self.output.survey is None

    @property
    def limit(self) -> int | None:
        """Return the maximum number of result rows; None is unlimited."""
        return self.output.limit

    @property
    def lists_matches(self) -> bool:
        """Check whether each result row is a match of events."""
        return self.output.kind in (OutputKind.MATCHES, OutputKind.ATTRIBUTES)

    @property
    def emits_early(self) -> bool:
        """Check whether rows of open windows are emitted early, and replaced later."""
        return self.window.emit_early

    @property
    def has_deadlines(self) -> bool:
        """Check whether a NOT has a deadline (§2.12)."""
        return any(template.has_deadlines for template in self.patterns)

    @property
    def sees_neighbours(self) -> bool:
        """Check whether a NOT asks for the events beside a match (§2.14)."""
        return any(template.sees_neighbours for template in self.patterns)

    @property
    def orders_ties(self) -> bool:
        """Check whether ties are ordered (§1.3); surveys (§17.4) and sets (§2.10) list them so."""
        sets = self.lists_matches and len(self.patterns) > 1
        return self.ties is tree.Ties.ARRIVAL or self.output.survey is not None or sets


class SituationPlan(Plan, frozen=True, kw_only=True, tag="situations"):
    """The plan of a query that defines situations."""

    situations: Situations

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a query about situations"


class FunnelPlan(Plan, frozen=True, kw_only=True, tag="funnel"):
    """The plan of a funnel."""

    funnel: Funnel

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a funnel"

    @property
    def orders_ties(self) -> bool:
        """Check whether events of equal time are ordered (§1.3)."""
        return self.funnel.ties is tree.Ties.ARRIVAL


class SelectPlan(Plan, frozen=True, kw_only=True, tag="select"):
    """The plan of a SELECT."""

    select: Selection

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a SELECT"

    @property
    def streams(self) -> tuple[str, ...]:
        """Return the names of the input streams."""
        return tuple(stream.name for stream in self.select.streams)


class RowPatternPlan(Plan, frozen=True, kw_only=True, tag="row pattern"):
    """The plan of a MATCH_RECOGNIZE clause over a stream.

    The clause is sent as text, ``SELECT * FROM table MATCH_RECOGNIZE (...)``, and is bound again
    to the columns of its table where it runs; there are none before the columns are known.
    ``steps`` and ``states`` bound its search; ``zone`` is the time zone of the session, or empty
    for times in their own zones. ``timed`` rows have a column with their time (§15.3).
    """

    table_columns: tuple[str, ...]
    zone: str
    steps: int | None
    states: int | None
    timed: bool = False

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a row pattern"


BASE_STREAM = 0
"""The number of the stream that a pipeline is given; derived ones follow in order."""


class StagePlan(msgspec.Struct, frozen=True):
    """A query of a pipeline, and the streams that it reads: 0 is the base stream, n the n-th stage.

    Its rows become events by ``times``, ``hidden``, ``at_end``, ``delay`` and ``at``
    (``jobs/derived.py``); the last stage has none.
    """

    name: str
    plan: TrendPlan | SituationPlan | FunnelPlan | SelectPlan | RowPatternPlan
    reads: tuple[int, ...]
    times: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    at_end: bool = True
    delay: int = 0
    at: str = ""


class PipelinePlan(Plan, frozen=True, kw_only=True, tag="pipeline"):
    """The plan of queries that feed queries; the rows of the last stage are the result.

    ``type`` is the column that tells streams apart, also where base events have no types.
    ``why_keys`` says by what the work is split, or why it is not.
    """

    stages: tuple[StagePlan, ...]
    why_keys: str

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a pipeline"

    @property
    def limit(self) -> int | None:
        """Return the maximum number of result rows; None is unlimited."""
        return self.stages[-1].plan.limit


def _union(kind: type[PlanType]) -> type[PlanType]:
    """Build the type to decode: a plan of one kind or, for the common header, of any kind."""
    kinds = kind.__subclasses__()
    return Union[tuple(kinds)] if kinds else kind  # type: ignore[return-value]  # noqa: UP007  # a type made of types
