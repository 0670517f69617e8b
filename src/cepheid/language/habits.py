"""Translate habits from other languages into what to write here.

Texts that can mean one thing only are accepted by the lexer: ``;`` at the end, comments after ``#``
and ``//``, ``INTERVAL '10' MINUTE`` and ``TIMESTAMP '2026-01-31'``. All others get an answer here.
"""

from __future__ import annotations

import re

from cepheid.expressions.format import KEYWORDS
from cepheid.expressions.functions import FUNCTIONS
from cepheid.language.sql_habits import other_select

MARKS = {
    "->": "for one event after the other write `SEQ({0})`",
    "=>": "for one event after the other write `SEQ({0})`",
    "&&": "write `AND`",
    "&": "write `AND`",
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
    "followedby": "skip-till-next-match",
    "skip-till-next": "skip-till-next-match",
    "non-deterministic-relaxed": "skip-till-any-match",
    "followed-by-any": "skip-till-any-match",
    "followedbyany": "skip-till-any-match",
    "all": "skip-till-any-match",
    "skip-till-any": "skip-till-any-match",
}
"""The names of the three semantics in other systems."""

_CLAUSE = re.compile(
    r"\b(?:return|pattern|semantics|where|group|having|within|emit|ties|numbers|limit|select|from)\b",
    re.IGNORECASE,
)
COMMAS = "separate the parts of `SEQ` with commas: `SEQ(A, NOT B, C)`"
IN_SEQUENCE = "put events that follow each other into SEQ: `SEQ(A+, B)`"
_NOT_THERE = "for what must not come write NOT inside of SEQ: `SEQ(NOT A, B)`, `SEQ(A, NOT B, C)`"
_FOLLOWS = frozenset(["NEXT", "THEN", "FOLLOWED", "FOLLOWEDBY", "FOLLOWEDBYANY", "BEFORE", "AFTER"])
_LACKS = frozenset(["WITHOUT", "UNLESS", "EXCEPT", "NEVER", "NOTFOLLOWEDBY"])
_WINDOWS = frozenset(
    ["WITHIN", "WINDOW", "EVERY", "TUMBLE", "TUMBLING", "HOP", "HOPPING", "SLIDING"]
)
_FROM_ANOTHER = "write `CREATE STREAM name AS SELECT …; SELECT … FROM name`"
_INNER = "a `JOIN` has the pairs that fit; for events without a partner write a pattern with `NOT`"
_LIMIT = "write `LIMIT 3` at the end, after `ORDER BY`"
_OF_SELECT = {
    "TOP": _LIMIT,
    "LEFT": _INNER,
    "RIGHT": _INNER,
    "FULL": _INNER,
    "OUTER": _INNER,
    "CROSS": "write `JOIN b ON a.id = b.id`, with the condition after `ON`",
    "USING": "write the columns with their streams: `ON a.id = b.id`",
    "OFFSET": "`LIMIT n` gives the first rows; leave out those before yourself",
    "QUALIFY": "filter the rows of groups with `HAVING`",
    "OVER": "compare events by a pattern: `RETURN … PATTERN S+ WHERE S.x < NEXT(S).x`",
    "WITH": _FROM_ANOTHER,
    "UNION": "run the two on their own, or as a workload",
}
"""The clauses of SQL that SELECT lacks here."""
_COMPUTES = tuple("(+-*/%|:")
"""Marks that make an expression of a column."""
ONE_RESULT_EACH = "and `GROUP-BY {0}` for a result row of each"


def mark_at(text: str, start: int) -> str:
    """Return the mark of another language that a place in a text belongs to, or an empty text."""
    return _mark(text, start)[1]


def mark_start(text: str, start: int) -> int:
    """Return where the mark of another language begins that a place belongs to."""
    return _mark(text, start)[0]


def other_mark(text: str, start: int) -> str:
    """Return a help for a mark of another language at a place, or an empty text."""
    mark = mark_at(text, start)
    in_pattern = clause_at(text, start) == "PATTERN"
    if mark == "~" and in_pattern:
        return "write `NOT`: `SEQ(A, NOT B, C)`"
    return MARKS.get(mark, "").format(_steps(text, start) if in_pattern else "A, B")


def clause_at(text: str, start: int) -> str:
    """Return the word that begins the clause of a place in a text, or an empty text.

    Examples
    --------
    >>> clause_at("RETURN COUNT(*) PATTERN A", 25)
    'PATTERN'
    """
    words = _CLAUSE.findall(text[:start])
    return words[-1].upper() if words else ""


def _steps(text: str, start: int) -> str:
    """Return the parts of a pattern that arrows join, as the parts of a SEQ."""
    begin = max(found.end() for found in _CLAUSE.finditer(text[:start]))
    end = _CLAUSE.search(text, begin)
    pattern = text[begin : end.start() if end else len(text)].strip("; \t\n")
    within = re.fullmatch(r"(?:seq)?\s*\((.*)\)", pattern, re.IGNORECASE | re.DOTALL)
    parts = re.split(r"[-=]>|,", within.group(1) if within else pattern)
    plain = [" ".join(part.split()) for part in parts]
    # Anything but types, variables and repetitions has more to it than an arrow.
    simple = all(re.fullmatch(r"\w+(?: \w+)?[+*?]?", part) for part in plain)
    return ", ".join(plain) if simple else "A, B"


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
    if this == "FROM" and "THEN" not in (word.upper() for word in before):
        return "a pattern has no `FROM`: give the events to `run`, on the command line `--input`"
    if re.search(r"\bCASE\b", " ".join(before), re.IGNORECASE) or this == "CASE":
        return "write `CASE WHEN condition THEN a ELSE b END`"
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


def other_clauses(text: str, start: int) -> str:
    """Return a help for what other SQL has in a SELECT, or an empty text."""
    if help_ := other_select(text, start):
        return help_
    before, rest = text[:start].rstrip().upper(), text[start:].upper()
    if before.endswith("FROM") and rest.startswith("("):
        return _FROM_ANOTHER
    if rest[:1] in _COMPUTES and re.search(r"\bGROUP\s+BY\s[\w\s,.]*$", before):
        return "compute it before: `CREATE STREAM keyed AS SELECT HOUR(ts) AS h, x FROM events;`"
    if rest.startswith(",") and re.search(r"\bFROM\s+\w+(?:\s+\w+)?$", before):
        return "join streams by a condition: `FROM a JOIN b ON a.id = b.id WINDOW 1 hour`"
    part = re.search(r"\bEXTRACT\s*\(\s*(\w+)$", before)
    if part and rest.startswith("FROM"):
        return f"write `{part.group(1)}(time)`" if part.group(1) in FUNCTIONS else ""
    # A word where a name may stand is read as that name, so the mistake shows one word late.
    near = re.findall(r"^\w+", rest) + re.findall(r"\w+$", before)
    found = next((_OF_SELECT[word] for word in near if word in _OF_SELECT), "")
    return found or _unnamed(text, start)


def _unnamed(text: str, start: int) -> str:
    """Return a help for the name of a column without AS."""
    alias = re.match(r"([^\W\d]\w*)\s*(?:,|from\b)", text[start:], re.IGNORECASE)
    after = re.search(r"[\w)`']$", text[:start].rstrip())
    if clause_at(text, start) != "SELECT" or not alias or not after:
        return ""
    return "" if alias.group(1).upper() in KEYWORDS else f"write `AS {alias.group(1)}`"


def other_shapes(text: str, start: int) -> list[str]:
    """Return helps for a mark that other languages have at a place, by the clause around it."""
    clause, here = clause_at(text, start), text[start : start + 1]
    word = re.match(r"\w*", text[start:])
    if word and word.group().upper() in _WINDOWS:
        first = _CLAUSE.search(text)
        selects = first is not None and first.group().upper() == "SELECT"
        return [f"write `{'WINDOW' if selects else 'WITHIN'} 10 minutes SLIDE 1 minute`"]
    variable = re.search(r"(\w+)$", text[:start])
    if clause == "WHERE" and here == ",":
        return ["join two conditions with AND"]
    if clause == "WHERE" and here == "[" and variable:
        name = variable.group()
        return [f"write `FIRST({name})`, `LAST({name})`, `PREV({name})` or `NEXT({name})`"]
    if clause == "GROUP" and here == ".":
        return ["name an attribute that all events of a match share, without variable"]
    if clause != "PATTERN":
        return []
    if here == ",":
        return [IN_SEQUENCE]
    if here == ";":
        return [COMMAS]
    if word and word.group().upper() in _FOLLOWS:
        return [IN_SEQUENCE]
    if word and word.group().upper() in _LACKS:
        return [_NOT_THERE]
    quoted = re.match(r"'([^'\n]+)'|\"([^\"\n]+)\"", text[start:])
    if quoted:
        name = quoted.group(1) or quoted.group(2)
        plain = f"`{name}`" if re.fullmatch(r"[^\W\d]\w*", name) else f"`` `{name}` ``"
        return [f"write a type without quotes: {plain}"]
    return _repeated(text, start)


def _repeated(text: str, start: int) -> list[str]:
    """Return helps for a name after the mark of a repetition: a variable, or the next event."""
    found = re.search(
        r"(?:[(,]|pattern)\s*(\w+)([+*?]|\{[\d,]*\})\s*$", text[:start], re.IGNORECASE
    )
    name = re.match(r"[^\W\d]\w*", text[start:])
    if not found or not name or name.group().upper() in KEYWORDS:
        return []
    kind, mark = found.groups()
    return [
        f"a variable stands before the `{mark}`: `{kind} {name.group()}{mark}`",
        f"put events that follow each other into SEQ: `SEQ({kind}{mark}, {name.group()})`",
    ]
