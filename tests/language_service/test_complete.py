"""What may stand at a place of a text."""

from __future__ import annotations

import pytest

from cepheid.language_service import Completion, CompletionKind, complete

COLUMNS = {
    "ts": "timestamp",
    "type": "string",
    "price": "double",
    "company": "string",
    "order id": "int",
    "address": "struct<city: string>",
    "address.city": "string",
}
VALUES: dict[str, list[object]] = {
    "type": ["Stock", "Halt", "trading halt"],
    "company": ["acme", "it's"],
    "price": [1.5, 2],
}


def at(text: str) -> list[Completion]:
    """Complete at the mark ``|``."""
    offset = text.index("|")
    return complete(text[:offset] + text[offset + 1 :], offset, COLUMNS, VALUES)


def labels(text: str, *kinds: CompletionKind) -> list[str]:
    return [one.label for one in at(text) if not kinds or one.kind in kinds]


def filled(text: str, label: str) -> str:
    """Take one of the completions."""
    one = next(one for one in at(text) if one.label == label)
    plain = text.replace("|", "")
    return plain[: one.span.start] + one.insert + plain[one.span.end :]


def test_the_beginning() -> None:
    found = labels("|")
    assert {"RETURN", "PATTERN", "SELECT", "DEFINE", "FROM", "CREATE STREAM"} <= set(found)
    assert "AND" not in found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("RETURN COUNT(*) PATT|", ["PATTERN"]),
        ("PATTERN A GROUP|", ["GROUP-BY"]),
        ("PATTERN A GROUP-B|", ["GROUP-BY"]),
        ("PATTERN A group b|", ["GROUP-BY"]),
        ("SELECT COUNT(*) FROM s GROUP B|", ["GROUP BY"]),
        ("PATTERN A min l|", ["MIN LENGTH"]),
        ("PATTERN A SEMANTICS skip-till-|", ["skip-till-any-match", "skip-till-next-match"]),
        ("PATTERN A TIES |", ["strict", "arrival"]),
        (
            "PATTERN A AFTER MATCH SKIP |",
            ["PAST LAST", "TO NEXT", "TO FIRST", "TO LAST", "TO LATEST"],
        ),
        ("DEFINE X AS price > 5, Y AS price < 2 PATTERN X over|", ["overlaps", "overlapped by"]),
        ("DEFINE X AS price > 5, Y AS price < 2 PATTERN X meets |", ["X", "Y"]),
        ("DEFINE X AS price > 5, Y AS price < 2 SITUATIONS |", ["X", "Y"]),
        ("PATTERN A WHERE A.address.|", ["city"]),
        ("PATTERN A WHERE A.pr|", ["price"]),
        ("PATTERN A GROUP BY com|", ["company"]),
        ("CREATE |", ["CREATE STREAM"]),
    ],
)
def test_all_that_may_come(text: str, wanted: list[str]) -> None:
    assert labels(text) == wanted


def test_clauses_come_once() -> None:
    found = labels("RETURN COUNT(*) PATTERN SEQ(A, NOT B WITHIN 5 s) |", CompletionKind.CLAUSE)
    assert "WITHIN" in found
    assert not {"RETURN", "PATTERN", "SELECT", "DEFINE"} & set(found)


def test_types_of_patterns_come_from_values() -> None:
    types = labels("PATTERN SEQ(|", CompletionKind.TYPE)
    assert types == ["Stock", "Halt", "trading halt"]
    assert filled("PATTERN SEQ(Stock, trad|", "trading halt") == "PATTERN SEQ(Stock, `trading halt`"


def test_derived_streams_are_types() -> None:
    assert labels("CREATE STREAM High AS PATTERN A; PATTERN |", CompletionKind.TYPE)[0] == "High"
    assert labels("CREATE STREAM High AS PATTERN A; SELECT x FROM |") == ["High"]


def test_variables_and_functions_of_conditions() -> None:
    found = at("PATTERN SEQ(Stock S+, Halt h) WHERE |")
    assert [one.label for one in found[:2]] == ["S", "h"]
    assert {"NEXT", "ABS", "SUBSTRING"} <= {one.label for one in found}
    assert "COUNT" not in {one.label for one in found}
    (absolute,) = [one for one in found if one.label == "ABS"]
    assert (absolute.insert, absolute.detail) == ("ABS(", "ABS(number)")


def test_attributes_know_their_kinds() -> None:
    (price,) = at("PATTERN Stock S WHERE S.pri|")
    assert (price.kind, price.detail) == (CompletionKind.COLUMN, "double")
    assert filled("PATTERN Stock S WHERE S.ord|", "order id").endswith("S.`order id`")


def test_values_of_the_data() -> None:
    assert labels("PATTERN A WHERE A.company = |", CompletionKind.VALUE) == ["'acme'", "'it''s'"]
    assert labels("PATTERN A WHERE A.company IN ('x', |", CompletionKind.VALUE)[0] == "'acme'"
    assert labels("PATTERN A WHERE A.price > |", CompletionKind.VALUE) == ["1.5", "2"]
    assert filled("PATTERN A WHERE A.company = 'a|", "'acme'").endswith("= 'acme'")
    assert filled("SELECT * FROM s WHERE company = |", "'it''s'").endswith("company = 'it''s'")


def test_units_follow_numbers() -> None:
    assert labels("PATTERN A WITHIN 5 |", CompletionKind.UNIT)[:2] == ["seconds", "minutes"]
    assert labels("PATTERN A WITHIN |", CompletionKind.UNIT) == []


def test_nothing_in_comments() -> None:
    assert labels("PATTERN A -- whe|") == []
    assert labels("PATTERN A /* whe|") == []


def test_a_mistake_before_does_not_matter() -> None:
    assert "company" in labels("PATTERN ( SEQ A WHERE [|")
    assert "price" in labels("RETRUN COUNT(*) PATTERN A a WHERE a.|")


def test_what_follows_tells_the_language() -> None:
    assert "PARTITION BY" in labels("FROM s | DEFINE A AS x > 1 SITUATIONS A")


def test_row_patterns() -> None:
    begun = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts "
    clauses = labels(f"{begun}|", CompletionKind.CLAUSE)
    assert clauses[0] == "MEASURES"
    assert "PARTITION BY" not in clauses
    assert "company" in labels(f"{begun}MEASURES |")
    assert labels(f"{begun}PATTERN (A) DEF|") == ["DEFINE"]


def test_row_patterns_in_windows() -> None:
    begun = "SELECT k, hi OVER w FROM t WINDOW w AS (ORDER BY ts MEASURES MAX(A.x) AS hi "
    text = f"{begun}| PATTERN (A) DEFINE A AS x > 5)"
    clauses = labels(text, CompletionKind.CLAUSE)
    assert clauses[0] == "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"
    assert "ONE ROW PER MATCH" not in clauses
