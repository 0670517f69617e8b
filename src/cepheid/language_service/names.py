"""The names that a text declares: variables with their types, situations, and streams.

Texts are unfinished most of the time, so names are found by their tokens, without a tree.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.expressions.format import KEYWORDS
from cepheid.language.lexer import is_about_situations
from cepheid.language_service.places import tokens_of

_WORDS = frozenset(word for key in KEYWORDS for word in key.split("_"))
_CLAUSE_WORDS = frozenset(
    [
        *("RETURN", "PATTERN", "SEMANTICS", "WHERE", "GROUP", "HAVING", "WITHIN", "EMIT", "TIES"),
        *("NUMBERS", "MIN", "LIMIT", "AFTER", "FROM", "PARTITION", "DEFINE", "SITUATIONS"),
        *("DETECTED", "SELECT", "JOIN", "WINDOW", "ORDER", "CREATE", "MEASURES", "SUBSET"),
    ]
)


class Declared(NamedTuple):
    """A name that a text declares: its place, and the type or stream that it stands for."""

    name: str
    span: Span
    of: str


class Names(NamedTuple):
    """The names that a query declares."""

    variables: list[Declared]
    situations: list[Declared]
    streams: list[Declared]


def plain(token: re.Match[str]) -> str:
    """Return a name without its backquotes."""
    word = token.group()
    return word[1:-1].replace("``", "`") if token.lastgroup == "QUOTED" else word


def names_of(text: str) -> Names:
    """Find the names that a query declares.

    Examples
    --------
    >>> [(v.name, v.of) for v in names_of("PATTERN SEQ(Login, Transfer T+").variables]
    [('Login', 'Login'), ('T', 'Transfer')]
    """
    names = Names([], [], [])
    # The pattern of situations relates names that DEFINE declares.
    declaring = ("FROM", "JOIN") if is_about_situations(text) else ("PATTERN", "FROM", "JOIN")
    clause, tokens = "", tokens_of(text)
    place = 0
    while place < len(tokens):
        token = tokens[place]
        upper = token.group().upper()
        place += 1
        if token.lastgroup == "WORD" and upper in _CLAUSE_WORDS:
            clause = upper
        elif not _is_name(token):
            continue
        elif clause in declaring:
            found = names.variables if clause == "PATTERN" else names.streams
            follower = place + (clause != "PATTERN" and _is_word(tokens, place, "AS"))
            other = tokens[follower] if follower < len(tokens) else None
            if (
                other is not None
                and _is_name(other)
                and _touches(text, tokens[follower - 1], other)
            ):
                place, token, of = follower + 1, other, plain(token)
            else:
                of = "" if _is_word(tokens, place - 2, "ANY") else plain(token)
            found.append(Declared(plain(token), Span(token.start(), token.end()), of))
            clause = clause if clause == "PATTERN" else ""
        elif clause == "DEFINE" and _is_word(tokens, place, "AS"):
            before = tokens[place - 2].group().upper() if place > 1 else ""
            if before in ("DEFINE", ","):
                names.situations.append(
                    Declared(plain(token), Span(token.start(), token.end()), "")
                )
    return names


def streams_of(text: str) -> list[Declared]:
    """Find the streams that a pipeline derives."""
    tokens = tokens_of(text)
    return [
        Declared(plain(tokens[i + 2]), Span(tokens[i + 2].start(), tokens[i + 2].end()), "")
        for i, token in enumerate(tokens[:-2])
        if token.group().upper() == "CREATE" and _is_word(tokens, i + 1, "STREAM")
    ]


def _is_name(token: re.Match[str]) -> bool:
    if token.lastgroup == "QUOTED":
        return True
    return token.lastgroup == "WORD" and token.group().upper() not in _WORDS


def _is_word(tokens: list[re.Match[str]], place: int, word: str) -> bool:
    return 0 <= place < len(tokens) and tokens[place].group().upper() == word


def _touches(text: str, first: re.Match[str], second: re.Match[str]) -> bool:
    """Check whether only white space and comments lie between two tokens."""
    return first.end() < second.start() and text[first.end() : second.start()] != ""
