"""Tokens in, the pattern of a clause out."""

from __future__ import annotations

from cepheid.errors import Diagnostic, QuerySyntaxError
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.lexer import TokenKind
from cepheid.kinds.row_pattern.reader import Reader, folded

REPEATS_MAX = 1_000_000


def parse_variable(reader: Reader) -> tree.Variable:
    """Return the variable at the reader's place."""
    token = reader.expect_name("a variable")
    return tree.Variable(folded(token), span=token.span)


def parse_pattern(reader: Reader) -> tree.Pattern:
    """Return the pattern at the reader's place, up to the `)` behind it."""
    reader.enter()
    parts = [_parse_sequence(reader)]
    while reader.take_mark("|"):
        parts.append(_parse_sequence(reader))
    # `||` is one token elsewhere; here it would be an empty alternative, which SQL does not have.
    reader.leave()
    if len(parts) == 1:
        return parts[0]
    return tree.Alternation(tuple(parts), span=parts[0].span.to(parts[-1].span))


def close_pattern(reader: Reader) -> None:
    """Move past the `)` behind a pattern."""
    if reader.token.is_mark(","):
        reader.fail("`)`", "variables that follow each other stand side by side: `PATTERN (A B)`")
    reader.expect_mark(")")


def _parse_sequence(reader: Reader) -> tree.Pattern:
    parts = [_parse_quantified(reader)]
    while not (reader.token.is_mark(")", "|", "-}", ",") or _ends_pattern(reader)):
        parts.append(_parse_quantified(reader))
    if len(parts) == 1:
        return parts[0]
    return tree.Sequence(tuple(parts), span=parts[0].span.to(parts[-1].span))


def _ends_pattern(reader: Reader) -> bool:
    """Check whether a pattern cannot go on here, so that its `)` is missing."""
    return reader.token.kind is TokenKind.END or reader.token.upper in ("DEFINE", "SUBSET")


def _parse_quantified(reader: Reader) -> tree.Pattern:
    start = reader.token.span.start
    part = _parse_pattern_primary(reader)
    bounds = _parse_quantifier(reader)
    if bounds is None:
        return part
    reluctant = reader.take_mark("?") is not None
    return tree.Quantified(part, *bounds, reluctant, span=reader.span_from(start))


def _parse_quantifier(reader: Reader) -> tuple[int, int | None] | None:
    start = reader.token.span.start
    simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    mark = reader.take_mark("*", "+", "?")
    if mark is not None:
        return simple[mark]
    if not reader.take_mark("{"):
        return None
    least = reader.expect_whole() if reader.token.kind is TokenKind.NUMBER else None
    most = least
    if reader.take_mark(","):
        most = reader.expect_whole() if reader.token.kind is TokenKind.NUMBER else None
    elif least is None:
        reader.fail("a whole number or `,`")
    reader.expect_mark("}")
    low = least or 0
    if (most is not None and (most < low or most == 0)) or max(low, most or 0) > REPEATS_MAX:
        message = "the bounds of this quantifier are not valid"
        helps = ("write `{n,m}` with n <= m and m at least 1",)
        found = Diagnostic("E615", message, reader.span_from(start), helps=helps)
        raise QuerySyntaxError([found], reader.text)
    return low, most


def _parse_pattern_primary(reader: Reader) -> tree.Pattern:
    token = reader.token
    if mark := reader.take_mark("^", "$"):
        return tree.Anchor(mark == "^", span=token.span)
    if reader.take_mark("("):
        if reader.take_mark(")"):
            return tree.Empty(span=reader.span_from(token.span.start))
        part = parse_pattern(reader)
        close_pattern(reader)
        return part
    if reader.take_mark("{-"):
        part = parse_pattern(reader)
        reader.expect_mark("-}")
        return tree.Exclusion(part, span=reader.span_from(token.span.start))
    if token.upper == "PERMUTE" and reader.ahead().is_mark("("):
        reader.place += 2
        parts = [parse_pattern(reader)]
        while reader.take_mark(","):
            parts.append(parse_pattern(reader))
        reader.expect_mark(")")
        return tree.Permutation(tuple(parts), span=reader.span_from(token.span.start))
    if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        reader.fail("a variable, `(`, `^`, `$`, `{-` or `PERMUTE`")
    return parse_variable(reader)
