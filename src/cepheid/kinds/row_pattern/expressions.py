"""Tokens in, an expression out: precedence climbing over SQL's operators."""

from __future__ import annotations

from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.events.constants import loses_digits
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.expressions.functions import ALIASES
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.lexer import Token, TokenKind
from cepheid.kinds.row_pattern.reader import Reader, folded

_COMPARISONS = {
    "=": "=",
    "==": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
OFFSET_MAX = 1 << 40
"""More rows than a partition has."""

_NAVIGATION = ("FIRST", "LAST", "PREV", "NEXT")
_MEMBERSHIPS = ("IN", "LIKE", "BETWEEN", "ILIKE", "RLIKE", "REGEXP")
_SEMANTICS = ("RUNNING", "FINAL")
_END_WORDS = frozenset("AND OR NOT AS THEN ELSE END WHEN IS IN LIKE BETWEEN ESCAPE FROM".split())  # noqa: SIM905  # shorter
"""Words that no expression begins with."""


def parse_expression(reader: Reader) -> tree.Expression:
    """Return the expression at the reader's place.

    Raises
    ------
    QuerySyntaxError
        E601 if there is none.

    Examples
    --------
    >>> from cepheid.kinds.row_pattern.lexer import tokenize
    >>> text = "A.price < PREV(A.price, 2) * 1.1"
    >>> found = parse_expression(Reader(tokenize(text), text))
    >>> found.operator, found.right.left.function, found.right.left.offset
    ('<', 'PREV', 2)
    """
    reader.enter()
    operands = [_parse_and(reader)]
    while reader.take_words("OR"):
        operands.append(_parse_and(reader))
    reader.leave()
    return _logical("OR", operands)


def _binary(operator: str, left: tree.Expression, right: tree.Expression) -> tree.Binary:
    return tree.Binary(operator, left, right, span=left.span.to(right.span))


def _logical(operator: str, operands: list[tree.Expression]) -> tree.Expression:
    if len(operands) == 1:
        return operands[0]
    span = operands[0].span.to(operands[-1].span)
    return tree.Logical(operator, tuple(operands), span=span)


def _parse_and(reader: Reader) -> tree.Expression:
    operands = [_parse_not(reader)]
    while reader.take_words("AND"):
        operands.append(_parse_not(reader))
    return _logical("AND", operands)


def _parse_not(reader: Reader) -> tree.Expression:
    start = reader.token.span.start
    if reader.take_words("NOT"):
        reader.enter()
        operand = _parse_not(reader)
        reader.leave()
        return tree.Unary("NOT", operand, span=Span(start, operand.span.end))
    return _parse_predicate(reader)


def _parse_predicate(reader: Reader) -> tree.Expression:
    left = _parse_sum(reader)
    count = 0
    while True:
        reader.check_chain(count := count + 1)
        token = reader.token
        if token.kind is TokenKind.MARK and token.value in _COMPARISONS:
            reader.take()
            left = _binary(_COMPARISONS[token.value], left, _parse_sum(reader))
        elif reader.take_words("IS"):
            left = _parse_is(reader, left)
        elif reader.at_words("NOT") and reader.ahead().upper in _MEMBERSHIPS:
            reader.take()
            left = _parse_membership(reader, left, negated=True)
        elif reader.token.upper in _MEMBERSHIPS:
            left = _parse_membership(reader, left, negated=False)
        else:
            return left


def _parse_is(reader: Reader, left: tree.Expression) -> tree.Expression:
    negated = reader.take_words("NOT")
    if reader.take_words("NULL"):
        return tree.IsNull(left, negated, span=reader.span_from(left.span.start))
    if reader.take_words("DISTINCT", "FROM"):
        right = _parse_sum(reader)
        distinct = tree.Binary("DISTINCT", left, right, span=left.span.to(right.span))
        return distinct if not negated else tree.Unary("NOT", distinct, span=distinct.span)
    if reader.token.upper in ("TRUE", "FALSE"):
        truth = reader.take().upper == "TRUE"
        return tree.IsTruth(left, truth, negated, span=reader.span_from(left.span.start))
    return reader.fail("`NULL`, `TRUE`, `FALSE` or `DISTINCT FROM`")


def _parse_membership(reader: Reader, left: tree.Expression, *, negated: bool) -> tree.Expression:
    word, start = reader.take().upper, left.span.start
    if word == "IN":
        reader.expect_mark("(")
        items = _parse_list(reader)
        reader.expect_mark(")")
        return tree.InList(left, items, negated, span=reader.span_from(start))
    if word == "LIKE":
        pattern, escape = _parse_sum(reader), ""
        if reader.take_words("ESCAPE"):
            if reader.token.kind is not TokenKind.TEXT or len(reader.token.value) != 1:
                reader.fail("a text of one character")
            escape = reader.take().value
        return tree.Like(left, pattern, negated, escape, span=reader.span_from(start))
    low = _parse_sum(reader)
    if word == "ILIKE":
        left, low = (tree.Call("LOWER", (text,), span=text.span) for text in (left, low))
        return tree.Like(left, low, negated, "", span=reader.span_from(start))
    if word != "BETWEEN":
        found = tree.Call("REGEX_MATCH", (left, low), span=reader.span_from(start))
        return tree.Unary("NOT", found, span=found.span) if negated else found
    reader.expect_words("AND")
    high = _parse_sum(reader)
    span = reader.span_from(start)
    above = tree.Binary(">=", left, low, span=span)
    inside = tree.Logical("AND", (above, tree.Binary("<=", left, high, span=span)), span=span)
    return tree.Unary("NOT", inside, span=span) if negated else inside


def _parse_list(reader: Reader) -> tuple[tree.Expression, ...]:
    items = [parse_expression(reader)]
    while reader.take_mark(","):
        items.append(parse_expression(reader))
    return tuple(items)


def _parse_sum(reader: Reader) -> tree.Expression:
    left = _parse_product(reader)
    count = 0
    while operator := reader.take_mark("+", "-", "||"):
        reader.check_chain(count := count + 1)
        left = _binary(operator, left, _parse_product(reader))
    return left


def _parse_product(reader: Reader) -> tree.Expression:
    left = _parse_unary(reader)
    count = 0
    while True:
        reader.check_chain(count := count + 1)
        operator = "DIV" if reader.take_words("DIV") else reader.take_mark("*", "/", "%")
        if operator is None:
            return left
        left = _binary(operator, left, _parse_unary(reader))


def _parse_unary(reader: Reader) -> tree.Expression:
    start = reader.token.span.start
    sign = reader.take_mark("-", "+")
    if sign is None:
        return _parse_subscripts(reader)
    reader.enter()
    operand = _parse_unary(reader)
    reader.leave()
    if sign == "+":
        return operand
    span = Span(start, operand.span.end)
    if isinstance(operand, tree.Literal) and type(operand.value) in (int, float):
        # A sign is part of a constant, which keeps all its digits so.
        assert isinstance(operand.value, int | float), "a number"
        return tree.Literal(-operand.value, _turned(operand.digits), span=span)
    return tree.Unary("-", operand, span=span)


def _turned(digits: str) -> str:
    return digits[1:] if digits.startswith("-") else digits and f"-{digits}"


def _parse_subscripts(reader: Reader) -> tree.Expression:
    """Return a primary with what stands after it: `x[1]` is ELEMENT_AT, and `x::int` a CAST."""
    found = _parse_primary(reader)
    count = 0
    while mark := reader.take_mark("[", "::"):
        reader.check_chain(count := count + 1)
        if mark == "::":
            start, (name, parameters) = found.span.start, _parse_type(reader)
            found = tree.Cast(found, name, parameters, False, span=reader.span_from(start))
            continue
        key = parse_expression(reader)
        reader.expect_mark("]")
        span = reader.span_from(found.span.start)
        found = tree.Call("ELEMENT_AT", (found, key), span=span)
    return found


# ---------------------------------------------------------------------------------------
# Primaries


def _parse_primary(reader: Reader) -> tree.Expression:
    token = reader.token
    if token.kind is TokenKind.NUMBER:
        value = reader.number(reader.take())
        lost = isinstance(value, float) and loses_digits(token.value)
        return tree.Literal(value, token.value if lost else "", span=token.span)
    if token.kind is TokenKind.TEXT:
        return tree.Literal(reader.take().value, span=token.span)
    if reader.take_mark("("):
        inner = parse_expression(reader)
        reader.expect_mark(")")
        return inner
    if token.kind is TokenKind.WORD:
        special = _parse_special(reader, token)
        if special is not None:
            return special
        if token.upper in _END_WORDS and not _ends_name(reader.ahead()):
            reader.fail("an expression")
    elif token.kind is not TokenKind.QUOTED:
        reader.fail("an expression")
    return _parse_name(reader)


def _ends_name(following: Token) -> bool:
    """Check whether a word before this token is a name even if SQL has another use for it."""
    return following.is_mark(".", ",", ")") or following.upper in ("AS", "FROM")


def _parse_special(reader: Reader, token: Token) -> tree.Expression | None:
    """Parse an expression that begins with a keyword; None if the word is only a name."""
    word, following = token.upper, reader.ahead()
    if word in ("TRUE", "FALSE", "NULL") and not following.is_mark(".", "("):
        reader.take()
        value = {"TRUE": True, "FALSE": False, "NULL": None}[word]
        return tree.Literal(value, span=token.span)
    if word in ("DATE", "TIMESTAMP") and following.kind is TokenKind.TEXT:
        reader.take()
        text = reader.take().value
        return tree.Moment(word, text, span=reader.span_from(token.span.start))
    if word == "INTERVAL" and following.kind in (TokenKind.TEXT, TokenKind.NUMBER):
        return parse_interval(reader)
    if word == "CASE":
        return _parse_case(reader)
    if word == "ARRAY" and following.is_mark("["):
        reader.place += 2
        items = () if reader.token.is_mark("]") else _parse_list(reader)
        reader.expect_mark("]")
        return tree.Array(items, span=reader.span_from(token.span.start))
    if word in _SEMANTICS and following.kind is TokenKind.WORD and reader.ahead(2).is_mark("("):
        reader.take()
        return _parse_call(reader, word, token.span.start)
    if following.is_mark("("):
        return _parse_call(reader, None, token.span.start)
    return None


def parse_interval(reader: Reader) -> tree.Duration:
    """Return the interval at the reader's place, ``INTERVAL '10' SECOND``."""
    start = reader.token.span.start
    reader.expect_words("INTERVAL")
    amount = reader.take()
    value = amount.value.strip()
    if amount.kind is TokenKind.TEXT and " " in value:
        value, _, name = value.partition(" ")
    else:
        name = reader.expect_name("a unit of time").value
    negative = value.startswith("-")
    digits = value.lstrip("-")
    length = None
    if name.strip().lower() in UNIT_MICROSECONDS and digits.replace(".", "", 1).isdigit():
        length = duration_us(digits, name.strip())
    span = reader.span_from(start)
    if length is None:
        message = "this is not an interval of fixed length"
        helps = ("write `INTERVAL '10' SECOND`; units are MICROSECOND to DAY",)
        raise QuerySyntaxError([Diagnostic("E601", message, span, helps=helps)], reader.text)
    return tree.Duration(-length if negative else length, span=span)


def _parse_case(reader: Reader) -> tree.Expression:
    start = reader.take().span.start
    subject = None if reader.at_words("WHEN") else parse_expression(reader)
    conditions, results = [], []
    while reader.take_words("WHEN"):
        condition = parse_expression(reader)
        if subject is not None:
            condition = tree.Binary("=", subject, condition, span=condition.span)
        reader.expect_words("THEN")
        conditions.append(condition)
        results.append(parse_expression(reader))
    if not conditions:
        reader.fail("`WHEN`")
    default: tree.Expression = tree.Literal(None, span=reader.token.span)
    if reader.take_words("ELSE"):
        default = parse_expression(reader)
    reader.expect_words("END")
    span = reader.span_from(start)
    return tree.Case(tuple(conditions), tuple(results), default, span=span)


def _parse_name(reader: Reader) -> tree.Expression:
    first = reader.take()
    names: list[Token] = []
    while reader.token.is_mark(".") and reader.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED):
        reader.take()
        names.append(reader.take())
    if not names:
        return tree.Column(first.value, None, span=first.span)
    fields = tuple(name.value for name in names[1:])
    span = first.span.to(names[-1].span)
    return tree.Column(names[0].value, folded(first), fields, span=span)


def _parse_call(reader: Reader, semantics: str | None, start: int) -> tree.Expression:
    name = reader.take().upper
    reader.expect_mark("(")
    if name in _NAVIGATION:
        return _parse_navigation(reader, name, semantics, start)
    if name in ("CAST", "TRY_CAST"):
        return _parse_cast(reader, start, lenient=name == "TRY_CAST")
    if name == "CLASSIFIER":
        token = None if reader.token.is_mark(")") else reader.expect_name("a variable")
        reader.expect_mark(")")
        variable = folded(token) if token is not None else None
        return tree.Classifier(variable, span=reader.span_from(start))
    if name == "MATCH_NUMBER":
        reader.expect_mark(")")
        return tree.MatchNumber(span=reader.span_from(start))
    distinct = reader.take_words("DISTINCT")
    arguments: tuple[tree.Expression, ...] = ()
    star, star_of = False, None
    if reader.take_mark("*"):
        star = True
    elif reader.ahead().is_mark(".") and reader.ahead(2).is_mark("*"):
        star, star_of = True, folded(reader.expect_name("a variable"))
        reader.place += 2
    elif not reader.token.is_mark(")"):
        arguments = _parse_list(reader)
    keys = _parse_keys(reader) if reader.take_words("ORDER", "BY") else []
    reader.expect_mark(")")
    if not keys and reader.take_words("WITHIN", "GROUP"):
        reader.expect_mark("(")
        reader.expect_words("ORDER", "BY")
        keys = _parse_keys(reader)
        reader.expect_mark(")")
    condition = None
    if reader.take_words("FILTER"):
        reader.expect_mark("(")
        reader.expect_words("WHERE")
        condition = parse_expression(reader)
        reader.expect_mark(")")
    span = reader.span_from(start)
    name = ALIASES.get(name, name)
    order, ordering = tuple(key for key, _ in keys), tuple(how for _, how in keys)
    return tree.Call(
        name, arguments, semantics, distinct, star, star_of, condition, order, ordering, span=span
    )


def _parse_keys(reader: Reader) -> list[tuple[tree.Expression, tree.Ordering]]:
    """Return the keys of ORDER BY at the reader's place."""
    keys = []
    while True:
        key = parse_expression(reader)
        keys.append((key, parse_ordering(reader)))
        if not reader.take_mark(","):
            return keys


def parse_ordering(reader: Reader) -> tree.Ordering:
    """Parse a key of ORDER BY; NULLs come first when it ascends, as in Spark SQL."""
    descending = reader.take_words("DESC")
    if not descending:
        reader.take_words("ASC")
    nulls_first, stated = not descending, reader.take_words("NULLS")
    if stated:
        if reader.token.upper not in ("FIRST", "LAST"):
            reader.fail("`FIRST` or `LAST`")
        nulls_first = reader.take().upper == "FIRST"
    return tree.Ordering(descending, nulls_first, stated)


def _parse_navigation(
    reader: Reader, name: str, semantics: str | None, start: int
) -> tree.Expression:
    argument = parse_expression(reader)
    # Further away there is no row either, and sums of places keep to 64 bits.
    offset = min(reader.expect_whole(), OFFSET_MAX) if reader.take_mark(",") else None
    reader.expect_mark(")")
    return tree.Navigate(name, argument, offset, semantics, span=reader.span_from(start))


def _parse_cast(reader: Reader, start: int, *, lenient: bool) -> tree.Expression:
    operand = parse_expression(reader)
    reader.expect_words("AS")
    type_name, parameters = _parse_type(reader)
    reader.expect_mark(")")
    span = reader.span_from(start)
    return tree.Cast(operand, type_name, parameters, lenient, span=span)


def _parse_type(reader: Reader) -> tuple[str, tuple[int, ...]]:
    type_name = reader.expect_name("a type").value.upper()
    if type_name == "DOUBLE":
        reader.take_words("PRECISION")
    parameters: list[int] = []
    if reader.take_mark("("):
        parameters.append(reader.expect_whole())
        while reader.take_mark(","):
            parameters.append(reader.expect_whole())
        reader.expect_mark(")")
    return type_name, tuple(parameters)
