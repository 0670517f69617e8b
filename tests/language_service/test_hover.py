"""What words mean, and the outline of a text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.kinds.trend.planning.surveys import SURVEYS
from cepheid.language_service import SymbolKind, format_text, hover, meanings, symbols

RULES = Path(__file__).parents[2] / "docs" / "semantics.md"
COLUMNS = {"ts": "timestamp", "price": "double", "place.city": "string"}
QUERY = (
    "RETURN COUNT(*) PATTERN SEQ(Stock S+, NOT Halt H) WHERE [sector] AND S.price > NEXT(S).price"
)


@pytest.mark.parametrize(
    ("text", "title", "section"),
    [
        (QUERY.replace("NOT", "N|OT"), "NOT", "§2.5"),
        (QUERY.replace("S+", "S|+"), "+", "§2.4"),
        (QUERY.replace("COUNT", "|COUNT"), "COUNT", "§5.1"),
        (QUERY.replace("Stock", "St|ock"), "Stock", "§2.4"),
        (QUERY.replace("S.price >", "|S.price >"), "S", "§2.1"),
        (QUERY.replace("S.price >", "S.p|rice >"), "price", "§4.1"),
        (QUERY.replace("NEXT", "NE|XT"), "NEXT", "§4.4"),
        (QUERY.replace("[", "|["), "[", "§4.2"),
        ("PATTERN A SEMANTICS skip-|till-next-match", "skip-till-next-match", "§3.2"),
        ("PATTERN A GROUP-|BY x", "GROUP-BY", "§6.5"),
        ("PATTERN A WITHIN 5 min|utes", "minutes", "§6.2"),
        ("DEFINE A AS price > 5, B AS price < 2 PATTERN A met| by B", "met by", "§9.3"),
        ("DEFINE A AS price > 5 AT LE|AST 5 s SITUATIONS A", "AT LEAST", "§9.4"),
        ("SELECT COUNT(*) FROM s GROUP B|Y x", "GROUP BY", "§6.5"),
        ("SELECT ME|DIAN(x) FROM s", "MEDIAN", "§10.3"),
        ("SELECT RO|UND(x) FROM s", "ROUND(number, digits)", "§4.6"),
        ("CREATE STR|EAM H AS PATTERN A; PATTERN H", "CREATE STREAM", "§15.1"),
        ("SELECT * FROM t MATCH_|RECOGNIZE (PATTERN (A))", "MATCH_RECOGNIZE", "§11"),
        ("PATTERN ) WHE|RE", "WHERE", "§4"),
    ],
)
def test_words(text: str, title: str, section: str) -> None:
    found = hover(text.replace("|", ""), text.index("|"), COLUMNS)
    assert found is not None
    assert (found.title, found.section) == (title, section)


def test_words_that_are_names_here() -> None:
    text = "PATTERN Stock S WHERE S.count > 5 AND S.next = 1"
    assert hover(text, text.index("count")) is None
    assert hover(text, text.index("next")) is None


def test_nothing_to_say() -> None:
    assert hover("", 0) is None
    assert hover("PATTERN A -- NOT", 14) is None
    assert hover("PATTERN A WHERE A.x = 5 ", 22) is None


def test_every_keyword_has_a_meaning() -> None:
    assert set(meanings.KEYWORDS) >= KEYWORDS | INNER_KEYWORDS


def test_every_survey_has_a_meaning() -> None:
    assert {*meanings.SURVEYS, *meanings.KEYWORDS} >= set(SURVEYS)


def test_every_rule_is_there() -> None:
    text = RULES.read_text(encoding="utf-8")
    known = set(re.findall(r"\*\*(§\d+\.\d+)\*\*", text)) | set(re.findall(r"## (§\d+)", text))
    tables = [t for t in vars(meanings).values() if isinstance(t, dict)]
    told = [m for table in tables for m in table.values() if isinstance(m, meanings.Meaning)]
    told += [m for m in vars(meanings).values() if isinstance(m, meanings.Meaning)]
    assert len(told) > 100
    assert not {meaning.section for meaning in told} - known


def test_the_outline() -> None:
    text = (
        "CREATE STREAM H AS RETURN MAX(S.x) AS top PATTERN Stock S+ WITHIN 5 s SLIDE 5 s;\n"
        "PATTERN H h"
    )
    found = [(s.kind, s.name, text[s.span.start : s.span.end]) for s in symbols(text)]
    assert found == [
        (SymbolKind.STREAM, "H", "H"),
        (SymbolKind.CLAUSE, "RETURN", "RETURN MAX(S.x) AS top"),
        (SymbolKind.RESULT, "top", "top"),
        (SymbolKind.CLAUSE, "PATTERN", "PATTERN Stock S+"),
        (SymbolKind.VARIABLE, "S", "S"),
        (SymbolKind.CLAUSE, "WITHIN", "WITHIN 5 s SLIDE 5 s"),
        (SymbolKind.CLAUSE, "PATTERN", "PATTERN H h"),
        (SymbolKind.VARIABLE, "h", "h"),
    ]


def test_the_outline_of_situations() -> None:
    found = symbols("DEFINE Fast AS v > 5, Slow AS v < 2 PATTERN Fast before Slow")
    assert [s.name for s in found if s.kind is SymbolKind.SITUATION] == ["Fast", "Slow"]
    assert not [s for s in found if s.kind is SymbolKind.VARIABLE]


def test_the_layout() -> None:
    assert format_text("pattern A within 5 s -- x") == "PATTERN A\nWITHIN 5 seconds -- x"
    assert format_text("PATTERN (") is None
