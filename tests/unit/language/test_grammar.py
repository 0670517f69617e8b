"""The grammar has no conflicts, and its shipped tables are those of the grammar."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lark.exceptions import GrammarError, UnexpectedToken
from lark.lexer import Lexer
from tests.queries import PAPER_QUERIES, SELECT_QUERIES, SITUATION_QUERIES, VALID_QUERIES

from cepheid.errors import QuerySyntaxError
from cepheid.language import parser, tree
from cepheid.language.build_tables import build_parser, encode, make_tables
from cepheid.language.builder import TreeBuilder
from cepheid.language.grammar import read_grammar
from cepheid.language.lalr import UnexpectedTokenError
from cepheid.language.lexer import MistakeFoundError, lex
from cepheid.language.parser import load_parser, parse, start_of

QUERIES = [*VALID_QUERIES, *SITUATION_QUERIES, *SELECT_QUERIES, *PAPER_QUERIES.values()]


class LexerOfLark(Lexer):
    """Our lexer, for Lark's parser."""

    __future_interface__ = 2

    def __init__(self, _lexer_conf: object = None) -> None:
        return

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Any]:
        states = parser_state.parse_conf.states
        for token in lex(lexer_state.text.text, lambda: states[parser_state.position]):
            # Lark borrows the place of the last token for the end.
            token.line = token.column = token.end_line = token.end_column = None  # type: ignore[attr-defined]
            yield token


LARK = build_parser(read_grammar(), lexer=LexerOfLark, transformer=TreeBuilder())


def test_grammar_has_no_conflicts() -> None:
    build_parser(read_grammar(), strict=True)


def test_strict_mode_would_find_a_conflict() -> None:
    # Without parentheses nobody can tell which OR binds first: the check above must see that.
    rule = "?factor: NOT factor"
    ambiguous = read_grammar().replace(rule, "?factor: factor OR factor | NOT factor")
    with pytest.raises(GrammarError):
        build_parser(ambiguous, strict=True)


def test_shipped_tables_are_made_from_the_grammar() -> None:
    shipped = Path(parser.__file__).with_name("tables.json").read_bytes()
    assert shipped == encode(make_tables()), "run `make grammar`"


@pytest.mark.parametrize("text", QUERIES)
def test_tables_are_read_as_lark_reads_them(text: str) -> None:
    built: Any = LARK.parse(text, start=start_of(text))
    assert tree.with_texts(built, text) == parse(text)


@pytest.mark.parametrize("text", QUERIES)
def test_what_cannot_follow_is_what_lark_says(text: str) -> None:
    """Cut each query after each word: both parsers refuse the rest, and accept the same."""
    words = text.split()
    for count in range(0, len(words), 3):
        cut = " ".join(words[:count])
        for start in (cut, f"{cut} WITHIN", f"{cut} )"):
            assert refused_by_us(start) == refused_by_lark(start), start


def refused_by_us(text: str) -> object:
    try:
        load_parser().parse(functools.partial(lex, text), start_of(text))
    except UnexpectedTokenError as error:
        return error.token.type, str(error.token), error.accepted
    except MistakeFoundError as error:
        return error.diagnostic
    return None


def refused_by_lark(text: str) -> object:
    try:
        LARK.parse(text, start=start_of(text))
    except UnexpectedToken as error:
        return error.token.type, str(error.token), set(error.accepts or error.expected)
    except MistakeFoundError as error:
        return error.diagnostic
    return None


def test_tables_of_another_grammar_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = parse("PATTERN A+")
    monkeypatch.setattr(parser, "fingerprint", lambda _grammar: "another")
    parser.load_parser.cache_clear()
    try:
        assert parse("PATTERN A+") == expected
        with pytest.raises(QuerySyntaxError):
            parse("PATTERN A+ )")
    finally:
        parser.load_parser.cache_clear()
