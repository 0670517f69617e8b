"""Cut the text of a pipeline into its statements: ``CREATE STREAM name AS query;`` (§15).

Every query of a pipeline is read by the grammar of its own kind, so only the words around queries
are read here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cepheid.errors import Diagnostic, Span
from cepheid.language.lexer import TOKEN, MistakeFoundError, first_mistake
from cepheid.language.tree import Relation

_RELATION_WORDS = frozenset(relation.value.partition(" ")[0] for relation in Relation)
FORM = "write `CREATE STREAM name AS query;`"


class Statement(NamedTuple):
    """A query of a pipeline: where it is in the text, and the name of the stream it makes."""

    begin: int
    end: int
    name: str | None
    name_span: Span


def is_pipeline(text: str) -> bool:
    """Check whether a text begins with CREATE STREAM.

    Examples
    --------
    >>> is_pipeline("create stream A as pattern B;"), is_pipeline("PATTERN Create Stream")
    (True, False)
    """
    words = [m.group().upper() for m in _first_tokens(text, 2)]
    return words == ["CREATE", "STREAM"]


def split_statements(text: str) -> list[Statement]:
    """Cut a text at the semicolons that end statements.

    Raises
    ------
    MistakeFoundError
        E350 if the words around a query are not those of a statement.
    """
    found = [_statement(tokens) for tokens in _by_semicolon(text)]
    for earlier in found[:-1]:
        if earlier.name is None:
            span = Span(earlier.begin, earlier.end)
            helps = ("name it: `CREATE STREAM name AS ...;`", "or make it the last one")
            message = "only the last query of a pipeline has no name"
            raise MistakeFoundError(
                Diagnostic("E350", message, _first_line(text, span), helps=helps)
            )
    return found


def _first_tokens(text: str, count: int) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    for match in TOKEN.finditer(text):
        if match.lastgroup != "SKIP":
            found.append(match)
            if len(found) == count:
                break
    return found


def _by_semicolon(text: str) -> list[list[re.Match[str]]]:
    """Group the tokens of a text by statement; `A meets;overlaps B` goes on after its semicolon."""
    mistake = first_mistake(text)
    if mistake is not None and "MATCH_RECOGNIZE" not in text.upper():
        # SQL has more marks; those who read its clauses report what is none.
        raise MistakeFoundError(mistake)
    tokens = [m for m in TOKEN.finditer(text) if m.lastgroup != "SKIP"]
    groups: list[list[re.Match[str]]] = [[]]
    for place, token in enumerate(tokens):
        following = tokens[place + 1].group().lower() if place + 1 < len(tokens) else ""
        if token.group() == ";" and following not in _RELATION_WORDS:
            groups.append([])
        else:
            groups[-1].append(token)
    return [group for group in groups if group]


def _statement(tokens: list[re.Match[str]]) -> Statement:
    """Read the words before a query."""
    words = [token.group().upper() for token in tokens[:4]]
    end = tokens[-1].end()
    if words[:1] != ["CREATE"]:
        return Statement(tokens[0].start(), end, None, Span(tokens[0].start(), tokens[0].end()))
    wanted = ("CREATE", "STREAM", "", "AS")
    for place, word in enumerate(wanted):
        token = tokens[place] if place < len(tokens) else None
        fits = token is not None and (
            words[place] == word if word else token.lastgroup in ("WORD", "QUOTED")
        )
        if not fits:
            at = Span(token.start(), token.end()) if token is not None else Span(end, end)
            expected = f"`{word}`" if word else "the name of the stream"
            message = f"{expected} comes after `{tokens[place - 1].group()}`"
            raise MistakeFoundError(Diagnostic("E350", message, at, helps=(FORM,)))
    if len(tokens) == len(wanted):
        message = f"the stream `{tokens[2].group()}` has no query"
        raise MistakeFoundError(
            Diagnostic("E350", message, Span(tokens[3].start(), end), helps=(FORM,))
        )
    name = tokens[2].group()
    plain = name[1:-1].replace("``", "`") if tokens[2].lastgroup == "QUOTED" else name
    span = Span(tokens[2].start(), tokens[2].end())
    return Statement(tokens[4].start(), end, plain, span)


def _first_line(text: str, span: Span) -> Span:
    """Limit a span to its first line."""
    line = text.find("\n", span.start)
    return Span(span.start, span.end if line < 0 else min(span.end, line))
