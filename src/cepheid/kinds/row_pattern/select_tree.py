"""A SELECT over one table or a join: its tree and how it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from cepheid.errors import CepheidError, Span
from cepheid.expressions.functions import FUNCTIONS
from cepheid.expressions.own import OwnFunction
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind_expressions import AGGREGATES, SORTED
from cepheid.kinds.row_pattern.expressions import parse_expression
from cepheid.kinds.row_pattern.lexer import Token, TokenKind
from cepheid.kinds.row_pattern.parser import parse_column, parse_sort_key
from cepheid.kinds.row_pattern.reader import Reader
from cepheid.kinds.row_pattern.rendered import Rendered

JOINS = ("INNER", "LEFT", "RIGHT", "FULL", "CROSS")
_CLAUSES = frozenset({"WHERE", "GROUP", "ORDER", "LIMIT"})
_NO_ALIAS = _CLAUSES | {*JOINS, "FROM", "AS", "OVER", "JOIN", "ON", "USING", "NATURAL", "LATERAL"}


class NotSimpleError(Exception):
    """The text is more than a SELECT over tables and joins of them."""


class Item(msgspec.Struct, frozen=True):
    """An entry of the list of SELECT; ``expression`` is None for ``*`` and ``owner.*``."""

    name: str
    expression: tree.Expression | None
    owner: str = ""


class TableName(msgspec.Struct, frozen=True):
    """A table after FROM, and what stands before its columns: its alias, or its name."""

    name: str
    alias: str
    span: Span


class Subquery(msgspec.Struct, frozen=True):
    """A SELECT in parentheses after FROM; without an alias, nothing stands before its columns."""

    select: Select
    alias: str


class Join(msgspec.Struct, frozen=True):
    """Two sources: ``kind`` is inner, left, right, full or cross; ``on`` or ``using`` says how."""

    kind: str
    left: Source
    right: Source
    on: tree.Expression | None = None
    using: tuple[str, ...] = ()
    span: Span = Span(0, 0)


Source: TypeAlias = TableName | Subquery | Join


class Select(msgspec.Struct, frozen=True):
    """``SELECT items FROM source ...``."""

    items: tuple[Item, ...]
    source: Source
    where: tree.Expression | None
    group_by: tuple[tree.Column, ...]
    order_by: tuple[tree.SortKey, ...]
    limit: int | None
    named: tuple[tuple[str, Select], ...] = ()

    @property
    def aggregates(self) -> bool:
        """Check whether rows are aggregated."""
        return bool(self.group_by) or any(
            item.expression is not None and _has_aggregate(item.expression) for item in self.items
        )


def _has_aggregate(node: tree.Expression) -> bool:
    calls = (part for part in tree.walk(node) if isinstance(part, tree.Call))
    return any(call.function in AGGREGATES for call in calls)


def parse_select(query: str | Rendered, functions: Iterable[OwnFunction] = ()) -> Select:
    """Return the tree of a text that is a SELECT over tables and joins of them.

    Raises
    ------
    NotSimpleError
        If it is anything else.

    Examples
    --------
    >>> found = parse_select("SELECT company, len * 2 AS twice FROM v AS m WHERE len > 3 LIMIT 5")
    >>> [item.name for item in found.items], found.source.name, found.limit
    (['company', 'twice'], 'v', 5)
    """
    try:
        rendered = Rendered.of(query) if isinstance(query, str) else query
        reader = Reader(rendered.tokens(), rendered.original, functions=tuple(functions))
        found = _parse_select(reader)
        reader.take_mark(";")
    except CepheidError as error:
        raise NotSimpleError(str(error)) from error
    if reader.token.kind is not TokenKind.END:
        raise NotSimpleError(reader.token.value)
    return found


def _parse_select(reader: Reader) -> Select:
    reader.enter()
    named = []
    if reader.take_words("WITH"):
        while True:
            name = reader.expect_name().value
            reader.expect_words("AS")
            reader.expect_mark("(")
            named.append((name, _parse_select(reader)))
            reader.expect_mark(")")
            if not reader.take_mark(","):
                break
    reader.expect_words("SELECT")
    if reader.at_words("DISTINCT"):
        reader.fail("an expression")
    items = [_parse_item(reader)]
    while reader.take_mark(","):
        items.append(_parse_item(reader))
    reader.expect_words("FROM")
    source = _parse_from(reader)
    where = _parse_expression(reader) if reader.take_words("WHERE") else None
    if where is not None:
        _check_known(where)
        if _has_aggregate(where):
            raise NotSimpleError("WHERE")  # noqa: EM101  # what is not simple
    group_by: list[tree.Column] = []
    if reader.take_words("GROUP", "BY"):
        group_by.append(parse_column(reader))
        while reader.take_mark(","):
            group_by.append(parse_column(reader))
    order_by: list[tree.SortKey] = []
    if reader.take_words("ORDER", "BY"):
        order_by.append(parse_sort_key(reader))
        while reader.take_mark(","):
            order_by.append(parse_sort_key(reader))
    limit = reader.expect_whole() if reader.take_words("LIMIT") else None
    reader.leave()
    found = Select(
        tuple(items), source, where, tuple(group_by), tuple(order_by), limit, tuple(named)
    )
    if found.aggregates and any(item.expression is None for item in items):
        raise NotSimpleError("*")  # noqa: EM101  # what is not simple
    return found


def _parse_item(reader: Reader) -> Item:
    if reader.take_mark("*"):
        return Item("*", None)
    if reader.ahead().is_mark(".") and reader.ahead(2).is_mark("*"):
        owner = reader.take().value
        reader.place += 2
        return Item("*", None, owner)
    start = reader.token.span.start
    expression = _parse_expression(reader)
    _check_known(expression)
    written = reader.text[start : reader.last_end]
    name = expression.name if isinstance(expression, tree.Column) else written
    if reader.take_words("AS") or _is_alias(reader.token):
        name = reader.expect_name().value
    return Item(name, expression)


def _parse_expression(reader: Reader) -> tree.Expression:
    return tree.with_own_functions(parse_expression(reader), reader.functions)


def _check_known(node: tree.Expression) -> None:
    """Refuse what only a full SQL engine knows."""
    if isinstance(node, tree.Navigate | tree.Classifier | tree.MatchNumber):
        raise NotSimpleError(type(node).__name__)
    if isinstance(node, tree.OwnCall):
        count = 1 if node.own.takes is None else len(node.own.takes)
        if len(node.arguments) < count or (node.own.takes and len(node.arguments) > count):
            raise NotSimpleError(node.function)
    elif isinstance(node, tree.Call):
        known = FUNCTIONS.get(node.function)
        least, most = AGGREGATES.get(node.function, (known.least, known.most) if known else (0, -1))
        aggregates = node.function in AGGREGATES
        count = 1 if node.star else len(node.arguments)
        counted = count >= least and (most is None or count <= most)
        starred = node.star and (node.function != "COUNT" or node.distinct)
        decorated = node.semantics is not None or (
            not aggregates and (node.distinct or node.star or node.condition is not None)
        )
        decorated |= bool(node.order) and node.function not in SORTED
        nested = aggregates and any(map(_has_aggregate, tree.children(node)))
        if not counted or starred or decorated or nested:
            raise NotSimpleError(node.function)
    for child in tree.children(node):
        _check_known(child)


def _is_alias(token: Token) -> bool:
    if token.kind is TokenKind.QUOTED:
        return True
    return token.kind is TokenKind.WORD and token.upper not in _NO_ALIAS


# ---------------------------------------------------------------------------------------
# FROM


def _parse_from(reader: Reader) -> Source:
    found = _parse_joined(reader)
    while reader.take_mark(","):
        found = Join("cross", found, _parse_joined(reader))
    return found


def _parse_joined(reader: Reader) -> Source:
    found = _parse_source(reader)
    count = 0
    while (kind := _take_join(reader)) is not None:
        reader.check_chain(count := count + 1)
        right = _parse_source(reader)
        if kind == "cross":
            found = Join(kind, found, right)
        elif reader.take_words("USING"):
            start = reader.token.span.start
            names = _parse_using(reader)
            found = Join(kind, found, right, using=names, span=reader.span_from(start))
        else:
            reader.expect_words("ON")
            condition = _parse_expression(reader)
            _check_known(condition)
            if _has_aggregate(condition):
                raise NotSimpleError("ON")  # noqa: EM101  # what is not simple
            found = Join(kind, found, right, condition)
    return found


def _take_join(reader: Reader) -> str | None:
    """Take the words of a join, and return its kind; None if there is none."""
    kind = reader.token.upper
    if kind == "JOIN":
        reader.take()
        return "inner"
    if kind not in JOINS:
        return None
    reader.take()
    if kind in ("LEFT", "RIGHT", "FULL"):
        reader.take_words("OUTER")
    reader.expect_words("JOIN")
    return kind.lower()


def _parse_using(reader: Reader) -> tuple[str, ...]:
    reader.expect_mark("(")
    names = [reader.expect_name("a column").value]
    while reader.take_mark(","):
        names.append(reader.expect_name("a column").value)
    reader.expect_mark(")")
    return tuple(names)


def _parse_source(reader: Reader) -> Source:
    source: Source
    if reader.take_mark("("):
        reader.enter()
        if reader.token.upper in ("SELECT", "WITH"):
            source = Subquery(_parse_select(reader), "")
        else:
            source = _parse_from(reader)
        reader.expect_mark(")")
        reader.leave()
    else:
        start = reader.token.span.start
        name = called = reader.expect_name("a table").value
        while reader.take_mark("."):
            called = reader.expect_name("a table").value
            name += "." + called
        source = TableName(name, called, reader.span_from(start))
    if reader.take_words("AS") or _is_alias(reader.token):
        alias = reader.expect_name("an alias").value
        if isinstance(source, Join):
            raise NotSimpleError(alias)
        source = msgspec.structs.replace(source, alias=alias)
    return source


def tables_of(select: Select) -> Iterator[str]:
    """Yield the names of all tables that a query reads, those of inner queries too."""
    for _, named in select.named:
        yield from tables_of(named)
    yield from _tables_in(select.source)


def _tables_in(source: Source) -> Iterator[str]:
    match source:
        case TableName():
            yield source.name
        case Subquery():
            yield from tables_of(source.select)
        case Join():
            yield from _tables_in(source.left)
            yield from _tables_in(source.right)


def plain_source(select: Select) -> str | None:
    """Return the table that ``SELECT * FROM table`` names, or None if a query is more than that."""
    plain = len(select.items) == 1 and select.items[0].expression is None
    plain &= select.where is None and select.limit is None
    plain &= not select.order_by and not select.named
    source = select.source
    return source.name if plain and isinstance(source, TableName) else None
