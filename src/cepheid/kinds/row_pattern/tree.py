"""The tree of a MATCH_RECOGNIZE clause: frozen values with their places in the text.

Expressions are those of ``cepheid.expressions.tree``; here are the nodes that speak of rows.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from cepheid.expressions import tree
from cepheid.expressions.tree import (
    Array,
    Binary,
    Case,
    Cast,
    Duration,
    Expression,
    InList,
    IsNull,
    IsTruth,
    Leaf,
    Like,
    Literal,
    Logical,
    Moment,
    Node,
    OwnCall,
    Unary,
    children,
    contains,
    own_functions,
    walk,
    with_children,
    with_own_functions,
)

# ---------------------------------------------------------------------------------------
# Expressions as written


class Column(Leaf, frozen=True, eq=False):
    """A column, with the variable in front of it if there is one, and fields of it behind."""

    name: str
    qualifier: str | None
    fields: tuple[str, ...] = ()


class Computed(Column, frozen=True, eq=False, kw_only=True):
    """A key of PARTITION BY or ORDER BY that is no column; its name is what is written."""

    expression: Expression


class Ordering(msgspec.Struct, frozen=True):
    """The sort order of one key of ORDER BY; ``stated`` if it says where NULLs come."""

    descending: bool
    nulls_first: bool
    stated: bool = False


class Call(tree.Call, frozen=True, eq=False):
    """A function or an aggregate; ``star`` is the argument of ``COUNT(*)`` and ``COUNT(A.*)``."""

    semantics: str | None = None
    distinct: bool = False
    star: bool = False
    star_of: str | None = None
    condition: Expression | None = None
    order: tuple[Expression, ...] = ()
    ordering: tuple[Ordering, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it has a name and arguments, and nothing else."""
        decorated = self.distinct or self.star or self.condition is not None or self.order
        return self.semantics is None and not decorated


class Navigate(Leaf, frozen=True, eq=False):
    """FIRST, LAST, PREV or NEXT with an offset."""

    function: str
    argument: Expression
    offset: int | None
    semantics: str | None


class Classifier(Leaf, frozen=True, eq=False):
    """``CLASSIFIER()`` or ``CLASSIFIER(U)``."""

    variable: str | None


class MatchNumber(Leaf, frozen=True, eq=False):
    """``MATCH_NUMBER()``."""


# ---------------------------------------------------------------------------------------
# Expressions after binding: where a value comes from is explicit


class Navigation(msgspec.Struct, frozen=True):
    """A position of a row: the n-th first or last row of some variables, then so many rows further.

    ``variables`` is None for all rows of the match. ``final`` looks at the whole match, otherwise
    the rows after the current one do not exist. ``shift`` counts rows of the partition.
    """

    variables: frozenset[str] | None = None
    from_first: bool = False
    offset: int = 0
    final: bool = False
    shift: int = 0


class RowColumn(Leaf, frozen=True, eq=False):
    """A column of the row that a navigation or an aggregate looks at."""

    name: str


class RowField(Leaf, frozen=True, eq=False):
    """A field of a structure in a column of a row, or a field of that."""

    column: str
    path: tuple[str, ...]


class RowLabel(Leaf, frozen=True, eq=False):
    """The variable to which that row is mapped."""


class Cell(Leaf, frozen=True, eq=False):
    """An expression over one row, and which row."""

    navigation: Navigation
    body: Expression


class Ranking(Leaf, frozen=True, eq=False):
    """ROW_NUMBER, RANK and the like: the place of a row in its partition, whatever its match."""

    name: str
    argument: int = 1


class Aggregate(Leaf, frozen=True, eq=False):
    """An aggregate over the rows of some variables; ``arguments`` are expressions over one row.

    The last ones are the keys by which rows are sorted first, if ``ordering`` tells of any.
    """

    name: str
    arguments: tuple[Expression, ...]
    variables: frozenset[str] | None
    final: bool
    distinct: bool = False
    condition: Expression | None = None
    ordering: tuple[Ordering, ...] = ()


# ---------------------------------------------------------------------------------------
# Patterns


class Variable(Node, frozen=True, eq=False):
    """A primary pattern variable."""

    name: str


class Empty(Node, frozen=True, eq=False):
    """``()``."""


class Anchor(Node, frozen=True, eq=False):
    """``^`` (the start of the partition) or ``$`` (its end)."""

    at_start: bool


class Sequence(Node, frozen=True, eq=False):
    """Patterns one after the other."""

    parts: tuple[Pattern, ...]


class Alternation(Node, frozen=True, eq=False):
    """``A | B``: earlier parts are preferred."""

    parts: tuple[Pattern, ...]


class Permutation(Node, frozen=True, eq=False):
    """``PERMUTE(A, B)``: every order, those that list earlier parts first are preferred."""

    parts: tuple[Pattern, ...]


class Exclusion(Node, frozen=True, eq=False):
    """``{- A -}``: matched, but left out of ALL ROWS PER MATCH."""

    part: Pattern


class Quantified(Node, frozen=True, eq=False):
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


class SortKey(Node, frozen=True, eq=False):
    """One key of ORDER BY; ``nulls_first`` is resolved to the default of its direction."""

    column: Column
    descending: bool
    nulls_first: bool
    stated: bool = False


class Measure(Node, frozen=True, eq=False):
    """``expression AS name``."""

    name: str
    expression: Expression


class Subset(Node, frozen=True, eq=False):
    """``U = (A, B)``."""

    name: str
    variables: tuple[Variable, ...]


class Definition(Node, frozen=True, eq=False):
    """``A AS condition``."""

    name: str
    condition: Expression


class Skip(Node, frozen=True, eq=False):
    """AFTER MATCH SKIP: ``past_last_row``, ``to_next_row``, ``to_first`` or ``to_last``."""

    mode: str = "past_last_row"
    variable: str | None = None


class Frame(Node, frozen=True, eq=False):
    """``ROWS BETWEEN CURRENT ROW AND end``: so many rows behind, None for all; INITIAL or SEEK."""

    end: int | None
    seek: bool


class Clause(Node, frozen=True, eq=False):
    """A whole MATCH_RECOGNIZE clause as written, or a window with PATTERN.

    ``rows`` is ``one``, or ``all`` with ``show``, ``omit`` or ``unmatched`` after it, as in
    ``all show``; in a window, which alone has a frame, it is ``window``. ``calls`` are the
    expressions before OVER with the names of their columns, ``tables`` the names of the input.
    """

    partition_by: tuple[Column, ...]
    order_by: tuple[SortKey, ...]
    measures: tuple[Measure, ...]
    rows: str
    skip: Skip
    pattern: Pattern
    within: Duration | Literal | None
    subsets: tuple[Subset, ...]
    definitions: tuple[Definition, ...]
    frame: Frame | None = None
    calls: tuple[Measure, ...] = ()
    tables: tuple[str, ...] = ()


class Window(Node, frozen=True, eq=False):
    """A window of OVER or WINDOW: the name that it begins with, and its clause if it has one."""

    base: str | None
    partition_by: tuple[Column, ...]
    order_by: tuple[SortKey, ...]
    clause: Clause | None
