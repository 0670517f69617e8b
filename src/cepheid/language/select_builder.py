"""The parser's callbacks for SELECT: children of a rule in, one tree node out.

Each method carries the name of a rule or alias of ``grammar.lark``.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from typing import Any, NamedTuple

import msgspec

from cepheid.errors import Span
from cepheid.language import tree
from cepheid.language.expression_builder import (
    Child,
    name_of,
    nodes_of,
    reject,
    span_of,
    token_span,
)
from cepheid.language.lalr import Token
from cepheid.language.situation_builder import Clause, gather_clauses


class Join(NamedTuple):
    """JOIN on its way into the query."""

    stream: tree.Stream
    on: tree.Expression
    span: Span


class SelectBuilder:
    """Streams, their join, and the query itself."""

    def select_list(self, c: Children[Child]) -> tuple[tree.ReturnItem | tree.Star, ...]:
        return nodes_of(c)

    def star(self, c: Children[Child]) -> tree.Star:
        return tree.Star(span=span_of(c))

    def stream_star(self, c: Children[Child]) -> tree.Star:
        return tree.Star(span=span_of(c), stream=name_of(c[0]))

    def stream(self, c: Children[Child]) -> tree.Stream:
        name = name_of(c[0])
        return tree.Stream(span=name.span, name=name, alias=name)

    def stream_alias(self, c: Children[Child]) -> tree.Stream:
        return tree.Stream(span=span_of(c), name=name_of(c[0]), alias=name_of(c[-1]))

    def kept_stream(self, c: Children[Child]) -> tree.Stream:
        stream = c[0]
        return tree.Stream(span=span_of(c), name=stream.name, alias=stream.alias, within=c[2])

    def select_join(self, c: Children[Child]) -> Join:
        return Join(c[1], c[3], span_of(c))

    def select_group_clause(self, c: Children[Child]) -> Clause:
        return Clause("GROUP BY", "group_by", span_of(c), nodes_of(c))

    def order_item(self, c: Children[Child]) -> tree.OrderItem:
        words = {str(token).upper().split()[-1] for token in c[1:]}
        descending = "DESC" in words
        nulls_first = "FIRST" in words or (not descending and "LAST" not in words)
        return tree.OrderItem(
            span=span_of(c), expression=c[0], descending=descending, nulls_first=nulls_first
        )

    def order_clause(self, c: Children[Child]) -> Clause:
        return Clause("ORDER BY", "order_by", span_of(c), nodes_of(c))

    def window_clause(self, c: Children[Child]) -> Clause:
        slide = c[3] if len(c) > 3 else None
        window = tree.Window(span=span_of(c), within=c[1], slide=slide)
        return Clause("WINDOW", "window", window.span, window)

    window_slide_clause = window_clause

    def session_clause(self, c: Children[Child]) -> Clause:
        window = tree.Window(span=span_of(c), within=c[2], session=True)
        return Clause("WINDOW", "window", window.span, window)

    def select_query(self, c: Children[Any]) -> tree.SelectQuery:
        """Gather the clauses after FROM, which may stand in any order, each once."""
        clauses = [child for child in c if isinstance(child, Clause)]
        joins = [child for child in c if isinstance(child, Join)]
        streams = [child for child in c if isinstance(child, tree.Stream)]
        items: tuple[tree.ReturnItem | tree.Star, ...] = c[1]
        return tree.SelectQuery(
            span=token_span(c[0]).to(token_span(c[-1])),
            items=items,
            streams=(*streams, *(join.stream for join in joins)),
            on=_all_of(joins),
            **_with_places(items, gather_clauses(clauses)),
        )

    def ended_select_query(self, c: Children[Any]) -> tree.SelectQuery:
        assert isinstance(c[-1], Token), "the query ends with a mark"
        return self.select_query(c[:-1])

    def select_distinct_query(self, c: Children[Any]) -> tree.SelectQuery:
        """`SELECT DISTINCT a, b` is `SELECT a, b ... GROUP BY a, b`."""
        items: tuple[tree.ReturnItem | tree.Star, ...] = c[2]
        for clause in c:
            if isinstance(clause, Clause) and clause.field in ("group_by", "having"):
                help_ = f"leave `DISTINCT` out: rows with `{clause.keyword}` differ in their keys"
                message = f"`SELECT DISTINCT` has no `{clause.keyword}`"
                reject("E111", message, clause.span, help_)
        keys = tuple(_key_of(item) for item in items)
        grouping = Clause("GROUP BY", "group_by", token_span(c[1]), keys)
        return self.select_query([c[0], *c[2:], grouping])

    def ended_select_distinct_query(self, c: Children[Any]) -> tree.SelectQuery:
        return self.select_distinct_query(c[:-1])


def _key_of(item: tree.ReturnItem | tree.Star) -> tree.Name:
    """Return the column of an item, by which rows are grouped."""
    found = item.expression if isinstance(item, tree.ReturnItem) else None
    if isinstance(found, tree.Word):
        text = found.text
    elif isinstance(found, tree.Attribute) and found.anchor is tree.Anchor.EACH:
        text = f"{found.variable.text}.{found.attribute.text}"
    else:
        message = "rows are grouped by columns, and this is none"
        help_ = "compute it before: `CREATE STREAM keyed AS SELECT HOUR(ts) AS h, x FROM events;`"
        reject("E111", message, item.span, help_)
    return tree.Name(span=item.span, text=text)


def _with_places(
    items: tuple[tree.ReturnItem | tree.Star, ...], fields: dict[str, Any]
) -> dict[str, Any]:
    """Put items in the place of their numbers in GROUP BY and ORDER BY."""

    def item_at(number: tree.Expression) -> tree.ReturnItem | None:
        place = number.value if isinstance(number, tree.Literal) else None
        if type(place) is not int or not 1 <= place <= len(items):
            return None
        before = items[:place]
        found = before[-1]
        stars = any(isinstance(item, tree.Star) for item in before)
        return None if stars or isinstance(found, tree.Star) else found

    keys = []
    for key in fields.get("group_by", ()):
        if isinstance(key, tree.Literal):
            item = item_at(key)
            if item is None:
                message = "there is no column at this place of the list"
                reject("E111", message, key.span, "name the column: `GROUP BY x`")
            key = msgspec.structs.replace(_key_of(item), span=key.span)
        keys.append(key)
    orders = []
    for order in fields.get("order_by", ()):
        item = item_at(order.expression)
        if item is not None:
            named = item.alias and tree.Word(span=order.span, text=item.alias.text)
            order = msgspec.structs.replace(order, expression=named or item.expression)
        orders.append(order)
    changed = {"group_by": tuple(keys), "order_by": tuple(orders)}
    return fields | {field: value for field, value in changed.items() if value}


def _all_of(joins: list[Join]) -> tree.Expression | None:
    """Combine the conditions after ON: of several, each is an operand of AND."""
    conditions = tuple(join.on for join in joins)
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    span = conditions[0].span.to(conditions[-1].span)
    return tree.Logical(span=span, operator="AND", operands=conditions)
