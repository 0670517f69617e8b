"""Cut a pattern into prefixes: what every match has, one part more each time.

Every match of a prefix begins with a match of the prefix before it, so fewer and fewer keys have
one. A part that may be absent has no step of its own. A NOT has one: first the parts around it,
then the same without what it forbids. A NOT at the beginning or the end reaches to the ends of the
window (§2.5), which depend on the last event, so it comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from cepheid.expressions.format import as_written
from cepheid.jobs.why_patterns import negations_in, variables_in
from cepheid.language import tree
from cepheid.language.formatter import format_pattern

BRANCHES_MAX = 8


class Prefix(NamedTuple):
    """A part of a pattern with everything before it, and how a sentence names it."""

    pattern: tree.Pattern
    text: str
    part: tree.Pattern
    branch: int = 0

    @property
    def is_negation(self) -> bool:
        """Check whether this step only forbids something."""
        return isinstance(self.part, tree.Negation)


def prefixes_of(pattern: tree.Pattern) -> list[Prefix]:
    """Cut a pattern into prefixes; the alternatives of OR and AND at the top each for itself."""
    branches: tuple[tree.Pattern, ...] = ()
    if isinstance(pattern, tree.Disjunction):
        branches = pattern.alternatives
    elif isinstance(pattern, tree.Conjunction):
        branches = pattern.patterns
    if not branches:
        return _chain(pattern, 0)
    chains = [_chain(branch, n) for n, branch in enumerate(branches[:BRANCHES_MAX], 1)]
    return [prefix for chain in chains for prefix in chain]


def _chain(pattern: tree.Pattern, branch: int) -> list[Prefix]:
    inner = pattern
    if isinstance(pattern, tree.Repeat) and pattern.least > 0:
        inner = pattern.pattern
    parts = _parts(inner)
    found: list[Prefix] = []
    leading: list[tree.Negation] = []
    kept: list[tree.Pattern] = []
    waiting: list[tree.Pattern] = []
    for part in parts:
        if isinstance(part, tree.Negation) and not kept and not waiting:
            leading.append(part)
        elif isinstance(part, tree.Negation) or is_optional(part):
            waiting.append(part)
        else:
            plain = [one for one in waiting if not isinstance(one, tree.Negation)]
            found.append(Prefix(_sequence([*kept, *plain, part]), _name(part), part, branch))
            kept += [*waiting, part]
            forbidden = [one for one in waiting if isinstance(one, tree.Negation)]
            if forbidden and len(found) > 1:
                text = f"without {_names(forbidden)} between"
                found.append(Prefix(_sequence(kept), text, forbidden[0], branch))
            waiting = []
    if leading and found:
        text = f"without {_names(leading)} before"
        found.append(Prefix(_sequence([*leading, *kept]), text, leading[0], branch))
    trailing = [one for one in waiting if isinstance(one, tree.Negation)]
    if trailing and found:
        text = f"without {_names(trailing)} after"
        found.append(Prefix(inner, text, trailing[0], branch))
    return _ending_with(pattern, found, branch)


def _ending_with(pattern: tree.Pattern, found: list[Prefix], branch: int) -> list[Prefix]:
    """Let the whole pattern be the last step; its name is that of what it adds."""
    if found and found[-1].pattern == pattern:
        return found
    is_plus = isinstance(pattern, tree.Repeat) and pattern.least == 1
    if found and (is_plus or not isinstance(pattern, tree.Repeat)):
        # Once is enough for P+, and optional parts at the end may be absent.
        return [*found[:-1], found[-1]._replace(pattern=pattern)]
    return [*found, Prefix(pattern, _name(pattern), pattern, branch)]


def _parts(pattern: tree.Pattern) -> list[tree.Pattern]:
    """Flatten sequences; one that begins or ends with NOT stays whole (§2.8)."""
    if not isinstance(pattern, tree.Sequence):
        return [pattern]
    found: list[tree.Pattern] = []
    for part in pattern.parts:
        nested = isinstance(part, tree.Sequence)
        ends = (part.parts[0], part.parts[-1]) if isinstance(part, tree.Sequence) else ()
        if nested and not any(isinstance(end, tree.Negation) for end in ends):
            found += _parts(part)
        else:
            found.append(part)
    return found


def is_optional(pattern: tree.Pattern) -> bool:
    """Check whether a part may be absent from a match."""
    match pattern:
        case tree.Repeat(least=0):
            return True
        case tree.Repeat(pattern=inner):
            return is_optional(inner)
        case tree.Sequence(parts=parts):
            return all(isinstance(part, tree.Negation) or is_optional(part) for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return any(map(is_optional, alternatives))
    return False


def _sequence(parts: list[tree.Pattern]) -> tree.Pattern:
    if len(parts) == 1:
        return parts[0]
    return tree.Sequence(span=parts[0].span.to(parts[-1].span), parts=tuple(parts))


def _name(part: tree.Pattern) -> str:
    return format_pattern(part)


def _names(negations: list[tree.Negation]) -> str:
    return " and ".join(format_pattern(negation.pattern) for negation in negations)


# ---------------------------------------------------------------------------------------
# Leaving a NOT, WITHOUT or UNTIL out


def loosened(pattern: tree.Pattern) -> list[tuple[str, tree.Pattern]]:
    """Leave out each NOT, WITHOUT and UNTIL of a pattern, one at a time."""
    found = []
    loops = [node for node in tree.walk(pattern) if isinstance(node, tree.Repeat)]
    between = [loop.without for loop in loops if loop.without is not None]
    for negation in negations_in(pattern):
        word = "WITHOUT" if any(negation is one for one in between) else "NOT"
        text = f"without {word} {format_pattern(negation.pattern)}"
        found.append((text, _without_negation(pattern, negation)))
    for loop in loops:
        if loop.until is not None:
            text = f"without UNTIL ({as_written(loop.until)})"
            found.append((text, _without_until(pattern, loop)))
    return found


def _without_negation(pattern: tree.Pattern, dropped: tree.Negation) -> tree.Pattern:
    """Remove one NOT or WITHOUT from a pattern."""

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Repeat) and _same(node.without, dropped):
            return msgspec.structs.replace(node, without=None)
        if not isinstance(node, tree.Sequence):
            return node
        parts = [part for part in node.parts if not _same(part, dropped)]
        return _sequence(parts) if len(parts) < len(node.parts) else node

    return _changed(pattern, change)


def _without_until(pattern: tree.Pattern, dropped: tree.Repeat) -> tree.Pattern:
    """Remove the UNTIL of one loop."""

    def change(node: tree.Node) -> tree.Node:
        if isinstance(node, tree.Repeat) and _same(node.until, dropped.until):
            return msgspec.structs.replace(node, until=None)
        return node

    return _changed(pattern, change)


def _changed(pattern: tree.Pattern, change: Callable[[tree.Node], tree.Node]) -> tree.Pattern:
    changed = tree.transform_node(pattern, change)
    assert isinstance(changed, tree.Pattern), "a pattern stays a pattern"
    return changed


def _same(one: tree.Node | None, other: tree.Node | None) -> bool:
    """Check whether two nodes stand at one place of the text."""
    return one is not None and other is not None and one == other and one.span == other.span


def first_event(pattern: tree.Pattern) -> tuple[tree.Pattern, tree.EventPattern] | None:
    """Find the one event that every match begins with, and a pattern in which it is once.

    ``A+`` at the beginning becomes ``A``: the shortest matches begin with the last A.
    """
    parts = _parts(pattern)
    places = [n for n, part in enumerate(parts) if not isinstance(part, tree.Negation)]
    if not places:
        return None
    place = places[0]
    first = parts[place]
    if isinstance(first, tree.Repeat) and first.least == 1:
        first = first.pattern
    if not isinstance(first, tree.EventPattern):
        return None
    rest = [*parts[:place], first, *parts[place + 1 :]]
    others = [part for n, part in enumerate(rest) if n != place]
    if any(first.variable.text in variables_in(part) for part in others):
        return None
    return _sequence(rest), first
