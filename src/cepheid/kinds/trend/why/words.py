"""Words for the parts of a query that are left out to explain it, and rules that skip more."""

from __future__ import annotations

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import as_written, format_expression
from cepheid.kinds.trend.why.queries import Conjunct
from cepheid.language import tree
from cepheid.language.formatter import format_pattern


def looser(clause: tree.SemanticsClause) -> dict[str, tree.SemanticsClause | None]:
    """Let one link skip any event, and then all of them."""
    found: dict[str, tree.SemanticsClause | None] = {}
    links = clause.links
    every = tree.Semantics.ANY_MATCH
    for n, link in enumerate(links):
        if link.semantics is not every:
            free = msgspec.structs.replace(link, semantics=every)
            text = f"with {link.prev.text} TO {link.next.text} {every.value}"
            rest = (*links[:n], free, *links[n + 1 :])
            found[text] = msgspec.structs.replace(clause, links=rest)
    if clause.semantics is not every or len(found) > 1:
        found[f"with SEMANTICS {every.value}"] = None
    return found


def written(condition: Conjunct) -> str:
    """Write a condition as the user did."""
    if condition.kind is None:
        return format_expression(condition.expression)
    return f"`{as_written(condition.expression)}`"


def format_part(part: tree.Pattern) -> str:
    """Format a part of a pattern; a NOT without its word."""
    return format_pattern(part.pattern if isinstance(part, tree.Negation) else part)


def last_part(pattern: tree.Pattern) -> tree.Pattern:
    """Find the last part of a pattern that is an event."""
    if not isinstance(pattern, tree.Sequence):
        return pattern
    parts = [part for part in pattern.parts if not isinstance(part, tree.Negation)]
    return last_part(parts[-1])


def window_text(window: tree.Window) -> str:
    """Write WITHIN of a window."""
    if isinstance(window.within, tree.Duration):
        return f"WITHIN {format_duration(window.within.microseconds)}"
    return f"WITHIN {window.within.count} EVENTS"
