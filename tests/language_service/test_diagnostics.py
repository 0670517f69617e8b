"""Mistakes of texts, and edits that repair them."""

from __future__ import annotations

import pytest

from cepheid.errors import Span
from cepheid.language_service import Severity, complete, diagnostics
from cepheid.language_service.answers import apply_edits

COLUMNS = {"ts": "timestamp", "type": "string", "price": "double", "company": "string", "x": "int"}

FIXED = [
    ("RETRUN COUNT(*) PATTERN A", "E101", "RETURN COUNT(*) PATTERN A"),
    ("PATTERN Stock S WHERE S.prise > 5", "E201", "PATTERN Stock S WHERE S.price > 5"),
    ("PATTERN A WHERE A.x > 5 A.x < 9", "E101", "PATTERN A WHERE A.x > 5 AND A.x < 9"),
    ("PATTERN A WHERE A.x > 5, A.x < 9", "E101", "PATTERN A WHERE A.x > 5 AND A.x < 9"),
    ("PATTERN A GROUP company", "E101", "PATTERN A GROUP-BY company"),
    ("PATTERN SEQ(A+ NOT B, C)", "E101", "PATTERN SEQ(A+, NOT B, C)"),
    ("PATTERN A, B", "E101", "PATTERN SEQ(A, B)"),
    ("PATTERN A+ B", "E101", "PATTERN A B+"),
    ("PATTERN SEQ(A->B)", "E101", "PATTERN SEQ(A, B)"),
    ("RETURN COUNT(*), PATTERN A", "E101", "RETURN COUNT(*) PATTERN A"),
    ("PATTERN A WHERE A.company = 'x", "E102", "PATTERN A WHERE A.company = 'x'"),
    ("PATTERN A /* first", "E102", "PATTERN A /* first */"),
    ("PATTERN A WHERE A.x > 5 && A.x < 9", "E103", "PATTERN A WHERE A.x > 5 AND A.x < 9"),
    ("PATTERN A SEMANTICS strict", "E109", "PATTERN A SEMANTICS contiguous"),
    ("PATTERN A WITHIN 5 minuts", "E108", "PATTERN A WITHIN 5 minutes"),
    ("PATTERN A WITHIN '5 minutes'", "E101", "PATTERN A WITHIN 5 minutes"),
    ("RETURN COUNT(*) PATTERN 'Stock' S", "E101", "RETURN COUNT(*) PATTERN Stock S"),
    ("SELECT company, COUNT(*) FROM s", "E210", "SELECT company, COUNT(*) FROM s GROUP BY company"),
    ("SELECT prise FROM s", "E201", "SELECT price FROM s"),
    (
        "CREATE STREAM H AS SELECT prise FROM s; PATTERN H+",
        "E201",
        "CREATE STREAM H AS SELECT price FROM s; PATTERN H+",
    ),
    ("DEFINE A AS prise > 5 SITUATIONS A", "E201", "DEFINE A AS price > 5 SITUATIONS A"),
    (
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS m PATTREN (A))",
        "E601",
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS m PATTERN (A))",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "repaired"), FIXED)
def test_the_first_fix_repairs(text: str, code: str, repaired: str) -> None:
    found = diagnostics(text, COLUMNS)
    assert [one.code for one in found] == [code]
    assert apply_edits(text, found[0].fixes[0].edits) == repaired
    assert not [one for one in diagnostics(repaired, COLUMNS) if one.severity is Severity.ERROR]


def test_every_mistake_has_its_place() -> None:
    text = "RETURN COUNT(*) PATTERN A WHERE A.prise > 5 AND A.compani = 'x'"
    found = diagnostics(text, COLUMNS)
    assert [text[one.span.start : one.span.end] for one in found] == ["prise", "compani"]
    assert [one.fixes[0].edits[0].text for one in found] == ["price", "company"]


def test_a_fix_that_repairs_nothing_is_not_offered() -> None:
    # The help names `A+`, which would stand in the place of the whole comparison.
    (found,) = diagnostics("PATTERN A WHERE A.x > NEXT(A).price", COLUMNS)
    assert found.code == "E310"
    assert found.helps
    assert not found.fixes


def test_a_fix_may_leave_later_mistakes() -> None:
    text = "RETRUN COUNT(*) PATTREN A"
    (found,) = diagnostics(text)
    once = apply_edits(text, found.fixes[0].edits)
    (then,) = diagnostics(once)
    assert apply_edits(once, then.fixes[0].edits) == "RETURN COUNT(*) PATTERN A"


def test_warnings_of_a_query_without_mistakes() -> None:
    (found,) = diagnostics("PATTERN A WHERE A.company = acme", COLUMNS)
    assert (found.code, found.severity) == ("W204", Severity.WARNING)


def test_nothing_is_wrong_with_nothing() -> None:
    assert diagnostics("") == []
    assert diagnostics(" \n") == []


def test_a_mistake_at_the_end_lies_in_the_text() -> None:
    text = "PATTERN A WHERE A.x >"
    (found,) = diagnostics(text)
    assert found.span == Span(len(text), len(text))


def test_sql_that_only_sql_runs() -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS m PATTERN (A))"
    assert diagnostics(f"WITH t AS (SELECT 1) SELECT * FROM t {clause}") == []
    joined = diagnostics(f"SELECT * FROM a JOIN t {clause} ON a.x = t.m")
    assert [one.severity for one in joined] == [Severity.INFORMATION]


def test_a_join_knows_the_columns_of_its_streams() -> None:
    text = "SELECT a.x, b.prise FROM l a JOIN r b ON a.x = b.x WINDOW 5 s"
    assert diagnostics(text, COLUMNS) == []
    (found,) = diagnostics(text, {"l": COLUMNS, "r": COLUMNS})
    assert (found.code, found.fixes[0].edits[0].text) == ("E201", "price")
    same = "SELECT a.x FROM l a JOIN r b ON a.x = b.| WINDOW 5 s"
    labels = [
        one.label
        for one in complete(same.replace("|", ""), same.index("|"), {"l": COLUMNS, "r": COLUMNS})
    ]
    assert labels == list(COLUMNS)
