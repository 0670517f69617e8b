"""Evaluate a pipeline by definition (§15): stage by stage, each by the oracle of its kind.

It follows docs/semantics.md alone, and shares no code with the engines. Times are integer
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cepheid.errors import Span
from cepheid.language import tree
from cepheid.testing.oracle import Oracle, Row, evaluate
from cepheid.testing.oracle_matches import Match
from cepheid.testing.oracle_select import evaluate_tree

Event = dict[str, Any]
Timed = tuple[int, Event]
RowPatterns = Callable[[str, list[Event]], list[Timed]]
"""Evaluates the text of a row pattern by definition, and gives the time of every row (§15.3)."""
TIME, LATER, ROWS = "__time", "__later", "__rows"
_NOWHERE = Span(0, 0)


def evaluate_pipeline(
    query: tree.PipelineQuery,
    events: Sequence[Event],
    *,
    time: str = "ts",
    type: str = "type",  # noqa: A002
    row_patterns: RowPatterns | None = None,
) -> list[Event]:
    """Evaluate all queries of a pipeline over base events, and return the rows of the last one."""
    streams: dict[str, list[Event]] = {}
    base = list(events)
    for stage in query.stages[:-1]:
        assert stage.name is not None, "only the last query has no name"
        name = stage.name.text
        read = _read(stage.query, streams, base, time, type)
        if isinstance(stage.query, tree.RowPatternQuery):
            assert row_patterns is not None, "the caller brings their definition"
            found = row_patterns(stage.query.text, read[""])
        else:
            found = timed_rows(stage.query, read, time, type)
        # Rows of one time keep their order (§15.5).
        found.sort(key=lambda pair: pair[0])
        streams[name] = [_event(at, name, row, time, type) for at, row in found]
    last = query.stages[-1].query
    read = _read(last, streams, base, time, type)
    if isinstance(last, tree.RowPatternQuery):
        assert row_patterns is not None, "the caller brings their definition"
        return [row for _, row in row_patterns(last.text, read[""])]
    return rows_of(last, read, time, type)


def _event(at: int, name: str, row: Event, time: str, type_column: str) -> Event:
    """Build a derived event (§15.2)."""
    gone = {time, type_column, "match_id", TIME, LATER, ROWS}
    return {time: at, type_column: name, **{k: v for k, v in row.items() if k not in gone}}


def _types(pattern: tree.Pattern) -> Iterator[str]:
    for node in tree.walk(pattern):
        if isinstance(node, tree.EventPattern):
            yield node.event_type.text


def _read(
    query: tree.Query,
    streams: Mapping[str, list[Event]],
    base: list[Event],
    time: str,
    type_column: str,
) -> dict[str, list[Event]]:
    """Find the events that a query reads, by the names after FROM, or as one stream (§15.4)."""
    if isinstance(query, tree.SelectQuery):
        names = [stream.name.text for stream in query.streams]
        return {name: streams.get(name, base) for name in names}
    if isinstance(query, tree.SituationQuery | tree.RowPatternQuery):
        name = "" if query.source is None else query.source.text
        return {"": streams.get(name, base)}
    types = list(_types(query.pattern))
    derived = [name for name in streams if name in types]
    whole: list[Event] = []
    if any(name not in streams for name in types):
        whole += [event for event in base if event.get(type_column) not in derived]
    for name in derived:
        whole += streams[name]
    return {"": sorted(whole, key=lambda event: event[time])}


def rows_of(
    query: tree.Query, read: dict[str, list[Event]], time: str, type_column: str
) -> list[Event]:
    """Evaluate one query."""
    if isinstance(query, tree.SelectQuery):
        return evaluate_tree(query, read, time)
    return evaluate(query, read[""], time=time, type=type_column)


class _Timed(Oracle):
    """Matches with the times of their last events."""

    def match_row(self, head: Row, items: Sequence[tree.ReturnItem], m: Match) -> Row:
        return {**super().match_row(head, items, m), TIME: self.end(m)}


def timed_rows(
    query: tree.Query, read: dict[str, list[Event]], time: str, type_column: str
) -> list[Timed]:
    """Evaluate one query, and give the time of every row (§15.3)."""
    if isinstance(query, tree.SelectQuery):
        return _timed_select(query, read, time)
    if isinstance(query, tree.SituationQuery):
        at = "te" if query.listed else "ts"
        return [(row[at], row) for row in rows_of(query, read, time, type_column)]
    lists = not isinstance(query, tree.FunnelQuery) and not any(
        isinstance(node, tree.Aggregate)
        for node in (tree.walk(query.returns) if query.returns is not None else ())
    )
    later = looks_ahead(query.pattern)
    if not lists:
        found: list[Any] = list(rows_of(query, read, time, type_column))
        return [(row["window_end"] + later, row) for row in found]
    found = list(_Timed(query, read[""], time, type_column).rows())
    slides = query.window is not None and query.window.slide is not None
    if slides and looks_at_window(query.pattern):
        return [(row["window_end"] + later, row) for row in found]
    return [(row[TIME] + later, row) for row in found]


def looks_ahead(pattern: tree.Node) -> int:
    """Find how long a row waits for deadlines: the longest, with those inside it (§15.3)."""
    if not isinstance(pattern, tree.Sequence):
        return max((looks_ahead(child) for child in tree.children_of(pattern)), default=0)
    waits = [0]
    for place, part in enumerate(pattern.parts):
        own = 0
        before = pattern.parts[:place]
        if isinstance(part, tree.Negation) and isinstance(part.within, tree.Duration):
            # A NOT before all events of its SEQ looks back.
            first = all(isinstance(other, tree.Negation) for other in before)
            own = 0 if first else part.within.microseconds
        waits.append(own + looks_ahead(part))
    return max(waits)


def looks_at_window(pattern: tree.Pattern) -> bool:
    """Check whether a SEQ begins or ends with NOT; its other parts must not be optional."""
    return any(
        isinstance(end, tree.Negation) and end.within is None
        for node in tree.walk(pattern)
        if isinstance(node, tree.Sequence)
        for end in (node.parts[0], node.parts[-1])
    )


def _timed_select(query: tree.SelectQuery, read: dict[str, list[Event]], time: str) -> list[Timed]:
    window = query.window
    times = [
        _item(_attribute(stream, time), name)
        for stream, name in zip(query.streams, (TIME, LATER), strict=False)
    ]
    if query.on is not None or not _aggregates(query):
        more = msgspec.structs.replace(query, items=(*query.items, *times))
        return [
            (max(row[TIME], row.get(LATER, row[TIME])), row)
            for row in evaluate_tree(more, read, time)
        ]
    assert window is not None, "aggregates that feed a stream have a window"
    if isinstance(window.within, tree.Duration):
        return [(row["window_end"], row) for row in evaluate_tree(query, read, time)]
    maximum = tree.Aggregate(
        span=_NOWHERE,
        function=tree.AggregateFunction.MAX,
        variable=query.streams[0].alias,
        attribute=tree.Name(span=_NOWHERE, text=time),
    )
    count = tree.Aggregate(
        span=_NOWHERE, function=tree.AggregateFunction.COUNT, variable=None, attribute=None
    )
    items = (*query.items, _item(maximum, TIME), _item(count, ROWS))
    rows = evaluate_tree(msgspec.structs.replace(query, items=items), read, time)
    return [(row[TIME], row) for row in rows if row[ROWS] == window.within.count]


def _aggregates(query: tree.SelectQuery) -> bool:
    functions = {function.value for function in tree.AggregateFunction}
    nodes = [node for item in query.items for node in tree.walk(item)]
    return bool(query.group_by) or any(
        isinstance(node, tree.Aggregate)
        or (isinstance(node, tree.Call) and node.function in functions)
        for node in nodes
    )


def _attribute(stream: tree.Stream, name: str) -> tree.Attribute:
    attribute = tree.Name(span=_NOWHERE, text=name)
    return tree.Attribute(span=_NOWHERE, variable=stream.alias, attribute=attribute)


def _item(expression: tree.Expression, name: str) -> tree.ReturnItem:
    alias = tree.Name(span=_NOWHERE, text=name)
    return tree.ReturnItem(span=_NOWHERE, expression=expression, alias=alias)
