"""Bind a SELECT and build its plan; collect every mistake (§10)."""

from __future__ import annotations

import re

import msgspec

from cepheid.errors import Note, suggest_names
from cepheid.events.schema import NUMERIC, TEMPORAL, EventSchema, ValueKind
from cepheid.expressions.format import as_written
from cepheid.jobs.ticks import in_ticks, tick_of
from cepheid.kinds.selection.items import (
    Aggregated,
    SelectItems,
    columns_of,
    is_aggregate,
    names_of,
)
from cepheid.kinds.selection.pairs import aggregate_pairs
from cepheid.kinds.selection.scope import SelectScope
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import Source, likely_time
from cepheid.plans.plan import Choice, Evaluator, Granularity, Partition, SelectPlan
from cepheid.plans.selection import (
    Extent,
    Selection,
    SelectKind,
    SelectOrder,
    SelectStream,
    SelectWindow,
    conjuncts_of,
)

_NO_PARTNER = "for events without a partner write a pattern: `SEQ(A a, NOT B b WITHIN 1 hour)`"
_OTHER_JOINS = frozenset(
    {"LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF"}
)
_TIMES = NUMERIC | TEMPORAL | {ValueKind.UNKNOWN}


def compile_select(query: tree.SelectQuery, text: str, source: Source) -> SelectPlan:
    """Build the plan of a SELECT.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    """
    findings = Findings()
    scope = SelectScope(query.streams, _schemas(query, source), findings)
    _check_streams(query, findings)
    _check_joins(query, text, findings)
    if _has_computed_keys(query, findings):
        findings.raise_errors(text)
    kind = _kind_of(query)
    where = scope.condition(query.where, "WHERE")
    on = scope.condition(query.on, "ON")
    window = _plan_window(query, kind, source, scope)
    _check_clauses(query, kind, findings)
    if kind is not SelectKind.FILTER and (window.extent is not Extent.NONE or query.on):
        _check_times(query, source, scope)
    items = SelectItems(query, scope)
    aggregated = _is_aggregated(query)
    columns = () if aggregated else items.columns()
    order: tuple[SelectOrder, ...] = ()
    if not aggregated and query.order_by:
        columns, order = items.ordered(columns)
    found = Aggregated()
    if aggregated:
        schema = next(iter(scope.schemas.values()))
        time = schema.kind(source.time) if schema is not None else None
        found = items.aggregates(query.having, time or ValueKind.UNKNOWN)
        order = found.order
    limit = None if query.limit is None else int(query.limit.value or 0)
    then = None
    if aggregated and kind is SelectKind.JOIN:
        grouped = tuple(scope.column(name) for name in query.group_by)
        later = _plan_window(query, SelectKind.AGGREGATE, source, scope)
        columns, then = aggregate_pairs(found, grouped, later, limit)
        found, order, limit = Aggregated(), (), None
    findings.raise_errors(text)
    select = Selection(
        kind=kind,
        streams=(),
        where=where,
        on=on,
        columns=columns,
        keys=found.keys,
        aggregates=found.aggregates,
        having=found.having,
        results=found.results,
        order=order,
        limit=limit,
        then=then,
        window=window,
        equal=_equal_pairs(query, on, where) if on and len(query.streams) == 2 else (),
    )
    streams = tuple(
        SelectStream(
            s.name.text,
            s.alias.text,
            _reads(select, s.alias.text, source, scope.schemas[s.alias.text]),
        )
        for s in query.streams
    )
    return _plan_of(text, source, select, streams, scope, findings)


def _schemas(query: tree.SelectQuery, source: Source) -> dict[str, EventSchema | None]:
    """Look up the schema of every alias, if known."""
    named = dict(source.schemas)
    single = source.schema if len(query.streams) == 1 else None
    return {s.alias.text: named.get(s.name.text, single) for s in query.streams}


def _kind_of(query: tree.SelectQuery) -> SelectKind:
    if query.on is not None:
        return SelectKind.JOIN
    return SelectKind.AGGREGATE if _is_aggregated(query) else SelectKind.FILTER


def _is_aggregated(query: tree.SelectQuery) -> bool:
    """Check whether a row stands for several events or pairs."""
    expressions = [i.expression for i in query.items if isinstance(i, tree.ReturnItem)]
    expressions += [query.having] if query.having is not None else []
    some = any(is_aggregate(node) for e in expressions for node in tree.walk(e))
    return some or bool(query.group_by)


def _check_streams(query: tree.SelectQuery, findings: Findings) -> None:
    seen: dict[str, tree.Stream] = {}
    for stream in query.streams:
        alias = stream.alias
        first = seen.setdefault(alias.text, stream)
        if first is stream:
            continue
        note = Note("the first one is here", first.alias.span)
        both = "both" if len(query.streams) == 2 else "two"
        message = f"{both} streams are called `{alias.text}`"
        help_ = f"give them aliases: `FROM {first.name.text} x JOIN {stream.name.text} y ON ...`"
        findings.add("E334", message, alias.span, help_, notes=(note,))


def _check_joins(query: tree.SelectQuery, text: str, findings: Findings) -> None:
    """Report outer joins, whose first word would be read as an alias."""
    for stream in query.streams[:-1]:
        name, alias = stream.name, stream.alias
        bare = alias.span != name.span and not text[name.span.end : alias.span.start].strip()
        used = re.search(rf"\b{re.escape(alias.text)}\s*\.", text)
        if bare and not used and alias.text.upper() in _OTHER_JOINS:
            message = f"there is no `{alias.text} JOIN`: a join gives pairs for which `ON` is true"
            help_ = f"write `JOIN`, or `AS {alias.text}` where it is an alias"
            findings.add("E331", message, alias.span, help_, _NO_PARTNER)
            # The word hides the name of the stream, so all else would be wrong, too.
            findings.raise_errors(text)


def _has_computed_keys(query: tree.SelectQuery, findings: Findings) -> bool:
    """Report keys that are computed in the list of SELECT, which would be mistaken for columns."""
    items = [item for item in query.items if isinstance(item, tree.ReturnItem)]
    computed = {
        item.alias.text: item
        for item in items
        if item.alias is not None and not isinstance(item.expression, tree.Word | tree.Attribute)
    }
    keys = [name for name in query.group_by if name.text in computed]
    for name in keys:
        message = f"`GROUP BY` takes columns of the stream, and `{name.text}` is computed"
        item = as_written(computed[name.text].expression)
        first = f"CREATE STREAM keyed AS SELECT {item} AS {name.text}, … FROM …;"
        findings.add("E210", message, name.span, f"compute it before: `{first}`")
    return bool(keys)


def _check_clauses(query: tree.SelectQuery, kind: SelectKind, findings: Findings) -> None:
    """Report clauses that do not apply to the operator."""
    window = query.window
    if kind is SelectKind.FILTER and window is not None:
        message = "`WINDOW` needs an aggregate or a `JOIN`"
        findings.add("E333", message, window.span, "write `SELECT COUNT(*)`, or leave it out")
    aggregated = _is_aggregated(query)
    if query.having is not None and not aggregated:
        message = "`HAVING` tests the rows of aggregates or groups, and there are none"
        help_ = "write `WHERE`, which tests events and pairs"
        findings.add("E331", message, query.having.span, help_)
    if kind is not SelectKind.JOIN:
        for stream in query.streams:
            if stream.within is not None:
                message = "`WITHIN` says how long the events of a stream wait in a `JOIN`"
                findings.add("E333", message, stream.span, "write `WINDOW 10 minutes` at the end")
        return
    kept = [stream for stream in query.streams if stream.within is not None]
    if aggregated:
        _check_pairs(query, kept, findings)
        return
    if window is not None and kept:
        message = "a `JOIN` has `WINDOW`, or `WITHIN` after each of its streams"
        findings.add("E333", message, window.span, "leave one of them out")
    elif kept and len(kept) < len(query.streams):
        every = "both streams" if len(query.streams) == 2 else "every stream"
        message = f"`WITHIN` stands after {every} of a `JOIN`, or after none"
        help_ = "write `FROM a WITHIN 1 hour JOIN b WITHIN 2 hours ON ...`"
        findings.add("E333", message, kept[0].span, help_)
    elif window is None and not kept:
        assert query.on is not None, "a join has a condition"
        help_ = "say how far apart events may be: `WINDOW 10 minutes`, `WINDOW 100 EVENTS`"
        findings.add("E333", "a `JOIN` needs `WINDOW`", query.on.span, help_)
    _check_many(query, findings)
    if window is None:
        pass
    elif window.session:
        message = "a `JOIN` has no sessions"
        help_ = "say how far apart events may be: `WINDOW 10 minutes`"
        findings.add("E333", message, window.span, help_)
    elif window.slide is not None:
        message = "the window of a `JOIN` moves with every event and has no `SLIDE`"
        findings.add("E333", message, window.slide.span, "leave `SLIDE` out")


def _check_many(query: tree.SelectQuery, findings: Findings) -> None:
    """Report windows of events where there are more than two streams."""
    extents = [stream.within for stream in query.streams]
    extents += [query.window.within] if query.window is not None else []
    counted = [extent for extent in extents if isinstance(extent, tree.EventCount)]
    if len(query.streams) > 2 and counted:
        message = "a `JOIN` of more than two streams has windows of time"
        help_ = "say how far apart events may be: `WINDOW 10 minutes`"
        findings.add("E333", message, counted[0].span, help_)


def _check_pairs(query: tree.SelectQuery, kept: list[tree.Stream], findings: Findings) -> None:
    """Report what does not go with aggregates over the pairs of a join."""
    if len(kept) < len(query.streams):
        message = "aggregates of a `JOIN` need to know how far apart the events of a pair may be"
        help_ = "say it after each stream, `FROM a WITHIN 1 hour JOIN b WITHIN 1 hour ON ...`; "
        help_ += "`WINDOW` is then that of the aggregates"
        findings.add("E333", message, query.streams[-1].span, help_)
    window = query.window
    if window is None or not isinstance(window.within, tree.EventCount):
        _check_many(query, findings)
    else:
        message = "pairs of a `JOIN` are not numbered, so they have no windows of events"
        findings.add("E333", message, window.span, "give the window a length of time")


def _plan_window(
    query: tree.SelectQuery, kind: SelectKind, source: Source, scope: SelectScope
) -> SelectWindow:
    window, findings = query.window, scope.findings
    waiting = any(stream.within is not None for stream in query.streams)
    if kind is SelectKind.JOIN and (window is None or waiting):
        return _plan_waiting(query, source, scope)
    if window is None:
        return SelectWindow()
    slide = window.slide or window.within
    for extent in (window.within, slide):
        if _length(extent) == 0:
            message = "a window cannot have the length zero"
            findings.add("E315", message, extent.span, "write a length of one or more")
            return SelectWindow()
    if type(window.within) is not type(slide):
        message = "`WINDOW` and `SLIDE` measure different things, time and events"
        findings.add("E306", message, window.span, "give both in time or both in events")
        return SelectWindow()
    within, step = _length(window.within), _length(slide)
    if kind is SelectKind.JOIN:
        step = 0
    tick_ns = tick_of(source, list(scope.schemas.values()))
    if isinstance(window.within, tree.EventCount):
        return SelectWindow(Extent.EVENTS, within, step, tick_ns)
    lengths = in_ticks((within, step), tick_ns, source, window.span, findings)
    within, step = lengths or (within, step)
    return SelectWindow(Extent.SESSION if window.session else Extent.TIME, within, step, tick_ns)


def _plan_waiting(query: tree.SelectQuery, source: Source, scope: SelectScope) -> SelectWindow:
    """Plan how long the events of each stream of a join wait for those of the others."""
    given = [stream.within for stream in query.streams]
    extents = [extent for extent in given if extent is not None]
    if len(extents) < len(given):
        return SelectWindow()  # Reported with the clauses.
    first = extents[0]
    for extent in extents:
        if _length(extent) == 0:
            message = "a window cannot have the length zero"
            scope.findings.add("E315", message, extent.span, "write a length of one or more")
            return SelectWindow()
        if type(first) is not type(extent):
            message = "the windows of the streams measure different things, time and events"
            scope.findings.add("E306", message, extent.span, "give both in time or both in events")
            return SelectWindow()
    tick_ns = tick_of(source, list(scope.schemas.values()))
    lengths = tuple(map(_length, extents))
    kind = Extent.EVENTS
    if not isinstance(first, tree.EventCount):
        kind = Extent.TIME
        ticks = in_ticks(lengths, tick_ns, source, first.span, scope.findings)
        lengths = tuple(ticks or lengths)
    return SelectWindow(kind, lengths[0], 0, tick_ns, lengths[1], tuple(lengths[2:]))


def _length(extent: tree.Duration | tree.EventCount) -> int:
    return extent.microseconds if isinstance(extent, tree.Duration) else extent.count


def _check_times(query: tree.SelectQuery, source: Source, scope: SelectScope) -> None:
    """Report streams without the time column, and two whose times are not comparable."""
    found = {}
    for stream in query.streams:
        schema = scope.schemas[stream.alias.text]
        if schema is None:
            continue
        kind = schema.kind(source.time)
        if kind is None:
            message = f"the stream `{stream.name.text}` has no time column `{source.time}`"
            near = suggest_names(source.time, schema.names, owner="the stream")
            help_ = f"name it: `cepheid.query(..., time={likely_time(schema)})`"
            scope.findings.add("E212", message, stream.span, help_, near)
        elif kind not in _TIMES:
            message = f"the time column `{source.time}` is of kind {kind.value}, not a time"
            help_ = "convert it to a timestamp, or name another column"
            scope.findings.add("E212", message, stream.span, help_)
        else:
            found[stream.alias.text] = "number" if kind in NUMERIC else "time"
    if len(set(found.values())) > 1:
        message = f"`{source.time}` is a time in one stream and a number in the other"
        scope.findings.add("E212", message, query.streams[1].span, "give both the same type")


def _equal_pairs(
    query: tree.SelectQuery, on: tree.Expression, where: tree.Expression | None
) -> tuple[tuple[str, str], ...]:
    """Collect the pairs of attributes of both streams that a conjunct compares by ``=``."""
    first = query.streams[0].alias.text
    found = []
    for part in (*conjuncts_of(on), *(conjuncts_of(where) if where is not None else ())):
        match part:
            case tree.Binary(operator="=", left=tree.Attribute() as a, right=tree.Attribute() as b):
                if a.variable.text == b.variable.text:
                    continue
                a, b = (a, b) if a.variable.text == first else (b, a)
                found.append((a.attribute.text, b.attribute.text))
    return tuple(found)


def _reads(
    select: Selection, alias: str, source: Source, schema: EventSchema | None
) -> tuple[str, ...] | None:
    """Collect the columns of a stream that must be read."""
    # A row of all columns has hundreds of them, which thousands of rules ask for together.
    every = None
    if schema is not None and select.columns is columns_of(schema, alias):
        every = names_of(schema)
        if len(every) == len(schema.columns):
            return every  # Without structures, conditions name no other columns.
    elif any(c.expression is None for c in select.columns):
        return None
    names = {key.attribute for key in select.keys}
    if select.kind is SelectKind.JOIN or select.window.extent is not Extent.NONE:
        names.add(source.time)
    if select.kind is SelectKind.JOIN or select.window.extent is Extent.EVENTS:
        names.update(source.tiebreak)
    kept: list[tree.Expression | None] = [*select.condition]
    kept += [a.argument for a in select.aggregates]
    for column in select.columns if every is None else ():
        if not isinstance(column.expression, tree.Attribute):
            kept.append(column.expression)
        elif column.expression.variable.text == alias:
            names.add(column.expression.attribute.text)
    for node in (n for e in kept if e is not None for n in tree.walk(e)):
        if isinstance(node, tree.Attribute) and node.variable.text == alias:
            names.add(node.attribute.text)
    return tuple(sorted(names.union(every or ())))


def _plan_of(
    text: str,
    source: Source,
    select: Selection,
    streams: tuple[SelectStream, ...],
    scope: SelectScope,
    findings: Findings,
) -> SelectPlan:
    choice = Choice(
        evaluator=Evaluator.SELECT,
        granularity=Granularity.EVENT,
        reason="the query begins with SELECT",
        span=None,
        time="O(1) for each event, and for each pair that a join looks at",
        state="partial aggregates of windows, or the events of a window",
    )
    names = tuple(key.attribute for key in select.keys)
    reason = f"GROUP BY {', '.join(names)}" if names else "no GROUP BY"
    return SelectPlan(
        text=text,
        time=source.time,
        type=None,
        tiebreak=source.tiebreak,
        tick_ns=tick_of(source, list(scope.schemas.values())),
        partition=Partition(names, (), names, reason),
        choice=choice,
        columns=streams[0].reads if len(streams) == 1 else None,
        warnings=findings.warnings,
        select=msgspec.structs.replace(select, streams=streams),
    )
