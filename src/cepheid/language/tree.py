"""The tree of a query: frozen values, one class a construct, each with its place in the text.

Two trees are equal if they say the same thing; where it stands in the text (``span``) is not
compared. Text and tree are inverse to each other: ``parse(format_query(tree)) == tree``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from cepheid.errors import Span


class Node(msgspec.Struct, frozen=True, eq=False, tag=True, kw_only=True):
    """A construct of the language; comparison leaves the span out."""

    span: Span

    def __eq__(self, other: object) -> bool:
        """Compare class and all fields but the span."""
        return type(self) is type(other) and all(
            # A literal 1 is not the literal 1.0 or TRUE, although Python says so.
            type(mine) is type(theirs) and mine == theirs
            for mine, theirs in zip(self._content(), _content_of(other), strict=True)
        )

    def __hash__(self) -> int:
        """Hash what ``__eq__`` compares."""
        return hash((type(self).__name__, *self._content()))

    def _content(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f) for f in self.__struct_fields__ if f != "span")


_AnyNode = TypeVar("_AnyNode", bound=Node)


def _content_of(node: object) -> tuple[Any, ...]:
    assert isinstance(node, Node), "only nodes of one class are compared"
    return node._content()


# ---------------------------------------------------------------------------------------
# Names and expressions


class Name(Node, frozen=True, eq=False):
    """A name as the user wrote it; a dotted attribute (``address.city``) is one name."""

    text: str


class Literal(Node, frozen=True, eq=False, omit_defaults=True):
    """A constant: TRUE, 5, 1.05, 'text' or NULL.

    ``digits`` is a number with a point as it was written, where a double has not all its digits.
    """

    value: bool | int | float | str | None
    digits: str = ""


class Duration(Node, frozen=True, eq=False):
    """A length of time such as ``10 minutes``."""

    microseconds: int


class Word(Node, frozen=True, eq=False):
    """A name without a variable inside an expression: a GROUP-BY attribute, or bare text (§4.7)."""

    text: str


class Anchor(StrEnum):
    """Which event of a variable a reference means."""

    EACH = "each"
    NEXT = "NEXT"
    PREV = "PREV"
    FIRST = "FIRST"
    LAST = "LAST"


class Attribute(Node, frozen=True, eq=False):
    """An attribute of a variable: ``S.price``, ``NEXT(S).price``, ``FIRST(b).price``."""

    variable: Name
    attribute: Name
    anchor: Anchor = Anchor.EACH


class AggregateFunction(StrEnum):
    """The aggregates of the language."""

    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


class Aggregate(Node, frozen=True, eq=False):
    """``COUNT(*)`` (no variable), ``COUNT(S)`` (no attribute) or ``SUM(S.price)``."""

    function: AggregateFunction
    variable: Name | None = None
    attribute: Name | None = None


class Call(Node, frozen=True, eq=False):
    """A scalar function of values: ``ABS(S.price)``."""

    function: str
    arguments: tuple[Expression, ...]


class Unary(Node, frozen=True, eq=False):
    """``-x`` or ``NOT x``."""

    operator: str
    operand: Expression


class Binary(Node, frozen=True, eq=False):
    """Arithmetic (``+ - * / %``) or comparison (``= <> < <= > >=``) of two values."""

    operator: str
    left: Expression
    right: Expression


class Logical(Node, frozen=True, eq=False):
    """``x AND y AND ...`` or ``x OR y OR ...``, always two or more operands."""

    operator: str
    operands: tuple[Expression, ...]


class IsNull(Node, frozen=True, eq=False):
    """``x IS NULL`` or ``x IS NOT NULL``."""

    operand: Expression
    negated: bool


class InList(Node, frozen=True, eq=False):
    """``x IN (a, b)`` or ``x NOT IN (a, b)``."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


class Between(Node, frozen=True, eq=False):
    """``x BETWEEN low AND high`` or its negation; both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool


class Like(Node, frozen=True, eq=False):
    """``x LIKE 'a%_'`` or its negation; a backslash escapes."""

    operand: Expression
    pattern: Expression
    negated: bool


class EquivalenceItem(Node, frozen=True, eq=False):
    """One entry of ``[P.vehicle, segment]``; without a variable it speaks of all events."""

    attribute: Name
    variable: Name | None = None


class Equivalence(Node, frozen=True, eq=False):
    """``[a, b]``: all events of a match agree on these attributes (§4.2, §4.3)."""

    items: tuple[EquivalenceItem, ...]


Expression = (
    Literal
    | Duration
    | Word
    | Attribute
    | Aggregate
    | Call
    | Unary
    | Binary
    | Logical
    | IsNull
    | InList
    | Between
    | Like
    | Equivalence
)

# ---------------------------------------------------------------------------------------
# Patterns


class EventPattern(Node, frozen=True, eq=False):
    """``Stock S``: one event of a type; without a variable, the type's name is the variable."""

    event_type: Name
    variable: Name


class Sequence(Node, frozen=True, eq=False):
    """``SEQ(P, ..., P)``."""

    parts: tuple[Pattern, ...]


class Repeat(Node, frozen=True, eq=False):
    """``P+`` (1, None), ``P*`` (0, None), ``P?`` (0, 1), ``P{n,m}`` (n, m)."""

    pattern: Pattern
    least: int
    most: int | None


class Disjunction(Node, frozen=True, eq=False):
    """``P OR Q OR ...``, always two or more."""

    alternatives: tuple[Pattern, ...]


class Negation(Node, frozen=True, eq=False):
    """``NOT P``, a part of a sequence."""

    pattern: Pattern


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
    """How a match may skip events (§3)."""

    ANY_MATCH = "skip-till-any-match"
    NEXT_MATCH = "skip-till-next-match"
    CONTIGUOUS = "contiguous"


class Ties(StrEnum):
    """How events of one time are ordered (§1.3, §1.4)."""

    STRICT = "strict"
    ARRIVAL = "arrival"


class Numbers(StrEnum):
    """How counts and sums are represented (§5.4, §5.5)."""

    DEFAULT = "default"
    EXACT = "exact"


class SemanticsClause(Node, frozen=True, eq=False):
    """``SEMANTICS contiguous``."""

    semantics: Semantics


class TiesClause(Node, frozen=True, eq=False):
    """``TIES arrival``."""

    ties: Ties


class NumbersClause(Node, frozen=True, eq=False):
    """``NUMBERS exact``."""

    numbers: Numbers


class EventCount(Node, frozen=True, eq=False):
    """A length counted in events: ``100 EVENTS``."""

    count: int


class Window(Node, frozen=True, eq=False):
    """``WITHIN w [SLIDE s]`` in time or in events."""

    within: Duration | EventCount
    slide: Duration | EventCount | None = None


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


class Definition(Node, frozen=True, eq=False):
    """``A AS speed > 70 AT LEAST 5 s``: how situations are derived, and how long they last."""

    name: Name
    condition: Expression
    at_least: Duration | None = None
    at_most: Duration | None = None


class TemporalConstraint(Node, frozen=True, eq=False):
    """``A meets;overlaps B``: one of the relations holds between two situations."""

    left: Name
    relations: tuple[Relation, ...]
    right: Name


NO_PATTERN = Sequence(span=Span(0, 0), parts=())
"""What stands in for the pattern of events in a query about situations."""


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
    """``ticks t``: a stream and what the query calls it, its own name without an alias."""

    name: Name
    alias: Name


class SelectQuery(Query, frozen=True, eq=False):
    """``SELECT items FROM stream [JOIN stream ON condition] ...`` (§10)."""

    pattern: Pattern = NO_PATTERN
    items: tuple[ReturnItem | Star, ...] = ()
    streams: tuple[Stream, ...] = ()
    on: Expression | None = None


# ---------------------------------------------------------------------------------------
# Traversal


def replace_span(node: _AnyNode, span: Span) -> _AnyNode:
    """Return the same node at another place."""
    return msgspec.structs.replace(node, span=span)


def children_of(node: Node) -> Iterator[Node]:
    """Yield the nodes directly below a node, in the order of the text."""
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, parents first, in the order of the text."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(reversed(list(children_of(here))))


Change = Callable[[Node], Node]


def transform(expression: Expression, change: Change) -> Expression:
    """Return an expression with ``change`` applied to every node, innermost first."""
    changed = _transform(expression, change)
    assert isinstance(changed, Expression), "an expression stays an expression"
    return changed


TEXT_QUOTED_MAX = 200
"""A longer expression is not quoted, so that trees stay small."""


def with_texts(query: Query, text: str) -> Query:
    """Return a query whose expressions know how they were written."""

    def place(node: Node) -> Node:
        start, end = node.span.start, node.span.end
        if not isinstance(node, Expression) or end - start > TEXT_QUOTED_MAX:
            return node
        return replace_span(node, Span(start, end, " ".join(text[start:end].split())))

    placed = _transform(query, place)
    assert isinstance(placed, Query), "a query stays a query"
    return placed


def _transform(node: Node, change: Change) -> Node:
    values: dict[str, Any] = {}
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, Node):
            values[field] = _transform(value, change)
        elif isinstance(value, tuple):
            values[field] = tuple(
                _transform(item, change) if isinstance(item, Node) else item for item in value
            )
    return change(msgspec.structs.replace(node, **values) if values else node)
