"""Say what the word at a place of a text means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.events.schema import EventSchema
from cepheid.events.temporal import UNIT_MICROSECONDS
from cepheid.expressions.functions import ALIASES, FUNCTIONS
from cepheid.language.lalr import Accepted, Token, UnexpectedTokenError
from cepheid.language.lexer import TOKEN, MistakeFoundError, has_row_pattern, lex
from cepheid.language.parser import load_parser, start_of
from cepheid.language_service import meanings
from cepheid.language_service.answers import Hover
from cepheid.language_service.columns import columns_of
from cepheid.language_service.meanings import Meaning
from cepheid.language_service.names import names_of, plain, streams_of
from cepheid.language_service.places import piece_at
from cepheid.language_service.reading import following

_TWO_WORDS = re.compile(
    r"\b(?:group(?:\s*-\s*|\s+)by|partition\s+by|order\s+by|min\s+length|at\s+least|at\s+most"
    r"|after\s+match\s+skip|create\s+stream|past\s+last|to\s+next|to\s+first|to\s+last"
    r"|(?:finished|started|overlapped|met)\s+by|skip-till-(?:any|next)-match)\b",
    re.IGNORECASE,
)
"""Keywords of several words; SKIP before its word is read with it."""


def hover(text: str, offset: int, schema: object = None) -> Hover | None:
    """Explain the word or mark at a place: what it means, and the rule that defines it.

    Parameters
    ----------
    text
        Any text, also an unfinished one.
    offset
        The place, in characters.
    schema
        The columns of the events, as for :func:`cepheid.query`, or a dict of them by stream.

    Examples
    --------
    >>> found = hover("PATTERN SEQ(A, NOT B, C)", 16)
    >>> found.title, found.section
    ('NOT', '§2.5')
    """
    match = _token_at(text, offset)
    if match is None:
        return None
    columns = columns_of(schema)
    phrase = next(
        (m for m in _TWO_WORDS.finditer(text) if m.start() <= match.start() < m.end()), None
    )
    span = Span(match.start(), match.end())
    if phrase is not None and match.lastgroup == "WORD":
        words = " ".join(re.findall(r"[\w]+(?:-till-\w+-\w+)?", phrase.group()))
        meaning = _of_phrase(words)
        if meaning is not None:
            whole = Span(phrase.start(), phrase.end())
            return Hover(whole, text[whole.start : whole.end], meaning.text, meaning.section)
    piece = piece_at(text, match.start())
    if piece.query is None or match.start() < piece.query:
        return _of_head(match, span)
    asked = _Asked(text, piece.query, piece.end, match, columns)
    if match.lastgroup == "MARK":
        return _of_mark(asked)
    return _of_word(asked) if match.lastgroup in ("WORD", "QUOTED") else None


class _Asked(NamedTuple):
    """A token of a query, and the query."""

    text: str
    begin: int
    end: int
    match: re.Match[str]
    columns: EventSchema | None

    @property
    def query(self) -> str:
        return self.text[self.begin : self.end]

    @property
    def before(self) -> str:
        return self.text[self.begin : self.match.start()]

    @property
    def word(self) -> str:
        return self.match.group()

    @property
    def is_attribute(self) -> bool:
        return self.before.rstrip().endswith(".")

    def told(self, title: str, meaning: Meaning) -> Hover:
        span = Span(self.match.start(), self.match.end())
        return Hover(span, title, meaning.text, meaning.section)


def _token_at(text: str, offset: int) -> re.Match[str] | None:
    """Find the token that a place is in or at the end of."""
    offset = max(0, min(offset, len(text)))
    at_end = None
    for match in TOKEN.finditer(text):
        if match.start() > offset:
            break
        if match.lastgroup != "SKIP" and match.start() <= offset < match.end():
            return match
        if match.lastgroup != "SKIP" and match.end() == offset:
            at_end = match
    return at_end


def _of_phrase(words: str) -> Meaning | None:
    terminal = "_".join(words.upper().replace("-", " ").split())
    if terminal == "CREATE_STREAM":
        return meanings.KEYWORDS["CREATE"]
    for table, key in (
        (meanings.KEYWORDS, terminal),
        (meanings.MODES, words.lower()),
        (meanings.RELATIONS, words.lower()),
        (meanings.SKIPS, words.upper()),
    ):
        if key in table:
            return table[key]
    return None


def _of_head(match: re.Match[str], span: Span) -> Hover | None:
    """Explain a word of CREATE STREAM name AS."""
    meaning = meanings.KEYWORDS.get(match.group().upper())
    if match.lastgroup == "WORD" and match.group().upper() in ("CREATE", "STREAM", "AS"):
        meaning = meaning if match.group().upper() != "AS" else meanings.KEYWORDS["CREATE"]
    else:
        meaning = meanings.DERIVED
    return None if meaning is None else Hover(span, match.group(), meaning.text, meaning.section)


def _of_mark(asked: _Asked) -> Hover | None:
    mark = asked.word
    meaning = meanings.MARKS.get(mark)
    if meaning is None:
        return None
    accepted = following(asked.before, start_of(asked.query)).accepted
    terminals = {"+": "PLUS", "*": "STAR", "?": "QMARK", "{": "LBRACE", "!": "NOT", "[": "LSQB"}
    fits = terminals[mark] in accepted and (mark in "![" or "QMARK" in accepted)
    return asked.told(mark, meaning) if fits else None


def _of_word(asked: _Asked) -> Hover | None:
    upper = asked.word.upper()
    if asked.match.lastgroup == "QUOTED" or asked.is_attribute:
        return _of_name(asked)
    if upper in meanings.ROW_PATTERN_KEYWORDS and has_row_pattern(asked.query):
        return asked.told(upper, meanings.ROW_PATTERN_KEYWORDS[upper])
    follows = asked.text[asked.match.end() : asked.end].lstrip()[:1]
    found = _of_call(asked) if follows == "(" else None
    found = found or _of_keyword(asked)
    return asked.told(*found) if found is not None else _of_name(asked)


def _of_call(asked: _Asked) -> tuple[str, Meaning] | None:
    upper, selects = asked.word.upper(), start_of(asked.query) == "select_query"
    aggregates = meanings.SELECT_AGGREGATES if selects else meanings.AGGREGATES
    for table in (aggregates, meanings.ANCHORS, meanings.SURVEYS):
        if upper in table:
            return upper, table[upper]
    function = FUNCTIONS.get(ALIASES.get(upper, upper))
    return None if function is None else (function.usage, meanings.FUNCTION)


def _of_keyword(asked: _Asked) -> tuple[str, Meaning] | None:
    """Explain a keyword, if the grammar takes the word as one there."""
    word, rule = asked.word, start_of(asked.query)
    terminal = _terminal_of(asked, rule)
    if terminal in ("MODE", "RELATION"):
        table = meanings.MODES if terminal == "MODE" else meanings.RELATIONS
        known = table.get(word.lower())
        return None if known is None else (word, known)
    if terminal == "UNIT":
        return (word, meanings.DURATION) if word.lower() in UNIT_MICROSECONDS else None
    terminal = "BETWEEN" if terminal == "LASTING" else terminal
    special = meanings.SITUATION_KEYWORDS if rule == "situation_query" else {}
    special = meanings.SELECT_KEYWORDS if rule == "select_query" else special
    known = special.get(terminal) or meanings.KEYWORDS.get(terminal)
    return None if known is None else (word.upper(), known)


def _terminal_of(asked: _Asked, rule: str) -> str:
    """Find the terminal that a word is read as; after a mistake before it, by the word alone."""
    # Some words are keywords only before certain others, so the text goes on.
    wanted = asked.match.start() - asked.begin
    try:
        tokens = load_parser().follow(_up_to(asked.query, wanted), rule).tokens
    except (UnexpectedTokenError, MistakeFoundError):
        tokens = []
    if tokens and tokens[-1].start_pos == wanted:
        return tokens[-1].type
    upper = asked.word.upper()
    return upper if upper in following(asked.before, rule).accepted else "NAME"


def _up_to(text: str, last: int) -> Callable[[Accepted], Iterator[Token]]:
    """Make a lexer that stops after the token at a place."""

    def read(accepted: Accepted) -> Iterator[Token]:
        for token in lex(text, accepted):
            if token.start_pos > last:
                return
            yield token

    return read


def _of_name(asked: _Asked) -> Hover | None:
    """Explain a name: a variable, a type, a situation, a stream or a column."""
    name, names = plain(asked.match), names_of(asked.query)
    if not asked.is_attribute:
        for declared in (*names.variables, *names.streams):
            if declared.name == name:
                of = f"`{declared.of}`" if declared.of else "any type"
                told = f"A variable: events of {of} in a match."
                return asked.told(name, Meaning(told, meanings.VARIABLE.section))
            if declared.of == name:
                return asked.told(name, meanings.EVENT_TYPE)
        if any(one.name == name for one in names.situations):
            return asked.told(name, meanings.KEYWORDS["DEFINE"])
        if any(one.name == name for one in streams_of(asked.text)):
            return asked.told(name, meanings.DERIVED)
    path = re.search(r"[\w.`]*$", asked.text[: asked.match.end()])
    parts = path.group().replace("`", "").split(".") if path else [name]
    for start in range(len(parts)):
        column = ".".join(parts[start:])
        kind = asked.columns.kind(column) if asked.columns is not None else None
        if kind is not None:
            told = f"An attribute of events, of kind {kind.value}."
            return asked.told(column, Meaning(told, meanings.ATTRIBUTE.section))
    return None
