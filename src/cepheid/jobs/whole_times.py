"""Durations beside times that are whole numbers: `NEXT(a).ts - a.ts < 2 seconds` (§4.6).

A duration that is added to such a time, or compared with a difference of two, becomes the number
of the times' units that it has.
"""

from __future__ import annotations

import msgspec

from cepheid.events.schema import ValueKind
from cepheid.jobs.ticks import TICKS_NS, tick_of
from cepheid.language import tree
from cepheid.patterns.scope import Source

_WITH_TIMES = frozenset(("+", "-", "<", "<=", ">", ">=", "=", "<>"))


def with_whole_durations(query: tree.Query, source: Source) -> tree.Query:
    """Return a query whose durations beside times of whole numbers are whole numbers, too.

    Queries inside another one, which may have other times, are left to their own plans.
    """
    schema = source.schema
    if isinstance(query, tree.PipelineQuery | tree.SweepQuery):
        return query
    if schema is None or schema.kind(source.time) is not ValueKind.INTEGER:
        return query
    tick_ns = tick_of(source, [schema])

    def whole(node: tree.Node, beside: tree.Node) -> tree.Node:
        """Return a duration as a number of ticks, if it has a whole number of them."""
        if not isinstance(node, tree.Duration) or not _is_time(beside, source.time):
            return node
        ticks, rest = divmod(node.microseconds * TICKS_NS["us"], tick_ns)
        return node if rest else tree.Literal(span=node.span, value=ticks)

    def change(node: tree.Node) -> tree.Node:
        match node:
            case tree.Binary(operator=operator, left=left, right=right) if operator in _WITH_TIMES:
                changed = {"left": whole(left, right), "right": whole(right, left)}
            case tree.Between(operand=operand, low=low, high=high):
                changed = {"low": whole(low, operand), "high": whole(high, operand)}
            case _:
                return node
        return msgspec.structs.replace(node, **changed)

    found = tree.transform_node(query, change)
    assert isinstance(found, tree.Query), "a query stays a query"
    return found


def _is_time(node: tree.Node, time: str) -> bool:
    """Check whether an expression is a time of an event, or a sum or difference with one."""
    match node:
        case tree.Attribute(attribute=attribute):
            return attribute.text == time
        case tree.Word(text=text):
            return text == time
        case tree.Binary(operator="+" | "-", left=left, right=right):
            return _is_time(left, time) or _is_time(right, time)
    return False
