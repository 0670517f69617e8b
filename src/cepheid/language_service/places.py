"""Places in a text: which statement an offset is in, and offsets as JavaScript counts them."""

from __future__ import annotations

import re
from typing import NamedTuple

from cepheid.language.lexer import TOKEN
from cepheid.language.statements import is_pipeline
from cepheid.language.tree import Relation

_RELATION_WORDS = frozenset(relation.value.partition(" ")[0] for relation in Relation)
_HEAD = re.compile(r"create(?:\s+stream(?:\s+(?:\w+|`[^`\n]*`)(?:\s+as\b)?)?)?", re.IGNORECASE)


def to_utf16(text: str, offset: int) -> int:
    r"""Convert an offset in characters to one in units of UTF-16.

    Examples
    --------
    >>> to_utf16("\U0001f600 A", 2)
    3
    """
    before = text[:offset]
    return len(before) + sum(char > "\uffff" for char in before)


def from_utf16(text: str, offset: int) -> int:
    r"""Convert an offset in units of UTF-16 to one in characters; a half character is its start.

    Examples
    --------
    >>> from_utf16("\U0001f600 A", 3), from_utf16("\U0001f600 A", 1)
    (2, 0)
    """
    if text.isascii():
        return max(0, min(offset, len(text)))
    units = 0
    for place, char in enumerate(text):
        units += 1 + (char > "\uffff")
        if units > offset:
            return place
    return len(text)


class Piece(NamedTuple):
    """A statement of a text: where it begins and ends, and where its query begins.

    ``query`` is None while the words CREATE STREAM name AS are not complete.
    """

    begin: int
    end: int
    query: int | None


def tokens_of(text: str) -> list[re.Match[str]]:
    """List the tokens of a text without comments; characters that are none are left out."""
    return [match for match in TOKEN.finditer(text) if match.lastgroup != "SKIP"]


def pieces_of(text: str) -> list[Piece]:
    """Cut a text into statements, whatever mistakes it has; a text without CREATE is one."""
    if not is_pipeline(text):
        return [Piece(0, len(text), 0)]
    tokens = tokens_of(text)
    starts = [0]
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        after = "" if following is None else following.group().lower()
        if token.group() == ";" and after not in _RELATION_WORDS:
            starts.append(token.end())
    ends = [*starts[1:], len(text)]
    return [_piece(text, begin, end) for begin, end in zip(starts, ends, strict=True)]


def piece_at(text: str, offset: int) -> Piece:
    """Find the statement that an offset is in; at a border, the later one."""
    return next(piece for piece in reversed(pieces_of(text)) if piece.begin <= offset)


def _piece(text: str, begin: int, end: int) -> Piece:
    first = next((m for m in TOKEN.finditer(text, begin, end) if m.lastgroup != "SKIP"), None)
    head = None if first is None else _HEAD.match(text, first.start(), end)
    if first is None or head is None:
        return Piece(begin, end, begin)
    is_whole = re.search(r"\sas$", head.group(), re.IGNORECASE) is not None
    return Piece(begin, end, head.end() if is_whole else None)
