"""The grammar has no conflicts, and its shipped tables are those of the grammar."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from lark.exceptions import GrammarError
from tests.queries import PAPER_QUERIES, SELECT_QUERIES, SITUATION_QUERIES, VALID_QUERIES

from cepheid.language import parser
from cepheid.language.build_tables import make_tables
from cepheid.language.parser import build_parser, fingerprint, parse, read_grammar, start_of


def test_grammar_has_no_conflicts() -> None:
    build_parser(strict=True)


def test_strict_mode_would_find_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without parentheses nobody can tell which OR binds first: the check above must see that.
    rule = "?factor: NOT factor"
    ambiguous = read_grammar().replace(rule, "?factor: factor OR factor | NOT factor")
    monkeypatch.setattr(parser, "read_grammar", lambda: ambiguous)
    with pytest.raises(GrammarError):
        build_parser(strict=True)


def test_shipped_tables_are_made_from_the_grammar() -> None:
    shipped = Path(parser.__file__).with_name("tables.json").read_bytes()
    made_from = msgspec.json.decode(shipped)["made_from"]
    assert made_from == fingerprint(read_grammar()), "run `make grammar`"


@pytest.mark.parametrize(
    "text", [*VALID_QUERIES, *SITUATION_QUERIES, *SELECT_QUERIES, *PAPER_QUERIES.values()]
)
def test_tables_and_grammar_read_alike(text: str) -> None:
    built, shipped = (p.parse(text, start=start_of(text)) for p in (_BUILT, _FROM_TABLES))
    assert built == shipped == parse(text)


def test_tables_of_another_grammar_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "fingerprint", lambda _grammar: "another")
    parser.load_parser.cache_clear()
    try:
        assert parse("PATTERN A+") == _FROM_TABLES.parse("PATTERN A+", start="query")
    finally:
        parser.load_parser.cache_clear()


_BUILT = build_parser()
_FROM_TABLES = parser.parser_from_tables(msgspec.json.decode(make_tables()))
