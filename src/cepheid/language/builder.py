"""The parser's callbacks for patterns and clauses: children of a rule in, one tree node out.

Each method carries the name of a rule or alias of ``grammar.lark``. The parser calls it with all
children of the rule, punctuation included, so a node's span runs from its first child to its last.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Children
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from cepheid.language import habits, tree
from cepheid.language.expression_builder import (
    COUNT_HELP,
    Child,
    ExpressionBuilder,
    name_of,
    names_of,
    nodes_of,
    reject,
    reject_aggregates_of_values,
    span_of,
    token_span,
    whole_number,
)
from cepheid.language.lalr import Token
from cepheid.language.select_builder import SelectBuilder
from cepheid.language.situation_builder import Clause, SituationBuilder, gather_clauses
from cepheid.language.sweep_builder import SweepBuilder, within_of

SEMANTICS = {
    "skip-till-any-match": tree.Semantics.ANY_MATCH,
    "any": tree.Semantics.ANY_MATCH,
    "any-match": tree.Semantics.ANY_MATCH,
    "skip-till-next-match": tree.Semantics.NEXT_MATCH,
    "next": tree.Semantics.NEXT_MATCH,
    "next-match": tree.Semantics.NEXT_MATCH,
    "contiguous": tree.Semantics.CONTIGUOUS,
    "cont": tree.Semantics.CONTIGUOUS,
}
TIES = {ties.value: ties for ties in tree.Ties}
NUMBERS = {numbers.value: numbers for numbers in tree.Numbers}


class PatternBuilder:
    """Patterns."""

    def event(self, c: Children[Child]) -> tree.EventPattern:
        name = name_of(c[0])
        return tree.EventPattern(span=name.span, event_type=name, variable=name)

    def event_variable(self, c: Children[Child]) -> tree.EventPattern:
        return tree.EventPattern(span=span_of(c), event_type=name_of(c[0]), variable=name_of(c[1]))

    def any_event(self, c: Children[Child]) -> tree.EventPattern:
        event_type = tree.Name(span=token_span(c[0]), text=tree.ANY_TYPE)
        return tree.EventPattern(span=span_of(c), event_type=event_type, variable=name_of(c[1]))

    def sequence(self, c: Children[Child]) -> tree.Sequence:
        return tree.Sequence(span=span_of(c), parts=nodes_of(c))

    def group(self, c: Children[Child]) -> Any:
        """Widen the span, so that a caret under ``(A OR B)+`` covers the parentheses."""
        return tree.replace_span(c[1], span_of(c))

    def negation(self, c: Children[Child]) -> tree.Negation:
        return tree.Negation(span=span_of(c), pattern=c[1])

    def negation_within(self, c: Children[Child]) -> tree.Negation:
        return tree.Negation(span=span_of(c), pattern=c[1], within=c[3])

    def negation_next(self, c: Children[Child]) -> tree.Negation:
        return tree.Negation(span=span_of(c), pattern=c[2], next=True)

    def negation_next_within(self, c: Children[Child]) -> tree.Negation:
        return tree.Negation(span=span_of(c), pattern=c[2], within=c[4], next=True)

    def disjunction(self, c: Children[Child]) -> tree.Disjunction:
        return tree.Disjunction(span=span_of(c), alternatives=nodes_of(c))

    def conjunction(self, c: Children[Child]) -> tree.Conjunction:
        return tree.Conjunction(span=span_of(c), patterns=nodes_of(c))

    def kleene_plus(self, c: Children[Child]) -> tree.Repeat:
        return tree.Repeat(span=span_of(c), pattern=c[0], least=1, most=None)

    def kleene_star(self, c: Children[Child]) -> tree.Repeat:
        return tree.Repeat(span=span_of(c), pattern=c[0], least=0, most=None)

    def optional(self, c: Children[Child]) -> tree.Repeat:
        return tree.Repeat(span=span_of(c), pattern=c[0], least=0, most=1)

    def repeat_exactly(self, c: Children[Child]) -> tree.Repeat:
        count = whole_number(c[2])
        return tree.Repeat(span=span_of(c), pattern=c[0], least=count, most=count)

    def repeat_at_least(self, c: Children[Child]) -> tree.Repeat:
        return tree.Repeat(span=span_of(c), pattern=c[0], least=whole_number(c[2]), most=None)

    def repeat_between(self, c: Children[Child]) -> tree.Repeat:
        return tree.Repeat(
            span=span_of(c), pattern=c[0], least=whole_number(c[2]), most=whole_number(c[4])
        )

    def greedy(self, c: Children[Child]) -> tree.Repeat:
        loop: tree.Repeat = c[0]
        return msgspec.structs.replace(loop, span=span_of(c), greed=tree.Greed.GREEDY)

    def reluctant(self, c: Children[Child]) -> tree.Repeat:
        loop: tree.Repeat = c[0]
        return msgspec.structs.replace(loop, span=span_of(c), greed=tree.Greed.RELUCTANT)

    def until(self, c: Children[Child]) -> tree.Repeat:
        loop: tree.Repeat = c[0]
        return msgspec.structs.replace(loop, span=span_of(c), until=c[3])

    def without(self, c: Children[Child]) -> tree.Repeat:
        loop: tree.Repeat = c[0]
        negation = tree.Negation(span=c[2].span, pattern=c[2])
        return msgspec.structs.replace(loop, span=span_of(c), without=negation)

    def without_until(self, c: Children[Child]) -> tree.Repeat:
        return msgspec.structs.replace(self.without(c), until=c[5])


class ClauseBuilder:
    """Clauses and the query itself."""

    def return_clause(self, c: Children[Child]) -> Clause:
        span = span_of(c)
        return Clause("RETURN", "returns", span, tree.Return(span=span, items=nodes_of(c)))

    return_matches = return_clause

    def return_top(self, c: Children[Child]) -> Clause:
        """``TOP 10 BY SUM(S.x)`` is ``TOP(10, SUM(S.x))``, and ``LONGEST 5`` is ``LONGEST(5)``."""
        span = span_of(c[1:])
        arguments = (_count(c[2]), *c[4:])
        call = tree.Call(span=span, function=str(c[1]).upper(), arguments=arguments)
        return self.return_clause([c[0], tree.ReturnItem(span=span, expression=call)])

    return_longest = return_top

    def return_item(self, c: Children[Child]) -> tree.ReturnItem:
        return tree.ReturnItem(span=span_of(c), expression=c[0])

    def named_item(self, c: Children[Child]) -> tree.ReturnItem:
        return tree.ReturnItem(span=span_of(c), expression=c[0], alias=name_of(c[2]))

    def pattern_clause(self, c: Children[Child]) -> Clause:
        return Clause("PATTERN", "pattern", span_of(c), c[1])

    def semantics_clause(self, c: Children[Child]) -> Clause:
        span = span_of(c)
        value = tree.SemanticsClause(
            span=span, semantics=_mode(c[0], c[1], SEMANTICS), links=nodes_of(c)
        )
        return Clause("SEMANTICS", "semantics", span, value)

    def link_rule(self, c: Children[Child]) -> tree.LinkRule:
        rule = _mode("SEMANTICS", c[3], SEMANTICS)
        return tree.LinkRule(
            span=span_of(c), prev=name_of(c[0]), next=name_of(c[2]), semantics=rule
        )

    def where_clause(self, c: Children[Child]) -> Clause:
        return Clause("WHERE", "where", span_of(c), c[1])

    def group_by_clause(self, c: Children[Child]) -> Clause:
        return Clause("GROUP-BY", "group_by", span_of(c), names_of(c))

    def having_clause(self, c: Children[Child]) -> Clause:
        return Clause("HAVING", "having", span_of(c), c[1])

    def within_clause(self, c: Children[Child]) -> Clause:
        slide = c[3] if len(c) > 3 else None
        window = tree.Window(span=span_of(c), **within_of(c[1]), slide=slide)
        return Clause("WITHIN", "window", window.span, window)

    within_slide_clause = within_clause

    def event_count(self, c: Children[Child]) -> tree.EventCount:
        return tree.EventCount(span=span_of(c), count=whole_number(c[0]))

    def emit_clause(self, c: Children[Child]) -> Clause:
        value = tree.Literal(span=span_of(c), value=True)
        return Clause("EMIT", "emit_on_expiry", value.span, value)

    def emit_early_clause(self, c: Children[Child]) -> Clause:
        value = tree.Literal(span=span_of(c), value=True)
        return Clause("EMIT", "emit_early", value.span, value)

    def ties_clause(self, c: Children[Child]) -> Clause:
        value = tree.TiesClause(span=span_of(c), ties=_mode(c[0], c[1], TIES))
        return Clause("TIES", "ties", value.span, value)

    def numbers_clause(self, c: Children[Child]) -> Clause:
        value = tree.NumbersClause(span=span_of(c), numbers=_mode(c[0], c[1], NUMBERS))
        return Clause("NUMBERS", "numbers", value.span, value)

    def min_length_clause(self, c: Children[Child]) -> Clause:
        return Clause("MIN LENGTH", "min_length", span_of(c), _count(c[1]))

    def limit_clause(self, c: Children[Child]) -> Clause:
        return Clause("LIMIT", "limit", span_of(c), _count(c[1]))

    def skip_clause(self, c: Children[Child]) -> Clause:
        mode = tree.SkipMode(" ".join(str(c[1]).upper().split()[:2]))
        target = name_of(c[2]) if len(c) > 2 else None
        value = tree.SkipClause(span=span_of(c), mode=mode, variable=target)
        return Clause("AFTER MATCH SKIP", "skip", value.span, value)

    skip_to_clause = skip_clause

    def query(self, clauses: Children[Clause]) -> tree.Query:
        """Gather the clauses, which may stand in any order, each once."""
        fields = gather_clauses(clauses)
        span = clauses[0].span.to(clauses[-1].span)
        if "pattern" not in fields:
            reject("E105", "the query has no `PATTERN`", span, "add one: `PATTERN Stock S+`")
        query = (tree.FunnelQuery if _is_funnel(fields) else tree.Query)(span=span, **fields)
        reject_aggregates_of_values(query)
        for node in tree.walk(query):
            if isinstance(node, tree.Aggregate) and any("." in n.text for n in node.distinct):
                help_ = "name attributes that the events of a match share: `COUNT(DISTINCT user)`"
                reject("E111", "`DISTINCT` takes no variable", node.span, help_)
            if (
                isinstance(node, tree.Aggregate)
                and node.function is tree.AggregateFunction.COUNT
                and node.attribute is not None
            ):
                reject("E111", "`COUNT` takes `*` or a variable", node.span, COUNT_HELP)
        return query

    def ended_query(self, c: Children[Any]) -> tree.Query:
        return self.query(c[:-1])


def _is_funnel(fields: Mapping[str, Any]) -> bool:
    """Check whether RETURN asks for a funnel; its binder reports what may not stand beside it."""
    returned = fields.get("returns")
    items = returned.items if isinstance(returned, tree.Return) else ()
    calls = [i.expression for i in items if isinstance(i.expression, tree.Call)]
    return any(call.function == "FUNNEL" for call in calls)


_Mode = TypeVar("_Mode", bound=StrEnum)


def _mode(clause: Child, value: Child, modes: Mapping[str, _Mode]) -> _Mode:
    """Look up the meaning of the word of a clause such as ``SEMANTICS any`` stands for."""
    keyword, word = str(clause).upper(), str(value)
    mode = modes.get(word.lower().replace("_", "-"))
    if mode is None:
        known = ", ".join(dict.fromkeys(m.value for m in modes.values()))
        message = f"`{word}` is not a value of `{keyword}`"
        meant = habits.SEMANTICS.get(word.lower().replace("_", "-")) if modes is SEMANTICS else None
        told = f"did you mean `{meant}`? " if meant else ""
        reject("E109", message, token_span(value), f"{told}write one of: {known}")
    return mode


def _count(token: Token) -> tree.Literal:
    return tree.Literal(span=token_span(token), value=whole_number(token))


class TreeBuilder(
    PatternBuilder,
    ExpressionBuilder,
    ClauseBuilder,
    SituationBuilder,
    SelectBuilder,
    SweepBuilder,
):
    """All callbacks together; Lark looks them up by name."""
