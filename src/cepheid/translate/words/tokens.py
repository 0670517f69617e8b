"""Texts of SQL-like languages in, words out, and ways to cut lists of them into parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cepheid.translate.translated import CannotTranslateError

_TOKEN = re.compile(
    r"(?P<COMMENT>--[^\n]*|//[^\n]*|/\*.*?\*/)|(?P<TEXT>'(?:[^']|'')*'|\"[^\"]*\")|(?P<QUOTED>`[^`]+`)"
    r"|(?P<NUMBER>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<NAME>[^\W\d][\w$]*)"
    r"|(?P<MARK>->|<>|!=|<=|>=|==|\|\||.)",
    re.DOTALL,
)
_OPEN, _CLOSE = {"(": 1, "[": 1, "{": 1}, {")": 1, "]": 1, "}": 1}


class Token(NamedTuple):
    """A word and its kind: NAME, QUOTED, NUMBER, TEXT or MARK."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """Return a name in capitals, so that words of the language can be compared."""
        return self.text.upper() if self.kind in ("NAME", "MARK") else ""


Tokens = Sequence[Token]


def tokens_of(text: str) -> list[Token]:
    """Cut a text into words, without blanks and comments.

    Examples
    --------
    >>> [token.text for token in tokens_of("a.x>=1 -- one")]
    ['a', '.', 'x', '>=', '1']
    """
    found = []
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind != "COMMENT" and not match.group().isspace():
            found.append(Token(kind, match.group()))
    return found


def written(tokens: Tokens) -> str:
    """Write words as a text again."""
    text = ""
    for token in tokens:
        tight = not text or text[-1] in "(.[" or token.text in ").,]["
        text += (
            token.text if tight or (token.text == "(" and text[-1].isalnum()) else f" {token.text}"
        )
    return text


def levels(tokens: Tokens) -> Iterator[tuple[int, int, Token]]:
    """Yield the places of words with the number of brackets around them."""
    depth = 0
    for place, token in enumerate(tokens):
        depth -= token.kind == "MARK" and token.text in _CLOSE
        yield place, depth, token
        depth += token.kind == "MARK" and token.text in _OPEN


def split(tokens: Tokens, *words: str) -> list[list[Token]]:
    """Cut a list at words that stand outside of brackets."""
    parts: list[list[Token]] = [[]]
    for _, depth, token in levels(tokens):
        if depth == 0 and token.word in words:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def clauses(tokens: Tokens, *heads: str) -> dict[str, list[Token]]:
    """Cut a statement at the words that begin its clauses; ``GROUP BY`` counts as one word.

    Raises
    ------
    CannotTranslateError
        If a clause comes twice.
    """
    found: dict[str, list[Token]] = {}
    now, skip = "", False
    for place, depth, token in levels(tokens):
        if skip:
            skip = False
            continue
        two = f"{token.word} {tokens[place + 1].word}" if place + 1 < len(tokens) else ""
        head = two if two in heads else token.word if token.word in heads else ""
        if depth == 0 and head:
            if head in found:
                message = f"`{head}` comes twice, which is not carried over"
                raise CannotTranslateError(message)
            found[head], now, skip = [], head, head == two
        else:
            found.setdefault(now, []).append(token)
    return found


def inside(tokens: Tokens, place: int) -> tuple[list[Token], int]:
    """Take the tokens between the brackets that open at a place, and the place behind them.

    Raises
    ------
    CannotTranslateError
        If no bracket opens there, or it does not close.
    """
    if place < len(tokens) and tokens[place].text in _OPEN:
        for end, depth, _ in levels(tokens[place:]):
            if end and depth == 0:
                return list(tokens[place + 1 : place + end]), place + end + 1
    message = "the brackets of the text do not fit"
    raise CannotTranslateError(message)
