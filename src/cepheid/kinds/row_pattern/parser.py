"""Tokens in, a MATCH_RECOGNIZE clause out."""

from __future__ import annotations

from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.expressions import parse_expression, parse_interval
from cepheid.kinds.row_pattern.lexer import TokenKind, tokenize
from cepheid.kinds.row_pattern.reader import Reader, folded

REPEATS_MAX = 1_000_000


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
    partition_by: tuple[tree.Column, ...] = ()
    if reader.take_words("PARTITION", "BY"):
        partition_by = _parse_columns(reader)
    order_by: tuple[tree.SortKey, ...] = ()
    if reader.take_words("ORDER", "BY"):
        order_by = _parse_order(reader)
    measures: tuple[tree.Measure, ...] = ()
    if reader.take_words("MEASURES"):
        measures = _parse_measures(reader)
    rows = _parse_rows(reader)
    skip = _parse_skip(reader)
    if reader.at_words("INITIAL") or reader.at_words("SEEK"):
        reader.fail("`PATTERN`")
    reader.expect_words("PATTERN")
    reader.expect_mark("(")
    pattern = _parse_alternatives(reader)
    reader.expect_mark(")")
    within = _parse_within(reader)
    subsets = _parse_subsets(reader) if reader.take_words("SUBSET") else ()
    definitions = _parse_definitions(reader) if reader.take_words("DEFINE") else ()
    reader.expect_mark(")")
    return tree.Clause(
        partition_by, order_by, measures, rows, skip, pattern, within, subsets, definitions,
        span=reader.span_from(start),
    )  # fmt: skip


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
    columns = [parse_column(reader)]
    while reader.take_mark(","):
        columns.append(parse_column(reader))
    return tuple(columns)


def parse_column(reader: Reader) -> tree.Column:
    """Return the column at the reader's place; the name of its table may stand before it."""
    first = reader.expect_name("a column")
    if reader.take_mark("."):
        name = reader.expect_name("a column")
        return tree.Column(name.value, None, span=first.span.to(name.span))
    return tree.Column(first.value, None, span=first.span)


def _parse_order(reader: Reader) -> tuple[tree.SortKey, ...]:
    keys = [parse_sort_key(reader)]
    while reader.take_mark(","):
        keys.append(parse_sort_key(reader))
    return tuple(keys)


def parse_sort_key(reader: Reader) -> tree.SortKey:
    """Return one key of ORDER BY; NULLs come first when it ascends, as in Spark SQL."""
    column = parse_column(reader)
    descending = reader.take_words("DESC")
    if not descending:
        reader.take_words("ASC")
    nulls_first = not descending
    if reader.take_words("NULLS"):
        if reader.token.upper not in ("FIRST", "LAST"):
            reader.fail("`FIRST` or `LAST`")
        nulls_first = reader.take().upper == "FIRST"
    span = reader.span_from(column.span.start)
    return tree.SortKey(column, descending, nulls_first, span=span)


def _parse_measures(reader: Reader) -> tuple[tree.Measure, ...]:
    measures = []
    while True:
        expression = parse_expression(reader)
        reader.expect_words("AS")
        name = reader.expect_name("the name of a measure")
        measures.append(tree.Measure(name.value, expression, span=name.span))
        if not reader.take_mark(","):
            return tuple(measures)


def _parse_rows(reader: Reader) -> str:
    if reader.take_words("ONE", "ROW", "PER", "MATCH"):
        return "one"
    if not reader.take_words("ALL"):
        return "one"
    reader.expect_words("ROWS", "PER", "MATCH")
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
    if not reader.take_words("AFTER"):
        return tree.Skip(span=Span(start, start))
    reader.expect_words("MATCH", "SKIP")
    if reader.take_words("PAST"):
        reader.expect_words("LAST", "ROW")
        return tree.Skip(span=reader.span_from(start))
    reader.expect_words("TO")
    if reader.take_words("NEXT", "ROW"):
        return tree.Skip("to_next_row", span=reader.span_from(start))
    mode = "to_last"
    following = reader.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED)
    # FIRST and LAST may also be names of variables: `SKIP TO LAST PATTERN (...)`.
    named = following and not (reader.ahead().upper == "PATTERN" and reader.ahead(2).is_mark("("))
    if named and reader.token.upper in ("FIRST", "LAST"):
        mode = "to_" + reader.take().value.lower()
    variable = folded(reader.expect_name("a variable"))
    return tree.Skip(mode, variable, span=reader.span_from(start))


def _parse_within(reader: Reader) -> tree.Duration | tree.Literal | None:
    if not reader.take_words("WITHIN"):
        return None
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
    subsets = []
    while True:
        name = reader.expect_name("the name of a union variable")
        reader.expect_mark("=")
        reader.expect_mark("(")
        variables = [_parse_variable(reader)]
        while reader.take_mark(","):
            variables.append(_parse_variable(reader))
        reader.expect_mark(")")
        span = reader.span_from(name.span.start)
        subsets.append(tree.Subset(folded(name), tuple(variables), span=span))
        if not reader.take_mark(","):
            return tuple(subsets)


def _parse_definitions(reader: Reader) -> tuple[tree.Definition, ...]:
    definitions = []
    while True:
        name = reader.expect_name("a variable")
        reader.expect_words("AS")
        condition = parse_expression(reader)
        definitions.append(tree.Definition(folded(name), condition, span=name.span))
        if not reader.take_mark(","):
            return tuple(definitions)


# ---------------------------------------------------------------------------------------
# The pattern


def _parse_variable(reader: Reader) -> tree.Variable:
    token = reader.expect_name("a variable")
    return tree.Variable(folded(token), span=token.span)


def _parse_alternatives(reader: Reader) -> tree.Pattern:
    reader.enter()
    parts = [_parse_sequence(reader)]
    while reader.take_mark("|"):
        parts.append(_parse_sequence(reader))
    # `||` is one token elsewhere; here it would be an empty alternative, which SQL does not have.
    reader.leave()
    if len(parts) == 1:
        return parts[0]
    return tree.Alternation(tuple(parts), span=parts[0].span.to(parts[-1].span))


def _parse_sequence(reader: Reader) -> tree.Pattern:
    parts = [_parse_quantified(reader)]
    while not (reader.token.is_mark(")", "|", "-}", ",") or _ends_pattern(reader)):
        parts.append(_parse_quantified(reader))
    if len(parts) == 1:
        return parts[0]
    return tree.Sequence(tuple(parts), span=parts[0].span.to(parts[-1].span))


def _ends_pattern(reader: Reader) -> bool:
    """Check whether a pattern cannot go on here, so that its `)` is missing."""
    return reader.token.kind is TokenKind.END or reader.token.upper in ("DEFINE", "SUBSET")


def _parse_quantified(reader: Reader) -> tree.Pattern:
    start = reader.token.span.start
    part = _parse_pattern_primary(reader)
    bounds = _parse_quantifier(reader)
    if bounds is None:
        return part
    reluctant = reader.take_mark("?") is not None
    return tree.Quantified(part, *bounds, reluctant, span=reader.span_from(start))


def _parse_quantifier(reader: Reader) -> tuple[int, int | None] | None:
    start = reader.token.span.start
    simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    mark = reader.take_mark("*", "+", "?")
    if mark is not None:
        return simple[mark]
    if not reader.take_mark("{"):
        return None
    least = reader.expect_whole() if reader.token.kind is TokenKind.NUMBER else None
    most = least
    if reader.take_mark(","):
        most = reader.expect_whole() if reader.token.kind is TokenKind.NUMBER else None
    elif least is None:
        reader.fail("a whole number or `,`")
    reader.expect_mark("}")
    low = least or 0
    if (most is not None and (most < low or most == 0)) or max(low, most or 0) > REPEATS_MAX:
        message = "the bounds of this quantifier are not valid"
        helps = ("write `{n,m}` with n <= m and m at least 1",)
        found = Diagnostic("E615", message, reader.span_from(start), helps=helps)
        raise QuerySyntaxError([found], reader.text)
    return low, most


def _parse_pattern_primary(reader: Reader) -> tree.Pattern:
    token = reader.token
    if mark := reader.take_mark("^", "$"):
        return tree.Anchor(mark == "^", span=token.span)
    if reader.take_mark("("):
        if reader.take_mark(")"):
            return tree.Empty(span=reader.span_from(token.span.start))
        part = _parse_alternatives(reader)
        reader.expect_mark(")")
        return part
    if reader.take_mark("{-"):
        part = _parse_alternatives(reader)
        reader.expect_mark("-}")
        return tree.Exclusion(part, span=reader.span_from(token.span.start))
    if token.upper == "PERMUTE" and reader.ahead().is_mark("("):
        reader.place += 2
        parts = [_parse_alternatives(reader)]
        while reader.take_mark(","):
            parts.append(_parse_alternatives(reader))
        reader.expect_mark(")")
        return tree.Permutation(tuple(parts), span=reader.span_from(token.span.start))
    if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        reader.fail("a variable, `(`, `^`, `$`, `{-` or `PERMUTE`")
    return _parse_variable(reader)
