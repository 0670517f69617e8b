"""Bind a pattern: collect its variables, and report every meaningless construct (§2)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cepheid.errors import Note, Span
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.language.formatter import format_pattern

VARIABLES_MAX = 63
"""Variables of a pattern, including negated ones: sets of them are bits of a 64-bit word."""


JOINED_MAX = 4
"""Patterns that AND joins: the ways to choose their matches grow quickly."""


class Variable(msgspec.Struct, frozen=True):
    """A variable of the pattern: its type, whether matches bind it, and where it first appears."""

    name: str
    event_type: str
    positive: bool
    span: Span


def bind_pattern(pattern: tree.Pattern, findings: Findings) -> dict[str, Variable]:
    """Collect the variables of a pattern in the order of the text."""
    joined = joined_patterns(pattern)
    if len(joined) > JOINED_MAX:
        message = f"`AND` joins at most {JOINED_MAX} patterns"
        help_ = "join patterns that may occur in one match with SEQ or OR"
        findings.add("E303", message, pattern.span, help_)
    for part in joined:
        _check_negation_place(part, findings)
        for node in tree.walk(part):
            _check_node(node, findings)
    return _collect_variables(pattern, findings)


def joined_patterns(pattern: tree.Pattern) -> tuple[tree.Pattern, ...]:
    """List the patterns that AND joins; inside another AND it joins the same ones (§2.10)."""
    if not isinstance(pattern, tree.Conjunction):
        return (pattern,)
    return tuple(one for part in pattern.patterns for one in joined_patterns(part))


def _check_negation_place(pattern: tree.Pattern, findings: Findings) -> None:
    """Report every NOT outside a SEQ, and every SEQ that has only NOT parts."""
    for parent, child in _parents(pattern):
        placed = isinstance(parent, tree.Sequence) or _is_between_rounds(parent, child)
        if isinstance(child, tree.Negation) and not placed:
            inner = format_pattern(child.pattern)
            findings.add(
                "E301",
                "`NOT` is outside a `SEQ`",
                child.span,
                f"say where it must not occur: `SEQ(A, NOT {inner}, B)`",
            )
        if isinstance(child, tree.Sequence) and all(
            isinstance(part, tree.Negation) for part in child.parts
        ):
            findings.add(
                "E302",
                "this `SEQ` contains only `NOT`",
                child.span,
                "add an event that must occur, before or after what must not",
            )


def _is_between_rounds(parent: tree.Node | None, child: tree.Node) -> bool:
    """Check whether a NOT is that of ``P+ WITHOUT N``."""
    return isinstance(parent, tree.Repeat) and parent.without is child


def _parents(pattern: tree.Pattern) -> Iterator[tuple[tree.Node | None, tree.Node]]:
    yield None, pattern
    for node in tree.walk(pattern):
        for child in tree.children_of(node):
            yield node, child


def _check_node(node: tree.Node, findings: Findings) -> None:
    match node:
        case tree.Conjunction():
            findings.add(
                "E303",
                "`AND` is nested in another pattern, which has matches and no sets of them",
                node.span,
                "use it once, at the top: `PATTERN P AND Q`",
                "for events in any order write `SEQ(A, B) OR SEQ(B, A)`",
                "instead of `(P AND Q) OR R`, ask for `P AND Q` and for `R` in a query each",
            )
        case tree.Repeat(most=0):
            message = "a repetition of zero times matches nothing"
            findings.add("E309", message, node.span, "write `?` for none or one")
        case tree.Repeat(least=least, most=int(most)) if most < least:
            message = f"the repetition ends at {most}, before it begins at {least}"
            findings.add("E309", message, node.span, f"write `{{{most},{least}}}`")


def _collect_variables(pattern: tree.Pattern, findings: Findings) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for event, positive in _events(pattern, positive=True):
        name, event_type = event.variable.text, event.event_type.text
        known = variables.get(name)
        if known is None:
            variables[name] = Variable(name, event_type, positive, event.span)
            continue
        if known.event_type != event_type:
            findings.add(
                "E204",
                f"variable `{name}` has two types, `{known.event_type}` and `{event_type}`",
                event.span,
                f"give each its own variable: `{known.event_type} {name}1`, `{event_type} {name}2`",
                notes=(Note(f"`{name}` is a `{known.event_type}` here", known.span),),
            )
        if positive and not known.positive:
            variables[name] = msgspec.structs.replace(known, positive=True)
    if len(variables) > VARIABLES_MAX:
        first = list(variables.values())[VARIABLES_MAX]
        message = f"the pattern has more than {VARIABLES_MAX} variables"
        help_ = "give events that are told apart by nothing one variable, or split the query"
        findings.add("E314", message, first.span, help_)
    return variables


def _events(node: tree.Node, *, positive: bool) -> Iterator[tuple[tree.EventPattern, bool]]:
    if isinstance(node, tree.EventPattern):
        yield node, positive
        return
    inside = positive and not isinstance(node, tree.Negation)
    for child in tree.children_of(node):
        yield from _events(child, positive=inside)
