"""The text of an EQL query in, its tokens out."""

from __future__ import annotations

import re
from typing import NamedTuple

from cepheid.translate.translated import CannotTranslateError

QUERY_LENGTH_MAX = 200_000

_TOKEN = re.compile(
    r"""
      (?P<BLANK>   \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<RAW>     \"\"\".*?\"\"\" | \?"(?:[^"\\\n]|\\.)*" | \?'(?:[^'\\\n]|\\.)*' )
    | (?P<TEXT>    "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<SPAN>    \d+(?:ms|micros|nanos|s|m|h|d)\b )
    | (?P<NUMBER>  (?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)? )
    | (?P<NAME>    `[^`\n]+` | @?[A-Za-z_][A-Za-z0-9_]* )
    | (?P<MARK>    ==|!=|<=|>=|!\[|[-+*/%<>=:()\[\],.|?!~$] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{2,8})\}|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Token(NamedTuple):
    """A word of a query: its kind, its text, and where it stands."""

    kind: str
    text: str
    at: int


def tokens_of(text: str) -> list[Token]:
    """Cut a query into tokens; the last one is ``END``."""
    if len(text) > QUERY_LENGTH_MAX:
        message = f"the query is longer than {QUERY_LENGTH_MAX:,} characters"
        raise CannotTranslateError(message)
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            quotes = {'"': "the text", "'": "the text", "`": "the name", "/": "the comment"}
            begun = quotes.get(text[at])
            raise unexpected(text, at, f"{begun} has no end" if begun else repr(text[at]))
        if match.lastgroup != "BLANK":
            found.append(Token(match.lastgroup or "", match.group(), at))
        at = match.end()
    return [*found, Token("END", "", len(text))]


def unexpected(text: str, at: int, what: str) -> CannotTranslateError:
    """Make the error that a query is none, with its place."""
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    return CannotTranslateError(f"the query cannot be read at {line}:{column}: {what}")


def text_value(token: Token) -> str:
    r"""Return the text that a literal stands for.

    Examples
    --------
    >>> text_value(Token("TEXT", r'"a\tb\\"', 0)), text_value(Token("RAW", r'?"a\tb"', 0))
    ('a\tb\\', 'a\\tb')
    """
    if token.kind == "RAW":
        return token.text[3:-3] if token.text.startswith('"""') else token.text[2:-1]

    def plain(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3])

    return _ESCAPE.sub(plain, token.text[1:-1])
