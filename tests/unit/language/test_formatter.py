"""Canonical text: comments stay with their clause, and every name reads back."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cepheid
from cepheid.language import tree
from cepheid.language.formatter import format_query, format_text
from cepheid.language.parser import parse

LANGUAGE_EXAMPLE = """\
RETURN sector, COUNT(*), AVG(S.price)          -- what to report
PATTERN Stock S+                               -- what to look for
SEMANTICS skip-till-any-match                  -- how events may be skipped
WHERE [company, sector]                        -- what must hold
  AND S.price > NEXT(S).price
GROUP-BY sector                                -- one row per value
HAVING COUNT(*) > 10                           -- rows to keep
WITHIN 10 minutes SLIDE 10 seconds             -- windows
"""


def test_a_comment_at_the_end_of_a_clause_stays_there() -> None:
    assert format_text(LANGUAGE_EXAMPLE).splitlines() == [
        "RETURN sector, COUNT(*), AVG(S.price) -- what to report",
        "PATTERN Stock S+ -- what to look for",
        "SEMANTICS skip-till-any-match -- how events may be skipped",
        "-- what must hold",
        "WHERE [company, sector] AND S.price > NEXT(S).price",
        "GROUP-BY sector -- one row per value",
        "HAVING COUNT(*) > 10 -- rows to keep",
        "WITHIN 10 minutes SLIDE 10 seconds -- windows",
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("PATTERN A -- a\nRETURN COUNT(*) -- r", "RETURN COUNT(*) -- r\nPATTERN A -- a"),
        ("PATTERN A /* a */\nLIMIT 5", "PATTERN A -- a\nLIMIT 5"),
        ("PATTERN A /* l */ LIMIT 5", "PATTERN A\n-- l\nLIMIT 5"),
        ("PATTERN A /* a\nb */\nLIMIT 5", "-- a\n-- b\nPATTERN A\nLIMIT 5"),
        ("PATTERN A /* a */ -- b\nLIMIT 5", "-- a\nPATTERN A -- b\nLIMIT 5"),
        ("PATTERN A\n-- l\nLIMIT 5", "PATTERN A\n-- l\nLIMIT 5"),
        ("PATTERN A WHERE A.x > 1 -- c\nAND A.y > 2", "PATTERN A\n-- c\nWHERE A.x > 1 AND A.y > 2"),
        ("PATTERN (A -- a\n) LIMIT 5 -- l\n-- end", "-- a\nPATTERN A\nLIMIT 5 -- l\n-- end"),
        ("-- top\nPATTERN A RETURN COUNT(*)", "-- top\nRETURN COUNT(*)\nPATTERN A"),
        ("PATTERN A SEMANTICS skip-till-any-match --x", None),
        ("PATTERN A --\r\nLIMIT 5 --l\r\n", "PATTERN A --\nLIMIT 5 -- l"),
    ],
)
def test_every_comment_finds_its_clause(text: str, wanted: str | None) -> None:
    wanted = wanted or "PATTERN A\nSEMANTICS skip-till-any-match -- x"
    assert format_text(text) == wanted
    assert format_text(wanted) == wanted


@pytest.mark.parametrize(
    "name", ["a..b", ".", "a.", ".a", "..", "a b.c", "1.x", "a.`.b", "a.where"]
)
def test_any_attribute_reads_back(name: str) -> None:
    quoted = f"`{name.replace('`', '``')}`"
    query = parse(
        f"RETURN SUM(A.{quoted}) PATTERN A+ "
        f"WHERE [A.{quoted}, {quoted}] AND NEXT(A).{quoted} > A.{quoted} GROUP-BY {quoted}"
    )
    assert parse(format_query(query)) == query
    assert isinstance(query.where, tree.Logical)
    assert query.group_by[0].text == name


def test_a_path_of_plain_names_has_no_quotes() -> None:
    assert format_query(parse("PATTERN A WHERE A.`a.b`.c > 1")).endswith("WHERE A.a.b.c > 1")


@pytest.mark.parametrize("text", ["(A.x > 1) = (A.y > 2)", "A.z <> (A.x > (A.y < 2))"])
def test_comparisons_of_comparisons_keep_their_parentheses(text: str) -> None:
    assert format_query(parse(f"PATTERN A WHERE {text}")).endswith(f"WHERE {text}")


def test_an_attribute_of_single_events_is_written_without_a_variable() -> None:
    query = cepheid.query("DEFINE A AS x LIKE 'a', B AS x > 1 PATTERN A before B WITHIN 5 s")
    with pytest.raises(cepheid.BindError, match="`x` is of kind integer"):
        query.with_schema(pa.schema({"ts": pa.int64(), "x": pa.int64()}))
