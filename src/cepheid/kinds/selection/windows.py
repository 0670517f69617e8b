"""Windowed aggregation: tables of events in, a row for every window and group out (§10.4, §10.5).

The edges of all windows cut the stream into stretches. Events of one stretch and group are in the
same windows, so they are aggregated once; the state is small, and the events may come in any order.
The aggregates of windows are then merged from those of stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.arrays.pool import empty
from cepheid.errors import DataError, Diagnostic
from cepheid.events.nanoseconds import type_of_times
from cepheid.expressions.evaluate import evaluate_vector
from cepheid.kernels.distinct import distinct
from cepheid.kernels.window_folds import stretches_of_windows
from cepheid.kinds.selection.bags import Bags, bag_column, bags_of, bags_of_array
from cepheid.kinds.selection.finishing import finish_rows
from cepheid.kinds.selection.groups import (
    DENSE_MAX,
    Codes,
    by_key,
    group_codes,
    plain_array,
    stable_order,
)
from cepheid.kinds.selection.moments import (
    Moments,
    aggregate_column,
    moments_of,
)
from cepheid.kinds.selection.operators import ON_CPU, Measured, Operators
from cepheid.kinds.selection.rows import lookup_in
from cepheid.kinds.selection.sessions import merge_sessions
from cepheid.kinds.selection.sketches import Sketches, sketch_column, sketches_of
from cepheid.language import tree
from cepheid.memory_limits import check_rows
from cepheid.patterns.segments import repeated_rows
from cepheid.plans.selection import (
    COUNTS_DISTINCT,
    SKETCHED,
    Extent,
    Measure,
    SelectFunction,
    Selection,
    SelectWindow,
    plain_attribute,
)

Measures = dict[Measure, frozenset[str]]

WINDOWS_MAX = 1 << 26
"""Maximum number of windows of one result."""

FEW_WINDOWS = 1 << 16
"""With at most this many windows, equal ones are not merged."""

SHARED_WINDOWS = 4
"""With at most this many windows for a stretch, few are equal."""

ROW_BYTES = 48
"""The minimum size of a result row: its edges, its number of events, and its key."""


class Stretches(NamedTuple):
    """Events that share the windows first to last: their keys, number, and moments.

    The stretches of each key are consecutive. Where each is in one window, ``first`` and ``last``
    are the same array.
    """

    keys: list[pa.Array[Any]]
    first: Codes
    last: Codes
    rows: Codes
    moments: list[Measured]


def measure(
    select: Selection,
    time: str,
    table: pa.Table,
    kept: Callable[[tree.Expression, Moments], Moments],
    by: Operators = ON_CPU,
) -> Stretches:
    """Convert the events of a table for which WHERE is true to stretches with keys.

    ``kept`` is how the moments of an expression are kept, so that sums do not overflow.
    """
    columns = Columns(by.keep(table, select.condition))
    length = len(columns.batch)
    keys = [plain_array(columns.arrow(key.attribute)) for key in select.keys]
    codes, at = group_codes(keys, length)
    places = np.zeros(length, np.int64)
    if select.window.extent is Extent.EVENTS:
        places = event_numbers(codes)
    elif select.window.extent is not Extent.NONE:
        places = read_times(columns, time)
    moments: list[Measured] = []
    ones = np.ones(length, np.int64)
    for one, functions in arguments_of(select).items():
        measured = measure_values(one, functions, columns, ones)
        moments.append(kept(one.argument, measured) if isinstance(measured, Moments) else measured)
    first, last = windows_of_places(places, select.window)
    part = Stretches([], first, last, ones, moments)
    reduced, groups = _merged(select.window, part, codes, by)
    chosen = at[groups]
    return reduced._replace(keys=[key.take(chosen) for key in keys])


def _merged(
    window: SelectWindow, part: Stretches, codes: Codes, by: Operators = ON_CPU
) -> tuple[Stretches, Codes]:
    """Merge stretches of the same windows and group, or of the same session."""
    if window.extent is Extent.SESSION:
        return merge_sessions(part, codes, window.within)
    return reduce_stretches(part, codes, by)


def rows_of_stretches(
    select: Selection, time: str, schema: pa.Schema, whole: Stretches
) -> pa.Table:
    """Build the rows of all windows that have an event, by window and key."""
    codes, at = by_key(whole.keys, *group_codes(whole.keys, len(whole.rows)))
    stretches, groups = _merged(select.window, whole, codes)
    if select.window.extent is Extent.SESSION:
        keys = [values.take(at[groups]) for values in whole.keys]
        return _session_rows(select, time, schema, stretches._replace(keys=keys))
    stretches, edges = _distinct(stretches)
    found = _windows(stretches, groups)
    rows = Moments.counts(stretches.rows).folded(found.low, found.high).known
    moments = [m.folded(found.low, found.high) for m in stretches.moments]
    windows = found.windows
    if not select.keys and select.window.extent is Extent.NONE and not len(rows):
        # Without events, aggregates are one row, as in SQL.
        rows, windows = np.zeros(1, np.int64), np.zeros(1, np.int64)
        moments = [m.nothing() for m in moments]
    # Groups are numbered by key, and their windows are in order.
    order = stable_order(windows)
    windows, chosen = windows[order], at[found.groups[order]] if len(at) else at
    keys = [values.take(chosen) for values in whole.keys]
    named = dict(zip(arguments_of(select), (m.take(order) for m in moments), strict=True))
    starts = windows if edges is None else edges[windows]
    table = window_rows(select, time, schema, keys, starts, rows[order], named)
    if edges is not None:
        table = _spread(select, time, schema, table, windows, edges)
    return finish_rows(select, table)


def _session_rows(select: Selection, time: str, schema: pa.Schema, sessions: Stretches) -> pa.Table:
    """Build the rows of sessions, by their beginning and key."""
    order = np.argsort(sessions.first, kind="stable")
    starts = sessions.first[order]
    keys = [key.take(order) for key in sessions.keys]
    moments = [moment.take(order) for moment in sessions.moments]
    named = dict(zip(arguments_of(select), moments, strict=True))
    ends = sessions.last[order] + select.window.within
    table = window_rows(select, time, schema, keys, starts, sessions.rows[order], named, ends=ends)
    return finish_rows(select, sorted_rows(select, table, starts)[0])


def _spread(
    select: Selection, time: str, schema: pa.Schema, table: pa.Table, windows: Codes, edges: Codes
) -> pa.Table:
    """Expand the rows of distinct windows to the rows of all windows."""
    repeats = np.diff(edges)
    first = np.flatnonzero(np.diff(windows, prepend=-1))
    sizes, laps = np.diff(first, append=len(windows)), repeats[windows[first]]
    check_count(sizes * laps.astype(np.float64), table.nbytes / max(len(table), 1))
    rows, lap = repeated_rows(first, sizes, laps)
    lap += edges[windows[rows]]
    columns = _edges(select.window, schema, time, lap)
    # Columns that are overwritten are not taken first: they can be most of a large result.
    taken = table.drop_columns(list(columns)).take(rows)
    columns |= zip(taken.column_names, taken.columns, strict=True)
    return pa.table({name: columns[name] for name in table.column_names})


def sorted_rows(select: Selection, table: pa.Table, windows: Codes) -> tuple[pa.Table, Codes]:
    """Sort rows by window, then key."""
    keys = [key.name for key in select.keys]
    if not keys:
        return table, windows
    order = table.select(keys).append_column("cepheid window", pa.array(windows))
    by: Any = [("cepheid window", "ascending"), *((key, "ascending") for key in keys)]
    rows = pa.compute.sort_indices(order, sort_keys=by)
    return table.take(rows), windows[np.asarray(rows)]


def window_rows(
    select: Selection,
    time: str,
    schema: pa.Schema,
    keys: Sequence[pa.Array[Any]],
    windows: Codes,
    rows: Codes,
    moments: Mapping[Measure, Measured],
    *,
    ends: Codes | None = None,
) -> pa.Table:
    """Build result rows: the keys, edges and aggregates of windows, for events of a schema.

    Sessions have ``ends``, and ``windows`` are then their beginnings.
    """
    columns: dict[str, Any] = {
        key.name: values for key, values in zip(select.keys, keys, strict=True)
    }
    columns |= _edges(select.window, schema, time, windows, ends)
    for aggregate in select.aggregates:
        if aggregate.measure is None:
            columns[aggregate.name] = pa.array(rows)
            continue
        argument, measured = aggregate.measure.argument, moments[aggregate.measure]
        if isinstance(measured, Bags):
            column = bag_column(measured, aggregate.function, aggregate.fraction)
        elif isinstance(measured, Sketches):
            column = sketch_column(measured, aggregate.fraction)
        else:
            column = aggregate_column(aggregate.function, measured, argument)
        columns[aggregate.name] = _in_zone(column, argument, schema)
    return pa.table(columns)


def _in_zone(column: pa.Array[Any], argument: tree.Expression, schema: pa.Schema) -> pa.Array[Any]:
    """Convert times to the time zone of the attribute that they come from."""
    name = plain_attribute(argument)
    if name not in schema.names or not pa.types.is_timestamp(column.type):
        return column
    own = schema.field(str(name)).type
    return column.cast(pa.timestamp("us", own.tz))


def _edges(
    window: SelectWindow, schema: pa.Schema, time: str, windows: Codes, ends: Codes | None = None
) -> dict[str, Any]:
    if window.extent is Extent.NONE:
        return {}
    starts = windows
    if ends is None:
        starts = np.multiply(windows, window.slide, out=empty(len(windows)))
        ends = np.add(starts, window.within, out=empty(len(windows)))
    kind: pa.DataType | None = None
    if window.extent is not Extent.EVENTS:
        kind = type_of_times(schema.field(time).type)
    return {
        "window_start": pa.array(starts, kind),
        "window_end": pa.array(ends, kind),
    }


def arguments_of(select: Selection) -> Measures:
    """Collect the distinct aggregated expressions, and the functions of each."""
    found: Measures = {}
    for aggregate in select.aggregates:
        if aggregate.measure is not None:
            before = found.get(aggregate.measure, frozenset())
            found[aggregate.measure] = before | {aggregate.function.value}
    return found


def measure_values(
    one: Measure, functions: frozenset[str], columns: Columns, ones: Codes
) -> Measured:
    """Evaluate an aggregated expression for every event; ``ones`` has a one for each."""
    if one.holistic is not None:
        bags = _bags(one.argument, one.holistic, columns)
        return sketches_of(bags, one.holistic) if one.holistic in SKETCHED else bags
    vector = evaluate_vector(one.argument, lookup_in(columns), len(columns.batch))
    return moments_of(vector, functions, ones)


def _bags(argument: tree.Expression, function: SelectFunction, columns: Columns) -> Bags:
    """Put the value of every event into a bag of its own."""
    name = plain_attribute(argument)
    if function in COUNTS_DISTINCT and name is not None:
        # As it came: decimals of any length are told apart.
        return bags_of_array(plain_array(columns.arrow(name)))
    return bags_of(evaluate_vector(argument, lookup_in(columns), len(columns.batch)), function)


def windows_of_places(places: Codes, window: SelectWindow) -> tuple[Codes, Codes]:
    """Compute the first and last window of each position; first > last if there is none."""
    if window.extent in (Extent.NONE, Extent.SESSION):
        return places, places
    last = places // window.slide
    if window.within == window.slide:
        return last, last
    first = (places - window.within) // window.slide + 1
    if window.extent is Extent.EVENTS:
        first = np.maximum(first, 0)
    return first, last


def event_numbers(codes: Codes) -> Codes:
    """Count off the events of each group, from 0 on."""
    order = stable_order(codes)
    ordered = codes[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(np.append(begins, len(codes)))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(begins, sizes)
    return numbers


def united_stretches(parts: Sequence[Stretches]) -> Stretches:
    """Concatenate stretches."""
    if len(parts) == 1:
        return parts[0]
    keys = [pa.concat_arrays([part.keys[i] for part in parts]) for i in range(len(parts[0].keys))]
    moments = [_united(column) for column in zip(*(part.moments for part in parts), strict=True)]
    first, rows = np.concatenate([p.first for p in parts]), np.concatenate([p.rows for p in parts])
    single = all(part.first is part.last for part in parts)
    last = first if single else np.concatenate([part.last for part in parts])
    return Stretches(keys, first, last, rows, moments)


def _united(parts: Sequence[Measured]) -> Measured:
    bags = [part for part in parts if isinstance(part, Bags)]
    if bags:
        return Bags.united(bags)
    sketches = [part for part in parts if isinstance(part, Sketches)]
    if sketches:
        return Sketches.united(sketches)
    return Moments.united([part for part in parts if isinstance(part, Moments)])


def merged(window: SelectWindow, whole: Stretches) -> Stretches:
    """Merge the stretches of the same windows and key."""
    codes, at = group_codes(whole.keys, len(whole.rows))
    reduced, groups = _merged(window, whole, codes)
    chosen = at[groups]
    return reduced._replace(keys=[key.take(chosen) for key in whole.keys])


def reduce_stretches(
    part: Stretches, codes: Codes, by: Operators = ON_CPU
) -> tuple[Stretches, Codes]:
    """Merge stretches of the same windows and group; return them sorted, with their groups."""
    first, last = part.first, part.last
    rows, moments = part.rows, part.moments
    if first is not last and not (inside := first <= last).all():
        kept = np.flatnonzero(inside)
        first, last, codes, rows = first[kept], last[kept], codes[kept], rows[kept]
        moments = [m.take(kept) for m in moments]
    # Both increase with time, so their sum distinguishes stretches and keeps their order.
    place = first if first is last else first + last
    inner = Stretches([], first, last, rows, moments)
    if len(codes):
        lowest = int(place.min())
        span = int(place.max()) - lowest + 1
        size = (int(codes.max()) + 1) * span
        if size <= DENSE_MAX * len(codes):
            return _gather(inner, codes, place, (lowest, span, size), by)
    return _sort(inner, codes, place)


def _gather(
    part: Stretches, codes: Codes, place: Codes, dense: tuple[int, int, int], by: Operators
) -> tuple[Stretches, Codes]:
    """Merge stretches of the same group and place, in a table of ``span`` places for each group."""
    lowest, span, size = dense
    slots = codes * span
    slots += place
    slots -= lowest
    counted, folded = by.fold(part.moments, part.rows, slots, size)
    used = np.flatnonzero(counted)
    owners = used // span
    first = last = used - owners * span + lowest
    if part.first is not part.last:
        owner = np.empty(size, np.int64)
        owner[slots] = np.arange(len(slots))
        at = owner[used]
        first, last = part.first[at], part.last[at]
    return Stretches([], first, last, counted[used], [m.take(used) for m in folded]), owners


def _sort(part: Stretches, codes: Codes, place: Codes) -> tuple[Stretches, Codes]:
    """Sort stretches by group and time, and merge equal neighbours."""
    _, first, last, rows, moments = part
    order = _order(codes, place)
    if order is not None:
        first, last, codes, rows = first[order], last[order], codes[order], rows[order]
        place = place[order]
        moments = [m.take(order) for m in moments]
    changes = np.ones(len(codes), np.bool_)
    changes[1:] = (codes[1:] != codes[:-1]) | (place[1:] != place[:-1])
    begins = np.flatnonzero(changes)
    counted = np.add.reduceat(rows, begins) if len(begins) else rows[:0]
    reduced = [m.reduced(begins) for m in moments]
    return Stretches([], first[begins], last[begins], counted, reduced), codes[begins]


def _order(codes: Codes, place: Codes) -> Codes | None:
    """Compute the order by group and place; None if it is sorted already."""
    if len(codes) < 2:
        return None
    same = codes[1:] == codes[:-1]
    if ((codes[1:] > codes[:-1]) | (same & (place[1:] >= place[:-1]))).all():
        return None
    if (place[1:] >= place[:-1]).all():
        return stable_order(codes)
    return np.lexsort((place, codes))


class Found(NamedTuple):
    """Windows with an event: their groups, numbers and stretches."""

    groups: Codes
    windows: Codes
    low: Codes
    high: Codes


def _windows(stretches: Stretches, groups: Codes) -> Found:
    """Find all windows that have an event, by group and number."""
    first, last = stretches.first, stretches.last
    begin = first.copy()
    follows = groups[1:] == groups[:-1]
    begin[1:] = np.where(follows, np.maximum(first[1:], last[:-1] + 1), first[1:])
    return find_windows(stretches, groups, groups, begin, np.maximum(last - begin + 1, 0))


def _distinct(stretches: Stretches) -> tuple[Stretches, Codes | None]:
    """Renumber windows so that equal ones share a number, and return where each begins.

    Windows that hold the same events are consecutive. None if there are few windows.
    """
    first, last = stretches.first, stretches.last
    few = max(FEW_WINDOWS, SHARED_WINDOWS * len(first))
    if (last - first + 1).sum(dtype=np.float64) <= few:
        return stretches, None
    edges = distinct(np.concatenate([first, last + 1]))
    begin, end = np.searchsorted(edges, first), np.searchsorted(edges, last + 1) - 1
    return stretches._replace(first=begin, last=end), edges


def check_count(counts: NDArray[Any], size: float) -> None:
    """Refuse more windows than a result may have; an integer sum could overflow 64 bits."""
    most = float(counts.sum(dtype=np.float64))
    if most > WINDOWS_MAX:
        message = (
            f"the result has about {most:.3g} windows, more than the maximum of {WINDOWS_MAX:,}"
        )
        raise DataError([Diagnostic("E511", message, helps=("use a longer slide",))])
    check_rows(most, size)


def find_windows(
    stretches: Stretches, groups: Codes, owners: Codes, begin: Codes, counts: Codes
) -> Found:
    """Find ``counts`` windows of each owner, a group, from window ``begin`` on.

    Every one has an event.
    """
    check_count(counts, ROW_BYTES + 8 * len(stretches.moments))
    total = int(counts.sum())
    offsets = np.cumsum(counts) - counts
    windows = np.arange(total) + np.repeat(begin - offsets, counts)
    owned = np.repeat(owners, counts)
    low: NDArray[np.int64] = np.zeros(total, np.int64)
    high: NDArray[np.int64] = np.zeros(total, np.int64)
    stretches_of_windows(groups, stretches.first, stretches.last, owned, windows, low, high)
    return Found(owned, windows, low, high)
