"""Evaluate SELECT by brute force, from its definition.

It follows docs/semantics.md §10 alone: every event is tried in every window, and every pair of
events in turn. Times are integer microseconds. It shares no code with the engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import msgspec

from cepheid.expressions.tree import children, with_children
from cepheid.language import tree
from cepheid.language.parser import parse
from cepheid.testing.oracle_expressions import as_number, evaluate_expression, order

Row = Mapping[str, Any]
Aliased = Mapping[str, Row]


def evaluate_select(
    text: str, streams: Mapping[str, Sequence[Row]], *, time: str = "ts"
) -> list[dict[str, Any]]:
    """Evaluate a SELECT over streams, which are lists of rows in the order of arrival.

    Examples
    --------
    >>> rows = [{"ts": 0, "x": 1}, {"ts": 4, "x": 2}, {"ts": 5, "x": 3}]
    >>> evaluate_select("SELECT SUM(x) FROM s WINDOW 9 us", {"s": rows})
    [{'window_start': 0, 'window_end': 9, 'sum_x': 6}]
    """
    query = parse(text)
    assert isinstance(query, tree.SelectQuery), "the text begins with SELECT"
    return evaluate_tree(query, streams, time)


def evaluate_tree(
    query: tree.SelectQuery, streams: Mapping[str, Sequence[Row]], time: str
) -> list[dict[str, Any]]:
    """Evaluate a SELECT that was read already."""
    if query.order_by or query.limit is not None:
        return _ordered(query, streams, time)
    stream = query.streams[0]
    if query.on is not None:
        kept = _pairs(query, streams, time)
    else:
        rows: list[Aliased] = [{stream.alias.text: row} for row in streams[stream.name.text]]
        kept = [row for row in rows if query.where is None or _value(query.where, row) is True]
    asked = [item.expression for item in query.items if isinstance(item, tree.ReturnItem)]
    asked += [query.having] if query.having is not None else []
    if not query.group_by and not any(_aggregates(node) for e in asked for node in tree.walk(e)):
        return [_shown(query, row) for row in kept]
    return _windows(query, kept, time)


def _ordered(
    query: tree.SelectQuery, streams: Mapping[str, Sequence[Row]], time: str
) -> list[dict[str, Any]]:
    """Sort all rows by further columns, one order after the other from the last to the first."""
    extra = []
    for number, item in enumerate(query.order_by):
        expression = item.expression
        aliases = {
            shown.alias.text: shown.expression
            for shown in query.items
            if isinstance(shown, tree.ReturnItem) and shown.alias is not None
        }
        if isinstance(expression, tree.Word):
            expression = aliases.get(expression.text, expression)
        # A column that is shown under its own name, too.
        value = tree.Call(span=item.span, function="COALESCE", arguments=(expression,))
        alias = tree.Name(span=item.span, text=f"order {number}")
        extra.append(tree.ReturnItem(span=item.span, expression=value, alias=alias))
    plain = msgspec.structs.replace(query, items=(*query.items, *extra), order_by=(), limit=None)
    rows = evaluate_tree(plain, streams, time)
    for number, item in reversed(list(enumerate(query.order_by))):
        name = f"order {number}"
        known = [row for row in rows if row[name] is not None]
        known.sort(key=lambda row: order(row[name]), reverse=item.descending)  # now
        none = [row for row in rows if row[name] is None]
        rows = none + known if item.nulls_first else known + none
    for row in rows:
        for number in range(len(query.order_by)):
            del row[f"order {number}"]
    return rows if query.limit is None else rows[: int(query.limit.value or 0)]


def _value(expression: tree.Expression, row: Aliased) -> Any:
    def lookup(leaf: Any) -> Any:
        if isinstance(leaf, tree.Attribute):
            return row[leaf.variable.text][leaf.attribute.text]
        assert isinstance(leaf, tree.Word), "a SELECT has no other names"
        owners = [alias for alias, columns in row.items() if leaf.text in columns]
        return row[owners[0]][leaf.text]

    return evaluate_expression(expression, lookup)


def _shown(query: tree.SelectQuery, row: Aliased) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for item in query.items:
        if isinstance(item, tree.Star):
            for alias, columns in row.items():
                if item.stream is None or item.stream.text == alias:
                    prefix = f"{alias}_" if len(row) > 1 else ""
                    shown |= {prefix + name: value for name, value in columns.items()}
            continue
        name = item.alias.text if item.alias else _column_of(item.expression)
        shown[name] = _value(item.expression, row)
    return shown


def _column_of(expression: tree.Expression) -> str:
    if isinstance(expression, tree.Attribute):
        return expression.attribute.text
    assert isinstance(expression, tree.Word), "a computed column has a name"
    return expression.text


# ---------------------------------------------------------------------------------------
# Windows


def _windows(query: tree.SelectQuery, rows: Sequence[Aliased], time: str) -> list[dict[str, Any]]:
    keys = [_attribute_of(name) for name in query.group_by]
    found: dict[tuple[int, tuple[Any, ...]], list[Aliased]] = {}
    numbers: dict[tuple[Any, ...], int] = {}
    ordered = sorted(rows, key=lambda row: _when(row, time)) if query.window else rows
    if query.window is not None and query.window.session:
        found = _sessions(query, ordered, time)
        ordered = []
    for row in ordered:
        key = tuple(_canonical(_value(name, row)) for name in keys)
        number = numbers.get(key, 0)
        numbers[key] = number + 1
        when = _when(row, time) if query.window else None
        for window in _windows_of(query.window, when, number):
            found.setdefault((window, key), []).append(row)
    if not keys and query.window is None:
        found.setdefault((0, ()), [])
    result = []
    for (window, key), members in sorted(found.items(), key=lambda item: _rank(item[0])):
        named = dict(zip(map(_column_of, keys), key, strict=True))
        line = _line(query, window, named, members, time)
        if line is not None:
            result.append(line)
    return result


def _sessions(
    query: tree.SelectQuery, ordered: Sequence[Aliased], time: str
) -> dict[tuple[int, tuple[Any, ...]], list[Aliased]]:
    """Cut the events of each group where two that follow each other are a gap or more apart."""
    assert query.window is not None
    gap, _ = _lengths(query.window)
    groups: dict[tuple[Any, ...], list[Aliased]] = {}
    for row in ordered:
        key = tuple(_canonical(_value(_attribute_of(name), row)) for name in query.group_by)
        groups.setdefault(key, []).append(row)
    found: dict[tuple[int, tuple[Any, ...]], list[Aliased]] = {}
    for key, members in groups.items():
        start = before = _when(members[0], time)
        for row in members:
            here = _when(row, time)
            start = here if here - before >= gap else start
            before = here
            found.setdefault((start, key), []).append(row)
    return found


def _line(
    query: tree.SelectQuery, window: int, key: dict[str, Any], members: list[Aliased], time: str
) -> dict[str, Any] | None:
    """Build the row of a group and window; None if HAVING is not true for it."""
    items = [item for item in query.items if isinstance(item, tree.ReturnItem)]
    names = {name: name for name in key}
    for item in items:
        if isinstance(item.expression, tree.Word | tree.Attribute) and item.alias is not None:
            names[_column_of(item.expression)] = item.alias.text
    known = {name: math.nan if value == "NaN" else value for name, value in key.items()}
    line = {names[name]: value for name, value in key.items()}
    edges = {}
    if query.window is not None:
        within, slide = _lengths(query.window)
        edges = {"window_start": window * slide, "window_end": window * slide + within}
        if query.window.session:
            times = [_when(row, time) for row in members]
            edges = {"window_start": min(times), "window_end": max(times) + within}
    line |= edges
    given: dict[str, Any] = {}
    for item in items:
        part = _aggregate_of(item)
        if part is not None:
            given[part[0]] = part[1](members)
        elif not isinstance(item.expression, tree.Word | tree.Attribute):
            assert item.alias is not None, "a computed column has a name"
            given[item.alias.text] = _of_rows(item.expression, members, {**edges, **known})
    # In HAVING, a name is a key, else a result column.
    named = {**edges, **given, **{names[name]: value for name, value in known.items()}, **known}
    if query.having is not None and _of_rows(query.having, members, named) is not True:
        return None
    return line | given


def _of_rows(expression: tree.Expression, members: list[Aliased], names: Mapping[str, Any]) -> Any:
    """Evaluate an expression over aggregates and names."""

    def replaced(node: tree.Expression) -> tree.Expression:
        if _aggregates(node):
            item = tree.ReturnItem(
                span=node.span, expression=node, alias=tree.Name(span=node.span, text="")
            )
            part = _aggregate_of(item)
            assert part is not None, "an aggregate has a value"
            return tree.Literal(span=node.span, value=part[1](members))
        inner = tuple(replaced(child) for child in children(node))
        return with_children(node, inner) if inner else node

    def lookup(leaf: Any) -> Any:
        return names[_column_of(leaf)]

    return evaluate_expression(replaced(expression), lookup)


def _aggregates(node: tree.Node) -> bool:
    if isinstance(node, tree.Call):
        return node.function in _FUNCTIONS
    return isinstance(node, tree.Aggregate)


def _when(row: Aliased, time: str) -> int:
    """Return the time of an event, or of a pair: that of its later event."""
    return max(int(columns[time]) for columns in row.values())


def _lengths(window: tree.Window) -> tuple[int, int]:
    parts = [window.within, window.slide or window.within]
    lengths = [p.microseconds if isinstance(p, tree.Duration) else p.count for p in parts]
    return lengths[0], lengths[1]


def _windows_of(window: tree.Window | None, time: Any, number: int) -> list[int]:
    """Find all i with i * slide <= place < i * slide + within."""
    if window is None:
        return [0]
    within, slide = _lengths(window)
    counted = isinstance(window.within, tree.EventCount)
    place = number if counted else time
    tried = range((place - within) // slide - 1, place // slide + 2)
    inside = [i for i in tried if i * slide <= place < i * slide + within]
    return [i for i in inside if i >= 0 or not counted]


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _rank(key: tuple[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Build the sort key of a row: the window, then the keys, NaN and then NULL last."""
    values = [(2, 0) if v is None else (1, 0) if v == "NaN" else (0, v) for v in key[1]]
    return (key[0], *values)


# ---------------------------------------------------------------------------------------
# Aggregates

_PERCENTILES = ("PERCENTILE", "APPROX_PERCENTILE")
_FUNCTIONS = frozenset(
    {*(f.value for f in tree.AggregateFunction), "MEDIAN", "APPROX_COUNT_DISTINCT", *_PERCENTILES}
)


def _aggregate_of(item: Any) -> tuple[str, Callable[[list[Aliased]], Any]] | None:
    """Look up the name and the function of an aggregate; None if an item is not one."""
    node = item.expression if isinstance(item, tree.ReturnItem) else None
    argument: tree.Expression | None
    if isinstance(node, tree.Aggregate):
        function, argument = node.function.value, None
        if node.distinct:
            function, argument = "COUNT_DISTINCT", _attribute_of(node.distinct[0])
        elif node.variable is not None:
            argument = tree.Word(span=node.span, text=node.variable.text)
            if node.attribute is not None:
                argument = tree.Attribute(
                    span=node.span, variable=node.variable, attribute=node.attribute
                )
    elif isinstance(node, tree.Call) and node.function in _FUNCTIONS:
        function, argument = node.function, node.arguments[0]
    else:
        return None
    if argument is None:
        return item.alias.text if item.alias else "count", len
    name = item.alias.text if item.alias else f"{function.lower()}_{_column_of(argument)}"
    fraction = 0.5
    if function in _PERCENTILES:
        assert isinstance(node, tree.Call)
        constant = node.arguments[1]
        assert isinstance(constant, tree.Literal)
        fraction = float(constant.value)  # type: ignore[arg-type]  # a number
    return name, lambda rows: _computed(function, [_value(argument, row) for row in rows], fraction)


def _attribute_of(name: tree.Name) -> tree.Expression:
    owner, _, column = name.text.rpartition(".")
    if not owner:
        return tree.Word(span=name.span, text=column)
    variable, attribute = (tree.Name(span=name.span, text=text) for text in (owner, column))
    return tree.Attribute(span=name.span, variable=variable, attribute=attribute)


def _computed(function: str, values: list[Any], fraction: float = 0.5) -> Any:
    known = [value for value in values if value is not None]
    if function == "COUNT":
        return len(known)
    if function in ("COUNT_DISTINCT", "APPROX_COUNT_DISTINCT"):
        return len({_canonical(value) for value in known})
    if not known:
        return None
    known = [as_number(value) for value in known]
    numbers = [value for value in known if value == value]
    if function in ("MEDIAN", *_PERCENTILES):
        ordered = sorted(map(float, numbers)) + [math.nan] * (len(known) - len(numbers))
        if function == "APPROX_PERCENTILE":
            return ordered[max(math.ceil(len(ordered) * fraction), 1) - 1]
        return _percentile(ordered, fraction)
    if function == "SUM":
        return sum(known)
    if function == "AVG":
        return sum(known) / len(known)
    if function == "MIN":
        return min(numbers) if numbers else math.nan
    return max(known) if len(numbers) == len(known) else math.nan


def _percentile(ordered: list[float], fraction: float) -> float:
    """Interpolate between the two values around the place (n - 1) * fraction."""
    place = (len(ordered) - 1) * fraction
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if place == int(place) or low == high:
        return low
    return (math.ceil(place) - place) * low + (place - math.floor(place)) * high


# ---------------------------------------------------------------------------------------
# Pairs


def _pairs(
    query: tree.SelectQuery, streams: Mapping[str, Sequence[Row]], time: str
) -> list[Aliased]:
    """Find all pairs of a window that satisfy both conditions, in order of arrival."""
    assert query.on is not None, "a join has a condition"
    if len(query.streams) > 2:
        return _tuples(query, streams, time)
    names = [stream.alias.text for stream in query.streams]
    # All events in one order: by time, the first stream first, then by arrival.
    arrivals: list[tuple[int, int, int]] = []
    inputs = [streams[stream.name.text] for stream in query.streams]
    for side, rows in enumerate(inputs):
        arrivals += [(row[time], side, number) for number, row in enumerate(rows)]
    arrivals.sort()
    extents = [
        stream.within or (query.window.within if query.window is not None else None)
        for stream in query.streams
    ]
    counted = isinstance(extents[0], tree.EventCount)
    result: list[Aliased] = []
    for later_at, later in enumerate(arrivals):
        before = [earlier for earlier in arrivals[:later_at] if earlier[1] != later[1]]
        # The earlier event waits as long as its own stream says.
        extent = extents[1 - later[1]]
        assert extent is not None, "a join has a window"
        length = extent.microseconds if isinstance(extent, tree.Duration) else extent.count
        if counted:
            before = before[-length:]
        else:
            before = [earlier for earlier in before if later[0] - earlier[0] < length]
        for earlier in before:
            both = sorted([earlier, later], key=lambda event: event[1])
            row: Aliased = {names[side]: inputs[side][number] for _, side, number in both}
            conditions = [query.on, *([query.where] if query.where is not None else [])]
            if all(_value(condition, row) is True for condition in conditions):
                result.append(row)
    return result


def _tuples(
    query: tree.SelectQuery, streams: Mapping[str, Sequence[Row]], time: str
) -> list[Aliased]:
    """Find all tuples of three and more streams, in the order of their last events (§10.12)."""
    inputs = [streams[stream.name.text] for stream in query.streams]
    lengths = []
    for stream in query.streams:
        extent = stream.within or (query.window.within if query.window is not None else None)
        assert isinstance(extent, tree.Duration), "such a join has windows of time"
        lengths.append(extent.microseconds)
    found: list[tuple[list[tuple[int, int, int]], Aliased]] = []
    for events in product(*(list(enumerate(rows)) for rows in inputs)):
        times = [row[time] for _, row in events]
        near = all(
            later - earlier < length
            for earlier, length in zip(times, lengths, strict=True)
            for later in times
        )
        named = zip(query.streams, events, strict=True)
        row: Aliased = {stream.alias.text: event for stream, (_, event) in named}
        conditions = [query.on, *([query.where] if query.where is not None else [])]
        if near and all(_value(c, row) is True for c in conditions if c is not None):
            places = [(times[side], side, number) for side, (number, _) in enumerate(events)]
            found.append((sorted(places, reverse=True), row))
    return [row for _, row in sorted(found, key=lambda one: one[0])]
