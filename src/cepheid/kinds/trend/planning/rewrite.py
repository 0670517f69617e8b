"""Simplify a pattern without changing its matches: small rules in one ordered tuple.

Rules work bottom up and keep the span of what they replace, so diagnostics still point into the
query.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cepheid.language import tree

PatternRule = Callable[[tree.Pattern], tree.Pattern]


def flatten_sequence(pattern: tree.Pattern) -> tree.Pattern:
    """Rewrite ``SEQ(A, SEQ(B, C))`` to ``SEQ(A, B, C)``.

    A nested sequence with NOT is not flattened: its leading and trailing NOT extend to the ends of
    the window, not to the neighbours (§2.8).
    """
    if not isinstance(pattern, tree.Sequence):
        return pattern
    parts: list[tree.Pattern] = []
    for part in pattern.parts:
        inner = part.parts if isinstance(part, tree.Sequence) else (part,)
        # What follows a greedy loop is what follows it in its own sequence (§2.15).
        apart = any(isinstance(p, tree.Negation) or _has_greed(p) for p in inner)
        parts.extend((part,) if apart and inner != (part,) else inner)
    return tree.Sequence(span=pattern.span, parts=tuple(parts))


def _has_greed(pattern: tree.Pattern) -> bool:
    return isinstance(pattern, tree.Repeat) and pattern.greed is not None


def flatten_disjunction(pattern: tree.Pattern) -> tree.Pattern:
    """Rewrite ``(A OR B) OR C`` to ``A OR B OR C``; duplicates count once (§2.2)."""
    if not isinstance(pattern, tree.Disjunction):
        return pattern
    parts: dict[tree.Pattern, None] = {}
    for part in pattern.alternatives:
        inner = part.alternatives if isinstance(part, tree.Disjunction) else (part,)
        parts |= dict.fromkeys(p for p in inner if p not in parts)
    first, *rest = parts
    if not rest:
        return tree.replace_span(first, pattern.span)
    return tree.Disjunction(span=pattern.span, alternatives=(first, *rest))


def unwrap_single(pattern: tree.Pattern) -> tree.Pattern:
    """Rewrite ``SEQ(A)`` and ``A{1}`` to ``A``."""
    match pattern:
        case tree.Sequence(parts=(only,)):
            return tree.replace_span(only, pattern.span)
        case tree.Repeat(pattern=inner, least=1, most=1, until=None, without=None, greed=None):
            return tree.replace_span(inner, pattern.span)
    return pattern


def merge_repeats(pattern: tree.Pattern) -> tree.Pattern:
    """Rewrite ``(A+)+`` to ``A+`` and ``(A?)+`` to ``A*``: loops of options are loops."""
    match pattern:
        case tree.Repeat(
            pattern=tree.Repeat(
                pattern=inner,
                least=0 | 1 as inside,
                most=1 | None as inner_most,
                until=None,
                without=None,
                greed=None,
            ),
            least=0 | 1 as outside,
            most=1 | None as outer_most,
            until=None,
            without=None,
            greed=None,
        ):
            most = None if inner_most is None or outer_most is None else 1
            least = min(inside, outside)
            return tree.Repeat(span=pattern.span, pattern=inner, least=least, most=most)
    return pattern


RULES: tuple[PatternRule, ...] = (
    flatten_sequence,
    flatten_disjunction,
    unwrap_single,
    merge_repeats,
)


def rewrite_pattern(pattern: tree.Pattern) -> tree.Pattern:
    """Apply all rules to a pattern, innermost first; O(size of the pattern) rule calls.

    Examples
    --------
    >>> from cepheid.language.formatter import format_pattern
    >>> from cepheid.language.parser import parse
    >>> format_pattern(rewrite_pattern(parse("PATTERN SEQ(A, SEQ((B?)+, C))").pattern))
    'SEQ(A, B*, C)'
    """
    match pattern:
        case tree.Sequence(span=span, parts=parts):
            pattern = tree.Sequence(span=span, parts=tuple(map(rewrite_pattern, parts)))
        case tree.Disjunction(span=span, alternatives=parts):
            pattern = tree.Disjunction(span=span, alternatives=tuple(map(rewrite_pattern, parts)))
        case tree.Conjunction(span=span, patterns=parts):
            pattern = tree.Conjunction(span=span, patterns=tuple(map(rewrite_pattern, parts)))
        case tree.Negation(pattern=inner) | tree.Repeat(pattern=inner):
            pattern = msgspec.structs.replace(pattern, pattern=rewrite_pattern(inner))
    for rule in RULES:
        pattern = rule(pattern)
    return pattern
