"""What a query says before any event comes: which variables may follow which, and the predicates.

A transcription of docs/semantics.md §3.2 (what the pattern allows next) and §4 (the kinds of
predicates), written for the oracle alone; the planner has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cepheid.language import tree
from cepheid.language.tree import Anchor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# ---------------------------------------------------------------------------------------
# The words of a pattern: which variables may come next (§3.2, §4.4)


def nullable(pattern: tree.Pattern) -> bool:
    """Return whether a pattern, NOT parts left out, may be absent altogether."""
    match pattern:
        case tree.Negation():
            return True
        case tree.Sequence(parts=parts):
            return all(nullable(part) for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return any(nullable(alternative) for alternative in alternatives)
        case tree.Repeat(pattern=inner, least=least):
            return least == 0 or nullable(inner)
    return False


Rest = tuple[tree.Pattern, ...]
"""What is still to come: these patterns in sequence."""


def rests_after(variable: str, rest: Rest) -> set[Rest]:
    """Return all that may still come once ``variable`` is bound next; the empty set forbids it."""
    if not rest:
        return set()
    first, others = rest[0], rest[1:]
    match first:
        case tree.EventPattern(variable=name):
            return {others} if name.text == variable else set()
        case tree.Negation():
            return rests_after(variable, others)
        case tree.Sequence(parts=parts):
            return rests_after(variable, (*parts, *others))
        case tree.Disjunction(alternatives=alternatives):
            return set().union(*(rests_after(variable, (a, *others)) for a in alternatives))
        case tree.Repeat(pattern=inner, least=least, most=most):
            found = rests_after(variable, others) if nullable(first) else set()
            if most == 0:
                return found
            more = tree.Repeat(
                pattern=inner,
                least=max(least - 1, 0),
                most=None if most is None else most - 1,
                span=first.span,
            )
            return found | {(*inside, more, *others) for inside in rests_after(variable, (inner,))}
    message = f"{type(first).__name__} stands only at the top of a pattern"
    raise ValueError(message)


def allows(pattern: tree.Pattern, variables: Sequence[str]) -> bool:
    """Return whether some match of the pattern begins with these variables (§3.2)."""
    rests: set[Rest] = {(pattern,)}
    for variable in variables:
        rests = set().union(*(rests_after(variable, rest) for rest in rests))
    return bool(rests)


def variable_types(pattern: tree.Pattern) -> dict[str, str]:
    """Return the variables of a pattern, those of NOT parts included, and their types (§2.3)."""
    events = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    return {event.variable.text: event.event_type.text for event in events}


def neighbours(pattern: tree.Pattern) -> set[tuple[str, str]]:
    """Return the pairs (u, v) such that v may directly follow u, in NOT parts too (§4.4)."""
    variables = variable_types(pattern)
    negated = [node.pattern for node in tree.walk(pattern) if isinstance(node, tree.Negation)]
    tops = pattern.patterns if isinstance(pattern, tree.Conjunction) else (pattern,)
    pairs = set()
    seen: set[Rest] = {(top,) for top in (*tops, *negated)}
    queue = list(seen)
    while queue:
        rest = queue.pop()
        for u in variables:
            after_u = rests_after(u, rest)
            pairs |= {(u, v) for r in after_u for v in variables if rests_after(v, r)}
            queue += after_u - seen
            seen |= after_u
    return pairs


# ---------------------------------------------------------------------------------------
# The kinds of predicates (§4)


class Edge(NamedTuple):
    """A predicate that must hold wherever an event of one variable directly follows the other."""

    prev: str
    next: str
    expression: tree.Expression

    def speaks_of_next(self, attribute: tree.Attribute) -> bool:
        """Return whether an attribute of the expression is one of the later event."""
        leaves = [a for a in tree.walk(self.expression) if isinstance(a, tree.Attribute)]
        anchors = {a.anchor for a in leaves}
        if Anchor.NEXT in anchors:
            return attribute.anchor == Anchor.NEXT
        if Anchor.PREV in anchors:
            return attribute.anchor != Anchor.PREV
        return attribute.variable.text == self.next


class Predicates:
    """The conjuncts of WHERE, sorted by kind."""

    def __init__(self, query: tree.Query) -> None:
        self.local: list[tuple[str, tree.Expression]] = []
        self.edge: list[Edge] = []
        self.global_: list[tree.Expression] = []
        self.equal: set[str] = {name.text for name in query.group_by}  # §6.5
        self.partly_equal: dict[str, set[str]] = {}
        self._neighbours = neighbours(query.pattern)
        for conjunct in conjuncts_of(query.where):
            self._add(conjunct)

    def _add(self, conjunct: tree.Expression) -> None:
        if isinstance(conjunct, tree.Equivalence):
            for item in conjunct.items:
                if item.variable is None:
                    self.equal.add(item.attribute.text)
                else:  # Entries with the same attribute belong together (§4.3).
                    listed = self.partly_equal.setdefault(item.attribute.text, set())
                    listed.add(item.variable.text)
            return
        leaves = [n for n in tree.walk(conjunct) if isinstance(n, tree.Attribute | tree.Aggregate)]
        attributes = [leaf for leaf in leaves if isinstance(leaf, tree.Attribute)]
        names = {a: [x.variable.text for x in attributes if x.anchor == a] for a in Anchor}
        plain = list(dict.fromkeys(names[Anchor.EACH]))
        if len(attributes) < len(leaves) or names[Anchor.FIRST] or names[Anchor.LAST]:
            self.global_.append(conjunct)
        elif names[Anchor.NEXT]:
            self.edge.append(Edge(plain[0], names[Anchor.NEXT][0], conjunct))
        elif names[Anchor.PREV]:
            self.edge.append(Edge(names[Anchor.PREV][0], plain[0], conjunct))
        elif len(plain) == 2:
            # The order of the pattern; where it allows both, the order of the text.
            first, second = plain if tuple(plain) in self._neighbours else reversed(plain)
            self.edge.append(Edge(first, second, conjunct))
        elif plain:
            self.local.append((plain[0], conjunct))
        else:  # A predicate over no event at all holds for every match or for none.
            self.global_.append(conjunct)


def conjuncts_of(where: tree.Expression | None) -> Iterable[tree.Expression]:
    """Yield the parts of a conjunction, however it is nested; BETWEEN is one of two comparisons."""
    match where:
        case None:
            return
        case tree.Logical(operator="AND", operands=operands):
            for operand in operands:
                yield from conjuncts_of(operand)
        case tree.Between(operand=operand, low=low, high=high, negated=False, span=span):
            yield tree.Binary(operator=">=", left=operand, right=low, span=span)
            yield tree.Binary(operator="<=", left=operand, right=high, span=span)
        case _:
            yield where
