"""The parser's callbacks for queries about situations: children of a rule in, one tree node out.

Each method carries the name of a rule or alias of ``grammar.lark``.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from typing import Any, NamedTuple

import msgspec

from cepheid.errors import Diagnostic, Note, Span, suggest_names
from cepheid.language import tree
from cepheid.language.expression_builder import (
    Child,
    name_of,
    names_of,
    nodes_of,
    reject,
    reject_aggregates_of_values,
    reject_distinct,
    span_of,
    token_span,
)
from cepheid.language.lalr import Token
from cepheid.language.lexer import MistakeFoundError

RELATIONS = {relation.value: (relation,) for relation in tree.Relation} | {
    "intersects": tree.INTERSECTS
}
SPELLINGS = {"equal": "equals", "precedes": "before", "preceded by": "after"}


class Clause(NamedTuple):
    """A clause on its way into the query."""

    keyword: str
    field: str
    span: Span
    value: Any


def gather_clauses(clauses: Children[Clause]) -> dict[str, Any]:
    """Return the values of clauses by their fields; reject a clause that is written twice."""
    seen: dict[str, Clause] = {}
    for clause in clauses:
        if clause.field in seen:
            note = Note(f"the first `{clause.keyword}` is here", seen[clause.field].span)
            message = f"`{clause.keyword}` is written twice"
            helps = ("keep one of them",)
            raise MistakeFoundError(
                Diagnostic("E104", message, clause.span, notes=(note,), helps=helps)
            )
        seen[clause.field] = clause
    return {field: clause.value for field, clause in seen.items()}


class SituationBuilder:
    """Definitions, constraints and the query itself."""

    def from_clause(self, c: Children[Child]) -> Clause:
        return Clause("FROM", "source", span_of(c), name_of(c[1]))

    def partition_clause(self, c: Children[Child]) -> Clause:
        return Clause("PARTITION BY", "partition_by", span_of(c), names_of(c))

    def define_clause(self, c: Children[Child]) -> Clause:
        return Clause("DEFINE", "definitions", span_of(c), nodes_of(c))

    def meaning(self, c: Children[Child]) -> tree.Definition:
        return tree.Definition(span=span_of(c), name=name_of(c[0]), condition=c[2])

    def meaning_until(self, c: Children[Child]) -> tree.Definition:
        name = name_of(c[0])
        return tree.Definition(span=span_of(c), name=name, condition=c[2], until=c[4])

    def definition_at_least(self, c: Children[Child]) -> tree.Definition:
        return _bounded(c, least=c[2])

    def definition_at_most(self, c: Children[Child]) -> tree.Definition:
        return _bounded(c, most=c[2])

    def definition_between(self, c: Children[Child]) -> tree.Definition:
        return _bounded(c, least=c[2], most=c[4])

    def relating_clause(self, c: Children[Child]) -> Clause:
        return Clause("PATTERN", "constraints", span_of(c), nodes_of(c))

    def relations(self, c: Children[Child]) -> list[Token]:
        return [child for child in c if child.type == "RELATION"]

    def temporal_constraint(self, c: Children[Child]) -> tree.TemporalConstraint:
        left, relations, right = c
        return tree.TemporalConstraint(
            span=token_span(left).to(token_span(right)),
            left=name_of(left),
            relations=tuple(one for token in relations for one in _relations_of(token)),
            right=name_of(right),
        )

    def situations_clause(self, c: Children[Child]) -> Clause:
        return Clause("SITUATIONS", "listed", span_of(c), names_of(c))

    def detected_clause(self, c: Children[Child]) -> Clause:
        return Clause("DETECTED WITHIN", "detected_within", span_of(c), c[2])

    def situation_query(self, clauses: Children[Clause]) -> tree.SituationQuery:
        """Gather the clauses, which may stand in any order, each once."""
        fields = gather_clauses(clauses)
        span = clauses[0].span.to(clauses[-1].span)
        if "definitions" not in fields:
            reject("E105", "the query has no `DEFINE`", span, "add one: `DEFINE A AS speed > 70`")
        if not fields.keys() & {"constraints", "listed"}:
            name = fields["definitions"][0].name.text
            help_ = f"add one: `PATTERN {name} before B`, or ask for `SITUATIONS {name}`"
            reject("E105", "the query has no `PATTERN`", span, help_)
        query = tree.SituationQuery(span=span, **fields)
        for part in (query.where, query.returns):
            if part is not None:
                reject_aggregates_of_values(part)
        reject_distinct(query)
        return query

    def ended_situation_query(self, c: Children[Any]) -> tree.SituationQuery:
        return self.situation_query(c[:-1])


def _bounded(c: Children[Child], **bounds: tree.Duration | tree.EventCount) -> tree.Definition:
    """Add bounds to a definition; reject one that it already has."""
    definition: tree.Definition = c[0]
    for which, length in bounds.items():
        in_events = isinstance(length, tree.EventCount)
        field = f"{which}_events" if in_events else f"at_{which}"
        earlier = getattr(definition, field)
        if earlier is not None:
            unit = "events" if in_events else "time"
            message = f"`AT {which.upper()}` is written twice, in {unit}"
            note = Note("the first one is here", earlier.span)
            helps = ("keep one of them",)
            raise MistakeFoundError(
                Diagnostic("E104", message, length.span, notes=(note,), helps=helps)
            )
        fields: dict[str, Any] = {field: length}
        definition = msgspec.structs.replace(definition, span=span_of(c), **fields)
    return definition


_AT_ONCE = frozenset(
    ["while", "when", "with", "meanwhile", "simultaneous", "concurrent", "coincides"]
)
_IN_COMMON = "for two that have some time in common write `intersects`"


def _relations_of(token: Token) -> tuple[tree.Relation, ...]:
    """Return the relations that a word stands for; ``met-by`` and ``met_by`` are ``met by``."""
    words = " ".join(str(token).lower().replace("-", " ").replace("_", " ").split())
    relations = RELATIONS.get(SPELLINGS.get(words, words))
    if relations is None:
        near = suggest_names(words, RELATIONS)
        if words in _AT_ONCE:
            near = ""
        reject(
            "E112",
            f"`{token}` is no relation between situations",
            token_span(token),
            near if near.startswith("did you mean") else "",
            _IN_COMMON if words in _AT_ONCE else "",
            f"write one of: {', '.join(RELATIONS)}",
        )
    return relations
