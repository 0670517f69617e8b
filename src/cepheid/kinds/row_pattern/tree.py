"""The tree of a MATCH_RECOGNIZE clause: frozen values with their places in the text."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cepheid.errors import Span


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that stands somewhere in the text."""

    span: Span


# ---------------------------------------------------------------------------------------
# Expressions as written


class Literal(Node, frozen=True):
    """A number, text, truth value or NULL.

    ``digits`` is a number with a point as it was written, where a double has not all its digits.
    """

    value: bool | int | float | str | None
    digits: str = ""


class Moment(Node, frozen=True):
    """``DATE '2026-01-31'`` or ``TIMESTAMP '2026-01-31 12:00:00'``."""

    kind: str
    text: str


class Interval(Node, frozen=True):
    """``INTERVAL '10' SECOND``."""

    microseconds: int


class ArrayOf(Node, frozen=True):
    """``ARRAY[1, 2]``."""

    items: tuple[Expression, ...]


class Column(Node, frozen=True):
    """A column, with the variable in front of it if there is one."""

    name: str
    qualifier: str | None


class Unary(Node, frozen=True):
    """``-x`` or ``NOT x``."""

    operator: str
    operand: Expression


class Binary(Node, frozen=True):
    """Arithmetic, ``||``, a comparison, AND or OR."""

    operator: str
    left: Expression
    right: Expression


class IsNull(Node, frozen=True):
    """``x IS [NOT] NULL``."""

    operand: Expression
    negated: bool


class IsTruth(Node, frozen=True):
    """``x IS [NOT] TRUE`` or FALSE."""

    operand: Expression
    truth: bool
    negated: bool


class InList(Node, frozen=True):
    """``x [NOT] IN (a, b)``."""

    operand: Expression
    items: tuple[Expression, ...]
    negated: bool


class Like(Node, frozen=True):
    """``x [NOT] LIKE pattern [ESCAPE c]``."""

    operand: Expression
    pattern: Expression
    escape: str | None
    negated: bool


class Case(Node, frozen=True):
    """``CASE WHEN condition THEN value ... ELSE value END``; ``CASE x WHEN`` compares with x."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression


class Cast(Node, frozen=True):
    """``CAST(x AS type)``; TRY_CAST gives NULL where it fails."""

    operand: Expression
    type_name: str
    parameters: tuple[int, ...]
    lenient: bool


class Call(Node, frozen=True):
    """A function or an aggregate; ``star`` is the argument of ``COUNT(*)`` and ``COUNT(A.*)``."""

    name: str
    arguments: tuple[Expression, ...]
    semantics: str | None = None
    distinct: bool = False
    star: bool = False
    star_of: str | None = None
    condition: Expression | None = None


class Navigate(Node, frozen=True):
    """FIRST, LAST, PREV or NEXT with an offset."""

    function: str
    argument: Expression
    offset: int | None
    semantics: str | None


class Classifier(Node, frozen=True):
    """``CLASSIFIER()`` or ``CLASSIFIER(U)``."""

    variable: str | None


class MatchNumber(Node, frozen=True):
    """``MATCH_NUMBER()``."""


# ---------------------------------------------------------------------------------------
# Expressions after binding: where a value comes from is explicit


class Navigation(msgspec.Struct, frozen=True):
    """How to find a row: the n-th first or last row of some variables, then so many rows further.

    ``variables`` is None for all rows of the match. ``final`` looks at the whole match, otherwise
    the rows after the current one do not exist. ``shift`` counts rows of the partition.
    """

    variables: frozenset[str] | None = None
    from_first: bool = False
    offset: int = 0
    final: bool = False
    shift: int = 0


class RowColumn(Node, frozen=True):
    """A column of the row that a navigation or an aggregate looks at."""

    name: str


class RowLabel(Node, frozen=True):
    """The variable to which that row is mapped."""


class Cell(Node, frozen=True):
    """An expression over one row, and which row."""

    navigation: Navigation
    body: Expression


class Aggregate(Node, frozen=True):
    """An aggregate over the rows of some variables; ``arguments`` are expressions over one row."""

    name: str
    arguments: tuple[Expression, ...]
    variables: frozenset[str] | None
    final: bool
    distinct: bool = False
    condition: Expression | None = None


Expression: TypeAlias = (
    Literal
    | Moment
    | Interval
    | ArrayOf
    | Column
    | Unary
    | Binary
    | IsNull
    | IsTruth
    | InList
    | Like
    | Case
    | Cast
    | Call
    | Navigate
    | Classifier
    | MatchNumber
    | RowColumn
    | RowLabel
    | Cell
    | Aggregate
)


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside another, in the order of the text."""
    match node:
        case Unary(operand=x) | IsNull(operand=x) | IsTruth(operand=x) | Cast(operand=x):
            return (x,)
        case Binary(left=a, right=b) | Like(operand=a, pattern=b):
            return (a, b)
        case InList(operand=x, items=items):
            return (x, *items)
        case ArrayOf(items=items):
            return items
        case Case(branches=branches, default=default):
            return (*(part for branch in branches for part in branch), default)
        case Call() | Aggregate():
            return node.arguments if node.condition is None else (*node.arguments, node.condition)
        case Navigate(argument=x):
            return (x,)
        case Cell(body=x):
            return (x,)
    return ()


def with_children(node: Expression, new: tuple[Expression, ...]) -> Expression:
    """Return an expression with other expressions inside it, in the order of ``children``."""
    replace = msgspec.structs.replace
    match node:
        case Unary() | IsNull() | IsTruth() | Cast():
            return replace(node, operand=new[0])
        case Binary():
            return replace(node, left=new[0], right=new[1])
        case Like():
            return replace(node, operand=new[0], pattern=new[1])
        case InList():
            return replace(node, operand=new[0], items=new[1:])
        case ArrayOf():
            return replace(node, items=new)
        case Case():
            pairs = tuple(zip(new[:-1:2], new[1:-1:2], strict=True))
            return replace(node, branches=pairs, default=new[-1])
        case Call() | Aggregate():
            if node.condition is None:
                return replace(node, arguments=new)
            return replace(node, arguments=new[:-1], condition=new[-1])
        case Navigate():
            return replace(node, argument=new[0])
        case Cell():
            return replace(node, body=new[0])
    return node


# ---------------------------------------------------------------------------------------
# Patterns


class Variable(Node, frozen=True):
    """A primary pattern variable."""

    name: str


class Empty(Node, frozen=True):
    """``()``."""


class Anchor(Node, frozen=True):
    """``^`` (the start of the partition) or ``$`` (its end)."""

    at_start: bool


class Sequence(Node, frozen=True):
    """Patterns one after the other."""

    parts: tuple[Pattern, ...]


class Alternation(Node, frozen=True):
    """``A | B``: earlier parts are preferred."""

    parts: tuple[Pattern, ...]


class Permutation(Node, frozen=True):
    """``PERMUTE(A, B)``: every order, those that list earlier parts first are preferred."""

    parts: tuple[Pattern, ...]


class Exclusion(Node, frozen=True):
    """``{- A -}``: matched, but left out of ALL ROWS PER MATCH."""

    part: Pattern


class Quantified(Node, frozen=True):
    """A repeated pattern; ``most`` is None without an upper bound."""

    part: Pattern
    least: int
    most: int | None
    reluctant: bool


Pattern: TypeAlias = (
    Variable | Empty | Anchor | Sequence | Alternation | Permutation | Exclusion | Quantified
)


# ---------------------------------------------------------------------------------------
# The clause


class SortKey(Node, frozen=True):
    """One key of ORDER BY; ``nulls_first`` is resolved to the default of its direction."""

    column: Column
    descending: bool
    nulls_first: bool


class Measure(Node, frozen=True):
    """``expression AS name``."""

    name: str
    expression: Expression


class Subset(Node, frozen=True):
    """``U = (A, B)``."""

    name: str
    variables: tuple[Variable, ...]


class Definition(Node, frozen=True):
    """``A AS condition``."""

    name: str
    condition: Expression


class Skip(Node, frozen=True):
    """AFTER MATCH SKIP: ``past_last_row``, ``to_next_row``, ``to_first`` or ``to_last``."""

    mode: str = "past_last_row"
    variable: str | None = None


class Clause(Node, frozen=True):
    """A whole MATCH_RECOGNIZE clause as written.

    ``rows`` is ``one``, or ``all`` with ``show``, ``omit`` or ``unmatched`` after it, as in
    ``all show``.
    """

    partition_by: tuple[Column, ...]
    order_by: tuple[SortKey, ...]
    measures: tuple[Measure, ...]
    rows: str
    skip: Skip
    pattern: Pattern
    within: Interval | Literal | None
    subsets: tuple[Subset, ...]
    definitions: tuple[Definition, ...]
