"""Greedy and reluctant loops (§2.15): check them, and say which events their neighbours leave.

``positions.py`` forbids the events that a loop has left out between it and what follows; here are
the conditions of single events: what follows a greedy loop takes none that the loop could take, and
a reluctant loop none that what follows could take.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.plans.plan import EdgePredicate, LocalPredicate, Partition

Loop = tuple[tree.Repeat, tuple[tree.EventPattern, ...]]
"""A loop with greed, and the events that can directly follow it."""


def loops_of(pattern: tree.Pattern) -> list[Loop]:
    """Collect the loops with greed that are a part of a sequence."""
    found = []
    for node in tree.walk(pattern):
        if isinstance(node, tree.Sequence):
            for place, part in enumerate(node.parts):
                if isinstance(part, tree.Repeat) and part.greed is not None:
                    found.append((part, tuple(following(node.parts[place + 1 :]))))
    return found


def following(parts: tuple[tree.Pattern, ...]) -> Iterator[tree.EventPattern]:
    """Yield the events that can come first in the rest of a sequence."""
    for part in parts:
        if isinstance(part, tree.Negation):
            continue
        yield from _firsts(part)
        if not _is_nullable(part):
            return


def events_beside(
    loop: tree.Repeat, after: tuple[tree.EventPattern, ...]
) -> tuple[tree.EventPattern, ...]:
    """Find the events that may not be left out: the loop's, or those that directly follow it."""
    if after and loop.greed is tree.Greed.GREEDY:
        assert isinstance(loop.pattern, tree.EventPattern), "other loops are refused"
        return (loop.pattern,)
    return tuple(dict.fromkeys(after))


def _firsts(pattern: tree.Pattern) -> Iterator[tree.EventPattern]:
    match pattern:
        case tree.EventPattern():
            yield pattern
        case tree.Sequence(parts=parts):
            yield from following(parts)
        case tree.Disjunction(alternatives=alternatives):
            for part in alternatives:
                yield from _firsts(part)
        case tree.Repeat(pattern=inner):
            yield from _firsts(inner)


def _is_nullable(pattern: tree.Pattern) -> bool:
    match pattern:
        case tree.EventPattern():
            return False
        case tree.Sequence(parts=parts):
            return all(isinstance(p, tree.Negation) or _is_nullable(p) for p in parts)
        case tree.Disjunction(alternatives=alternatives):
            return any(map(_is_nullable, alternatives))
        case tree.Repeat(pattern=inner, least=least):
            return least == 0 or _is_nullable(inner)
    return True


def check_greed(query: tree.Query, findings: Findings) -> bool:
    """Report loops that can have no greed: E357; return whether there are none."""
    pattern = query.pattern
    placed = {id(loop) for loop, _ in loops_of(pattern)}
    events = [node for node in tree.walk(pattern) if isinstance(node, tree.EventPattern)]
    negated = {
        id(inner)
        for node in tree.walk(pattern)
        if isinstance(node, tree.Negation)
        for inner in tree.walk(node)
    }
    sound = True
    for loop in tree.walk(pattern):
        if not isinstance(loop, tree.Repeat) or loop.greed is None:
            continue
        word, inner = loop.greed.value, loop.pattern
        why = ""
        if id(loop) in negated:
            why = "stands inside `NOT`, which forbids every occurrence"
        elif id(loop) not in placed:
            why = "says nothing outside of a `SEQ`, where nothing follows the loop"
        elif not isinstance(inner, tree.EventPattern) or loop.most is not None:
            why = "takes a loop over one event without a largest number: `B b+`, `B b*`, `B b{2,}`"
        elif sum(event.variable.text == inner.variable.text for event in events) > 1:
            why = f"needs a variable of its own, and `{inner.variable.text}` stands elsewhere, too"
        if why:
            sound = False
            findings.add("E357", f"`{word}` {why}", loop.span, f"leave `{word}` out")
    return sound


def check_conditions(
    query: tree.Query, edges: tuple[EdgePredicate, ...], partition: Partition, findings: Findings
) -> None:
    """Report conditions that decide only beside other events whether one fits: E417, E409."""
    for loop, after in loops_of(query.pattern):
        assert loop.greed is not None, "only loops with greed are collected"
        word = loop.greed.value
        asked = {event.variable.text for event in events_beside(loop, after)}
        for edge in edges:
            if edge.next_variable in asked:
                message = f"`{word}` asks whether an event fits `{edge.next_variable}`, which this "
                message += "condition decides only beside the event before"
                help_ = f"leave `{word}` out, or compare with a constant"
                findings.add("E417", message, edge.expression.span, help_)
        for entry in partition.partial:
            if asked & {*entry.variables}:
                message = f"`{word}` cannot be combined with `{entry.attribute}` of only some "
                message += "variables"
                help_ = f"write `[{entry.attribute}]` if all events have it"
                findings.add("E409", message, entry.span, help_)


def predicates_of_greed(
    pattern: tree.Pattern, local: tuple[LocalPredicate, ...], type_column: str | None
) -> tuple[LocalPredicate, ...]:
    """Build the conditions of events that another variable would take, for every variable."""
    return _Excluding(pattern, local, type_column).predicates()


class _Excluding:
    def __init__(
        self, pattern: tree.Pattern, local: tuple[LocalPredicate, ...], type_column: str | None
    ) -> None:
        self._local, self._type = local, type_column
        self._types = {
            node.variable.text: node.event_type
            for node in tree.walk(pattern)
            if isinstance(node, tree.EventPattern)
        }
        self._left: dict[str, dict[str, None]] = {}
        """The variables whose events a variable leaves to them."""
        for loop, after in loops_of(pattern):
            assert isinstance(loop.pattern, tree.EventPattern), "other loops are refused"
            own = loop.pattern.variable.text
            for event in after:
                pair = event.variable.text, own
                first, second = pair if loop.greed is tree.Greed.GREEDY else pair[::-1]
                self._left.setdefault(first, {})[second] = None

    def predicates(self) -> tuple[LocalPredicate, ...]:
        return tuple(
            LocalPredicate(condition, variable)
            for variable in self._left
            for condition in self._excluded(variable, variable)
        )

    def _excluded(self, variable: str, name: str) -> Iterator[tree.Expression]:
        """Yield the conditions that an event, called by a name, is left to no other variable."""
        for other in self._left.get(variable, ()):
            fits = self._fits(other, name)
            if fits is not None:
                false = tree.Literal(span=fits.span, value=False)
                known = tree.Call(span=fits.span, function="COALESCE", arguments=(fits, false))
                yield tree.Unary(span=fits.span, operator="NOT", operand=known)

    def _fits(self, variable: str, name: str) -> tree.Expression | None:
        """Build the condition that an event fits a variable; None if no event can fit both."""
        mine, asked = self._types[variable], self._types[name]
        span = mine.span
        parts = [
            _renamed(predicate.expression, name)
            for predicate in self._local
            if predicate.variable == variable
        ]
        parts += self._excluded(variable, name)
        if self._type is not None and mine.text not in (tree.ANY_TYPE, asked.text):
            if asked.text != tree.ANY_TYPE:
                return None
            column = tree.Name(span=span, text=self._type)
            owner = tree.Name(span=span, text=name)
            value = tree.Attribute(span=span, variable=owner, attribute=column)
            kind = tree.Literal(span=span, value=mine.text)
            parts.append(tree.Binary(span=span, operator="=", left=value, right=kind))
        if not parts:
            return tree.Literal(span=span, value=True)
        if len(parts) == 1:
            return parts[0]
        return tree.Logical(span=span, operator="AND", operands=tuple(parts))


def _renamed(condition: tree.Expression, name: str) -> tree.Expression:
    def rename(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Attribute):
            variable = msgspec.structs.replace(node.variable, text=name)
            return msgspec.structs.replace(node, variable=variable)
        return node

    return tree.transform(condition, rename)
