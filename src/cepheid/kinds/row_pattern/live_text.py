"""Check the SQL around a clause over a stream: a list of columns and WHERE, nothing that waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cepheid.errors import Diagnostic, Span
from cepheid.kinds.row_pattern.lexer import Token, TokenKind, tokenize
from cepheid.kinds.row_pattern.statement import Statement

_WHOLE = "it would need all rows of the stream"
_TABLES = "the text reads one table, which is the stream"
_REFUSED = {
    **dict.fromkeys(("GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"), _WHOLE),
    **dict.fromkeys(("LIMIT", "OFFSET", "DISTINCT", "OVER", "WINDOW", "PIVOT", "QUALIFY"), _WHOLE),
    **dict.fromkeys(("JOIN", "UNION", "INTERSECT", "EXCEPT", "MINUS", "LATERAL"), _TABLES),
    "WITH": "a live text has one SELECT around the clause, and at most one in its table",
}
_AGGREGATES = frozenset(
    [
        "ANY",
        "ANY_VALUE",
        "APPROX_COUNT_DISTINCT",
        "AVG",
        "BOOL_AND",
        "BOOL_OR",
        "COLLECT_LIST",
        "COLLECT_SET",
        "CORR",
        "COUNT",
        "COUNT_IF",
        "EVERY",
        "FIRST",
        "FIRST_VALUE",
        "LAST",
        "LAST_VALUE",
        "LISTAGG",
        "MAX",
        "MAX_BY",
        "MEAN",
        "MEDIAN",
        "MIN",
        "MIN_BY",
        "MODE",
        "PERCENTILE",
        "SOME",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STRING_AGG",
        "SUM",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
    ]
)
_WAY_OUT = "keep columns and WHERE, and do the rest with the DataFrame that `cepheid.sql` returns"


def why_not_around(statement: Statement) -> Diagnostic | None:
    """Return the first reason why a text cannot be live for what is around its clause (E405)."""
    return next(_reasons(statement), None)


def _reasons(statement: Statement) -> Iterator[Diagnostic]:
    if len(statement.sites) > 1:
        message = "a query over a stream can have only one MATCH_RECOGNIZE clause"
        yield _refused(message, statement.sites[1].clause.span)
    clause = statement.sites[0].clause.span
    tokens = [
        token
        for token in tokenize(statement.text)
        if not clause.start <= token.span.start < clause.end and token.kind is not TokenKind.END
    ]
    if tokens[0].upper != "SELECT":
        message = "a query over a stream must be a SELECT"
        yield _refused(message, tokens[0].span)
    in_from = [False]
    for place, token in enumerate(tokens):
        if token.is_mark("("):
            in_from.append(False)
        elif token.is_mark(")"):
            in_from = in_from[:-1] or [False]
        elif token.upper in ("FROM", "WHERE"):
            in_from[-1] = token.upper == "FROM"
        why = _why(tokens, place, in_from=in_from[-1])
        if why:
            message = f"`{token.value}` cannot be combined with a clause over a stream: {why}"
            yield _refused(message, token.span)


def _why(tokens: Sequence[Token], place: int, *, in_from: bool) -> str:
    token = tokens[place]
    before = tokens[place - 1] if place else None
    if token.is_mark(","):
        return _TABLES if in_from else ""
    # A name is none of these words: `m.limit`, `AS limit`.
    if before is not None and (before.is_mark(".") or before.upper == "AS"):
        return ""
    if token.upper in _REFUSED:
        return _REFUSED[token.upper]
    called = place + 1 < len(tokens) and tokens[place + 1].is_mark("(")
    if token.upper in _AGGREGATES and called:
        return _WHOLE
    nested = token.upper == "SELECT" and place > 1
    if nested and not (tokens[place - 1].is_mark("(") and tokens[place - 2].upper == "FROM"):
        return "a subquery may only be the table of the clause, or around it"
    return ""


def _refused(message: str, span: Span) -> Diagnostic:
    return Diagnostic("E405", message, span, helps=(_WAY_OUT,))
