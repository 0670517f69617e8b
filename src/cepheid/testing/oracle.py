"""The reference implementation: a query and its events in, the rows of the answer out.

Written from docs/semantics.md alone, without a thought for speed, and independent of everything
it judges: §5 and §7 stand here, §6 in `oracle_windows`, §2 and §3 in `oracle_matches`,
§1 and §4 in `oracle_stream` and `oracle_patterns`. Where an
engine and the oracle differ, one of them has misread that page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression
from cepheid.testing.oracle_stream import Event, Match, Stream, events_of
from cepheid.testing.oracle_windows import Cell, cells, end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Event", "Row", "column_names", "evaluate", "lists_matches"]

Row = dict[str, object]


def evaluate(
    query: tree.Query,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",  # noqa: A002
) -> list[Row]:
    """Return the rows of a query over a stream, sorted by window, group and match.

    Parameters
    ----------
    query
        A query that the binder accepts.
    events
        The stream in the order of time; a time is a whole number of microseconds. An attribute
        that an event does not have is NULL. If no event has a type, the data has no type column.
    time, type
        The names of the columns that hold the time and the type of an event.

    Returns
    -------
    list of dict
        GROUP-BY attributes, ``window_start`` and ``window_end`` if the query has a window, then
        the items of RETURN. Counts and sums of whole numbers are exact. A listed match is a
        tuple of (variable, number of the event) under ``events``.
    """
    stream = Stream(query, events, time, type)
    lists = match_rows(query, stream) if lists_matches(query) else aggregate_rows(query, stream)
    limit = query.limit.value if query.limit else None
    assert limit is None or isinstance(limit, int), "LIMIT is a whole number"
    return list(lists)[:limit]


def lists_matches(query: tree.Query) -> bool:
    """Return whether a query lists its matches instead of aggregating them (§7.1)."""
    return query.returns is None or not any(
        isinstance(node, tree.Aggregate) for node in tree.walk(query.returns)
    )


def row_head(query: tree.Query, cell: Cell) -> Row:
    """Return the columns that say which group and window a row belongs to."""
    names = [name.text for name in query.group_by]
    head: Row = dict(zip(names, cell.group, strict=True))
    if query.window is not None:
        head |= {"window_start": cell.start, "window_end": cell.end}
    return head


# ---------------------------------------------------------------------------------------
# Aggregates (§5)


def aggregate_rows(query: tree.Query, stream: Stream) -> Iterator[Row]:
    """Yield one row for every group and window that HAVING lets pass (§5.3)."""
    assert query.returns is not None, "only a RETURN clause has aggregates"
    for cell in cells(query, stream):
        row = row_head(query, cell)

        def lookup(leaf: Leaf, cell: Cell = cell, row: Row = row) -> Value:
            match leaf:
                case tree.Aggregate(variable=None):
                    return len(cell.found)
                case tree.Aggregate():
                    # Under AND only matches are counted, so there are no pairs here (§2.10).
                    matches = [found for found in cell.found if isinstance(found, tuple)]
                    return stream.aggregate_value(leaf, matches)
                case tree.Word(text=text):  # A GROUP-BY attribute or a result column.
                    return row[text]  # type: ignore[return-value]  # Aggregates are plain values.
            message = f"an aggregate query returns no attribute of one event: {leaf}"
            raise ValueError(message)

        for item in query.returns.items:
            row[column_name(item)] = evaluate_expression(item.expression, lookup)
        if query.having is None or evaluate_expression(query.having, lookup) is True:
            yield row


def column_names(query: tree.Query) -> list[str]:
    """Return the names of the columns of a query's rows, in order."""
    names = [name.text for name in query.group_by]
    if query.window is not None:
        names += ["window_start", "window_end"]
    items = query.returns.items if query.returns else ()
    names += [column_name(item) for item in items] or ["events"]
    return list(dict.fromkeys(names))


def column_name(item: tree.ReturnItem) -> str:
    """Return the name after AS, or the one that the expression gives."""
    return item.alias.text if item.alias else default_name(item.expression)


def default_name(expression: tree.Expression) -> str:
    """Return the name of a result column without AS."""
    match expression:
        case tree.Aggregate(function=function, variable=variable, attribute=attribute):
            names = [name.text for name in (variable, attribute) if name]
            return "_".join([function.lower(), *names])
        case tree.Call(function=function, arguments=(argument,)):
            return f"{function.lower()}_{default_name(argument)}"
        case tree.Attribute(variable=variable, attribute=attribute):
            return f"{variable.text}_{attribute.text}"
        case tree.Word(text=text):
            return text
    message = f"{type(expression).__name__} is not an item of RETURN"
    raise ValueError(message)


# ---------------------------------------------------------------------------------------
# Matches themselves (§7)


def match_rows(query: tree.Query, stream: Stream) -> Iterator[Row]:
    """Yield one row for every match, with the first window in which it is one (§7.2)."""
    seen: set[Match] = set()
    runs = query.window is not None and query.window.slide is None
    for cell in cells(query, stream):
        for match in sorted(found for found in cell.found if isinstance(found, tuple)):
            # Without SLIDE, the window that ends with the match judges it.
            if match not in seen and (not runs or end(stream, match) == cell.end):
                seen.add(match)
                yield row_head(query, cell) | match_columns(query, stream, match)


def match_columns(query: tree.Query, stream: Stream, match: Match) -> Row:
    """Return the bindings of a match, or the attributes that RETURN names (§7.3)."""
    if query.returns is None or not query.returns.items:
        return {"events": match}
    return {
        column_name(item): attribute_of_match(query, stream, item.expression, match)
        for item in query.returns.items
    }


def attribute_of_match(
    query: tree.Query, stream: Stream, expression: tree.Expression, match: Match
) -> object:
    """Return an attribute of a match: one value, or all where there can be several (§7.3)."""
    match expression:
        case tree.Word(text=text):
            return stream.keys(match[0][1], [text])[0]
        case tree.Attribute(variable=variable, attribute=attribute):
            values = [stream.value(i, attribute.text) for i in events_of(match, variable.text)]
            if bindings_max(query.pattern, variable.text) > 1:
                return values
            return values[0] if values else None
    message = f"{type(expression).__name__} is not an attribute"
    raise ValueError(message)


def bindings_max(pattern: tree.Pattern, variable: str) -> float:
    """Return how often a variable can be bound in one match."""
    match pattern:
        case tree.EventPattern(variable=name):
            return int(name.text == variable)
        case tree.Sequence(parts=parts):
            return sum(bindings_max(part, variable) for part in parts)
        case tree.Disjunction(alternatives=alternatives):
            return max(bindings_max(alternative, variable) for alternative in alternatives)
        case tree.Repeat(pattern=inner, most=most):
            once = bindings_max(inner, variable)
            return once * (float("inf") if most is None else most) if once else 0
    return 0  # A NOT part binds nothing.
