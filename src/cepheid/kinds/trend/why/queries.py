"""Relaxed trees of a query with a pattern, which count keys or matches and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from cepheid.errors import BindError, CepheidError, Span
from cepheid.jobs.relaxed import RelaxedQuery
from cepheid.jobs.why import Counted, Question
from cepheid.jobs.why_patterns import (
    FIRST,
    all_of,
    ever,
    latest_first,
    returning,
    variables_in,
)
from cepheid.language import tree
from cepheid.patterns.conjuncts import conjuncts_of
from cepheid.plans.plan import PredicateKind

COUNT = "cepheid_count"
DROPS_MAX = 16


class Conjunct(NamedTuple):
    """One condition of WHERE."""

    expression: tree.Expression
    kind: PredicateKind | None
    """None for an equivalence predicate."""
    variables: frozenset[str]


def conjuncts(where: tree.Expression | None) -> list[Conjunct]:
    """Split WHERE; every attribute of an equivalence predicate is a condition of its own."""
    found = []
    for part in conjuncts_of(where):
        if isinstance(part, tree.Equivalence):
            for item in part.items:
                one = tree.Equivalence(span=item.span, items=(item,))
                names = frozenset([item.variable.text] if item.variable else [])
                found.append(Conjunct(one, None, names))
            continue
        nodes = list(tree.walk(part))
        attributes = [n for n in nodes if isinstance(n, tree.Attribute)]
        aggregates = [n for n in nodes if isinstance(n, tree.Aggregate)]
        anchors = {a.anchor for a in attributes}
        names = frozenset(
            [a.variable.text for a in attributes]
            + [a.variable.text for a in aggregates if a.variable]
        )
        kind = PredicateKind.LOCAL
        if aggregates or anchors & {tree.Anchor.FIRST, tree.Anchor.LAST}:
            kind = PredicateKind.GLOBAL
        elif len(names) > 1 or anchors & {tree.Anchor.NEXT, tree.Anchor.PREV}:
            kind = PredicateKind.EDGE
        found.append(Conjunct(part, kind, names))
    return found


class Target(NamedTuple):
    """A pattern and the clauses that judge it; ``later`` are variables that still come."""

    pattern: tree.Pattern
    conditions: tuple[Conjunct, ...]
    window: tree.Window | None
    semantics: tree.SemanticsClause | None
    min_length: tree.Literal | None
    keys: tuple[str, ...]
    ties: tree.TiesClause | None = None
    skip: tree.SkipClause | None = None
    """A match is chosen exactly if there is one, so most counts need no choice."""

    def without(self, condition: Conjunct) -> Target:
        """Leave one condition out; a key goes with its equivalence predicate."""
        rest = tuple(c for c in self.conditions if c is not condition)
        keys = self.keys
        if condition.kind is None and not condition.variables:
            assert isinstance(condition.expression, tree.Equivalence), "what has no kind"
            dropped = condition.expression.items[0].attribute.text
            keys = tuple(key for key in keys if key != dropped)
        return self._replace(conditions=rest, keys=keys)


def target_of(
    question: Question, pattern: tree.Pattern, keys: tuple[str, ...], *, whole: bool
) -> Target:
    """Restrict the clauses of a query to what they say about a prefix of its pattern."""
    query = question.tree
    known = set(variables_in(pattern))
    later = _later(query.pattern, pattern)
    applying = tuple(
        c
        for c in conjuncts(query.where)
        if c.variables <= known
        # What is asked of a whole match cannot be asked before its variables are complete.
        and (c.kind is not PredicateKind.GLOBAL or not c.variables & later)
    )
    semantics = query.semantics
    if semantics is not None and semantics.links:
        links = tuple(n for n in semantics.links if {n.prev.text, n.next.text} <= known)
        semantics = msgspec.structs.replace(semantics, links=links)
    min_length = query.min_length if whole else None
    return Target(pattern, applying, query.window, semantics, min_length, keys, query.ties)


def _later(whole: tree.Pattern, prefix: tree.Pattern) -> set[str]:
    """Collect the variables that occur more often in the whole pattern than in a prefix."""

    def counts(pattern: tree.Pattern) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in tree.walk(pattern):
            if isinstance(node, tree.EventPattern):
                found[node.variable.text] = found.get(node.variable.text, 0) + 1
        return found

    mine = counts(prefix)
    return {name for name, count in counts(whole).items() if count > mine.get(name, 0)}


def count_query(question: Question, target: Target) -> Counted | None:
    """Build the query that counts matches by key; None if it cannot be planned."""
    number = tree.Aggregate(span=question.tree.span, function=tree.AggregateFunction.COUNT)
    query = _planned(question, target, {COUNT: number})
    return Counted(query, target.keys, COUNT) if query is not None else None


def gap_query(
    question: Question, target: Target, first: tree.EventPattern, time: str
) -> RelaxedQuery | None:
    """Build a query whose rows tell when a match ended, and when the latest of all began."""
    span = question.tree.span
    found = {FIRST: latest_first(span, first, time)}
    return _planned(question, target._replace(window=ever(span)), found)


def _planned(
    question: Question, target: Target, items: Mapping[str, tree.Expression]
) -> RelaxedQuery | None:
    """Plan a target; what speaks of neighbours that a prefix does not have is left out."""
    for _ in range(len(target.conditions) + 2):
        try:
            return question.relaxed(_tree_of(question, target, items))
        except BindError as error:
            places = [d.span for d in error.diagnostics if d.span is not None]
            kept = _without_places(target, places)
            if kept == target:
                return None
            target = kept
        except CepheidError:
            return None
    return None


def _without_places(target: Target, places: Sequence[Span]) -> Target:
    """Leave out the conditions and the rules of links at some places of the text."""

    def kept(node: tree.Node) -> bool:
        span = node.span
        return not any(span.start <= place.start and place.end <= span.end for place in places)

    semantics = target.semantics
    if semantics is not None and semantics.links:
        links = tuple(link for link in semantics.links if kept(link))
        if len(links) < len(semantics.links):
            semantics = msgspec.structs.replace(semantics, links=links)
    conditions = tuple(c for c in target.conditions if kept(c.expression))
    return target._replace(conditions=conditions, semantics=semantics)


def _tree_of(
    question: Question, target: Target, items: Mapping[str, tree.Expression]
) -> tree.Query:
    span = question.tree.span
    return msgspec.structs.replace(
        question.tree,
        pattern=target.pattern,
        returns=returning(span, target.keys, items),
        semantics=target.semantics,
        where=all_of([c.expression for c in target.conditions]),
        group_by=tuple(tree.Name(span=span, text=key) for key in target.keys),
        having=None,
        window=target.window,
        emit_on_expiry=None,
        emit_early=None,
        numbers=None,
        min_length=target.min_length,
        limit=None,
        ties=target.ties,
        skip=target.skip,
    )
