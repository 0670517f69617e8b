"""Static analysis of patterns and conditions for the reference implementation.

It finds the variables that a pattern allows next (§3.2), the variables that can be neighbours, the
kind of a predicate (§4), and how many matches an event can begin (§5.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cepheid.language import tree

Rest = tuple[tree.Pattern, ...]
"""The rest of a pattern that is still to be matched, in order."""


def conjuncts_of(where: tree.Expression | None) -> Iterator[tree.Expression]:
    """Yield the parts of WHERE, a conjunction; BETWEEN is two comparisons (§4.9)."""
    match where:
        case tree.Logical(operator="AND", operands=operands):
            for operand in operands:
                yield from conjuncts_of(operand)
        case tree.Between(span=span, operand=operand, low=low, high=high, negated=False):
            yield tree.Binary(span=span, operator=">=", left=operand, right=low)
            yield tree.Binary(span=span, operator="<=", left=operand, right=high)
        case _ if where is not None:
            yield where


def attributes_of(condition: tree.Expression) -> list[tree.Attribute]:
    """Collect the attributes that a condition names."""
    return [node for node in tree.walk(condition) if isinstance(node, tree.Attribute)]


def anchors_of(condition: tree.Expression) -> set[str]:
    """Collect the anchors of those attributes: each, NEXT, PREV, FIRST, LAST."""
    return {attribute.anchor.value for attribute in attributes_of(condition)}


def variables_of(condition: tree.Expression) -> list[str]:
    """Collect the variables of those attributes, in the order of writing."""
    return list(dict.fromkeys(attribute.variable.text for attribute in attributes_of(condition)))


def speaks_of(condition: tree.Expression, pattern: tree.Pattern) -> bool:
    """Check whether a condition has a variable that a pattern binds; beside AND it need not."""
    nodes = [n for n in tree.walk(condition) if isinstance(n, tree.Attribute | tree.Aggregate)]
    mine = {node.variable.text for node in nodes if node.variable is not None}
    return bool(mine & _bound_in(pattern))


def kind_of(condition: tree.Expression) -> str:
    """Classify a condition as local, edge or global (§4.1, §4.4, §4.5)."""
    aggregated = any(isinstance(node, tree.Aggregate) for node in tree.walk(condition))
    if aggregated or anchors_of(condition) & {"FIRST", "LAST"}:
        return "global"
    edge = anchors_of(condition) & {"NEXT", "PREV"} or len(variables_of(condition)) > 1
    return "edge" if edge else "local"


def after(rest: Rest, variable: str) -> set[Rest]:
    """Derive the pattern that remains after an event of a variable; NOT parts take none."""
    if not rest:
        return set()
    head, tail = rest[0], rest[1:]
    match head:
        case tree.EventPattern(variable=name):
            return {tail} if name.text == variable else set()
        case tree.Sequence(parts=parts):
            return after(parts + tail, variable)
        case tree.Disjunction(alternatives=alternatives):
            return set().union(*(after((p, *tail), variable) for p in alternatives))
        case tree.Repeat(span=span, pattern=inner, least=least, most=most):
            left = None if most is None else most - 1
            again = tree.Repeat(span=span, pattern=inner, least=max(least - 1, 0), most=left)
            loop = () if left == 0 else (again,)
            found = {(*inside, *loop, *tail) for inside in after((inner,), variable)}
            return found | after(tail, variable) if nullable(head) else found
    return after(tail, variable)  # A NOT part takes no event.


def loops_of(pattern: tree.Pattern) -> list[tuple[set[str], tree.Expression]]:
    """Collect the loops with UNTIL (§3.7): the variables that they bind, and the condition."""
    return [
        (_bound_in(node.pattern), node.until)
        for node in tree.walk(pattern)
        if isinstance(node, tree.Repeat) and node.until is not None
    ]


def _bound_in(pattern: tree.Node) -> set[str]:
    """Collect the variables that a match of a pattern binds."""
    if isinstance(pattern, tree.EventPattern):
        return {pattern.variable.text}
    if isinstance(pattern, tree.Negation | tree.Expression):
        return set()
    return set().union(*(_bound_in(child) for child in tree.children_of(pattern)))


def variables_in(pattern: tree.Pattern) -> list[str]:
    """Collect the variables of a pattern."""
    return [n.variable.text for n in tree.walk(pattern) if isinstance(n, tree.EventPattern)]


def greedy_loops(pattern: tree.Pattern) -> list[tuple[tree.Repeat, tuple[str, ...]]]:
    """Collect the loops with greed, and the variables that can directly follow them (§2.15)."""
    names = variables_in(pattern)
    return [
        (part, tuple(dict.fromkeys(name for name in names if after(node.parts[place:], name))))
        for node in tree.walk(pattern)
        if isinstance(node, tree.Sequence)
        for place, loop in enumerate(node.parts, 1)
        if isinstance(part := loop, tree.Repeat) and part.greed is not None
    ]


def nullable(pattern: tree.Pattern) -> bool:
    """Check whether a pattern can be matched by no event at all."""
    match pattern:
        case tree.EventPattern():
            return False
        case tree.Sequence(parts=parts):
            return all(nullable(part) for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return any(nullable(part) for part in alternatives)
        case tree.Repeat(pattern=inner, least=least):
            return least == 0 or nullable(inner)
    return True  # A NOT part takes no event.


def joined(pattern: tree.Pattern) -> tuple[tree.Pattern, ...]:
    """List the patterns that AND joins, also inside another AND (§2.10)."""
    if isinstance(pattern, tree.Conjunction):
        return tuple(one for part in pattern.patterns for one in joined(part))
    return (pattern,)


def neighbours_of(pattern: tree.Pattern, *, negated: bool = True) -> set[tuple[str, str]]:
    """Find the pairs of variables that can be neighbours, also in negated patterns (§4.4)."""
    nodes = list(tree.walk(pattern))
    names = {node.variable.text for node in nodes if isinstance(node, tree.EventPattern)}
    tops = joined(pattern)
    tops += tuple(node.pattern for node in nodes if negated and isinstance(node, tree.Negation))
    waiting: list[tuple[str, Rest]] = [("", (top,)) for top in tops]
    seen, pairs = set(waiting), set()
    for last, rest in waiting:
        for name in names:
            for left in after(rest, name):
                pairs.add((last, name))
                if (name, left) not in seen:
                    seen.add((name, left))
                    waiting.append((name, left))
    return pairs


def matches_begun(pattern: tree.Pattern, types: Mapping[str, str], most: int) -> int:
    """Count the matches that an event can begin if its followers are determined (§5.4).

    Parameters
    ----------
    types
        The type of every variable.
    most
        The count goes no further than this, which it may exceed.
    """
    start: frozenset[Rest] = frozenset({(pattern,)})
    steps: dict[frozenset[Rest], dict[str, list[frozenset[Rest]]]] = {}
    waiting = [start]
    for rests in waiting:
        if rests in steps:
            continue
        steps[rests] = {}
        for name, own in types.items():
            if left := frozenset(new for rest in rests for new in after(rest, name)):
                waiting.append(left)
                # ANY fits events of every type (§2.4).
                for kind in {own} if own != tree.ANY_TYPE else {*types.values()}:
                    steps[rests].setdefault(kind, []).append(left)
    ended = {rests: any(all(map(nullable, rest)) for rest in rests) for rests in steps}
    counts, known = dict.fromkeys(steps, 0), None
    while True:
        begun = {
            rests: max((sum(counts[r] for r in same) for same in found.values()), default=0)
            for rests, found in steps.items()
        }
        if counts == known or begun[start] > most:
            return begun[start]  # An empty sequence is no match.
        known = counts
        counts = {rests: ended[rests] + begun[rests] for rests in steps}


def has_single_events(pattern: tree.Pattern, variables: Collection[str]) -> bool:
    """Check whether every match has one event."""
    first = {rest for name in variables for rest in after((pattern,), name)}
    return not any(after(rest, name) for rest in first for name in variables)
