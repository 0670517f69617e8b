"""Tokens in, a MATCH_RECOGNIZE clause or a window out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.expressions import (
    OFFSET_MAX,
    parse_expression,
    parse_interval,
    parse_ordering,
)
from cepheid.kinds.row_pattern.lexer import TokenKind, tokenize
from cepheid.kinds.row_pattern.pattern_parser import close_pattern, parse_pattern, parse_variable
from cepheid.kinds.row_pattern.reader import Reader, folded


def parse_clause(reader: Reader) -> tree.Clause:
    """Return the clause at the reader's place, which is at the word MATCH_RECOGNIZE.

    Raises
    ------
    QuerySyntaxError
        E601 if the text cannot be read, E615 if the bounds of a quantifier do not fit.
    """
    start = reader.token.span.start
    reader.expect_words("MATCH_RECOGNIZE")
    reader.expect_mark("(")
    parts = _Parts(reader, _PARTS_OF_CLAUSE)
    if parts.pattern is None:
        reader.fail("`PATTERN`")
    return parts.clause(parts.pattern, parts.rows, reader.span_from(start))


def parse_window(reader: Reader) -> tree.Window:
    """Return the window at the reader's place, which is at its `(`.

    Raises
    ------
    QuerySyntaxError
        E601 if the text cannot be read, E615 if the bounds of a quantifier do not fit.
    """
    start = reader.expect_mark("(").span.start
    base = None
    if reader.token.kind is not TokenKind.MARK and not _begins_part(reader, _PARTS_OF_WINDOW):
        base = reader.expect_name("the name of a window")
    parts = _Parts(reader, _PARTS_OF_WINDOW)
    span = reader.span_from(start)
    clause = None
    if parts.pattern is not None:
        if parts.frame is None:
            message = "a window with PATTERN has no frame"
            helps = ("add `ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING` before PATTERN",)
            found = Diagnostic("E601", message, span, helps=helps)
            raise QuerySyntaxError([found], reader.text)
        clause = parts.clause(parts.pattern, "window", span)
    name = None if base is None else base.value
    return tree.Window(name, parts.partition_by, parts.order_by, clause, span=span)


_NAMES = (TokenKind.WORD, TokenKind.QUOTED)
_OPERATORS = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "DIV"})


class _Parts:
    """The parts of a clause while they are read, up to its `)`; they may come in any order."""

    def __init__(self, reader: Reader, known: Mapping[tuple[str, ...], str]) -> None:
        self.partition_by: tuple[tree.Column, ...] = ()
        self.order_by: tuple[tree.SortKey, ...] = ()
        self.measures: tuple[tree.Measure, ...] = ()
        self.rows = "one"
        self.frame: tree.Frame | None = None
        self.skip = tree.Skip(span=Span(reader.token.span.start, reader.token.span.start))
        self.search = "INITIAL"
        self.pattern: tree.Pattern | None = None
        self.within: tree.Duration | tree.Literal | None = None
        self.subsets: tuple[tree.Subset, ...] = ()
        self.definitions: tuple[tree.Definition, ...] = ()
        seen: set[str] = set()
        while (words := _begins_part(reader, known)) is not None:
            part = known[words]
            if part in seen:
                message = f"the clause has {' '.join(words)} twice"
                helps = ("write all of it in one place",)
                found = Diagnostic("E601", message, reader.token.span, helps=helps)
                raise QuerySyntaxError([found], reader.text)
            seen.add(part)
            setattr(self, part, _READERS[part](reader))
        why = _NOT_IN_WINDOW.get(reader.token.upper) if known is _PARTS_OF_WINDOW else None
        if why is not None:
            message = f"a window with PATTERN cannot have {reader.token.upper}"
            found = Diagnostic("E601", message, reader.token.span, helps=(why,))
            raise QuerySyntaxError([found], reader.text)
        missing = "pattern" not in seen
        if missing and reader.take_words("PATTERN"):
            reader.fail("`(`", "put the pattern into parentheses: `PATTERN (A B+)`")
        if missing and not reader.token.is_mark(")"):
            reader.fail("`PATTERN`")
        reader.expect_mark(")")

    def clause(self, pattern: tree.Pattern, rows: str, span: Span) -> tree.Clause:
        """Put the parts together."""
        frame = self.frame
        if frame is not None:
            frame = msgspec.structs.replace(frame, seek=self.search == "SEEK")
        return tree.Clause(
            self.partition_by, self.order_by, self.measures, rows, self.skip, pattern,
            self.within, self.subsets, self.definitions, frame, span=span,
        )  # fmt: skip


def _begins_part(
    reader: Reader, known: Mapping[tuple[str, ...], str], at: int = 0
) -> tuple[str, ...] | None:
    """Return the words at the reader's place, or further on, if a part begins with them."""
    for words, part in known.items():
        if all(reader.ahead(at + i).upper == word for i, word in enumerate(words)):
            # PATTERN is a name, too.
            if part == "pattern" and not reader.ahead(at + 1).is_mark("("):
                continue
            return words
    return None


def parse_clause_text(text: str) -> tree.Clause:
    """Return the clause of a text that holds nothing else.

    Examples
    --------
    >>> clause = parse_clause_text("MATCH_RECOGNIZE (PATTERN (A B+?) DEFINE B AS price > 1)")
    >>> clause.pattern.parts[1].reluctant, clause.rows, clause.skip.mode
    (True, 'one', 'past_last_row')
    """
    reader = Reader(tokenize(text), text)
    clause = parse_clause(reader)
    if reader.token.kind is not TokenKind.END:
        reader.fail("nothing more")
    return clause


def _parse_columns(reader: Reader) -> tuple[tree.Column, ...]:
    reader.expect_words("PARTITION", "BY")
    columns = [_parse_key(reader)]
    while reader.take_mark(","):
        columns.append(_parse_key(reader))
    return tuple(columns)


def _parse_key(reader: Reader) -> tree.Column:
    """Return a column, a field of one, or an expression of them."""
    place, start = reader.place, reader.token.span.start
    if reader.token.kind in _NAMES:
        plain, last = parse_column(reader), reader.tokens[reader.place - 1]
        ends = reader.token.is_mark(",", ")") or reader.token.kind is TokenKind.WORD
        goes_on = reader.token.upper in _OPERATORS or last.upper == "CASE"
        if ends and not goes_on:
            # A plain name may be any word, such as `end`.
            return plain
    reader.place = place
    expression = parse_expression(reader)
    if isinstance(expression, tree.Column):
        return expression
    span = reader.span_from(start)
    written = " ".join(reader.text[span.start : span.end].split())
    return tree.Computed(written, None, expression=expression, span=span)


def parse_column(reader: Reader) -> tree.Column:
    """Return the column at the reader's place, or a field of one; its table may stand before."""
    first = reader.expect_name("a column")
    names = []
    while reader.take_mark("."):
        names.append(reader.expect_name("a column").value)
    span = reader.span_from(first.span.start)
    if not names:
        return tree.Column(first.value, None, span=span)
    return tree.Column(names[0], folded(first), tuple(names[1:]), span=span)


def _parse_order(reader: Reader) -> tuple[tree.SortKey, ...]:
    reader.expect_words("ORDER", "BY")
    keys = [_sort_key(reader, _parse_key(reader))]
    while reader.take_mark(","):
        keys.append(_sort_key(reader, _parse_key(reader)))
    return tuple(keys)


def parse_sort_key(reader: Reader) -> tree.SortKey:
    """Return one key of ORDER BY, which is a column."""
    return _sort_key(reader, parse_column(reader))


def _sort_key(reader: Reader, column: tree.Column) -> tree.SortKey:
    how = parse_ordering(reader)
    span = reader.span_from(column.span.start)
    return tree.SortKey(column, how.descending, how.nulls_first, how.stated, span=span)


def _parse_measures(reader: Reader) -> tuple[tree.Measure, ...]:
    reader.expect_words("MEASURES")
    measures: list[tree.Measure] = []
    while True:
        if measures and _begins_part(reader, {("PATTERN",): "pattern"}) is not None:
            reader.fail("a measure", "remove the comma before `PATTERN`")
        expression = parse_expression(reader)
        if not reader.take_words("AS"):
            reader.fail("`AS`", "every measure has a name: `MEASURES LAST(B.price) AS low`")
        name = reader.expect_name("the name of a measure")
        measures.append(tree.Measure(name.value, expression, span=name.span))
        if not reader.take_mark(","):
            return tuple(measures)


def _parse_rows(reader: Reader) -> str:
    if reader.take_words("ONE"):
        reader.expect_words("ROW", "PER", "MATCH")
        return "one"
    reader.expect_words("ALL", "ROWS", "PER", "MATCH")
    if reader.take_words("OMIT"):
        reader.expect_words("EMPTY", "MATCHES")
        return "all omit"
    if reader.take_words("WITH"):
        reader.expect_words("UNMATCHED", "ROWS")
        return "all unmatched"
    if reader.take_words("SHOW"):
        reader.expect_words("EMPTY", "MATCHES")
    return "all show"


def _parse_skip(reader: Reader) -> tree.Skip:
    start = reader.token.span.start
    reader.expect_words("AFTER", "MATCH", "SKIP")
    if reader.take_words("PAST"):
        reader.expect_words("LAST", "ROW")
        return tree.Skip(span=reader.span_from(start))
    reader.expect_words("TO")
    if reader.take_words("NEXT", "ROW"):
        return tree.Skip("to_next_row", span=reader.span_from(start))
    mode = "to_last"
    following = reader.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED)
    # FIRST and LAST may also be names of variables: `SKIP TO LAST PATTERN (...)`.
    named = following and _begins_part(reader, _PARTS_OF_WINDOW, 1) is None
    if named and reader.token.upper in ("FIRST", "LAST"):
        mode = "to_" + reader.take().value.lower()
    variable = folded(reader.expect_name("a variable"))
    return tree.Skip(mode, variable, span=reader.span_from(start))


def _parse_frame(reader: Reader) -> tree.Frame:
    """Return ROWS BETWEEN CURRENT ROW AND its end, which is the only frame that patterns have."""
    start = reader.token.span.start
    reader.expect_words("ROWS", "BETWEEN", "CURRENT", "ROW", "AND")
    end: int | None = None
    if reader.take_words("CURRENT"):
        reader.expect_words("ROW")
        end = 0
    elif reader.token.kind is TokenKind.NUMBER:
        end = min(reader.expect_whole(), OFFSET_MAX)
        reader.expect_words("FOLLOWING")
    elif not reader.take_words("UNBOUNDED", "FOLLOWING"):
        reader.fail("`UNBOUNDED FOLLOWING`, `CURRENT ROW` or a number of rows")
    if reader.take_words("EXCLUDE"):
        reader.expect_words("NO", "OTHERS")
    return tree.Frame(end, False, span=reader.span_from(start))


def _parse_search(reader: Reader) -> str:
    return reader.take().upper


def _parse_pattern(reader: Reader) -> tree.Pattern:
    reader.expect_words("PATTERN")
    reader.expect_mark("(")
    pattern = parse_pattern(reader)
    close_pattern(reader)
    return pattern


def _parse_within(reader: Reader) -> tree.Duration | tree.Literal:
    reader.expect_words("WITHIN")
    if reader.at_words("INTERVAL"):
        return parse_interval(reader)
    if reader.token.kind is not TokenKind.NUMBER:
        reader.fail("`INTERVAL` or a number")
    token = reader.take()
    if reader.token.upper.lower() in UNIT_MICROSECONDS:
        # `WITHIN 10 minutes`, as the other queries have it.
        unit = reader.take()
        plain = token.value.replace(".", "", 1).isdigit()
        length = duration_us(token.value, unit.value) if plain else None
        span = token.span.to(unit.span)
        if length is None:
            message = "this is not a whole number of microseconds"
            helps = ("write `WITHIN 10 minutes`, without an exponent",)
            raise QuerySyntaxError([Diagnostic("E601", message, span, helps=helps)], reader.text)
        return tree.Duration(length, span=span)
    return tree.Literal(reader.number(token), span=token.span)


def _parse_subsets(reader: Reader) -> tuple[tree.Subset, ...]:
    reader.expect_words("SUBSET")
    subsets = []
    while True:
        name = reader.expect_name("the name of a union variable")
        reader.expect_mark("=")
        reader.expect_mark("(")
        variables = [parse_variable(reader)]
        while reader.take_mark(","):
            variables.append(parse_variable(reader))
        reader.expect_mark(")")
        span = reader.span_from(name.span.start)
        subsets.append(tree.Subset(folded(name), tuple(variables), span=span))
        if not reader.take_mark(","):
            return tuple(subsets)


def _parse_definitions(reader: Reader) -> tuple[tree.Definition, ...]:
    reader.expect_words("DEFINE")
    definitions = []
    while True:
        name = reader.expect_name("a variable")
        if not reader.take_words("AS"):
            help_ = f"write `DEFINE {name.value} AS price > 10`; columns need no variable there"
            reader.fail("`AS`", help_)
        condition = parse_expression(reader)
        definitions.append(tree.Definition(folded(name), condition, span=name.span))
        if not reader.take_mark(","):
            return tuple(definitions)


_READERS: dict[str, Callable[[Reader], Any]] = {
    "partition_by": _parse_columns,
    "order_by": _parse_order,
    "measures": _parse_measures,
    "rows": _parse_rows,
    "frame": _parse_frame,
    "skip": _parse_skip,
    "search": _parse_search,
    "pattern": _parse_pattern,
    "within": _parse_within,
    "subsets": _parse_subsets,
    "definitions": _parse_definitions,
}
_PARTS = {
    ("PARTITION", "BY"): "partition_by",
    ("ORDER", "BY"): "order_by",
    ("MEASURES",): "measures",
    ("AFTER", "MATCH"): "skip",
    ("PATTERN",): "pattern",
    ("WITHIN",): "within",
    ("SUBSET",): "subsets",
    ("DEFINE",): "definitions",
}
_NOT_IN_WINDOW = {
    **dict.fromkeys(("ONE", "ALL"), "every row of the input has one row in the result"),
    **dict.fromkeys(
        ("RANGE", "GROUPS", "ROWS"), "write `ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING`"
    ),
}
_PARTS_OF_CLAUSE = {**_PARTS, ("ONE", "ROW"): "rows", ("ALL", "ROWS"): "rows"}
_PARTS_OF_WINDOW = {
    **_PARTS,
    ("ROWS", "BETWEEN"): "frame",
    ("INITIAL",): "search",
    ("SEEK",): "search",
}
