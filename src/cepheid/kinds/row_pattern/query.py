"""A SELECT around one MATCH_RECOGNIZE clause as a query over events, beside other kinds (§11.5).

The clause reads the stream, in the order of its time; SELECT and WHERE look at one row of the
result at a time. Everything else needs ``cepheid.sql``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NoReturn

from cepheid.errors import BindError, Diagnostic, Span, UnsupportedError
from cepheid.events.schema import EventSchema, ValueKind
from cepheid.expressions.own import OwnFunction
from cepheid.jobs.ticks import tick_of
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.bind import bind_clause
from cepheid.kinds.row_pattern.bind_expressions import find_column
from cepheid.kinds.row_pattern.lexer import TokenKind, tokenize
from cepheid.kinds.row_pattern.live_text import why_not_around
from cepheid.kinds.row_pattern.plan import MatchPlan, SearchBounds
from cepheid.kinds.row_pattern.relation import Place, Scope
from cepheid.kinds.row_pattern.select_tree import (
    NotSimpleError,
    Select,
    TableName,
    parse_select,
)
from cepheid.kinds.row_pattern.select_tree import (
    Source as From,
)
from cepheid.kinds.row_pattern.statement import Site, Statement, read_statement
from cepheid.patterns.scope import Source
from cepheid.plans.plan import Choice, Evaluator, Granularity, Partition, RowPatternPlan

VIEW = "cepheid_match_0"
"""The name of the result of the clause in the SELECT around it."""

_WAY_OUT = "run the text with `cepheid.sql`, which takes any SQL around its clauses"


def compile_row_pattern(text: str, source: Source) -> RowPatternPlan:
    """Plan a text with one clause; without a schema, columns are checked later.

    Raises
    ------
    QuerySyntaxError, BindError
        E6xx, all mistakes of the clause at once.
    UnsupportedError
        E404 if the text is more than a query over one stream.
    """
    statement = read_statement(text, source.functions)
    outer = _outer(statement)
    (site,) = statement.sites
    _check_order(site, text, source)
    clause: MatchPlan | None = None
    keys = tuple(column.name for column in site.clause.partition_by)
    read: tuple[str, ...] | None = None
    if source.schema is not None:
        _check_unit(site, text, source, source.schema)
        clause = bind_clause(site.clause, _columns_of_table(source.schema), text)
        for _, expression in clause.derived:
            message = "the clause of a query takes columns as they are"
            _refuse(message, expression.span, text)
        _check_columns(outer, clause, text)
        keys = clause.partition_by
        read = tuple(dict.fromkeys([*clause.read_columns, *source.tiebreak]))
    bounds = SearchBounds() if clause is None else clause.bounds
    return RowPatternPlan(
        text=text,
        time=source.time,
        type=None,
        tiebreak=source.tiebreak,
        tick_ns=tick_of(source, [source.schema]),
        partition=partition_of(keys),
        choice=choice(),
        columns=read,
        warnings=(),
        functions=_called(source.functions, text),
        table_columns=() if clause is None else clause.columns,
        zone="",
        steps=bounds.steps,
        states=bounds.states,
    )


def _called(functions: Iterable[OwnFunction], text: str) -> tuple[OwnFunction, ...]:
    """List the functions whose names stand before a parenthesis in a text."""
    names = {name.upper() for name in re.findall(r"\b(\w+)\s*\(", text)}
    return tuple(function for function in functions if function.name in names)


def _columns_of_table(schema: EventSchema) -> tuple[str, ...]:
    """List the columns of the events without the fields of structures, which SQL does not name."""
    structures = tuple(f"{c.name}." for c in schema.columns if c.kind is ValueKind.OTHER)
    return tuple(name for name in schema.names if not name.startswith(structures))


def partition_of(keys: Sequence[str]) -> Partition:
    """Describe the keys of a clause; rows without one have a partition too."""
    reason = f"PARTITION BY {', '.join(keys)}" if keys else ""
    return Partition((), (), tuple(keys), reason)


def choice() -> Choice:
    """Tell how a clause is evaluated."""
    return Choice(
        evaluator=Evaluator.ROW_PATTERN,
        granularity=Granularity.EVENT,
        reason="the text has a MATCH_RECOGNIZE clause",
        span=None,
        time="O(places of the pattern) for each row, where conditions see the row alone",
        state="the rows from the first undecided one on",
    )


def select_around(statement: Statement) -> Select:
    """Parse the SELECT around the one clause of a text; its places are those of the text.

    Raises
    ------
    NotSimpleError
        If it is more than a SELECT over tables.
    """
    (site,) = statement.sites
    begin, end = site.span.start, site.span.end
    # As long as what it replaces, so that messages point into the text.
    view = f" {VIEW} {site.alias} ".ljust(end - begin)
    text = statement.text[:begin] + view + statement.text[end:]
    return parse_select(text, statement.functions)


def columns_that_show(
    text: str, key: str, functions: Iterable[OwnFunction] = ()
) -> tuple[str, ...]:
    """List the columns of the rows of a text that hold a key of PARTITION BY.

    Examples
    --------
    >>> text = "SELECT {} FROM s MATCH_RECOGNIZE (PARTITION BY k MEASURES 1 AS n PATTERN (A))"
    >>> [columns_that_show(text.format(items), "k") for items in ("*", "n, k AS key", "n")]
    [('k',), ('key',), ()]
    """
    found = []
    for item in select_around(read_statement(text, functions)).items:
        if item.expression is None:
            found.append(key)
        elif isinstance(item.expression, tree.Column) and find_column(item.expression.name, [key]):
            found.append(item.name)
    return tuple(dict.fromkeys(found))


def _outer(statement: Statement) -> Select:
    """Parse and check what is around the clause."""
    text = statement.text
    if len(statement.sites) > 1:
        message = "a query has one MATCH_RECOGNIZE clause, and this text has more"
        _refuse(message, statement.sites[1].clause.span, text)
    (site,) = statement.sites
    if site.clause.frame is not None:
        _refuse("a query has no windows with PATTERN", site.clause.span, text)
    for key in (*site.clause.partition_by, *(key.column for key in site.clause.order_by)):
        if isinstance(key, tree.Computed):
            _refuse("the clause of a query takes columns as they are", key.span, text)
    tokens = tokenize(text[site.source.start : site.source.end])
    names = [token for token in tokens if token.kind is not TokenKind.END]
    if len(names) != 1 or names[0].kind not in (TokenKind.WORD, TokenKind.QUOTED):
        _refuse("the clause of a query reads its stream, which has a plain name", site.source, text)
    message = "around the clause, a query has columns, expressions of them and WHERE"
    why = why_not_around(statement)
    where = Span(0, len(text)) if why is None or why.span is None else why.span
    try:
        outer = select_around(statement)
    except NotSimpleError:
        _refuse(message, where, text)
    more = outer.aggregates or outer.order_by or outer.limit is not None
    if more or outer.named or not _is_view(outer.source):
        _refuse(message, where, text)
    return outer


def _is_view(source: From) -> bool:
    return isinstance(source, TableName) and source.name == VIEW


def _check_order(site: Site, text: str, source: Source) -> None:
    """Refuse a clause whose rows do not come in the order of the stream."""
    keys = site.clause.order_by
    if keys and find_column(keys[0].column.name, [source.time]) is not None:
        return
    span = keys[0].span if keys else site.clause.span
    message = "the clause of a query orders rows by the time of events first, which is "
    message += f"`{source.time}`"
    helps = [f"begin with `ORDER BY {source.time}`"]
    if keys:
        helps.append(f'or name the time: `time="{keys[0].column.name}"`')
    raise UnsupportedError([Diagnostic("E404", message, span, helps=(*helps, _WAY_OUT))], text)


def _check_unit(site: Site, text: str, source: Source, schema: EventSchema) -> None:
    """Refuse lengths of time where whole numbers count something other than seconds."""
    within = site.clause.within
    if not isinstance(within, tree.Duration) or source.time_unit == "s":
        return
    if schema.kind(source.time) is ValueKind.INTEGER:
        message = f"an interval takes whole numbers as seconds, and the unit of `{source.time}` is "
        message += f"`{source.time_unit}`"
        helps = ("write WITHIN as a number of this unit", 'or say `time_unit="s"`')
        raise UnsupportedError([Diagnostic("E404", message, within.span, helps=helps)], text)


def _check_columns(outer: Select, clause: MatchPlan, text: str) -> None:
    """Report columns around the clause that its result does not have (E603)."""
    assert isinstance(outer.source, TableName), "checked before"
    known = [*clause.output_columns, *(name for name, _ in clause.measures)]
    scope = Scope(tuple(Place(outer.source.alias, name, name) for name in known), text)
    expressions = [item.expression for item in outer.items if item.expression is not None]
    if outer.where is not None:
        expressions.append(outer.where)
    findings: list[Diagnostic] = []
    for node in (node for expression in expressions for node in tree.walk(expression)):
        try:
            if isinstance(node, tree.Column):
                scope.column(node)
        except BindError as error:
            findings += error.diagnostics
    if findings:
        raise BindError(findings[:10], text)


def _refuse(message: str, span: Span, text: str) -> NoReturn:
    raise UnsupportedError([Diagnostic("E404", message, span, helps=(_WAY_OUT,))], text)
