"""The plan of a SELECT: its operator, its streams, and the columns it reads (§10)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from cepheid.errors import Span
from cepheid.language import tree


class SelectKind(StrEnum):
    """The operators of SELECT."""

    FILTER = "filter"
    AGGREGATE = "windowed aggregation"
    JOIN = "windowed join"


class Extent(StrEnum):
    """The unit of the windows of a SELECT; NONE is one window over the whole stream."""

    NONE = "none"
    TIME = "time"
    EVENTS = "events"
    SESSION = "session"


class SelectWindow(msgspec.Struct, frozen=True):
    """Windows of ``within`` ticks or events, one every ``slide``; of sessions it is the gap.

    In a join, events of the first stream wait for ``within``, and those of the second for
    ``second``, 0 if that is the same; ``further`` are those of the streams after, if they differ.
    """

    extent: Extent = Extent.NONE
    within: int = 0
    slide: int = 0
    tick_ns: int = 1000
    second: int = 0
    further: tuple[int, ...] = ()

    def lengths_of(self, count: int) -> tuple[int, ...]:
        """Return the window of each stream of a join."""
        return (*self.lengths, *(self.further or (self.within,) * (count - 2)))

    @property
    def lengths(self) -> tuple[int, int]:
        """Return the windows of the first two streams of a join."""
        return self.within, self.second or self.within


class SelectStream(msgspec.Struct, frozen=True):
    """A stream, its alias in the query, and the columns that are read; None is all of them."""

    name: str
    alias: str
    reads: tuple[str, ...] | None


class SelectColumn(msgspec.Struct, frozen=True):
    """A result column; without an expression, all columns of a stream that has no schema yet."""

    name: str
    expression: tree.Expression | None


class SelectKey(msgspec.Struct, frozen=True):
    """A GROUP BY attribute and its name in the result."""

    attribute: str
    name: str


class SelectFunction(StrEnum):
    """The aggregates of SELECT."""

    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    DISTINCT = "COUNT DISTINCT"
    PERCENTILE = "PERCENTILE"
    APPROX_DISTINCT = "APPROX_COUNT_DISTINCT"
    APPROX_PERCENTILE = "APPROX_PERCENTILE"


SKETCH_EXACT = 1024
"""Up to this many distinct values, estimates are exact (§10.14)."""
COUNTS_DISTINCT = frozenset({SelectFunction.DISTINCT, SelectFunction.APPROX_DISTINCT})
PERCENTILES = frozenset({SelectFunction.PERCENTILE, SelectFunction.APPROX_PERCENTILE})
SKETCHED = frozenset({SelectFunction.APPROX_DISTINCT, SelectFunction.APPROX_PERCENTILE})
"""Aggregates that are estimated where there are many values (§10.14)."""
HOLISTIC = COUNTS_DISTINCT | PERCENTILES
"""Aggregates that need all values, and not only counts, sums and extremes."""


class Measure(NamedTuple):
    """The state of an expression: its moments, or for a holistic aggregate its values."""

    argument: tree.Expression
    holistic: SelectFunction | None


class SelectAggregate(msgspec.Struct, frozen=True):
    """An aggregate of an expression over events; COUNT(*) has no expression.

    ``fraction`` is that of a percentile.
    """

    name: str
    function: SelectFunction
    argument: tree.Expression | None
    fraction: float | None = None

    @property
    def measure(self) -> Measure | None:
        """Return the aggregate's argument; None for COUNT(*)."""
        if self.argument is None:
            return None
        return Measure(self.argument, self.function if self.function in HOLISTIC else None)


class SelectOrder(msgspec.Struct, frozen=True):
    """A result column that rows are sorted by; a hidden one is dropped after."""

    name: str
    descending: bool
    nulls_first: bool
    hidden: bool


class Selection(msgspec.Struct, frozen=True):
    """All decisions about a SELECT; in bound expressions every attribute has its alias.

    ``equal`` are pairs of attributes, of the first and of the second stream, that a join compares
    by ``=``. ``having`` and ``results`` are expressions over the columns of aggregated rows:
    ``results`` are the columns after keys and edges, None if those are the aggregates themselves.
    ``then`` aggregates the pairs of a join, which are at the time of their later event.
    """

    kind: SelectKind
    streams: tuple[SelectStream, ...]
    where: tree.Expression | None
    on: tree.Expression | None = None
    columns: tuple[SelectColumn, ...] = ()
    keys: tuple[SelectKey, ...] = ()
    aggregates: tuple[SelectAggregate, ...] = ()
    window: SelectWindow = SelectWindow()
    equal: tuple[tuple[str, str], ...] = ()
    having: tree.Expression | None = None
    results: tuple[SelectColumn, ...] | None = None
    order: tuple[SelectOrder, ...] = ()
    limit: int | None = None
    then: Selection | None = None

    @property
    def condition(self) -> tuple[tree.Expression, ...]:
        """Collect the conjuncts of WHERE and ON."""
        parts = [part for part in (self.on, self.where) if part is not None]
        return tuple(c for part in parts for c in conjuncts_of(part))


def conjuncts_of(condition: tree.Expression) -> Iterator[tree.Expression]:
    """Split a condition at AND."""
    if isinstance(condition, tree.Logical) and condition.operator == "AND":
        for operand in condition.operands:
            yield from conjuncts_of(operand)
    else:
        yield condition


def aliases_in(expression: tree.Expression) -> set[str]:
    """Collect the streams that a bound expression refers to."""
    nodes = tree.walk(expression)
    return {node.variable.text for node in nodes if isinstance(node, tree.Attribute)}


def pair_column(column: tree.Attribute) -> str:
    """Name a column of the pairs of a join."""
    return f"{column.variable.text}.{column.attribute.text}"


def row_column(name: str, span: Span) -> tree.Attribute:
    """Refer to a column of aggregated rows, which belong to no stream."""
    owner, column = (tree.Name(span=span, text=text) for text in ("", name))
    return tree.Attribute(span=span, variable=owner, attribute=column)


def plain_attribute(expression: tree.Expression | None) -> str | None:
    """Return the name of the attribute if the expression is a plain attribute."""
    return expression.attribute.text if isinstance(expression, tree.Attribute) else None
