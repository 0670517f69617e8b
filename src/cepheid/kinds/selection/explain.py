"""Format the plan of a SELECT as text or Mermaid: the operator, where it runs, and why."""

from __future__ import annotations

import msgspec

from cepheid.events.temporal import format_duration
from cepheid.expressions.format import as_written, format_expression
from cepheid.jobs.explain_parts import Section
from cepheid.language import tree
from cepheid.plans.selection import (
    HOLISTIC,
    SKETCH_EXACT,
    SKETCHED,
    Extent,
    Selection,
    SelectKind,
    SelectWindow,
)


def title_of_select(select: Selection) -> str:
    """Describe the rows of the result."""
    aggregated = select.aggregates if select.results is None else select.results
    if select.then is not None:
        return title_of_select(select.then)
    columns = aggregated if select.kind is SelectKind.AGGREGATE else select.columns
    hidden = {order.name for order in select.order if order.hidden}
    names = ", ".join(column.name for column in columns if column.name not in hidden)
    by = f" by {', '.join(key.attribute for key in select.keys)}" if select.keys else ""
    return names + by


def describe_select(select: Selection, *, spark: bool) -> list[Section]:
    """Build the sections of the plan's text."""
    streams = [
        s.name if s.alias == s.name else f"{s.name}, called {s.alias}" for s in select.streams
    ]
    sections: list[Section] = [("operator", [select.kind.value]), ("streams", streams)]
    if select.on is not None:
        sections.append(("on", _condition(select.on)))
    if select.where is not None:
        sections.append(("where", _condition(select.where)))
    if select.kind is not SelectKind.FILTER:
        sections.append(("window", _window(select)))
    then = select.then
    if then is not None:
        shown = "the pairs, each at the time of its later event"
        sections.append(("aggregates", [shown, *_window(then)]))
        select = msgspec.structs.replace(
            select, having=then.having, order=then.order, limit=then.limit
        )
    if any(one.function in SKETCHED for one in (then or select).aggregates):
        sections.append(("sketches", list(_SKETCHES)))
    if select.having is not None:
        sections.append(("having", [f"{as_written(select.having)}, of rows that are complete"]))
    if is_ordered(select):
        sections.append(("order", _order(select)))
    sections.append(("in process", [_local(select)]))
    sections.append(("on a store", [_store(select)]))
    if spark:
        sections.append(("on Spark", describe_batch(select)))
        sections.append(("live", describe_live_select(select)))
    reads = [f"{s.alias}: {', '.join(s.reads)}" for s in select.streams if s.reads is not None]
    sections.append(("reads", reads or ["all columns"]))
    return sections


_SKETCHES = (
    f"exact up to {SKETCH_EXACT:,} different values of a group in a window",
    "with more, a number of distinct values is within 2.44 %, with probability 99.7 %,",
    "and the rank of a percentile within 0.68 % of all values, with probability 99 %",
)


def _condition(condition: tree.Expression) -> list[str]:
    return [format_expression(condition)]


def _length(window: SelectWindow, length: int) -> str:
    if window.extent is Extent.EVENTS:
        return f"{length:,} event{'' if length == 1 else 's'}"
    return format_duration(length * window.tick_ns // 1_000)


def _window(select: Selection) -> list[str]:
    window = select.window
    if window.extent is Extent.NONE:
        return ["none: the whole stream is one"]
    within = _length(window, window.within)
    if select.kind is SelectKind.JOIN and len(select.streams) > 2:
        lengths = window.lengths_of(len(select.streams))
        if len(set(lengths)) == 1:
            return [f"tuples whose events are less than {within} apart"]
        pairs = zip(select.streams, lengths, strict=True)
        shown = ", ".join(f"{s.alias} {_length(window, length)}" for s, length in pairs)
        return [f"an event waits for later ones of the others: {shown}"]
    if select.kind is SelectKind.JOIN:
        first, second = (_length(window, length) for length in window.lengths)
        names = [stream.alias for stream in select.streams]
        if window.extent is Extent.TIME:
            if first == second:
                return [f"pairs less than {within} apart"]
            return [f"{names[0]} less than {first} before {names[1]}, or less than {second} after"]
        if first == second:
            return [f"an event and the last {within} of the other stream"]
        a, b = names
        return [f"{b} and the last {first} of {a} before it, {a} and the last {second} of {b}"]
    if window.extent is Extent.SESSION:
        each = " of each group" if select.keys else ""
        return [f"sessions{each}: events less than {within} apart"]
    slide = _length(window, window.slide)
    each = " of each group" if select.keys and window.extent is Extent.EVENTS else ""
    shown = f"{within}{each}, one every {slide}"
    if window.slide > window.within:
        return [f"{shown}: events between two windows are in none"]
    overlap = -(-window.within // window.slide)
    return [f"{shown}: an event is in up to {overlap:,}" if overlap > 1 else shown]


def _local(select: Selection) -> str:
    if select.kind is SelectKind.FILTER:
        return "columns as arrays, batch by batch"
    if select.kind is SelectKind.AGGREGATE and select.window.extent is Extent.SESSION:
        return "events of one session are added up, batch by batch; parts of a session are merged"
    if select.kind is SelectKind.AGGREGATE:
        return "stretches that no edge of a window cuts are added up once, windows from them"
    if len(select.streams) > 2:
        return "tuples grow stream by stream: candidates by windows and equal columns"
    if select.equal:
        return f"candidates by window and equal {_keys(select)}; the rest is asked of pairs"
    return "candidates by window; the condition is asked of blocks of pairs"


def _keys(select: Selection) -> str:
    return ", ".join(a if a == b else f"{a} = {b}" for a, b in select.equal)


def why_not_indexed(select: Selection, *, only_time: bool = False) -> str:
    """Explain why blocks of a store cannot answer windowed aggregates; empty if they can.

    ``only_time`` says that WHERE restricts the time range and nothing else.
    """
    if select.where is not None and not only_time:
        return "WHERE asks every event"
    if select.window.extent is Extent.SESSION:
        return "blocks know no sessions"
    if select.keys:
        return "blocks know no groups"
    if any(aggregate.function in HOLISTIC for aggregate in select.aggregates):
        return "blocks know sums and extremes, and no single values"
    plain = (tree.Attribute, type(None))
    if not all(isinstance(a.argument, plain) for a in select.aggregates):
        return "blocks know columns, and no computed values"
    return ""


def _store(select: Selection) -> str:
    if select.kind is SelectKind.AGGREGATE and not (why := why_not_indexed(select)):
        return "from the least, largest, sums and counts of blocks, if few lie across edges"
    if select.kind is SelectKind.JOIN:
        return "row groups that both streams and their conditions leave are read"
    read = "row groups are read whose least and largest values leave something"
    return f"{read}; {why}" if select.kind is SelectKind.AGGREGATE else read


def describe_batch(select: Selection) -> list[str]:
    """Describe how Spark runs the query over DataFrames, with the reason."""
    counted = select.window.extent is Extent.EVENTS
    if select.kind is SelectKind.FILTER:
        return ["Spark's filter"]
    if select.kind is SelectKind.AGGREGATE:
        if select.window.extent is Extent.NONE:
            return ["Spark's groupBy"]
        if counted:
            shuffled = "each group on its own" if select.keys else "one task numbers all events"
            return ["Spark's row_number and groupBy", f"  {shuffled}: Spark has no such windows"]
        if select.window.extent is Extent.SESSION:
            shuffled = "each group on its own" if select.keys else "one task reads all events"
            return ["Spark's lag finds the gaps, then groupBy", f"  {shuffled}, in order of time"]
        if select.window.slide > select.window.within:
            return ["Spark's window and groupBy", "  events between windows are filtered first"]
        return ["Spark's window and groupBy"]
    if counted:
        return [
            "Spark's window functions number the events, then a join of these numbers",
            "  one task numbers all events: Spark has no such windows",
        ]
    if len(select.streams) > 2:
        return ["Spark's joins, one after the other, by columns and distances in time"]
    if select.equal:
        return [f"Spark's join on {_keys(select)} and the distance in time"]
    return [
        "Spark's join on stretches of time and the distance in them",
        "  because no condition compares columns by `=`",
    ]


def describe_live_select(select: Selection) -> list[str]:
    """Describe how Spark runs the query on a stream, with the reason."""
    why = why_not_live(select)
    if why:
        return [f"no: {why}"]
    if runs_as_stage(select):
        lines = ["an operator of Cepheid in one bucket: the join, then what follows it"]
        if len({stream.name for stream in select.streams}) > 1:
            lines.append("  events wait for the stream that is furthest behind")
        return lines
    if select.kind is SelectKind.FILTER:
        return ["Spark's filter, without state"]
    if select.kind is SelectKind.AGGREGATE:
        return _describe_windows(select)
    if select.window.extent is Extent.EVENTS:
        lengths = [_length(select.window, length) for length in select.window.lengths]
        kept = f"{lengths[0]} of both streams"
        if lengths[0] != lengths[1]:
            kept = f"{lengths[0]} of the first stream and {lengths[1]} of the second"
        return [
            f"an operator of Cepheid; it keeps the last {kept}",
            "  one bucket: every event of a stream counts",
        ]
    return ["Spark's stream-stream join, with watermarks"]


def _describe_windows(select: Selection) -> list[str]:
    """Describe where events are aggregated, and the state that is kept."""
    counted = select.window.extent is Extent.EVENTS
    kept = "an operator of Cepheid; it keeps partial aggregates of "
    sessions = select.window.extent is Extent.SESSION
    open_ = "open sessions" if sessions else "open windows"
    kept += "windows that are not full" if counted else open_
    names = ", ".join(key.attribute for key in select.keys)
    if counted:
        why = f"buckets by {names}: each group has its own numbers, for ever"
        return [kept, f"  {why}" if names else "  one bucket: all events have one order"]
    return [kept, f"  buckets by {names}" if names else "  one bucket: there are no groups"]


def why_not_live(select: Selection) -> str:
    """Explain why a SELECT cannot run on a live stream; empty if it can."""
    if select.then is not None:
        return why_not_live(select.then)
    if is_ordered(select):
        return "`ORDER BY` and `LIMIT` need the whole answer, and a stream has no end"
    if select.kind is SelectKind.FILTER:
        return ""
    if select.window.extent is Extent.NONE:
        return "without a window, aggregates of a stream are known at its end"
    return ""


def runs_as_stage(select: Selection) -> bool:
    """Check whether a live join runs as a stage: its pairs are aggregated, or are tuples."""
    return select.then is not None or len(select.streams) > 2


def is_ordered(select: Selection) -> bool:
    """Check whether rows are ordered, or counted, among all rows."""
    return bool(select.order) or select.limit is not None


def _order(select: Selection) -> list[str]:
    parts = [
        f"by {', '.join(f'{o.name} DESC' if o.descending else o.name for o in select.order)}"
        if select.order
        else "",
        f"the first {select.limit:,}" if select.limit is not None else "",
    ]
    return [", ".join(filter(None, parts))]


def mermaid_of_select(select: Selection) -> str:
    """Draw a flowchart: streams, operator, result."""
    lines = ["flowchart LR"]
    label = select.kind.value
    lines.append(
        f'    op["{label}"] --> out["{title_of_select(select).replace(chr(34), "#quot;")}"]'
    )
    lines += [f'    s{i}[("{s.name}")] --> op' for i, s in enumerate(select.streams)]
    return "\n".join(lines)
