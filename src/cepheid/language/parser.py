"""Query text in, tree out.

Building the LALR tables takes longer than everything else together, so they are built ahead of time
(``make grammar``) and shipped as JSON. Tables of another grammar are not used: then Lark builds
them anew from ``grammar.lark``, slower and with the same result.
"""

from __future__ import annotations

import functools
from importlib import resources

from cepheid.decoding import from_json
from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.language import tree
from cepheid.language.builder import TreeBuilder
from cepheid.language.expression_builder import INTEGER_MAX, too_large
from cepheid.language.grammar import fingerprint, read_grammar
from cepheid.language.lalr import Parser, Tables, UnexpectedTokenError
from cepheid.language.lexer import (
    MistakeFoundError,
    has_row_pattern,
    is_about_situations,
    is_select,
    lex,
    row_pattern_source,
)
from cepheid.language.plain_filters import read_plain_filter
from cepheid.language.statements import Statement, is_pipeline, split_statements
from cepheid.language.syntax_errors import explain_unexpected

TEXT_LENGTH_MAX = 100_000
"""Characters of a query; the longest that people write are a thousand times shorter."""

NESTING_MAX = 100
"""Levels of a tree, so that no recursion over it can run out of stack."""


def parse(text: str) -> tree.Query:
    """Return the tree of a query text.

    It is a SituationQuery if the text defines situations, a SelectQuery if it begins with SELECT,
    a RowPatternQuery if that has MATCH_RECOGNIZE, a PipelineQuery if it begins with CREATE STREAM,
    a SweepQuery if a constant has many values.

    Raises
    ------
    QuerySyntaxError
        With one diagnostic E1xx, when the text cannot be read.

    Examples
    --------
    >>> parse("RETURN COUNT(*) PATTERN Stock S+").pattern.least
    1
    """
    if len(text) > TEXT_LENGTH_MAX:
        message = f"the query has {len(text):,} characters, more than {TEXT_LENGTH_MAX:,}"
        raise QuerySyntaxError(
            [Diagnostic("E106", message, helps=("split it into several queries",))]
        )
    plain = read_plain_filter(text)
    if plain is not None:
        return plain
    if has_row_pattern(text):
        return _row_pattern(text, 0)
    if not is_pipeline(text):
        return _parse_one(text, text)
    try:
        statements = split_statements(text)
    except MistakeFoundError as mistake:
        raise QuerySyntaxError([mistake.diagnostic], text) from None
    stages = tuple(_parse_stage(statement, text) for statement in statements)
    span = Span(statements[0].name_span.start, statements[-1].end)
    return tree.PipelineQuery(span=span, stages=stages)


def _parse_stage(statement: Statement, text: str) -> tree.StageQuery:
    """Parse a query of a pipeline; blanks before it keep its places in the whole text."""
    lines = "".join("\n" if c == "\n" else " " for c in text[: statement.begin])
    own = lines + text[statement.begin : statement.end]
    if has_row_pattern(own):
        query: tree.Query = _row_pattern(own, statement.begin)
    else:
        query = _parse_one(own, text)
    name = None
    if statement.name is not None:
        name = tree.Name(span=statement.name_span, text=statement.name)
    return tree.StageQuery(span=query.span, query=query, name=name)


def _row_pattern(text: str, begin: int) -> tree.RowPatternQuery:
    """Keep the text of a row pattern, which its kind reads, and find the stream that it reads."""
    source = row_pattern_source(text)
    assert source is not None, "the text has a clause"
    span = Span(source.start(), source.end())
    name = tree.Name(span=span, text=source.group().strip('`"'))
    return tree.RowPatternQuery(span=Span(begin, len(text)), text=text.strip(), source=name)


def _parse_one(text: str, whole: str) -> tree.Query:
    """Parse one query; messages show the whole text that it is in."""
    try:
        query = load_parser().parse(functools.partial(lex, text), start_of(text), len(text))
    except MistakeFoundError as mistake:
        raise QuerySyntaxError([mistake.diagnostic], whole) from None
    except UnexpectedTokenError as error:
        raise QuerySyntaxError([explain_unexpected(error, text)], whole) from None
    assert isinstance(query, tree.Query), "the start rule builds a query"
    _check_tree(query, whole)
    query = tree.with_texts(query, text)
    if "SWEEP" in text.upper() and tree.contains(query, tree.Sweep):
        return tree.SweepQuery(span=query.span, query=query)
    return query


def start_of(text: str) -> str:
    """Return the rule of the grammar by which a text is read."""
    if is_select(text):
        return "select_query"
    return "situation_query" if is_about_situations(text) else "query"


def _check_tree(query: tree.Query, text: str) -> None:
    """Reject trees that are too deep, without recursion, and a number that lacks its sign."""
    level: list[tree.Node] = [query]
    for _ in range(NESTING_MAX):
        for node in level:
            value = node.value if isinstance(node, tree.Literal) else None
            if isinstance(value, int) and value > INTEGER_MAX:
                raise QuerySyntaxError([too_large(str(value), node.span)], text)
        level = [child for node in level for child in tree.children_of(node)]
        if not level:
            return
    start = level[0].span.start
    diagnostic = Diagnostic(
        "E106",
        f"the query is nested more than {NESTING_MAX} levels deep",
        Span(start, start + 1),
        "this level is too deep",
        helps=("write long chains as lists: `SEQ(A, B, C)`, `x IN (1, 2, 3)`",),
    )
    raise QuerySyntaxError([diagnostic], text)


@functools.cache
def load_parser() -> Parser:
    """Return the parser, from the shipped tables if they fit."""
    shipped = resources.files("cepheid.language").joinpath("tables.json")
    if shipped.is_file():
        tables = from_json(shipped.read_bytes(), Tables)
        if tables.made_from == fingerprint(read_grammar()):
            return Parser(tables, TreeBuilder())
    # Loads Lark, for somebody who has changed the grammar.
    from cepheid.language.build_tables import make_tables

    return Parser(make_tables(), TreeBuilder())
