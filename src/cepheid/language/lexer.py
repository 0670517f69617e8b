"""Query text in, tokens out: keywords in any case, and only where the grammar allows them.

The parser asks for one token after the other; between two tokens its state tells which terminals
may follow. A word is a keyword only if that keyword may follow, so attributes and event types may
be called ``count``, ``next`` or ``events``. Backquotes make a name of anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from cepheid.errors import Diagnostic, Span
from cepheid.events.temporal import UNIT_MICROSECONDS
from cepheid.expressions.format import INNER_KEYWORDS, KEYWORDS
from cepheid.language.habits import mark_at, other_mark
from cepheid.language.lalr import Accepted, Token

PUNCTUATION = {
    "(": ("LPAR",),
    ")": ("RPAR",),
    "[": ("LSQB",),
    "]": ("RSQB",),
    "{": ("LBRACE",),
    "}": ("RBRACE",),
    ",": ("COMMA",),
    ";": ("SEMICOLON",),
    ".": ("DOT",),
    "?": ("QMARK",),
    "+": ("PLUS", "PLUS_MINUS"),
    "-": ("PLUS_MINUS",),
    "*": ("STAR", "TIMES"),
    "/": ("TIMES",),
    "%": ("TIMES",),
    "!": ("NOT",),
    "=": ("COMPARE",),
    "<>": ("COMPARE",),
    "<": ("COMPARE",),
    "<=": ("COMPARE",),
    ">": ("COMPARE",),
    ">=": ("COMPARE",),
    "||": ("PLUS_MINUS",),
    "::": ("CASTS",),
    "&": ("AND",),
    "|": ("OR",),
}
"""The terminals that a mark may stand for, the grammar's own names first."""

LIKES = ("ILIKE", "RLIKE", "REGEXP")
"""Operators that are written like LIKE; a builder tells them apart."""

SPELLINGS = {
    "==": "=",
    "!=": "<>",
    "≠": "<>",
    "≤": "<=",
    "≥": ">=",
    "∗": "*",
    "−": "-",
    "∧": "&",
    "∨": "|",
    "¬": "!",
}
"""Marks as the papers print them, and as other languages write them."""

SITUATION_CLAUSES = frozenset(
    [
        *("FROM", "PARTITION_BY", "WHERE", "DEFINE", "PATTERN"),
        *("SITUATIONS", "RETURN", "WITHIN", "DETECTED"),
    ]
)
"""The keywords that begin the clauses of a query about situations."""

TERMINALS = KEYWORDS | INNER_KEYWORDS | {name for names in PUNCTUATION.values() for name in names}
TERMINALS |= {"NAME", "NUMBER", "STRING", "MODE", "UNIT", "RELATION", "LASTING"}
TERMINALS |= {"SKIP_MODE", "SKIP_TARGET", "TOP", "LONGEST", "BY"}
TERMINALS |= {"ORDER_BY", "DIRECTION", "NULLS", "DISTINCT_FROM"}

TOKEN = re.compile(
    r"""
      (?P<SKIP>     \s+ | --[^\n]* | //[^\n]* | \#[^\n]* | /\*.*?\*/ )
    | (?P<NUMBER>   \d+ (?:\.\d+)? (?:[eE][+-]?\d+ (?!\w))? )
    | (?P<WORD>     (?!\d)\w+ )
    | (?P<QUOTED>   `(?:[^`\n]|``)+` )
    | (?P<STRING>   '(?:[^']|'')*' | "(?:[^"]|"")*" )
    | (?P<MARK>     <> | <= | >= | == | != | \|\| | :: | /(?!\*) | [()\[\]{},;.?+\-*%!=<>≠≤≥∗−∧∨¬] )
    """,
    re.VERBOSE | re.DOTALL,
)
_MODE = re.compile(r"[^\W\d]\w*(?:-\w+)*")
_INNER_JOIN = re.compile(r"inner\s+join\b", re.IGNORECASE)
_TWO_WORDS = re.compile(
    r"(group(?:\s*-\s*|\s+)by|partition\s+by|min\s+length|at\s+least|at\s+most"
    r"|after\s+match\s+skip|order\s+by|distinct\s+from)\b",
    re.IGNORECASE,
)
_SKIP = re.compile(
    r"(?P<SKIP_MODE>to\s+latest\b|(?:past\s+last|to\s+next)\b(?:\s+row\b)?)|(?P<SKIP_TARGET>to\s+(?:first|last)\b)",
    re.IGNORECASE,
)
"""Where AFTER MATCH SKIP goes on; SQL adds ROW."""
_ORDER = re.compile(r"(?P<DIRECTION>asc|desc)\b|(?P<NULLS>nulls\s+(?:first|last)\b)", re.IGNORECASE)
"""Words that may come after a value of ORDER BY; everywhere else these are names."""
_BEST = re.compile(r"(?:(?P<TOP>top)|(?P<LONGEST>longest))(?=\s+\d)|(?P<BY>by)\b", re.IGNORECASE)
"""`TOP 10 BY` and `LONGEST 5`; everywhere else these are names."""
_RELATION = re.compile(r"[^\W\d]\w*(?:(?:\s+|\s*-\s*)by\b)?", re.IGNORECASE)
_LENGTH = re.compile(r"\s*\d+(?:\.\d+)?\s*([^\W\d]\w*)")
_INTERVAL = re.compile(
    r"interval(?:\s+|\s*'\s*)(\d+(?:\.\d+)?)\s*(?:'\s*)?([^\W\d]\w*)(?:\s*')?", re.IGNORECASE
)
"""`INTERVAL '10' MINUTE` of SQL, `INTERVAL '10 minutes'` and `INTERVAL 10 MINUTE`: a duration."""
_INTERVAL_BEGINS = "iI\u0130\u0131"
"""The letters that are an `i` without regard to case."""
_TIME_WORD = re.compile(r"(?:timestamp|date)\s*(?=')", re.IGNORECASE)
"""`TIMESTAMP '2026-01-31'` of SQL; no name can stand before a text."""
_OTHER_SPELLINGS = {"EVENT": "EVENTS", "TRY_CAST": "CAST"} | dict.fromkeys(LIKES, "LIKE")
_CALL = re.compile(r"\s*\(")
_NO_VARIABLES = "|".join(sorted({key.partition("_")[0] for key in KEYWORDS}))
_VARIABLE = re.compile(rf"\s+(?:`|(?!(?:{_NO_VARIABLES})\b)[^\W\d]\w*)", re.IGNORECASE)
"""A name that is no keyword: the attribute of `DISTINCT x`, the type of `NOT NEXT x`."""
_AFTER_TYPE = (
    "and|or|until|pattern|return|semantics|ties|numbers|where|group[\\s_-]+by|having|within|emit|limit|"
    "min[\\s_-]+length|after\\s+match"
)
_OF_ANY = re.compile(rf"\s+(?:`|(?!(?:{_AFTER_TYPE})\b)[^\W\d]\w*)", re.IGNORECASE)
"""The variable of `ANY x`: a name that does not go on after a type, also `next` or `first`."""
_CASE = re.compile(
    rf"\s*(?:\(|'|\"|`)|\s+(?:\d|(?!(?:{_NO_VARIABLES})\b)[^\W\d]\w*)", re.IGNORECASE
)
"""Text after `CASE`, which an attribute may be called: a value, or WHEN."""
_SWEEP = re.compile(
    r"(?:\s+(?:`[^`]*`|(?!(?:and|or|not|in|is|like|between|as|on|where|having|return|pattern)\b)"
    r"[^\W\d]\w*))?\s*\(",
    re.IGNORECASE,
)
"""The marks after `SWEEP`, which an attribute may be called: its values, and a name before them."""
_PATTERN = re.compile(r"\s*\(|\s+(?:any|seq)\b", re.IGNORECASE)
"""Text that may begin a pattern too: that of `NOT NEXT`."""
_FOLLOWED = {
    "SEQ": (_CALL,),
    "ANY": (_OF_ANY,),
    "DISTINCT": (_VARIABLE,),
    "NEXT": (_VARIABLE, _PATTERN),
    "SWEEP": (_SWEEP,),
    "CASE": (_CASE,),
    "CAST": (_CALL,),
}
"""Tokens that must follow a word for it to be the keyword."""
_ONE_WORD = frozenset(word for word in KEYWORDS | INNER_KEYWORDS if "_" not in word)
_FIRST_WORDS = frozenset(
    [
        *("GROUP", "PARTITION", "MIN", "AT", "AFTER", "ORDER", "DISTINCT", "INNER"),
        *("ASC", "DESC", "NULLS", "TOP", "LONGEST", "BY"),
    ]
)
"""Words that ``_several_words`` looks at; it sees all that are beyond ASCII."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class MistakeFoundError(Exception):
    """Leaves the parser with a diagnostic; ``parse`` turns it into a QuerySyntaxError."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


def lex(text: str, follow: Accepted) -> Iterator[Token]:
    """Yield the tokens of a text; a word's kind depends on the terminals that may follow."""
    half = _SURROGATE.search(text)
    if half is not None:
        # Half a character cannot be written to any file, not even inside a text or comment.
        raise MistakeFoundError(_unreadable(text, half.start()))
    defining, depth = False, 0
    offset = 0
    length_of_text, match_at = len(text), TOKEN.match
    while offset < length_of_text:
        if text[offset] == " ":
            offset += 1
            continue
        match = match_at(text, offset)
        if match is None:
            raise MistakeFoundError(_unreadable(text, offset))
        end, group = match.end(), match.lastgroup
        if group == "SKIP":
            offset = end
            continue
        accepted, first = follow(), text[offset]
        length = None
        if group != "WORD":
            pass
        elif first in _INTERVAL_BEGINS and "NUMBER" in accepted:
            length = _INTERVAL.match(text, offset)
        if length is not None:
            number, unit = length.span(1), length.span(2)
            yield Token("NUMBER", length.group(1), number[0], number[1])
            yield Token("UNIT", length.group(2), unit[0], unit[1])
            end = length.end()
        elif first in "tTdD" and "STRING" in accepted and _TIME_WORD.match(text, offset):
            pass  # The text that follows is a time where it is compared with one.
        else:
            kind, value, end = _classify(match, accepted)
            if kind == "BETWEEN" and defining and not depth and _is_length(text, end):
                # `A AS fast BETWEEN 4 s AND 30 s` bounds the situation, not the attribute.
                kind = "LASTING"
            if group == "MARK":
                depth += (kind == "LPAR") - (kind == "RPAR")
            elif kind in SITUATION_CLAUSES:
                defining = kind == "DEFINE"
            yield Token(kind, value, offset, end)
        offset = end


def is_about_situations(text: str) -> bool:
    """Check whether a text defines situations, so that it is read by the grammar for them.

    Examples
    --------
    >>> is_about_situations("DEFINE A AS x > 1 SITUATIONS A"), is_about_situations("PATTERN A")
    (True, False)
    """
    tokens = [m for m in TOKEN.finditer(text) if m.lastgroup != "SKIP"]
    words = [m.group().upper() for m in tokens]
    if words[:1] and words[0] in ("DEFINE", "SITUATIONS", "DETECTED"):
        return True
    defining = {"DEFINE", "SITUATIONS", "DETECTED"} & set(words) or "PATTERN" not in words
    if words[:1] and words[0] in ("FROM", "PARTITION") and defining:
        return True
    return any(
        word == "DEFINE" and words[i + 2 : i + 3] == ["AS"] and tokens[i + 1].lastgroup != "MARK"
        for i, word in enumerate(words)
    )


def is_select(text: str) -> bool:
    """Check whether a text begins with SELECT, so that it is read by the grammar for that.

    Examples
    --------
    >>> is_select("/* all */ select * from ticks"), is_select("PATTERN Select S")
    (True, False)
    """
    words = (m for m in TOKEN.finditer(text) if m.lastgroup != "SKIP")
    first = next(words, None)
    return first is not None and first.group().upper() == "SELECT"


def has_row_pattern(text: str) -> bool:
    """Check whether a text begins with SELECT and has a MATCH_RECOGNIZE clause or such a window.

    Examples
    --------
    >>> has_row_pattern("SELECT * FROM s MATCH_RECOGNIZE (PATTERN (A))")
    True
    >>> has_row_pattern("SELECT * FROM s WHERE x = 'MATCH_RECOGNIZE ('")
    False
    """
    return row_pattern_source(text) is not None


def row_pattern_source(text: str) -> re.Match[str] | None:
    """Find the table that the MATCH_RECOGNIZE clause of a SELECT reads: what comes after FROM.

    So for something that is called over a window with PATTERN. None if the text has neither.
    """
    written = text.upper()
    if not ("MATCH_RECOGNIZE" in written or "PATTERN" in written) or not is_select(text):
        return None
    source: re.Match[str] | None = None
    over = False
    tokens = [m for m in TOKEN.finditer(text) if m.lastgroup != "SKIP"]
    for token, following in pairwise(tokens):
        word = token.group().upper()
        begins = word == "MATCH_RECOGNIZE" or (over and word == "PATTERN")
        if begins and following.group() == "(":
            return source or token
        over = over or (word == "OVER" and token.lastgroup == "WORD")
        if word == "FROM" and token.lastgroup == "WORD":
            source = following
    return None


def first_mistake(text: str) -> Diagnostic | None:
    """Find the first place of a text that no token begins with."""
    offset = 0
    while offset < len(text):
        match = TOKEN.match(text, offset)
        if match is None:
            return _unreadable(text, offset)
        offset = match.end()
    return None


def _is_length(text: str, offset: int) -> bool:
    """Check whether a length comes next, in time or in events."""
    found = _LENGTH.match(text, offset)
    unit = found.group(1).lower() if found is not None else ""
    return unit in UNIT_MICROSECONDS or unit in ("event", "events")


def _classify(match: re.Match[str], accepted: Any) -> tuple[str, str, int]:
    """Return terminal, value and end of the token that starts at a regular-expression match."""
    value, end = match.group(), match.end()
    match match.lastgroup:
        case "WORD":
            return _classify_word(match, accepted)
        case "MARK":
            value = SPELLINGS.get(value, value)
            kinds = PUNCTUATION[value]
            if len(kinds) == 1 or kinds[0] in accepted:
                return kinds[0], value, end
            return next((kind for kind in kinds if kind in accepted), kinds[0]), value, end
        case "STRING":
            quote = value[0]
            inner = value[1:-1]
            return "STRING", inner.replace(quote * 2, quote) if quote in inner else inner, end
        case "QUOTED":
            return "NAME", value[1:-1].replace("``", "`"), end
    return "NUMBER", value, end


def _classify_word(match: re.Match[str], accepted: Any) -> tuple[str, str, int]:
    value, end, text = match.group(), match.end(), match.string
    if "MODE" in accepted:
        mode = _MODE.match(text, match.start())
        if mode is not None:
            return "MODE", mode.group(), mode.end()
    if "RELATION" in accepted:
        relation = _RELATION.match(text, match.start())
        if relation is not None:
            return "RELATION", relation.group(), relation.end()
    if "SKIP_MODE" in accepted:
        skip = _SKIP.match(text, match.start())
        if skip is not None:
            return skip.lastgroup or "SKIP_MODE", skip.group(), skip.end()
    keyword, may_be_several = _keyword_of(value)
    if may_be_several:
        found = _several_words(match, accepted)
        if found is not None:
            return found
    if keyword:
        # An event type may be called Seq or Any, so the keyword needs what follows it.
        needed = _FOLLOWED.get(keyword, ())
        fits = keyword in accepted and (not needed or any(n.match(text, end) for n in needed))
        if fits or not accepted.keys() & {"NAME", "UNIT"}:
            return keyword, value, end
    if "UNIT" in accepted and (value.lower() in UNIT_MICROSECONDS or "COMPARE" not in accepted):
        return "UNIT", value, end
    return "NAME", value, end


@lru_cache(maxsize=4096)
def _keyword_of(word: str) -> tuple[str, bool]:
    """Return the keyword that a word can be, if any, and whether it can begin one of several."""
    upper = word.upper()
    keyword = _OTHER_SPELLINGS.get(upper, upper)
    several = upper in _FIRST_WORDS or not word.isascii()
    return keyword if keyword in _ONE_WORD else "", several


def _several_words(match: re.Match[str], accepted: Any) -> tuple[str, str, int] | None:
    """Return the keyword of several words that begins here, or one that is none elsewhere."""
    text, start = match.string, match.start()
    order = _ORDER.match(text, start)
    if order is not None and order.lastgroup in accepted:
        return order.lastgroup or "NULLS", order.group(), order.end()
    best = _BEST.match(text, start)
    if best is not None and best.lastgroup in accepted:
        return best.lastgroup or "TOP", best.group(), best.end()
    inner = _INNER_JOIN.match(text, start) if "JOIN" in accepted else None
    if inner is not None:
        return "JOIN", inner.group(), inner.end()
    two_words = _TWO_WORDS.match(text, start)
    if two_words is not None:
        keyword = "_".join(re.findall(r"\w+", two_words.group().upper()))
        if keyword in accepted or "NAME" not in accepted:
            return keyword, two_words.group(), two_words.end()
    return None


def _unreadable(text: str, offset: int) -> Diagnostic:
    """Report text that no token begins with."""
    here = text[offset]
    line_end = text.find("\n", offset)
    rest = Span(offset, len(text) if line_end < 0 else line_end)
    if _SURROGATE.match(here):
        message = f"U+{ord(here):04X} is a lone surrogate, not a character"
        return Diagnostic("E103", message, Span(offset, offset + 1), helps=("remove it",))
    if here in "'\"":
        return Diagnostic(
            "E102",
            "the text that starts here has no closing quote",
            rest,
            helps=(f"close it with {here}; write a quote inside as {here}{here}",),
        )
    if here == "`":
        return Diagnostic(
            "E102", "the name that starts here has no closing backquote", rest,
            helps=("close it with ` on the same line",),
        )  # fmt: skip
    if text.startswith("/*", offset):
        return Diagnostic(
            "E102", "the comment that starts here has no end", rest, helps=("end it with */",)
        )
    mark = mark_at(text, offset)
    if len(mark) > 1:
        message = f"`{mark}` has no meaning in a query"
        return Diagnostic(
            "E103", message, Span(offset, offset + len(mark)), helps=(other_mark(text, offset),)
        )
    name = here if here.isprintable() else f"U+{ord(here):04X}"
    usual = "remove it, or put a name that contains it between backquotes"
    return Diagnostic(
        "E103",
        f"the character `{name}` has no meaning in a query",
        Span(offset, offset + 1),
        helps=(other_mark(text, offset) or usual,),
    )


class Comment(NamedTuple):
    """A comment without the marks around it, and where the words around it end and begin."""

    text: str
    span: Span
    previous_end: int
    next_start: int


def comments_of(text: str) -> list[Comment]:
    """Return the comments of a text that can be read.

    Examples
    --------
    >>> comments_of("PATTERN A -- the '/* first */' one")[0].text
    "the '/* first */' one"
    """
    found: list[Comment] = []
    waiting: list[Comment] = []
    offset = previous_end = 0
    while (match := TOKEN.match(text, offset)) is not None:
        value, offset = match.group(), match.end()
        if match.lastgroup != "SKIP":
            found += [comment._replace(next_start=match.start()) for comment in waiting]
            waiting = []
            previous_end = offset
        elif not value.isspace():
            inner = value[2:-2] if value.startswith("/*") else value[1 if value[0] == "#" else 2 :]
            span = Span(match.start(), offset)
            waiting.append(Comment(inner.strip(), span, previous_end, len(text)))
    return found + waiting


def words_before(text: str, offset: int, count: int) -> list[str]:
    """Return the last words and marks before a place in a text, comments left out.

    Examples
    --------
    >>> words_before("PATTERN A -- first", 18, 2)
    ['PATTERN', 'A']
    """
    found = [m.group() for m in TOKEN.finditer(text, 0, offset) if m.lastgroup != "SKIP"]
    return found[-count:]
