"""Translate what other SQL has in a SELECT, and this one has not, into what to write here."""

from __future__ import annotations

import re
from typing import NamedTuple

_WINDOW = "write `WINDOW 1 hour SLIDE 15 minutes` behind the other clauses"
_SESSION = "write `WINDOW SESSION 30 minutes` behind the other clauses"
_GROUPINGS = "run a query for each of the groupings, together as a workload"
_INNER_QUERY = (
    "run the inner query first and write its value here, or join: "
    "`FROM a JOIN b ON a.id = b.id WINDOW 1 hour`"
)
_NO_PARTNER = (
    "a pattern asks for what is missing: "
    "`RETURN COUNT(DISTINCT id) PATTERN SEQ(NOT view v, pay p) WHERE [id]`"
)
_QUANTILE = "write `PERCENTILE(x, 0.9)`"
_LISTS = "SELECT keeps no lists: `ARRAY_AGG(x ORDER BY y)` is a measure of MATCH_RECOGNIZE"


class _Habit(NamedTuple):
    """Text before a place and from there on, both in capitals, and what to write instead."""

    before: re.Pattern[str]
    rest: re.Pattern[str]
    help: str


def _habit(before: str, rest: str, help_: str) -> _Habit:
    return _Habit(re.compile(f"(?:{before})$"), re.compile(rest), help_)


_HABITS = (
    _habit(r"\bFROM\s+TABLE", r"\(", _WINDOW),
    _habit(r"\bGROUP\s+BY\b.*\b(?:TUMBLE|HOP|CUMULATE|WINDOW)", r"\(", _WINDOW),
    _habit(r"\bGROUP\s+BY\b.*\b(?:SESSION|SESSION_WINDOW)", r"\(", _SESSION),
    _habit(r"\bGROUP\s+BY\b.*\b(?:CUBE|ROLLUP|SETS)", r"\(", _GROUPINGS),
    _habit(r"\bIS", r"TRUE\b", "write the condition alone: `x`, or `x = TRUE`"),
    _habit(r"\bIS", r"FALSE\b", "write `x = FALSE`"),
    _habit(r"\bIS\s+NOT", r"TRUE\b", "write `x = FALSE OR x IS NULL`"),
    _habit(r"\bIS\s+NOT", r"FALSE\b", "write `x = TRUE OR x IS NULL`"),
    _habit(
        r"\bSELECT\s+DISTINCT(?:\s+\*\s+FROM)?",
        r"",
        "name the columns: `SELECT DISTINCT a, b FROM events`",
    ),
    _habit(r"\bFILTER\s*\(", r"", "write `FILTER (WHERE condition)`"),
    _habit(r"\bAS", r'"', "put the name between backquotes: ``AS `name` ``"),
    _habit(r"[\w)]", r"`", "write `AS` before the name"),
    _habit(
        r"\w", r"\[", "SELECT reads numbers, texts and times: take the value out of the list before"
    ),
    _habit(r"\bNOT\s+(?:IN|EXISTS)\s*\(\s*SELECT", r"", _NO_PARTNER),
    _habit(r"\(\s*SELECT", r"", _INNER_QUERY),
    _habit(r"\*", r"(?:EXCEPT|EXCLUDE|REPLACE)\b", "list the columns that you want"),
    _habit(r"\bPOSITION\s*\([^()]*\bIN", r"", "write `x LIKE '%part%'`"),
    _habit(r".*", r"WITHIN\s+GROUP\b", f"{_QUANTILE}; {_LISTS}"),
    _habit(r"\)", r"\(", _QUANTILE),
    _habit(r"\w\s*\([^()]*", r"ORDER\s+BY\b", _LISTS),
    _habit(r"\bSELECT\s+FROM", r"\w", "say what to select: `SELECT * FROM events`"),
    _habit(r"\bFROM", r"$", "name the stream: `FROM events`"),
    _habit(r"\bSELECT\s+ALL", r"", "leave `ALL` out"),
    _habit(
        r".*", r"ASOF\b", "write `JOIN b ON a.id = b.id WINDOW 1 hour`, which has all pairs so near"
    ),
    _habit(r".*", r"NATURAL\b", "write the columns: `JOIN b ON a.id = b.id WINDOW 1 hour`"),
    _habit(
        r".*", r"EMIT\b", "leave `EMIT` out: rows of a stream leave when their window has ended"
    ),
    _habit(r".*", r"FETCH\b", "write `LIMIT 3`"),
    _habit(r"\bFETCH", r"(?:FIRST|NEXT)\b", "write `LIMIT 3`"),
    _habit(
        r"\bFROM\s+\w+\s+AS\s+\w+", r"\(", "name columns in the list: `SELECT x AS y FROM events`"
    ),
)
"""In this order: the first one that fits answers."""

_NO_FROM = re.compile(r"(\w+)\s+(?:WHERE|GROUP|WINDOW|ORDER|LIMIT|HAVING)\b", re.IGNORECASE)
_TABLES = re.compile(r"(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+)?(?:MATERIALIZED\s+)?(?:VIEW|TABLE)\b")


def other_select(text: str, start: int) -> str:
    """Return a help for a place in a SELECT that other SQL would read, or an empty text.

    Examples
    --------
    >>> other_select("SELECT x FROM s FETCH FIRST 2 ROWS ONLY", 22)
    'write `LIMIT 3`'
    """
    before, rest = " ".join(text[:start].upper().split()), text[start:].strip().upper()
    for habit in _HABITS:
        if habit.rest.match(rest) and habit.before.search(before):
            return habit.help
    missing = _NO_FROM.match(text[start:])
    if missing and " FROM " not in before:
        return f"write `FROM {missing.group(1)}`"
    if not rest and "//" in text:
        return "`//` begins a comment: write `FLOOR(x / 2)`"
    return ""


def other_statements(text: str) -> str:
    """Return a help for a statement that is no query, or an empty text."""
    words = " ".join(text.upper().split())
    if words.startswith("CREATE ") and _TABLES.match(words.removeprefix("CREATE ")):
        return "write `CREATE STREAM name AS SELECT …; SELECT … FROM name`"
    if words.startswith("INSERT "):
        return "begin with `SELECT`: `cepheid run query.cq --output rows.parquet` writes its rows"
    return ""
