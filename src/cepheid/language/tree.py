"""The tree of a query: frozen values, one class a construct, each with its place in the text.

Expressions are those of ``cepheid.expressions.tree``, which stand under the same names here. Text
and tree are inverse to each other: ``parse(format_query(tree)) == tree``.
"""

from __future__ import annotations

from enum import StrEnum

from cepheid.errors import Span
from cepheid.expressions.tree import (
    Aggregate,
    AggregateFunction,
    Anchor,
    Attribute,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Duration,
    Equivalence,
    EquivalenceItem,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Name,
    Node,
    OwnCall,
    Sweep,
    Unary,
    Word,
    children_of,
    contains,
    own_functions,
    replace_span,
    transform,
    transform_node,
    walk,
    with_own_functions,
)

# ---------------------------------------------------------------------------------------
# Patterns


class EventPattern(Node, frozen=True, eq=False):
    """``Stock S``: one event of a type; without a variable, the type's name is the variable.

    ``ANY x`` has the type ANY_TYPE, which no name can be.
    """

    event_type: Name
    variable: Name


ANY_TYPE = ""
"""The type of ``ANY x``: events of every type, and of none."""


class Sequence(Node, frozen=True, eq=False):
    """``SEQ(P, ..., P)``."""

    parts: tuple[Pattern, ...]


class Greed(StrEnum):
    """Which events a loop takes beside what follows it (§2.15)."""

    GREEDY = "GREEDY"
    RELUCTANT = "RELUCTANT"


class Repeat(Node, frozen=True, eq=False):
    """``P+`` (1, None), ``P*`` (0, None), ``P?`` (0, 1), ``P{n,m}`` (n, m).

    ``until`` is the condition of ``P+ UNTIL (c)``, which ends the loop (§3.7); ``without`` is the
    pattern of ``P+ WITHOUT N`` that may not lie between two rounds (§2.13); ``greed`` stands for
    ``P+ GREEDY`` and ``P+ RELUCTANT`` (§2.15).
    """

    pattern: Pattern
    least: int
    most: int | None
    until: Expression | None = None
    without: Negation | None = None
    greed: Greed | None = None


class Disjunction(Node, frozen=True, eq=False):
    """``P OR Q OR ...``, always two or more."""

    alternatives: tuple[Pattern, ...]


class Negation(Node, frozen=True, eq=False):
    """``NOT P``, a part of a sequence, or ``NOT P WITHIN 5 minutes`` (§2.12).

    ``next`` stands for ``NOT NEXT P``, which speaks of the one event beside the match (§2.14).
    """

    pattern: Pattern
    within: Duration | EventCount | None = None
    next: bool = False


class Conjunction(Node, frozen=True, eq=False):
    """``P AND Q``, at the top of a pattern only."""

    patterns: tuple[Pattern, ...]


Pattern = EventPattern | Sequence | Repeat | Disjunction | Negation | Conjunction

# ---------------------------------------------------------------------------------------
# Clauses


class ReturnItem(Node, frozen=True, eq=False):
    """One result column: an attribute, an aggregate or LOG2 of one, with its name after AS."""

    expression: Expression
    alias: Name | None = None


class Return(Node, frozen=True, eq=False):
    """``RETURN a, COUNT(*) AS n`` or, with no items, ``RETURN MATCHES``."""

    items: tuple[ReturnItem, ...]


class Semantics(StrEnum):
    """The rule by which a match may skip events (§3)."""

    ANY_MATCH = "skip-till-any-match"
    NEXT_MATCH = "skip-till-next-match"
    CONTIGUOUS = "contiguous"
    BY_LINK = "by link"
    """No query says so: links have different rules, or UNTIL closes some (§3.6, §3.7)."""


class Ties(StrEnum):
    """The order of events of one time (§1.3, §1.4)."""

    STRICT = "strict"
    ARRIVAL = "arrival"


class Numbers(StrEnum):
    """The representation of counts and sums (§5.4, §5.5)."""

    DEFAULT = "default"
    EXACT = "exact"


class LinkRule(Node, frozen=True, eq=False):
    """``A TO B contiguous``: the rule of one link (§3.6)."""

    prev: Name
    next: Name
    semantics: Semantics


class SemanticsClause(Node, frozen=True, eq=False):
    """``SEMANTICS contiguous``, with the rules of single links after it."""

    semantics: Semantics
    links: tuple[LinkRule, ...] = ()


class TiesClause(Node, frozen=True, eq=False):
    """``TIES arrival``."""

    ties: Ties


class NumbersClause(Node, frozen=True, eq=False):
    """``NUMBERS exact``."""

    numbers: Numbers


class SkipMode(StrEnum):
    """Which matches a chosen match drops (§14)."""

    PAST_LAST = "PAST LAST"
    TO_NEXT = "TO NEXT"
    TO_FIRST = "TO FIRST"
    TO_LAST = "TO LAST"
    TO_LATEST = "TO LATEST"


class SkipClause(Node, frozen=True, eq=False):
    """``AFTER MATCH SKIP TO FIRST b``; only TO FIRST and TO LAST have a variable."""

    mode: SkipMode
    variable: Name | None = None


class EventCount(Node, frozen=True, eq=False):
    """A length counted in events: ``100 EVENTS``."""

    count: int


class Window(Node, frozen=True, eq=False):
    """``WITHIN w [SLIDE s]`` in time or in events.

    ``sweep`` is that of ``WITHIN SWEEP(...)`` (§16); ``within`` is then its first value. With
    ``session``, it is the gap of ``WINDOW SESSION gap`` (§10.9).
    """

    within: Duration | EventCount
    slide: Duration | EventCount | None = None
    sweep: Sweep | None = None
    session: bool = False


class Query(Node, frozen=True, eq=False):
    """A whole query; clauses that are not written are ``None``."""

    pattern: Pattern
    returns: Return | None = None
    semantics: SemanticsClause | None = None
    where: Expression | None = None
    group_by: tuple[Name, ...] = ()
    having: Expression | None = None
    window: Window | None = None
    emit_on_expiry: Literal | None = None
    emit_early: Literal | None = None
    ties: TiesClause | None = None
    numbers: NumbersClause | None = None
    min_length: Literal | None = None
    limit: Literal | None = None
    skip: SkipClause | None = None


class FunnelQuery(Query, frozen=True, eq=False):
    """A query whose RETURN is ``FUNNEL(session)``: how many keys reach each step (§12)."""


# ---------------------------------------------------------------------------------------
# Situations


class Relation(StrEnum):
    """Allen's relations between two intervals (§9.3)."""

    BEFORE = "before"
    MEETS = "meets"
    OVERLAPS = "overlaps"
    STARTS = "starts"
    DURING = "during"
    FINISHES = "finishes"
    EQUALS = "equals"
    FINISHED_BY = "finished by"
    CONTAINS = "contains"
    STARTED_BY = "started by"
    OVERLAPPED_BY = "overlapped by"
    MET_BY = "met by"
    AFTER = "after"


INTERSECTS = tuple(Relation)[2:11]
"""The relations of two intervals that have some time in common (§9.3)."""


class Definition(Node, frozen=True, eq=False):
    """``A AS speed > 70 UNTIL speed < 50 AT LEAST 5 s``: what situations are, and how they last."""

    name: Name
    condition: Expression
    until: Expression | None = None
    at_least: Duration | None = None
    at_most: Duration | None = None
    least_events: EventCount | None = None
    most_events: EventCount | None = None


class TemporalConstraint(Node, frozen=True, eq=False):
    """``A meets;overlaps B``: one of the relations holds between two situations."""

    left: Name
    relations: tuple[Relation, ...]
    right: Name


NO_PATTERN = Sequence(span=Span(0, 0), parts=())
"""Stands in for the pattern of events in a query about situations."""


class SituationQuery(Query, frozen=True, eq=False):
    """A query about situations (§9); its constraints take the place of a pattern of events."""

    pattern: Pattern = NO_PATTERN
    source: Name | None = None
    partition_by: tuple[Name, ...] = ()
    definitions: tuple[Definition, ...] = ()
    constraints: tuple[TemporalConstraint, ...] = ()
    listed: tuple[Name, ...] = ()
    detected_within: Duration | None = None


# ---------------------------------------------------------------------------------------
# Operators on streams


class Star(Node, frozen=True, eq=False):
    """``*`` or ``a.*``: all columns, of one of two streams with its alias before it."""

    stream: Name | None = None


class Stream(Node, frozen=True, eq=False):
    """``ticks t``: a stream and what the query calls it, its own name without an alias.

    ``within`` is how long its events wait for those of the other stream of a join (§10.6).
    """

    name: Name
    alias: Name
    within: Duration | EventCount | None = None


class OrderItem(Node, frozen=True, eq=False):
    """``price DESC NULLS LAST``: what rows are sorted by (§10.10).

    Without NULLS, NULL comes first in ascending and last in descending order.
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


class SelectQuery(Query, frozen=True, eq=False):
    """``SELECT items FROM stream [JOIN stream ON condition] ...`` (§10).

    With more than one JOIN, the operands of ``on`` are the conditions of each.
    """

    pattern: Pattern = NO_PATTERN
    items: tuple[ReturnItem | Star, ...] = ()
    streams: tuple[Stream, ...] = ()
    on: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()


# ---------------------------------------------------------------------------------------
# Pipelines


class StageQuery(Node, frozen=True, eq=False):
    """``CREATE STREAM Fast AS query;``: the rows of a query as events of a name (§15)."""

    query: Query
    name: Name | None = None


class PipelineQuery(Query, frozen=True, eq=False):
    """Queries that feed queries; the rows of the last one are the result, which needs no name."""

    pattern: Pattern = NO_PATTERN
    stages: tuple[StageQuery, ...] = ()


# ---------------------------------------------------------------------------------------
# Row patterns


class RowPatternQuery(Query, frozen=True, eq=False):
    """``SELECT ... FROM stream MATCH_RECOGNIZE (...)``; its kind reads the text (§11)."""

    pattern: Pattern = NO_PATTERN
    text: str = ""
    source: Name | None = None


# ---------------------------------------------------------------------------------------
# Sweeps


class SweepQuery(Query, frozen=True, eq=False, kw_only=True):
    """A query with a SWEEP in it: its rows for every value of a constant (§16)."""

    pattern: Pattern = NO_PATTERN
    query: Query


# ---------------------------------------------------------------------------------------
# Texts

TEXT_QUOTED_MAX = 200
"""A longer expression is not quoted, so that trees stay small."""


def quoted_span(text: str, start: int, end: int) -> Span:
    """Build the place of an expression, with what is written there if that is short."""
    if end - start > TEXT_QUOTED_MAX:
        return Span(start, end)
    written = text[start:end]
    return Span(start, end, written if written.isalnum() else " ".join(written.split()))


def with_texts(query: Query, text: str) -> Query:
    """Return a query whose expressions know how they were written."""

    def place(node: Node) -> Node:
        if not isinstance(node, Expression):
            return node
        return replace_span(node, quoted_span(text, node.span.start, node.span.end))

    placed = transform_node(query, place)
    assert isinstance(placed, Query), "a query stays a query"
    return placed
