"""The plan of a SELECT: which operator, over which streams, and what it reads (§10)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from cepheid.language import tree


class SelectKind(StrEnum):
    """The operators of SELECT."""

    FILTER = "filter"
    AGGREGATE = "windowed aggregation"
    JOIN = "windowed join"


class Extent(StrEnum):
    """What the windows of a SELECT are measured in; NONE is the whole stream."""

    NONE = "none"
    TIME = "time"
    EVENTS = "events"


class SelectWindow(msgspec.Struct, frozen=True):
    """Windows of ``within`` ticks of time, or events, one every ``slide``."""

    extent: Extent = Extent.NONE
    within: int = 0
    slide: int = 0
    tick_ns: int = 1000


class SelectStream(msgspec.Struct, frozen=True):
    """A stream, what the query calls it, and the columns that are read; None is all of them."""

    name: str
    alias: str
    reads: tuple[str, ...] | None


class SelectColumn(msgspec.Struct, frozen=True):
    """A result column; without an expression, all columns of a stream that has no schema yet."""

    name: str
    expression: tree.Expression | None


class SelectKey(msgspec.Struct, frozen=True):
    """A GROUP BY attribute and what the result calls it."""

    attribute: str
    name: str


class SelectAggregate(msgspec.Struct, frozen=True):
    """An aggregate of a value of every event; COUNT(*) has none."""

    name: str
    function: tree.AggregateFunction
    argument: tree.Expression | None


class Selection(msgspec.Struct, frozen=True):
    """Everything that runs a SELECT; in bound expressions every attribute has its alias.

    ``equal`` are pairs of attributes, of the first and of the second stream, that a join compares
    by ``=``.
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

    @property
    def condition(self) -> tuple[tree.Expression, ...]:
        """Return the conjuncts of WHERE and ON."""
        parts = [part for part in (self.on, self.where) if part is not None]
        return tuple(c for part in parts for c in conjuncts_of(part))


def conjuncts_of(condition: tree.Expression) -> Iterator[tree.Expression]:
    """Yield the conditions that AND joins."""
    if isinstance(condition, tree.Logical) and condition.operator == "AND":
        for operand in condition.operands:
            yield from conjuncts_of(operand)
    else:
        yield condition


def aliases_in(expression: tree.Expression) -> set[str]:
    """Return the streams that a bound expression speaks of."""
    nodes = tree.walk(expression)
    return {node.variable.text for node in nodes if isinstance(node, tree.Attribute)}


def plain_attribute(expression: tree.Expression | None) -> str | None:
    """Return the attribute that an expression is, if it is nothing but one."""
    return expression.attribute.text if isinstance(expression, tree.Attribute) else None
