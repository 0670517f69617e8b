"""Translate habits from other languages into what to write here.

Texts that can mean one thing only are accepted by the lexer: ``;`` at the end, comments after ``#``
and ``//``, ``INTERVAL '10' MINUTE`` and ``TIMESTAMP '2026-01-31'``. All others get an answer here.
"""

from __future__ import annotations

import re

MARKS = {
    "->": "for one event after the other write `SEQ(A, B)`",
    "=>": "for one event after the other write `SEQ(A, B)`",
    "&&": "write `AND`",
    "&": "write `AND`",
    "||": "write `OR`, or `CONCAT(a, b)` for two texts",
    "|": "write `OR`",
    "~": "write `LIKE`: `A.name LIKE 'x%'`",
    "@": "write the attribute as `variable.attribute`, or a name between backquotes",
}
"""Marks of other languages, the longer ones first."""

SEMANTICS = {
    "strict": "contiguous",
    "strict-contiguity": "contiguous",
    "consecutive": "contiguous",
    "partition-contiguity": "contiguous",
    "relaxed": "skip-till-next-match",
    "followed-by": "skip-till-next-match",
    "skip-till-next": "skip-till-next-match",
    "non-deterministic-relaxed": "skip-till-any-match",
    "followed-by-any": "skip-till-any-match",
    "all": "skip-till-any-match",
    "skip-till-any": "skip-till-any-match",
}
"""The names of the three semantics in other systems."""

ONE_RESULT_EACH = "and `GROUP-BY {0}` for a result row of each"


def mark_at(text: str, start: int) -> str:
    """Return the mark of another language that a place in a text belongs to, or an empty text."""
    return _mark(text, start)[1]


def mark_start(text: str, start: int) -> int:
    """Return where the mark of another language begins that a place belongs to."""
    return _mark(text, start)[0]


def other_mark(text: str, start: int) -> str:
    """Return a help for a mark of another language at a place, or an empty text."""
    return MARKS.get(mark_at(text, start), "")


def _mark(text: str, start: int) -> tuple[int, str]:
    # A token may begin at the second character of the mark.
    for place in (start, start - 1):
        for mark in MARKS:
            if place >= 0 and text.startswith(mark, place) and place + len(mark) > start:
                return place, mark
    return start, ""


def other_words(before: list[str], rest: str) -> str:
    """Return a help for words of another language, or an empty text.

    Parameters
    ----------
    before
        The last two words and marks before the place that cannot be read.
    rest
        The text from there on.
    """
    last = before[-1].upper() if before else ""
    here = re.match(r"\w*", rest)
    this = here.group().upper() if here else ""
    if this == "PARTITION" or last == "PARTITION":
        named = re.match(r"(?:partition\s+)?by\s+(\w+)", rest, re.IGNORECASE)
        name = named.group(1) if named else "key"
        share = f"for an attribute that all events of a match share write `WHERE [{name}]`"
        return f"{share}, {ONE_RESULT_EACH.format(name)}"
    if this == "FROM":
        return "a pattern has no `FROM`: give the events to `run`, on the command line `--input`"
    if last == "CASE" or this == "CASE":
        return "there is no `CASE`: write `IF(condition, a, b)`"
    if "DISTINCT" in (word.upper() for word in before):
        return (
            "`DISTINCT` takes attributes that the events of a match share: `COUNT(DISTINCT user)`"
        )
    if last == "RETURN" and rest.startswith("*"):
        return "write `RETURN MATCHES` to list the matches, or `RETURN COUNT(*)` to count them"
    quoted = re.match(r"'\s*(\d+(?:\.\d+)?\s*[^\W\d]\w*)\s*'", rest)
    if last in ("WITHIN", "SLIDE") and quoted:
        return f"write it without quotes: `{last} {quoted.group(1)}`"
    return ""
