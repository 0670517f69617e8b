"""List what may stand at a place of a text: clauses, keywords, names, functions and values.

The tables of the grammar tell which terminals may follow what is written so far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.events.schema import EventSchema
from cepheid.expressions.cast_types import TARGETS
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS, format_name
from cepheid.expressions.functions import LANGUAGE_FUNCTIONS
from cepheid.language.lalr import Token
from cepheid.language.lexer import has_row_pattern
from cepheid.language.syntax_errors import CLAUSES
from cepheid.language_service import meanings
from cepheid.language_service.answers import Completion, CompletionKind
from cepheid.language_service.columns import columns_of
from cepheid.language_service.names import Names, names_of, streams_of
from cepheid.language_service.reading import (
    Cursor,
    at_last_word,
    at_mode,
    clause_of,
    cursor_at,
    following,
    rule_of,
)
from cepheid.language_service.row_patterns import row_pattern_words
from cepheid.language_service.value_texts import values_for

COMPLETIONS_MAX = 200
UNITS = ("seconds", "minutes", "hours", "days", "milliseconds", "microseconds")
MODES = {
    "SEMANTICS": ("skip-till-any-match", "skip-till-next-match", "contiguous"),
    "TIES": ("strict", "arrival"),
    "NUMBERS": ("exact", "default"),
}
_CLAUSES = frozenset(CLAUSES) | {"SELECT", "ON"}
_BEFORE_TYPE = frozenset(["PATTERN", "LPAR", "COMMA", "AND", "OR", "NOT", "NEXT", "WITHOUT"])
_USAGE = {
    "COUNT": "COUNT(*), COUNT(variable)",
    "FUNNEL": "FUNNEL(key)",
    "SAMPLE": "SAMPLE(100)",
    "BLAME": "BLAME()",
    "HISTOGRAM": "HISTOGRAM(LENGTH)",
    "PERCENTILE": "PERCENTILE(x, 0.9)",
    "APPROX_PERCENTILE": "APPROX_PERCENTILE(x, 0.9)",
    "MEDIAN": "MEDIAN(LENGTH)",
}


class Known(NamedTuple):
    """The names of a text and the columns of its events."""

    names: Names
    derived: list[str]
    schema: EventSchema | None
    values: Mapping[str, Sequence[object]]
    type_column: str

    @property
    def columns(self) -> list[str]:
        """The names of all columns: those of the schema, else those that values are known of."""
        return list(self.schema.names) if self.schema is not None else list(self.values)


class Asked(NamedTuple):
    """A place: the tokens before it, the terminals after it, and what is known."""

    tokens: list[Token]
    accepted: set[str]
    rule: str
    known: Known

    @property
    def last(self) -> str:
        """The terminal before the place; empty at the beginning."""
        return self.tokens[-1].type if self.tokens else ""

    @property
    def clause(self) -> str:
        """The terminal that begins the clause of the place; empty at the beginning."""
        return clause_of(self.tokens, _CLAUSES)


Offer = tuple[str, CompletionKind, str, str, str]
"""Label, kind, text to insert, detail and rule."""

_HEAD: list[Offer] = [
    ("CREATE STREAM", CompletionKind.CLAUSE, "CREATE STREAM ", "CREATE STREAM name AS", "§15.1"),
    ("AS", CompletionKind.KEYWORD, "AS", "CREATE STREAM name AS", "§15.1"),
]
"""The words before a query of a pipeline."""


def complete(
    text: str,
    offset: int,
    schema: object = None,
    values: Mapping[str, Sequence[object]] | None = None,
    *,
    type: str | None = "type",  # noqa: A002  # as in `cepheid.query`
) -> list[Completion]:
    """List what may stand at a place and begins with the letters before it, the likeliest first.

    Parameters
    ----------
    text
        Any text, also an unfinished one.
    offset
        The place, in characters.
    schema
        The columns of the events, as for :func:`cepheid.query`, or a dict of them by stream.
    values
        Some values of columns, such as the most frequent ones; those of the type column are the
        event types that patterns are offered.
    type
        The column that holds an event's type.

    Examples
    --------
    >>> [c.label for c in complete("RETURN COUNT(*) PATT", 20)]
    ['PATTERN']
    >>> [c.label for c in complete("PATTERN A a WHERE a.", 20, {"price": "double"})]
    ['price']
    """
    cursor = cursor_at(text, offset)
    if cursor is None:
        return []
    piece = cursor.piece
    if piece.query is None:
        return _fitting(_HEAD, cursor)
    # The word that is being typed names nothing yet.
    names = names_of(text[piece.query : cursor.start] + text[cursor.end : piece.end])
    derived = [stream.name for stream in streams_of(text[: piece.begin])]
    known = Known(names, derived, columns_of(schema), values or {}, type or "")
    if has_row_pattern(text[piece.query : piece.end]):
        last = at_last_word(text, cursor) if cursor.quote is None else cursor
        return _fitting([*row_pattern_words(last.before), *_row_pattern_names(known)], last)
    rule = rule_of(text, cursor)
    if cursor.quote is not None:
        return _fitting(list(_offers(_asked(cursor, rule, known), quoted=True)), cursor)
    with_hyphens = at_mode(text, cursor)
    if "MODE" in _asked(with_hyphens, rule, known).accepted:
        cursor = with_hyphens
    for one in (cursor, at_last_word(text, cursor)):
        # Without a keyword of several words, the last word stands on its own.
        offers = list(_offers(_asked(one, rule, known), quoted=False))
        found = _fitting([*offers, *(_HEAD[:1] if not one.before.strip() else ())], one)
        if found:
            return found
    return []


def _asked(cursor: Cursor, rule: str, known: Known) -> Asked:
    read = following(cursor.before, rule)
    return Asked(read.tokens, read.accepted, rule, known)


def _fitting(offers: Sequence[Offer], cursor: Cursor) -> list[Completion]:
    """Keep what begins with the letters that are typed, each once."""
    begun = re.sub(r"\s+|-(?=\s|b)", " ", cursor.word.casefold().replace("`", ""))
    span = Span(cursor.start, cursor.end)
    found: dict[tuple[str, str], Completion] = {}
    for label, kind, insert, detail, section in offers:
        folded = label.casefold().strip("'\"")
        alike = folded.replace("group-by", "group by").startswith(begun)
        if (alike or folded.startswith(cursor.word.casefold())) and folded != cursor.word:
            found.setdefault((label, kind), Completion(label, kind, insert, span, detail, section))
    return list(found.values())[:COMPLETIONS_MAX]


def _offers(asked: Asked, *, quoted: bool) -> Iterator[Offer]:
    """Yield everything that may follow."""
    yield from values_for(asked.tokens, asked.known.values, quoted=quoted)
    if quoted:
        return
    if "NAME" in asked.accepted:
        yield from _names(asked)
    yield from _special(asked)
    yield from _keywords(asked)


def _names(asked: Asked) -> Iterator[Offer]:
    """Yield the names that may stand here, by the clause."""
    last, clause = asked.last, asked.clause
    variables = [(v.name, v.of) for v in asked.known.names.variables]
    if last == "DOT":
        yield from _attributes(asked)
    elif last == "AS":
        # Only a type has a name that is known: that of CAST(x AS type).
        if any(token.type == "CAST" for token in asked.tokens[-12:]):
            yield from ((t, CompletionKind.TYPE, t, "type of CAST", "§4.12") for t in TARGETS)
    elif clause == "PATTERN" and asked.rule == "query":
        if last in _BEFORE_TYPE and "UNTIL" not in [t.type for t in asked.tokens[-2:]]:
            yield from _types(asked)
    elif clause in ("GROUP_BY", "PARTITION_BY") or _in_brackets(asked.tokens):
        yield from _columns(asked.known)
    elif clause in ("FROM", "JOIN"):
        for name in asked.known.derived:
            yield name, CompletionKind.STREAM, format_name(name), "derived stream", "§15.2"
    elif clause in ("SEMANTICS", "AFTER_MATCH_SKIP"):
        yield from _variables(variables)
    elif clause in ("PATTERN", "SITUATIONS"):
        yield from _variables([(one.name, "situation") for one in asked.known.names.situations])
    elif clause != "DEFINE" or last not in ("DEFINE", "COMMA"):
        yield from _values_of_expression(asked, variables)


def _values_of_expression(asked: Asked, variables: list[tuple[str, str]]) -> Iterator[Offer]:
    """Yield what an expression can begin with: variables or columns, and functions."""
    if "NUMBER" not in asked.accepted:
        return
    if asked.rule == "query":
        yield from _variables(variables)
        if asked.clause in ("RETURN", "HAVING"):
            yield from _columns(asked.known)
    elif asked.rule == "situation_query" and asked.clause == "RETURN":
        yield from _variables([(one.name, "situation") for one in asked.known.names.situations])
    else:
        yield from _columns(asked.known)
        yield from _variables([(s.name, s.of) for s in asked.known.names.streams])
    selects = asked.rule == "select_query"
    aggregates = meanings.SELECT_AGGREGATES if selects else meanings.AGGREGATES
    if asked.clause in ("RETURN", "HAVING", "SELECT", "ORDER_BY"):
        for name, meaning in aggregates.items():
            yield _call(
                name, _USAGE.get(name, f"{name}(x)" if selects else f"{name}(S.x)"), meaning
            )
    if not selects:
        for name, meaning in meanings.ANCHORS.items():
            yield _call(name, f"{name}(S).x", meaning)
    if asked.clause == "RETURN" and asked.rule == "query" and asked.last == "RETURN":
        for name, meaning in meanings.SURVEYS.items():
            yield _call(name, _USAGE[name], meaning)
    for name, function in LANGUAGE_FUNCTIONS.items():
        yield _call(name, function.usage, meanings.FUNCTION)


def _call(name: str, usage: str, meaning: meanings.Meaning) -> Offer:
    return name, CompletionKind.FUNCTION, f"{name}(", usage, meaning.section


def _variables(named: list[tuple[str, str]]) -> Iterator[Offer]:
    for name, of in dict(named).items():
        yield name, CompletionKind.VARIABLE, format_name(name), of, "§2.1"


def _columns(known: Known, prefix: str = "") -> Iterator[Offer]:
    for name in known.columns:
        if name.startswith(prefix):
            kind = known.schema.kind(name) if known.schema is not None else None
            parts = name[len(prefix) :]
            written = (
                ".".join(format_name(part) for part in parts.split("."))
                if prefix
                else format_name(parts)
            )
            yield parts, CompletionKind.COLUMN, written, kind.value if kind else "", "§4.1"


def _attributes(asked: Asked) -> Iterator[Offer]:
    """Yield what may stand after a dot: columns, or the fields of a structure."""
    path: list[str] = []
    tokens = asked.tokens
    place = len(tokens) - 1
    while place >= 1 and tokens[place].type == "DOT" and tokens[place - 1].type == "NAME":
        path.insert(0, str(tokens[place - 1]))
        place -= 2
    whole, inner = ".".join(path) + ".", ".".join(path[1:]) + "."
    for prefix in (whole, inner if path[1:] else ""):
        found = list(_columns(asked.known, prefix))
        if found:
            yield from found
            return


def _types(asked: Asked) -> Iterator[Offer]:
    for name in asked.known.derived:
        yield name, CompletionKind.TYPE, format_name(name), "derived stream", "§15.2"
    for value in asked.known.values.get(asked.known.type_column, ()):
        if isinstance(value, str):
            yield value, CompletionKind.TYPE, format_name(value), "event type", "§2.4"
    written = {declared.of for declared in asked.known.names.variables if declared.of}
    for name in sorted(written):
        yield name, CompletionKind.TYPE, format_name(name), "event type", "§2.4"


def _in_brackets(tokens: list[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token.type == "LSQB") - (token.type == "RSQB")
    return depth > 0


def _special(asked: Asked) -> Iterator[Offer]:
    """Yield units, modes, relations and the words of orders and skips."""
    accepted = asked.accepted
    if "UNIT" in accepted and asked.last == "NUMBER":
        yield from ((u, CompletionKind.UNIT, u, "unit of time", "§6.2") for u in UNITS)
    if "MODE" in accepted:
        for mode in MODES.get(asked.clause, ()):
            text, section = meanings.MODES[mode]
            yield mode, CompletionKind.KEYWORD, mode, text, section
    tables = {"RELATION": meanings.RELATIONS, "SKIP_MODE": meanings.SKIPS}
    for terminal, table in tables.items():
        if terminal in accepted:
            for word, (text, section) in table.items():
                yield word, CompletionKind.KEYWORD, word, text, section
    orders = {"DIRECTION": ("ASC", "DESC"), "NULLS": ("NULLS FIRST", "NULLS LAST")}
    for terminal, words in orders.items():
        if terminal in accepted:
            yield from ((word, CompletionKind.KEYWORD, word, "", "§10.10") for word in words)


def _keywords(asked: Asked) -> Iterator[Offer]:
    """Yield the clauses and keywords that the grammar accepts here."""
    usual = [*CLAUSES, "SELECT"]
    possible = asked.accepted - _written(asked)
    if asked.rule != "select_query":
        possible = possible - {"FILTER"}
    found = sorted(possible & (KEYWORDS | INNER_KEYWORDS | {"ORDER_BY", "TOP", "LONGEST"}))
    found.sort(key=lambda name: (name not in usual, usual.index(name) if name in usual else 0))
    special = meanings.SITUATION_KEYWORDS if asked.rule == "situation_query" else {}
    special = meanings.SELECT_KEYWORDS if asked.rule == "select_query" else special
    for terminal in found:
        word = CLAUSES.get(terminal, terminal.replace("_", " "))
        if terminal == "GROUP_BY" and asked.rule == "select_query":
            word = "GROUP BY"
        kind = CompletionKind.CLAUSE if terminal in usual else CompletionKind.KEYWORD
        text, section = special.get(terminal) or meanings.KEYWORDS[terminal]
        yield word, kind, word, text, section


def _written(asked: Asked) -> set[str]:
    """Collect the clauses before the place; each may be written once."""
    depth, found = 0, set()
    for token in asked.tokens:
        depth += (token.type in ("LPAR", "LSQB")) - (token.type in ("RPAR", "RSQB"))
        if depth == 0:
            found.add(token.type)
    # In a join each stream has its own WITHIN.
    return found & {*CLAUSES, "SELECT"} - {"WITHIN" if asked.rule == "select_query" else ""}


def _row_pattern_names(known: Known) -> Iterator[Offer]:
    yield from _variables([(v.name, v.of) for v in known.names.variables])
    yield from _columns(known)
    for name, function in LANGUAGE_FUNCTIONS.items():
        yield _call(name, function.usage, meanings.FUNCTION)
