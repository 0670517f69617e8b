"""Relaxed trees of a query with a pattern, which count keys or matches and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from cepheid.errors import BindError, CepheidError
from cepheid.jobs.relaxed import RelaxedQuery
from cepheid.jobs.why import Counted, Question
from cepheid.kinds.trend.why.chain import variables_in
from cepheid.language import tree
from cepheid.patterns.conjuncts import conjuncts_of
from cepheid.plans.plan import PredicateKind

COUNT = "cepheid_count"
FIRST = "cepheid_first"
DROPS_MAX = 16

EVER = 50 * 365 * 86_400_000_000
"""A window as long as all of history: nanoseconds of so many years are still 61 bits."""


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
    min_length = query.min_length if whole else None
    return Target(pattern, applying, query.window, query.semantics, min_length, keys)


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
    query = _planned(question, target, [(number, COUNT)])
    return Counted(query, target.keys, COUNT) if query is not None else None


def gap_query(
    question: Question, target: Target, first: tree.EventPattern, time: str
) -> RelaxedQuery | None:
    """Build a query whose rows tell when a match ended, and when the latest of all began.

    With a window that never ends there is a row for every time t at which a match ends, and the
    largest time of first events is that of all matches so far. The least difference is that of
    the shortest match: at the end of that match, no other has begun later and is as short.
    """
    span = question.tree.span
    name = tree.Name(span=span, text=time)
    latest = tree.Aggregate(
        span=span,
        function=tree.AggregateFunction.MAX,
        variable=first.variable,
        attribute=name,
    )
    ever = tree.Window(span=span, within=tree.Duration(span=span, microseconds=EVER))
    return _planned(question, target._replace(window=ever), [(latest, FIRST)])


def _planned(
    question: Question, target: Target, items: Sequence[tuple[tree.Expression, str]]
) -> RelaxedQuery | None:
    """Plan a target; conditions about neighbours that a prefix does not have are left out."""
    conditions = target.conditions
    for _ in range(len(conditions) + 1):
        query = _tree_of(question, target._replace(conditions=conditions), items)
        try:
            return question.relaxed(query)
        except BindError as error:
            places = [d.span for d in error.diagnostics if d.span is not None]
            kept = tuple(
                c
                for c in conditions
                if not any(
                    c.expression.span.start <= place.start and place.end <= c.expression.span.end
                    for place in places
                )
            )
            if len(kept) == len(conditions):
                return None
            conditions = kept
        except CepheidError:
            return None
    return None


def _tree_of(
    question: Question, target: Target, items: Iterable[tuple[tree.Expression, str]]
) -> tree.Query:
    span = question.tree.span
    returned = [
        tree.ReturnItem(span=span, expression=tree.Word(span=span, text=key)) for key in target.keys
    ]
    returned += [
        tree.ReturnItem(span=span, expression=e, alias=tree.Name(span=span, text=name))
        for e, name in items
    ]
    return msgspec.structs.replace(
        question.tree,
        pattern=target.pattern,
        returns=tree.Return(span=span, items=tuple(returned)),
        semantics=target.semantics,
        where=_all_of(target.conditions),
        group_by=tuple(tree.Name(span=span, text=key) for key in target.keys),
        having=None,
        window=target.window,
        emit_on_expiry=None,
        emit_early=None,
        numbers=None,
        min_length=target.min_length,
        limit=None,
        skip=None,  # A match is chosen exactly if there is one.
    )


def _all_of(conditions: Sequence[Conjunct]) -> tree.Expression | None:
    parts = tuple(c.expression for c in conditions)
    if len(parts) < 2:
        return parts[0] if parts else None
    return tree.Logical(span=parts[0].span.to(parts[-1].span), operator="AND", operands=parts)
