"""Query text in, tree out; no other module knows that Lark exists.

Building the LALR tables takes longer than everything else together, so they are built ahead of time
(``make grammar``) and shipped as JSON. Tables of another grammar or another version of Lark are not
used: then they are built anew from ``grammar.lark``, slower and with the same result.
"""

from __future__ import annotations

import functools
import zlib
from importlib import resources
from typing import Any

import lark
import msgspec
from lark.exceptions import UnexpectedToken

from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.language import tree
from cepheid.language.builder import TreeBuilder
from cepheid.language.expression_builder import INTEGER_MAX, too_large
from cepheid.language.lexer import (
    TERMINALS,
    MistakeFoundError,
    QueryLexer,
    is_about_situations,
    is_select,
)
from cepheid.language.syntax_errors import explain_unexpected

TEXT_LENGTH_MAX = 100_000
"""Characters of a query; the longest that people write are a thousand times shorter."""

NESTING_MAX = 100
"""Levels of a tree, so that no recursion over it can run out of stack."""

OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": QueryLexer,
    "start": ["query", "situation_query", "select_query"],
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def parse(text: str) -> tree.Query:
    """Return the tree of a query text.

    It is a SituationQuery if the text defines situations, a SelectQuery if it begins with SELECT.

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
    try:
        query = load_parser().parse(text, start=start_of(text))
    except MistakeFoundError as mistake:
        raise QuerySyntaxError([mistake.diagnostic], text) from None
    except UnexpectedToken as error:
        raise QuerySyntaxError([explain_unexpected(error, text)], text) from None
    assert isinstance(query, tree.Query), "the start rule builds a query"
    _check_tree(query, text)
    return tree.with_texts(query, text)


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


def read_grammar() -> str:
    """Return the grammar with the declaration of the terminals that the lexer makes."""
    text = resources.files("cepheid.language").joinpath("grammar.lark").read_text("utf-8")
    return f"{text}\n%declare {' '.join(sorted(TERMINALS - _ANONYMOUS))}\n"


_ANONYMOUS = frozenset(
    [
        *("LPAR", "RPAR", "LSQB", "RSQB", "LBRACE", "RBRACE"),
        *("COMMA", "SEMICOLON", "DOT", "QMARK", "PLUS", "STAR"),
    ]
)
"""The terminals that Lark names itself after the marks in the grammar."""


def build_parser(**options: Any) -> lark.Lark:
    """Build the parser from the grammar's text; ``strict=True`` fails on every conflict."""
    return lark.Lark(read_grammar(), **{**OPTIONS, "transformer": TreeBuilder(), **options})


def fingerprint(grammar: str) -> str:
    """Fingerprint the inputs of a table: the version of Lark and the grammar's checksum."""
    return f"lark {lark.__version__} grammar {zlib.crc32(grammar.encode()):08x}"


@functools.cache
def load_parser() -> lark.Lark:
    """Return the parser, from the shipped tables if they fit."""
    shipped = resources.files("cepheid.language").joinpath("tables.json")
    if shipped.is_file():
        tables = msgspec.json.decode(shipped.read_bytes())
        if tables["made_from"] == fingerprint(read_grammar()):
            return parser_from_tables(tables)
    return build_parser()


def parser_from_tables(tables: dict[str, Any]) -> lark.Lark:
    """Rebuild a parser from JSON; JSON has made text of the whole numbers that are keys."""
    data, memo = tables["data"], {int(key): value for key, value in tables["memo"].items()}
    table = data["parser"]["parser"]
    table["states"] = {int(state): actions for state, actions in table["states"].items()}
    table["tokens"] = {int(key): name for key, name in table["tokens"].items()}
    for actions in table["states"].values():
        for token in list(actions):
            actions[int(token)] = actions.pop(token)
    data["options"]["lexer"] = QueryLexer
    data["parser"]["lexer_conf"]["lexer_type"] = QueryLexer
    load: Any = lark.Lark._load_from_dict
    parser: lark.Lark = load(data, memo, transformer=TreeBuilder())
    return parser
