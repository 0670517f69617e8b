"""A SQL text in, its row patterns out: where each stands, and what it reads.

The rest of the text is not understood here. Each MATCH_RECOGNIZE clause is replaced, together with
the table before it, by the name of a view, and so is the table of a window with PATTERN; the text
that is left is ordinary SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from cepheid.errors import BindError, Diagnostic, QuerySyntaxError, Span
from cepheid.expressions.own import OwnFunction
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.lexer import Token, TokenKind, tokenize
from cepheid.kinds.row_pattern.parser import parse_clause
from cepheid.kinds.row_pattern.reader import Reader
from cepheid.kinds.row_pattern.rendered import Piece, Rendered, joined
from cepheid.kinds.row_pattern.select_tree import JOINS
from cepheid.kinds.row_pattern.window_sites import ENDS, Edit, find_windows

PARENTHESES_MAX = 200
"""Spark reads so many inside each other; with twice as many its parser gives up."""

_WORD_END, _WORD_START = re.compile(r"\w$"), re.compile(r"\w")

_BEFORE_TABLE = frozenset({"FROM", "JOIN", "LATERAL", "TABLE", "ONLY", "INTO", "AS"})


class Named(msgspec.Struct, frozen=True):
    """A named query of a WITH, and up to where its name is known."""

    span: Span
    scope_end: int


class Site(msgspec.Struct, frozen=True):
    """A clause with the table that it reads.

    Attributes
    ----------
    clause
        The clause.
    source
        The place of the table or subquery before it, without an alias.
    span
        The place of both together, which the name of a view replaces.
    named
        The queries of WITH that the table may name.
    alias
        The name of the table, if the view has to be called so.
    edits
        What else the view changes in the text.
    """

    clause: tree.Clause
    source: Span
    span: Span
    named: tuple[Named, ...]
    alias: str = ""
    edits: tuple[Edit, ...] = ()


class View(NamedTuple):
    """The name of the view that replaces a site, and the columns of what the site reads."""

    name: str
    columns: Sequence[str] = ()


class Statement(msgspec.Struct, frozen=True):
    """A SQL text and its row patterns, inner ones before the ones around them.

    ``functions`` are those of the user's own that it may call.
    """

    text: str
    sites: tuple[Site, ...]
    functions: tuple[OwnFunction, ...] = ()

    def source_query(self, site: Site, views: Sequence[View]) -> Rendered:
        """Return a query for the input of a site; the sites before it have become views."""
        parts: list[Piece] = []
        for named in site.named:
            parts.append(_added(", " if parts else "WITH ", site.source))
            parts += self._rendered(named.span, views)
        parts.append(_added(" SELECT * FROM " if parts else "SELECT * FROM ", site.source))
        return joined([*parts, *self._rendered(site.source, views)], self.text)

    def outer_query(self, views: Sequence[View]) -> Rendered:
        """Return the text with every clause replaced by a view."""
        return joined(self._rendered(Span(0, len(self.text)), views), self.text)

    def _rendered(self, span: Span, views: Sequence[View]) -> list[Piece]:
        """Return part of the text; of sites inside each other the outermost is replaced."""
        inside: list[Edit] = []
        for site, view in zip(self.sites, views, strict=False):
            # What is inside a later site, or as large, is part of what that one reads.
            inside = [edit for edit in inside if not _holds(site.span, edit.span)]
            named = f"{view.name} AS {site.alias}" if site.alias else view.name
            inside.append(Edit(site.span, named))
            inside += [
                edit if edit.text is not None else Edit(edit.span, _listed(view.columns))
                for edit in site.edits
            ]
        parts, place = [], span.start
        for one, text in sorted(edit for edit in inside if _holds(span, edit.span)):
            assert text is not None, "columns are listed already"
            # What touches the clause or its table must not become part of the name.
            before = " " if _WORD_END.search(self.text[place : one.start]) else ""
            after = " " if _WORD_START.match(self.text[one.end :]) else ""
            parts += [self._kept(place, one.start), _added(before + text + after, one)]
            place = one.end
        return [*parts, self._kept(place, span.end)]

    def _kept(self, start: int, end: int) -> Piece:
        return Piece(self.text[start:end], Span(start, end))


def _added(text: str, place: Span) -> Piece:
    return Piece(text, place, kept=False)


def _holds(outer: Span, inner: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _listed(columns: Sequence[str]) -> str:
    """List the columns that `*` stands for; as long as they are not known, it is left."""
    return ", ".join("`" + name.replace("`", "``") + "`" for name in columns) or "*"


def read_statement(text: str, functions: Iterable[OwnFunction] = ()) -> Statement:
    """Return a SQL text with its clauses read.

    Raises
    ------
    QuerySyntaxError
        E601, E602 or E615 if a clause cannot be read.
    BindError
        E613 if there is no clause, or none can stand where one does.

    Examples
    --------
    >>> text = "SELECT * FROM t MATCH_RECOGNIZE (MEASURES 1 AS x PATTERN (A)) AS m"
    >>> statement = read_statement(text)
    >>> source = statement.source_query(statement.sites[0], [])
    >>> statement.outer_query([View("v")]).text, source.text
    ('SELECT * FROM v AS m', 'SELECT * FROM t')
    """
    tokens = tokenize(text)
    _check_nesting(tokens, text)
    named, own = _find_named(tokens), tuple(functions)
    sites = []
    for place, token in enumerate(tokens):
        if token.upper == "MATCH_RECOGNIZE" and tokens[place + 1].is_mark("("):
            reader = Reader(tokens, text, place)
            clause = tree.with_own_functions(parse_clause(reader), own)
            source, start, tables = _find_source(tokens, place, text)
            clause = msgspec.structs.replace(clause, tables=tables)
            span = Span(start, clause.span.end)
            alias = _called(tables) if _ends_table(reader.token) else ""
            sites.append(Site(clause, source, span, _known(named, start), alias))
    for window in find_windows(tokens, text, [site.clause.span for site in sites]):
        source = window.source
        known = _known(named, source.start)
        clause = tree.with_own_functions(window.clause, own)
        sites.append(Site(clause, source, source, known, window.alias, window.edits))
    if not sites:
        message = (
            "the text has no MATCH_RECOGNIZE clause, and calls nothing over a window with PATTERN"
        )
        helps = ("write `FROM table MATCH_RECOGNIZE (...)`, or run the text with Spark itself",)
        raise BindError([Diagnostic("E613", message, Span(0, 0), helps=helps)], text)
    # A stable order: of two that replace the same table, the later one reads the earlier one.
    return Statement(text, tuple(sorted(sites, key=lambda site: site.span.end)), own)


def _ends_table(token: Token) -> bool:
    """Check whether a clause has no alias, as far as the token after it tells."""
    ends = token.kind is TokenKind.END or token.is_mark(")", ",", ";")
    return ends or token.upper in ENDS | {"ON", "USING", "JOIN", *JOINS}


def _called(tables: Sequence[str]) -> str:
    """Call the result of a clause as its table, if that has a name."""
    return "`" + tables[-1].replace("`", "``") + "`" if tables else ""


def _known(named: Sequence[Named], start: int) -> tuple[Named, ...]:
    return tuple(n for n in named if n.span.end <= start and start < n.scope_end)


def _check_nesting(tokens: Sequence[Token], text: str) -> None:
    """Refuse what would end Spark's stack, where it reads the rest of the text."""
    depth = 0
    for token in tokens:
        depth += token.is_mark("(") - token.is_mark(")")
        if depth > PARENTHESES_MAX:
            message = f"the text is nested deeper than {PARENTHESES_MAX} parentheses"
            helps = ("remove parentheses that change nothing, or name inner queries with WITH",)
            raise QuerySyntaxError([Diagnostic("E601", message, token.span, helps=helps)], text)


def _find_source(
    tokens: Sequence[Token], place: int, text: str
) -> tuple[Span, int, tuple[str, ...]]:
    """Return the table or subquery before a clause, where the site begins, and its names."""
    first, last = _item_before(tokens, place - 1, text)
    named = [last]
    is_name = tokens[first].kind in (TokenKind.WORD, TokenKind.QUOTED)
    has_columns = is_name and tokens[last].is_mark(")")
    if is_name and (first == last or has_columns) and first > 0:
        before = tokens[first - 1]
        alias = before.upper == "AS" or before.is_mark(")") or before.kind is TokenKind.QUOTED
        alias |= before.kind is TokenKind.WORD and before.upper not in _BEFORE_TABLE
        if alias:
            named = [first]
            at = first - 2 if before.upper == "AS" else first - 1
            first, end = _item_before(tokens, at, text)
            # An alias that names columns says what they are called: `(VALUES ...) AS v (a, b)`.
            last = last if has_columns else end
    start = tokens[first].span.start
    names = (tokens[one] for one in named)
    tables = tuple(one.value for one in names if one.kind in (TokenKind.WORD, TokenKind.QUOTED))
    return Span(start, tokens[last].span.end), start, tables


def _item_before(tokens: Sequence[Token], last: int, text: str) -> tuple[int, int]:
    """Return the first and last token of a name, call or parenthesised text that ends here."""
    first = last
    if last >= 0 and tokens[last].is_mark(")"):
        depth = 0
        while first >= 0:
            depth += tokens[first].is_mark(")") - tokens[first].is_mark("(")
            if depth == 0:
                break
            first -= 1
        before = tokens[first - 1] if first > 0 else None
        call = before is not None and before.kind in (TokenKind.WORD, TokenKind.QUOTED)
        if before is None or not call or before.upper in _BEFORE_TABLE - {"TABLE"}:
            return first, last
        first -= 1
    named = first >= 0 and tokens[first].kind in (TokenKind.WORD, TokenKind.QUOTED)
    is_call = first < last and tokens[first].upper == "TABLE"
    if not named or (tokens[first].upper in _BEFORE_TABLE and not is_call):
        message = "MATCH_RECOGNIZE does not follow a table"
        span = tokens[max(last + 1, 0)].span
        helps = ("write `FROM table MATCH_RECOGNIZE (...)`",)
        raise BindError([Diagnostic("E613", message, span, helps=helps)], text)
    while first >= 2 and tokens[first - 1].is_mark("."):
        first -= 2
    return first, last


def _find_named(tokens: Sequence[Token]) -> list[Named]:
    """Return the named queries of every WITH."""
    closing = _closing(tokens)
    found = []
    for place, token in enumerate(tokens):
        if token.upper != "WITH":
            continue
        enclosing = [end for start, end in closing.items() if start < place < end]
        scope_end = tokens[min(enclosing, default=len(tokens) - 1)].span.end
        at = place + 1 + (tokens[place + 1].upper == "RECURSIVE")
        while (end := _named_end(tokens, closing, at)) is not None:
            span = Span(tokens[at].span.start, tokens[end].span.end)
            found.append(Named(span, scope_end))
            if not tokens[end + 1].is_mark(","):
                break
            at = end + 2
    return found


def _named_end(tokens: Sequence[Token], closing: dict[int, int], at: int) -> int | None:
    """Return the last token of ``name [(columns)] AS (query)``, or None if it is none."""
    if tokens[at].kind not in (TokenKind.WORD, TokenKind.QUOTED):
        return None
    at += 1
    if tokens[at].is_mark("("):
        at = closing.get(at, at) + 1
    if at + 1 >= len(tokens) or tokens[at].upper != "AS" or not tokens[at + 1].is_mark("("):
        return None
    return closing.get(at + 1)


def _closing(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the closing parenthesis of every opening one, as places of tokens."""
    pairs: dict[int, int] = {}
    waiting: list[int] = []
    for place, token in enumerate(tokens):
        if token.is_mark("("):
            waiting.append(place)
        elif token.is_mark(")") and waiting:
            pairs[waiting.pop()] = place
    return pairs
