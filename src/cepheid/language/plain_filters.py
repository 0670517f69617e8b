r"""The text of a plain filter in, its tree out: ``SELECT * FROM log WHERE LOWER(x) LIKE '%a'``.

Thousands of rules are such filters, as ``cepheid translate`` writes them, and the parser takes a
millisecond for one. Here one search finds a whole comparison. A text that has anything else in it,
or is laid out in another way than the formatter's, is left to the parser; both build the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cepheid.errors import Span
from cepheid.expressions.format import KEYWORDS
from cepheid.language import tree

NESTING_MAX = 20
"""Parentheses in parentheses; a deeper query is the parser's, which counts its levels."""

_TEXT = r"'[^']*(?:''[^']*)*'"
_VALUE = rf"(?:{_TEXT}|\d{{1,18}}(?![\w.]))"
_COLUMN = r"(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|`[^`\n.]+`)"
_HEAD = re.compile(
    r"(?:\s+|--[^\n]*|//[^\n]*|\#[^\n]*|/\*.*?\*/)*"
    r"(SELECT)\s+(\*)\s+FROM\s+([A-Za-z_]\w*|`[^`\n]+`)(?:\s+(WHERE)\b)?",
    re.DOTALL | re.ASCII,
)
_PRIMARY = re.compile(
    rf"""\s*(?:
      (?P<open>    \( )
    | (?P<not>     NOT\b )
    | (?P<certain> COALESCE\( )
    | (?P<call>    (?:REGEX_MATCH|IN_NETWORK)\( )
                   (?P<of>(?P<inner>LOWER\()?(?P<inside>{_COLUMN})(?(inner)\))),\s
                   (?P<argument>{_TEXT})\)
    | (?P<operand> (?P<lower>LOWER\()? (?P<column>{_COLUMN}) (?(lower)\)) )
      (?:
          \sLIKE\s (?P<like>{_TEXT})
        | \s(?P<compare>=|<>|<=|>=|<|>)\s
          (?P<value>{_VALUE} | TRUE\b | FALSE\b | (?P<also>LOWER\()? {_COLUMN} (?(also)\)) )
        | \sIN\s\( (?P<items>{_VALUE}(?:,\s{_VALUE})*) \)
        | \sIS\s (?P<null>(?:NOT\s)?NULL\b)
      )
    )""",
    re.VERBOSE | re.ASCII,
)
_NEXT = re.compile(r"\s*(?:(AND)\b|(OR)\b|(\))|,\s*(FALSE)\s*\)|(;?\s*\Z))", re.ASCII)
_AND, _OR, _CLOSE, _FALSE, _END = range(1, 6)
_ITEM = re.compile(_VALUE, re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = KEYWORDS | {"CASE", "CAST", "TRY_CAST", "EVENT", "ILIKE", "RLIKE", "REGEXP"}
_NO_NAMES = frozenset(part for word in _WORDS for part in word.split("_")) | _WORDS
"""Words that the lexer may take for something else than a name."""


class _NotPlainError(Exception):
    """The text has more than comparisons in it."""


def read_plain_filter(text: str) -> tree.SelectQuery | None:
    """Return the tree of a plain filter, as the parser builds it; None for any other text.

    Examples
    --------
    >>> read_plain_filter("SELECT * FROM log WHERE size > 9").where.operator
    '>'
    >>> read_plain_filter("SELECT * FROM log WHERE size > 9 + 1")
    """
    head = _HEAD.match(text)
    if head is None or (not text.isascii() and _SURROGATE.search(text)):
        return None
    reader = _Reader(text, head.end())
    try:
        name = reader.name(*head.span(3))
        where = reader.where(given=head[4] is not None)
    except _NotPlainError:
        return None
    end = name.span.end if where is None else where.span.end
    return tree.SelectQuery(
        span=Span(head.start(1), end),
        pattern=tree.NO_PATTERN,
        items=(tree.Star(span=Span(*head.span(2))),),
        streams=(tree.Stream(span=name.span, name=name, alias=name),),
        where=where,
    )


class _Reader:
    """Reads conditions from a place on, which moves with what was read."""

    def __init__(self, text: str, at: int) -> None:
        self._text, self._at, self._depth = text, at, 0
        self._mark: int | None = None
        self._mark_span = (0, 0)

    def where(self, *, given: bool) -> tree.Expression | None:
        """Read the condition after WHERE, if there is one, up to the end of the text."""
        found = None
        if given:
            found = self._any()
        else:
            self._behind()
        if self._mark != _END:
            raise _NotPlainError
        return found

    def name(self, start: int, end: int) -> tree.Name:
        """Read a name, which may stand between backquotes."""
        return tree.Name(span=Span(start, end), text=_named(self._text[start:end]))

    def _behind(self) -> None:
        """Read what joins a condition to the next one, or closes it."""
        match = _NEXT.match(self._text, self._at)
        if match is None or match.lastindex is None:
            raise _NotPlainError
        self._at, self._mark = match.end(), match.lastindex
        self._mark_span = match.span(match.lastindex)

    def _any(self) -> tree.Expression:
        first = self._all()
        if self._mark != _OR:
            return first
        operands = [first]
        while self._mark == _OR:
            operands.append(self._all())
        return self._logical("OR", operands)

    def _all(self) -> tree.Expression:
        first = self._one()
        self._behind()
        if self._mark != _AND:
            return first
        operands = [first]
        while self._mark == _AND:
            operands.append(self._one())
            self._behind()
        return self._logical("AND", operands)

    def _logical(self, operator: str, operands: list[tree.Expression]) -> tree.Logical:
        span = self._span(operands[0].span.start, operands[-1].span.end)
        return tree.Logical(span=span, operator=operator, operands=tuple(operands))

    def _one(self) -> tree.Expression:
        match = _PRIMARY.match(self._text, self._at)
        if match is None:
            raise _NotPlainError
        self._at = match.end()
        return _READ[match.lastgroup or ""](self, match)

    def _inside(self, closing: int) -> tree.Expression:
        """Read a condition up to what closes it."""
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise _NotPlainError
        found = self._any()
        if self._mark != closing:
            raise _NotPlainError
        self._depth -= 1
        return found

    def parenthesis(self, match: re.Match[str]) -> tree.Expression:
        """Read a condition between parentheses, which leave no node."""
        inner = self._inside(_CLOSE)
        return tree.replace_span(inner, self._span(match.start("open"), self._at))

    def negation(self, match: re.Match[str]) -> tree.Expression:
        """Read what follows NOT."""
        operand = self._one()
        span = self._span(match.start("not"), operand.span.end)
        return tree.Unary(span=span, operator="NOT", operand=operand)

    def certain(self, match: re.Match[str]) -> tree.Expression:
        """Read ``COALESCE(condition, FALSE)``."""
        inner = self._inside(_FALSE)
        default = tree.Literal(span=self._span(*self._mark_span), value=False)
        span = self._span(match.start("certain"), self._at)
        return tree.Call(span=span, function="COALESCE", arguments=(inner, default))

    def call(self, match: re.Match[str]) -> tree.Expression:
        """Read ``REGEX_MATCH(LOWER(x), 'a.c')``."""
        start = match.start("call")
        operand = self._operand(match, "of", "inner", "inside")
        arguments = (operand, self._value(*match.span("argument")))
        function = match["call"][:-1]
        return tree.Call(span=self._span(start, self._at), function=function, arguments=arguments)

    def like(self, match: re.Match[str]) -> tree.Expression:
        """Read ``x LIKE 'a%'``."""
        operand = self._operand(match)
        pattern = self._value(*match.span("like"))
        span = self._span(match.start("operand"), self._at)
        return tree.Like(span=span, operand=operand, pattern=pattern, negated=False)

    def comparison(self, match: re.Match[str]) -> tree.Expression:
        """Read ``x = 'a'``."""
        span = self._span(match.start("operand"), self._at)
        return tree.Binary(
            span=span,
            operator=match["compare"],
            left=self._operand(match),
            right=self._compared(match),
        )

    def _compared(self, match: re.Match[str]) -> tree.Expression:
        start, end = match.span("value")
        written = match["value"]
        if written[0] == "'" or written[0].isdigit():
            return self._value(start, end)
        if written in ("TRUE", "FALSE"):
            return tree.Literal(span=self._span(start, end), value=written == "TRUE")
        if match["also"] is None:
            return self._column(start, end)
        inner = self._column(start + len("LOWER("), end - 1)
        return tree.Call(span=self._span(start, end), function="LOWER", arguments=(inner,))

    def listed(self, match: re.Match[str]) -> tree.Expression:
        """Read ``x IN ('a', 'b')``."""
        found = _ITEM.finditer(self._text, *match.span("items"))
        items = tuple([self._value(*one.span()) for one in found])
        span = self._span(match.start("operand"), self._at)
        return tree.InList(span=span, operand=self._operand(match), items=items, negated=False)

    def null(self, match: re.Match[str]) -> tree.Expression:
        """Read ``x IS NULL``."""
        negated = match["null"] != "NULL"
        span = self._span(match.start("operand"), self._at)
        return tree.IsNull(span=span, operand=self._operand(match), negated=negated)

    def _operand(
        self,
        match: re.Match[str],
        whole: str = "operand",
        lower: str = "lower",
        column: str = "column",
    ) -> tree.Expression:
        found = self._column(*match.span(column))
        if match[lower] is None:
            return found
        return tree.Call(span=self._span(*match.span(whole)), function="LOWER", arguments=(found,))

    def _column(self, start: int, end: int) -> tree.Expression:
        text, span = self._text[start:end], self._span(start, end)
        if "." not in text:
            return tree.Word(span=span, text=_named(text))
        owner, _, path = text.partition(".")
        for part in text.split("."):
            _named(part)
        inner = start + len(owner) + 1
        variable = tree.Name(span=Span(start, inner - 1), text=owner)
        attribute = tree.Name(span=Span(inner, end), text=path)
        return tree.Attribute(span=span, variable=variable, attribute=attribute)

    def _value(self, start: int, end: int) -> tree.Literal:
        text = self._text
        value: int | str = text[start + 1 : end - 1].replace("''", "'")
        if text[start] != "'":
            value = int(text[start:end])
        return tree.Literal(span=self._span(start, end), value=value)

    def _span(self, start: int, end: int) -> Span:
        """Build the place of an expression, with its text if that is short."""
        return tree.quoted_span(self._text, start, end)


def _named(written: str) -> str:
    if written[0] == "`":
        return written[1:-1]
    if written.upper() in _NO_NAMES:
        raise _NotPlainError
    return written


_READ: dict[str, Callable[[_Reader, re.Match[str]], tree.Expression]] = {
    "open": _Reader.parenthesis,
    "not": _Reader.negation,
    "certain": _Reader.certain,
    "argument": _Reader.call,
    "like": _Reader.like,
    "value": _Reader.comparison,
    "items": _Reader.listed,
    "null": _Reader.null,
}
"""What to build, by the last group of ``_PRIMARY`` that was found."""
