"""The parser's callbacks for SELECT: children of a rule in, one tree node out.

Each method carries the name of a rule or alias of ``grammar.lark``.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from typing import Any, NamedTuple

from cepheid.errors import Span
from cepheid.language import tree
from cepheid.language.expression_builder import Child, name_of, nodes_of, span_of, token_span
from cepheid.language.lalr import Token
from cepheid.language.situation_builder import Clause, gather_clauses


class Join(NamedTuple):
    """JOIN on its way into the query."""

    stream: tree.Stream
    on: tree.Expression
    span: Span


class SelectBuilder:
    """Streams, their join, and the query itself."""

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
        return tree.SelectQuery(
            span=token_span(c[0]).to(token_span(c[-1])),
            items=tuple(child for child in c if isinstance(child, tree.ReturnItem | tree.Star)),
            streams=(*streams, *(join.stream for join in joins)),
            on=_all_of(joins),
            **gather_clauses(clauses),
        )

    def ended_select_query(self, c: Children[Any]) -> tree.SelectQuery:
        assert isinstance(c[-1], Token), "the query ends with a mark"
        return self.select_query(c[:-1])


def _all_of(joins: list[Join]) -> tree.Expression | None:
    """Combine the conditions after ON: of several, each is an operand of AND."""
    conditions = tuple(join.on for join in joins)
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    span = conditions[0].span.to(conditions[-1].span)
    return tree.Logical(span=span, operator="AND", operands=conditions)
