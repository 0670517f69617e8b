"""The tree of an expression: frozen values, one class a construct, each with its place in the text.

Two trees are equal if they say the same thing; where it stands in the text (``span``) is not
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from inspect import get_annotations
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar

import msgspec

from cepheid.errors import Span
from cepheid.expressions.own import OwnFunction


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
        return hash((type(self), *_content_getter(type(self))(self)))

    def _content(self) -> tuple[Any, ...]:
        return _content_getter(type(self))(self)


@cache
def _content_getter(kind: type[Node]) -> Callable[[Node], tuple[Any, ...]]:
    """Return a getter of all fields of a class but the span; hashing calls it again and again."""
    return _getter_of([name for name in kind.__struct_fields__ if name != "span"])


def _getter_of(names: Sequence[str]) -> Callable[[Node], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    # Of one name, attrgetter gives the bare value.
    return (lambda node: (getattr(node, names[0]),)) if names else (lambda _: ())


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
    """``COUNT(*)`` (no variable), ``COUNT(S)`` (no attribute) or ``SUM(S.price)``.

    ``distinct`` are the attributes of ``COUNT(DISTINCT user, session)``, which counts keys (§5.6).
    """

    function: AggregateFunction
    variable: Name | None = None
    attribute: Name | None = None
    distinct: tuple[Name, ...] = ()


class Call(Node, frozen=True, eq=False):
    """A scalar function of values: ``ABS(S.price)``."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it has a name and arguments, and nothing else."""
        return True


class OwnCall(Call, frozen=True, eq=False, kw_only=True):
    """A function of the user's own; ``function`` is its name (§20)."""

    own: OwnFunction


class Unary(Node, frozen=True, eq=False):
    """``-x`` or ``NOT x``."""

    operator: str
    operand: Expression


class Binary(Node, frozen=True, eq=False):
    """Arithmetic (``+ - * / % DIV``), comparison (``= <> < <= > >= DISTINCT``) or ``||``."""

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


class Like(Node, frozen=True, eq=False, omit_defaults=True):
    """``x LIKE 'a%_'`` or its negation; a backslash escapes, or another character."""

    operand: Expression
    pattern: Expression
    negated: bool
    escape: str = ""


class IsTruth(Node, frozen=True, eq=False):
    """``x IS [NOT] TRUE`` or FALSE."""

    operand: Expression
    truth: bool
    negated: bool


class Case(Node, frozen=True, eq=False):
    """``CASE WHEN condition THEN result ... ELSE default END``."""

    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]
    default: Expression


class Cast(Node, frozen=True, eq=False):
    """``CAST(x AS type)``; TRY_CAST gives NULL where it fails."""

    operand: Expression
    type_name: str
    parameters: tuple[int, ...]
    lenient: bool


class Moment(Node, frozen=True, eq=False):
    """``DATE '2026-01-31'`` or ``TIMESTAMP '2026-01-31 12:00:00'``."""

    kind: str
    text: str


class Array(Node, frozen=True, eq=False):
    """``ARRAY[1, 2]``."""

    items: tuple[Expression, ...]


class Leaf(Node, frozen=True, eq=False):
    """A value that comes from elsewhere: rows and matches have classes of their own below this."""


class Sweep(Leaf, frozen=True, eq=False):
    """``SWEEP limit (1 TO 9 STEP 2)``: a constant that takes every value (§16).

    Of a range, ``values`` are its two ends and ``step`` is the distance; else it lists them all.
    """

    values: tuple[Literal | Duration, ...]
    step: Literal | Duration | None = None
    name: Name | None = None


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
    | OwnCall
    | Unary
    | Binary
    | Logical
    | IsNull
    | InList
    | Between
    | Like
    | IsTruth
    | Case
    | Cast
    | Moment
    | Array
    | Leaf
    | Equivalence
)

# ---------------------------------------------------------------------------------------
# Traversal


def replace_span(node: _AnyNode, span: Span) -> _AnyNode:
    """Return the same node at another place."""
    return msgspec.structs.replace(node, span=span)


_PLAIN = frozenset({"bool", "int", "float", "str", "None", "Span"})


@cache
def _inner_fields(kind: type[Node]) -> tuple[str, ...]:
    """Return the fields of a class that may hold nodes; trees are walked again and again."""
    classes = reversed([one for one in kind.__mro__ if issubclass(one, Node)])
    declared = {name: str(text) for one in classes for name, text in get_annotations(one).items()}
    return tuple(
        name
        for name in kind.__struct_fields__
        if not _PLAIN.issuperset(part.strip() for part in declared[name].split("|"))
    )


@cache
def _inner_getter(kind: type[Node]) -> Callable[[Node], tuple[Any, ...]]:
    return _getter_of(_inner_fields(kind))


def children_of(node: Node) -> list[Node]:
    """List the nodes directly below a node, in the order of the text."""
    found: list[Node] = []
    for value in _inner_getter(type(node))(node):
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, Node)]
    return found


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside another."""
    inner = (child for child in children_of(node) if not isinstance(child, _NAMES))
    return tuple(inner)  # type: ignore[arg-type]  # nothing else stands there


def with_children(node: _AnyNode, new: tuple[Expression, ...]) -> _AnyNode:
    """Return an expression with other expressions inside it, in the order of ``children``."""
    rest: Iterator[Any] = iter(new)

    def placed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(placed(item) for item in value)
        return next(rest) if isinstance(value, Node) and not isinstance(value, _NAMES) else value

    values = {field: placed(getattr(node, field)) for field in node.__struct_fields__}
    return msgspec.structs.replace(node, **values)


_NAMES = (Name, EquivalenceItem)


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, parents first, in the order of the text."""
    stack = [node]
    while stack:
        here = stack.pop()
        yield here
        if _inner_fields(type(here)):
            below = children_of(here)
            below.reverse()
            stack += below


def attributes_in(expression: Node) -> set[str]:
    """Collect the names of the attributes of an expression; of long ones this asks only once."""
    found: set[str] = set()
    stack = [expression]
    while stack:
        here = stack.pop()
        if isinstance(here, Attribute):
            found.add(here.attribute.text)
        elif _inner_fields(type(here)):
            stack += children_of(here)
    return found


def contains(node: Node, kind: type[Node] | UnionType) -> bool:
    """Check whether a node, or one below it, is of a class, or of one of several."""
    return any(isinstance(part, kind) for part in walk(node))


Change = Callable[[Node], Node]


def transform(expression: Expression, change: Change) -> Expression:
    """Return an expression with ``change`` applied to every node, innermost first."""
    changed = transform_node(expression, change)
    assert isinstance(changed, Expression), "an expression stays an expression"
    return changed


def transform_node(node: Node, change: Change) -> Node:
    """Return a node with ``change`` applied to it and everything below it, innermost first."""
    values: dict[str, Any] = {}
    for field in _inner_fields(type(node)):
        value = getattr(node, field)
        if isinstance(value, Node):
            values[field] = transform_node(value, change)
        elif isinstance(value, tuple):
            values[field] = tuple(
                [transform_node(item, change) if isinstance(item, Node) else item for item in value]
            )
    return change(msgspec.structs.replace(node, **values) if values else node)


def with_own_functions(node: _AnyNode, functions: Iterable[OwnFunction]) -> _AnyNode:
    """Return a node in which calls of these functions are calls of the user's own (§20)."""
    known = {function.name: function for function in functions}

    def change(part: Node) -> Node:
        own = isinstance(part, OwnCall)
        if own or not isinstance(part, Call) or part.function not in known or not part.is_plain:
            return part
        name = part.function
        return OwnCall(span=part.span, function=name, arguments=part.arguments, own=known[name])

    changed: Any = transform_node(node, change) if known else node
    found: _AnyNode = changed
    return found


def own_functions(node: Node) -> tuple[OwnFunction, ...]:
    """List the functions of the user's own that are called below a node, each once."""
    calls = (part for part in walk(node) if isinstance(part, OwnCall))
    return tuple(dict.fromkeys(call.own for call in calls))
