"""The terminals that the parser would have accepted in, one sentence with a suggestion out."""

from __future__ import annotations

import re

from cepheid.errors import Diagnostic, Span, suggest_names
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.language.habits import (
    COMMAS,
    IN_SEQUENCE,
    mark_at,
    mark_start,
    other_clauses,
    other_mark,
    other_shapes,
    other_words,
)
from cepheid.language.lalr import END, Token, UnexpectedTokenError
from cepheid.language.lexer import PUNCTUATION, is_select, words_before
from cepheid.language.sql_habits import other_statements

CLAUSES = {
    "RETURN": "RETURN",
    "PATTERN": "PATTERN",
    "SEMANTICS": "SEMANTICS",
    "WHERE": "WHERE",
    "GROUP_BY": "GROUP-BY",
    "HAVING": "HAVING",
    "WITHIN": "WITHIN",
    "EMIT": "EMIT",
    "TIES": "TIES",
    "NUMBERS": "NUMBERS",
    "MIN_LENGTH": "MIN LENGTH",
    "LIMIT": "LIMIT",
    "AFTER_MATCH_SKIP": "AFTER MATCH SKIP",
    "FROM": "FROM",
    "PARTITION_BY": "PARTITION BY",
    "DEFINE": "DEFINE",
    "SITUATIONS": "SITUATIONS",
    "DETECTED": "DETECTED WITHIN",
    "JOIN": "JOIN",
    "WINDOW": "WINDOW",
    "ORDER_BY": "ORDER BY",
}

_MARKS = {names[0]: mark for mark, names in PUNCTUATION.items() if mark in "()[]{},;.?+*"}
_GROUPS = {
    "COMPARE": "a comparison",
    "PLUS_MINUS": "`+` or `-`",
    "TIMES": "`*` or `/`",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "MODE": "a word",
    "UNIT": "a unit of time",
    "RELATION": "a relation such as `before`",
    "LASTING": "`BETWEEN`",
    "SKIP_MODE": "`PAST LAST`, `TO NEXT` or `TO LATEST`",
    "SKIP_TARGET": "`TO FIRST` or `TO LAST`",
    "TOP": "`TOP 10 BY`",
    "LONGEST": "`LONGEST 5`",
    "BY": "`BY`",
    "DIRECTION": "`ASC` or `DESC`",
    "NULLS": "`NULLS FIRST` or `NULLS LAST`",
    "AT_LEAST": "`AT LEAST`",
    "AT_MOST": "`AT MOST`",
}
EXPECTED_SHOWN_MAX = 4
NO_UNIT = "say what is counted: `10 minutes`, `10 EVENTS`"
NO_ORDER = "no clause orders the results: remove `ORDER BY`, and order them where you read them"

BEGINNING = (
    "a query begins with `RETURN COUNT(*) PATTERN SEQ(A, B)`, `SELECT * FROM events`, or `DEFINE`"
)

SQL_HELP = "`cepheid.sql` runs SQL with MATCH_RECOGNIZE"


def explain_unexpected(error: UnexpectedTokenError, text: str) -> Diagnostic:
    """Return the diagnostic for a token that cannot stand where it does."""
    token = error.token
    accepted = set(error.accepted)
    if token.type == END and not text.strip():
        return Diagnostic("E101", "the query is empty", helps=("write `PATTERN Stock S+`",))
    ended = token.type == END
    # Whatever stands before tells people more than the offset of the end.
    span = Span(len(text.rstrip()), len(text.rstrip()) + 1) if ended else _token_span(token, text)
    found = "the end of the query" if ended else f"`{text[span.start : span.end]}`"
    before = _before(text, span.start)
    after = f" after `{before}`" if before else ""
    expected = describe_expected(accepted)
    if not before:
        expected = expected.replace("another clause", "a clause")
    message = f"expected {expected}{after}, found {found}"
    return Diagnostic("E101", message, span, helps=tuple(_helps(token, accepted, text)))


def _token_span(token: Token, text: str) -> Span:
    """Return the place of a token, or of the mark of another language that it is a part of."""
    mark, start = mark_at(text, token.start_pos), mark_start(text, token.start_pos)
    return Span(start, max(start + len(mark), token.end_pos))


def _before(text: str, start: int) -> str:
    """Return the last word or mark before a place, with at most three words of context."""
    words = text[:start].split()[-2:]
    joined = " ".join(words)
    return joined if len(joined) <= 40 else joined[-20:]


def describe_expected(accepted: set[str]) -> str:
    """Return accepted terminals in words; a whole expression or clause is one thing.

    Examples
    --------
    >>> describe_expected({"COMMA", "RPAR"})
    '`)` or `,`'
    >>> describe_expected(set(CLAUSES) | {"$END"})
    'another clause or the end'
    """
    rest = set(accepted)
    if "$END" in rest:
        rest.discard("SEMICOLON")
    # Stands for a value, and nobody who forgot one has meant it.
    rest -= {"SWEEP", "CASE", "CAST", "CASTS", "DISTINCT_FROM"}
    parts = []
    if {"NAME", "NUMBER", "STRING"} <= rest:
        parts.append("a value")
        rest -= {"NAME", "NUMBER", "STRING", "LPAR", "LSQB", "NOT", "PLUS_MINUS", "NULL"}
        rest -= {"TRUE", "FALSE"}
    elif {"NAME", "SEQ", "LPAR"} <= rest:
        parts.append("a pattern")
        rest -= {"NAME", "SEQ", "LPAR", "NOT"}
    if {"COMPARE", "TIMES"} <= rest:
        # Inside an expression everything that goes on with it counts as one thing.
        parts.append("an operator")
        rest -= {"COMPARE", "TIMES", "PLUS_MINUS", "IS", "IN", "LIKE", "BETWEEN", "NOT"}
        rest -= {"AND", "OR", "UNIT", "DOT", "LPAR", "FILTER"}
    if {"PLUS", "STAR", "QMARK"} <= rest:
        rest -= {"PLUS", "STAR", "QMARK", "LBRACE", "AND", "OR", "NAME", "UNTIL", "WITHOUT"}
        rest -= {"GREEDY", "RELUCTANT"}
        parts += [] if rest else ["`+`"]
    if len(rest & set(CLAUSES)) > 2:
        rest -= set(CLAUSES)
        clause = ["another clause"] + (["the end"] if "$END" in rest else [])
        rest.discard("$END")
    else:
        clause = []
    words = [_describe(terminal) for terminal in sorted(rest, key=_rank)]
    return _join((parts + words)[:EXPECTED_SHOWN_MAX] + clause)


def _rank(terminal: str) -> tuple[int, str]:
    """Keywords say most, then marks, then kinds of tokens."""
    if terminal in KEYWORDS | INNER_KEYWORDS:
        return 0, terminal
    return (1, _MARKS[terminal]) if terminal in _MARKS else (2, terminal)


def _describe(terminal: str) -> str:
    if terminal == "$END":
        return "the end"
    if terminal in _MARKS:
        return f"`{_MARKS[terminal]}`"
    return _GROUPS.get(terminal, f"`{CLAUSES.get(terminal, terminal)}`")


def _join(words: list[str]) -> str:
    if len(words) < 2:
        return words[0] if words else "something else"
    return f"{', '.join(words[:-1])} or {words[-1]}"


_JOINING = frozenset([",", "+", "-", "/", "%", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT"])
"""After these something must follow, so a clause's keyword is read as a name."""


def _explain_phrase(before: list[str], rest: str, accepted: set[str]) -> str:
    """Return a help for two words that people write together, or an empty text.

    A keyword where a name may stand is read as that name, so the mistake shows one word late.
    """
    here = re.match(r"\w*", rest)
    words = [word.upper() for word in before]
    last = words[-1] if words else ""
    this = here.group().upper() if here else ""
    if {last, this} & {"GROUPBY", "GROUP_BY"} or (last == "GROUP" and this):
        return "write `GROUP-BY` or `GROUP BY`"
    if {last, this} & {"ORDERBY", "ORDER_BY"} or (last, this) == ("ORDER", "BY"):
        return NO_ORDER
    if this == "ORDER" and re.match(r"order\s+by\b", rest, re.IGNORECASE):
        return NO_ORDER
    if last == "SLIDE" and words[0].isdigit():
        return NO_UNIT
    if this == "SLIDE" or (last == "SLIDE" and this.isdigit()):
        return "`SLIDE` follows `WITHIN`: `WITHIN 10 minutes SLIDE 10 seconds`"
    was_name = accepted & {"COMMA", "RPAR", "RSQB", "$END"}
    if last in CLAUSES and was_name and words[0] in _JOINING:
        return f"remove the `{before[0]}` before `{before[1]}`, or write what it joins"
    return ""


def _helps(token: Token, accepted: set[str], text: str) -> list[str]:
    """Guess the most likely intended text."""
    helps = []
    word = str(token)
    if re.search(r"\bmatch_recognize\b", text, re.IGNORECASE):
        return [SQL_HELP]
    start = len(text) if token.type == END else token.start_pos or 0
    before = words_before(text, start, 2)
    selects = is_select(text) or word.upper() == "WITH"
    phrase = other_clauses(text, start) if selects else other_statements(text)
    phrase = phrase or _explain_phrase(before, text[start:], accepted)
    phrase = phrase or other_words(before, text[start:]) or other_mark(text, start)
    if phrase:
        return [phrase]
    if "PATTERN" in (token.type, *map(str.upper, before[-1:])) and is_select(text):
        return ["`SELECT` reads single events: a query with a pattern begins with `RETURN`"]
    if before[-1:] == [";"]:
        return [
            "a text is one query: run others on their own or as a workload; if the next one reads "
            "the rows of this one, begin it with `CREATE STREAM name AS`"
        ]
    shapes = other_shapes(text, start)
    if shapes:
        return shapes
    if token.type == "NAME" and text[start : start + 1] != "`":
        clauses = accepted & set(CLAUSES)
        keywords = {CLAUSES.get(k, k) for k in (accepted & KEYWORDS) | clauses}
        near = suggest_names(word, keywords).partition("?")
        # One letter is a name: `A` is near `AS` and means something else.
        if near[1] and len(word) > 1:
            return [near[0] + near[1]]
        if "AND" in accepted and "COMPARE" in accepted:
            return ["join two conditions with AND"]
    if {"COMMA", "RPAR"} <= accepted and token.type in {"NAME", "NOT", "SEQ"}:
        helps.append(COMMAS)
    elif "COMMA" not in accepted and token.type == "NAME" and "QMARK" in accepted:
        helps.append(IN_SEQUENCE)
    if accepted == {"UNIT", "EVENTS"}:
        helps.append(NO_UNIT)
    if not before and not helps:
        helps.append(BEGINNING)
    if token.type in KEYWORDS and "NAME" in accepted:
        helps.append(f"to use `{word}` as a name, put it between backquotes: `` `{word}` ``")
    return helps
