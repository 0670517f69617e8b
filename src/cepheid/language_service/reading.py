"""Read a text up to a place in it: the tokens there, what may follow, and the word being typed."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from cepheid.language.lalr import Following, Token, UnexpectedTokenError
from cepheid.language.lexer import TOKEN, MistakeFoundError, lex
from cepheid.language.parser import load_parser, start_of
from cepheid.language_service.places import Piece, piece_at

STARTS = ("query", "situation_query", "select_query")
_TWO_WORDS = re.compile(
    r"\b(?:group|partition|order|min|at|after(?:\s+match)?|past|to|nulls|create)(?:\s+|\s*-\s*)\w*$",
    re.IGNORECASE,
)
"""Words of which more may follow that belong to the same keyword."""
_WORD = re.compile(r"\w*$")
_MODE = re.compile(r"[\w-]*$")
_BEGINNINGS = re.compile(
    r"\b(?:return|pattern|semantics|where|group|having|within|emit|ties|numbers|min|limit|after"
    r"|from|partition|define|situations|detected|select|join|window|order)\b",
    re.IGNORECASE,
)
READ_AGAIN_MAX = 6
"""Clauses from which on a text with a mistake is read again."""


class Cursor(NamedTuple):
    """A place in a text.

    ``before`` is the text of the query up to the word that is being typed, which begins at
    ``start``. ``quote`` is where a text in quotes begins that the place is in.
    """

    piece: Piece
    before: str
    start: int
    end: int
    word: str
    quote: int | None = None


def cursor_at(text: str, offset: int) -> Cursor | None:
    """Find what is being typed at a place; None inside of comments."""
    offset = max(0, min(offset, len(text)))
    piece = piece_at(text, offset)
    begin = piece.begin if piece.query is None or piece.query > offset else piece.query
    place = begin
    while place < offset:
        match = TOKEN.match(text, place, offset)
        if match is None:
            if text.startswith("/*", place):
                return None
            if text[place] in "'\"`":
                word = text[place + 1 : offset]
                return Cursor(piece, text[begin:place], place, offset, word, place)
            place += 1
            continue
        if match.end() == offset and match.lastgroup == "SKIP" and match.group()[:1] in "-/#":
            return None
        place = match.end()
    head = text[begin:offset]
    found = _TWO_WORDS.search(head) or _WORD.search(head)
    assert found is not None, "a word may be empty"
    start = begin + found.start()
    word = text[start:offset]
    if word[:1].isdigit():
        start, word = offset, ""
    return Cursor(piece, text[begin:start], start, offset, word)


def at_word(text: str, cursor: Cursor, pattern: re.Pattern[str]) -> Cursor:
    """Move a cursor to where the word begins by another pattern of words."""
    begin = cursor.start - len(cursor.before)
    found = pattern.search(text[begin : cursor.end])
    start = begin + (found.start() if found else cursor.end - begin)
    return cursor._replace(before=text[begin:start], start=start, word=text[start : cursor.end])


def at_mode(text: str, cursor: Cursor) -> Cursor:
    """Move a cursor to where a word with hyphens begins, such as `skip-till-any-match`."""
    return at_word(text, cursor, _MODE)


def at_last_word(text: str, cursor: Cursor) -> Cursor:
    """Move a cursor to where its last word alone begins."""
    return at_word(text, cursor, _WORD)


def rule_of(text: str, cursor: Cursor) -> str:
    """Choose the rule of the grammar by the whole query around a place."""
    piece = cursor.piece
    return start_of(text[piece.begin if piece.query is None else piece.query : piece.end])


def following(before: str, rule: str) -> Following:
    """Find what may follow an unfinished query; after a mistake, what may follow its last clause.

    A text that cannot be read at all may be followed by any clause.
    """
    if not before.strip():
        empty = [load_parser().follow(functools.partial(lex, ""), start) for start in STARTS]
        return Following([], set().union(*(one.accepted for one in empty)))
    whole = _follow(before, rule)
    if whole is not None:
        return whole
    prefix = "SELECT * FROM s " if rule == "select_query" else ""
    places = [found.start() for found in _BEGINNINGS.finditer(before)]
    for place in places[: -READ_AGAIN_MAX - 1 : -1]:
        clause = before[place:]
        again = _follow(prefix + clause, rule) or _follow(clause, rule)
        if again is not None:
            return again
    return _follow("PATTERN A ", "query") or Following([], set())


def _follow(text: str, rule: str) -> Following | None:
    try:
        return load_parser().follow(functools.partial(lex, text), rule)
    except (UnexpectedTokenError, MistakeFoundError):
        return None


def clause_of(tokens: list[Token], clauses: frozenset[str]) -> str:
    """Find the terminal that begins the clause at the end of tokens; empty if there is none.

    In `NOT N WITHIN d` and `FROM s WITHIN d`, the inner WITHIN counts as a clause, too.
    """
    return next((token.type for token in reversed(tokens) if token.type in clauses), "")
