"""SQL text in, tokens out: as much of SQL as is needed to find and read MATCH_RECOGNIZE."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from cepheid.errors import Diagnostic, QuerySyntaxError, Span


class TokenKind(StrEnum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    MARK = "mark"
    END = "the end of the text"


class Token(msgspec.Struct, frozen=True):
    """One word, name, text, number or mark.

    Attributes
    ----------
    value
        WORD: as written; QUOTED and TEXT: without the quotes; NUMBER and MARK: as written.
    """

    kind: TokenKind
    value: str
    span: Span

    @property
    def upper(self) -> str:
        """Return a word in capitals, and something that is no word for all other tokens."""
        return self.value.upper() if self.kind is TokenKind.WORD else ""

    def is_mark(self, *marks: str) -> bool:
        """Check whether the token is one of some marks."""
        return self.kind is TokenKind.MARK and self.value in marks


_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | --[^\n]* | /\*.*?\*/)
  | (?P<text>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*" | `(?:[^`]|``)*`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<mark>\{-|-\}|\|\||<=>|<>|!=|==|<=|>=|=>|::|[^\w\s])
    """,
    re.VERBOSE | re.DOTALL,
)

_OPENERS = {"'": "a text", '"': "a name", "`": "a name"}


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a SQL text; the last one is END.

    Raises
    ------
    QuerySyntaxError
        E602 if a text, name or comment has no end.

    Examples
    --------
    >>> [token.value for token in tokenize("a.b >= 'it''s' -- why")]
    ['a', '.', 'b', '>=', "it's", '']
    """
    tokens = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        assert found is not None, "every character is a mark at least"
        kind, value = found.lastgroup, found.group()
        span = Span(place, found.end())
        place = found.end()
        if kind == "space":
            continue
        assert kind is not None, "every alternative has a name"
        if kind == "mark" and (value in _OPENERS or text.startswith("/*", span.start)):
            what = _OPENERS.get(value, "a comment")
            raise QuerySyntaxError([Diagnostic("E602", f"{what} has no end", span)], text)
        tokens.append(Token(_KINDS[kind], _unquoted(kind, value), span))
    tokens.append(Token(TokenKind.END, "", Span(len(text), len(text))))
    return tokens


_KINDS = {
    "text": TokenKind.TEXT,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "mark": TokenKind.MARK,
}


def _unquoted(kind: str, value: str) -> str:
    if kind not in ("text", "quoted"):
        return value
    quote = value[0]
    return value[1:-1].replace(quote * 2, quote)
