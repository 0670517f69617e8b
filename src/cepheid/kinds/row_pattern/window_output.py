"""Matches of a window in, the rows of its input out, each with what is called over the window.

A row has the match that begins at it or, with SEEK, that it finds. Functions see the rows of that
match, and no row where there is none; measures are NULL there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pyarrow import Table

from cepheid.expressions.arrow import Value, pa, pc
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows, equal_codes
from cepheid.kinds.row_pattern.find import Quest, find_all
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.measures import MeasureFrame


def window_parts(quest: Quest) -> Iterator[Table]:
    """Yield the rows of a window in parts, in their order."""
    place, stop = int(quest.bounds[0]), int(quest.bounds[-1])
    for matches in find_all(quest):
        # More matches of the last row may not come, but more rows do.
        anchors = matches.numbers if quest.plan.seeks else matches.starts
        end = int(anchors[-1]) + 1 if len(anchors) else place
        if end > place:
            yield _part(quest, matches, anchors, place, end)
            place = end
    nothing = np.zeros(0, np.int64)
    none = MatchSet(quest.automaton, quest.plan.variables, nothing, nothing, nothing, nothing)
    yield _part(quest, none, nothing, place, stop)


def _part(quest: Quest, found: MatchSet, anchors: Rows, begin: int, end: int) -> Table:
    """Return some rows, of which those of ``anchors`` have matches."""
    plan, rows = quest.plan, quest.rows
    own = np.arange(begin, end)
    starts, lengths, matched = own.copy(), np.zeros(end - begin, np.int64), own < begin
    starts[anchors - begin], lengths[anchors - begin] = found.starts, found.lengths
    matched[anchors - begin] = True
    matches = MatchSet(
        quest.automaton, plan.variables, starts, lengths, np.zeros(len(own), np.int64), found.states
    )
    frames = own, (quest.limits if len(quest.limits) else _stops(rows))[own]
    frame = MeasureFrame(rows, matches, np.arange(len(own)), lengths - 1, plan.text, frames)
    columns: list[Value] = [rows.raw_column(name, own) for name in plan.columns]
    names = [*plan.columns]
    for name, expression in plan.measures:
        value = frame.measure(expression)
        columns.append(pc.if_else(pa.array(matched), value, pa.scalar(None, value.type)))
        names.append(name)
    for name, expression in plan.calls:
        if isinstance(expression, tree.Ranking):
            columns.append(pa.array(_ranked(expression, quest)[own]))
        else:
            columns.append(frame.measure(expression))
        names.append(name)
    return Table.from_arrays(columns, names=names)


def _stops(rows: ArrangedRows) -> Rows:
    """Return for every row the first row after its partition."""
    return np.repeat(rows.bounds[1:], np.diff(rows.bounds))


def _ranked(call: tree.Ranking, quest: Quest) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return the places of all rows in their partitions."""
    rows = quest.rows
    begins = np.repeat(rows.bounds[:-1], np.diff(rows.bounds))
    sizes, place = _stops(rows) - begins, np.arange(rows.row_count) - begins
    if call.name == "ROW_NUMBER":
        return place + 1
    if call.name == "NTILE":
        # The first ones have a row more where they cannot all have as many.
        small, larger = sizes // call.argument, sizes % call.argument
        in_larger = place < larger * (small + 1)
        after = (place - larger * (small + 1)) // np.maximum(small, 1) + larger
        return np.where(in_larger, place // (small + 1), after) + 1
    # Rows with equal keys are peers: without ORDER BY all rows of a partition.
    opens = place == 0
    for key in quest.plan.order_by:
        codes = equal_codes(rows.column(key.column))
        opens[1:] |= codes[1:] != codes[:-1]
    groups: Rows = np.cumsum(opens)
    if call.name == "DENSE_RANK":
        return groups - groups[begins] + 1
    first = np.maximum.accumulate(np.where(opens, np.arange(rows.row_count), 0)) - begins
    if call.name == "RANK":
        return first + 1
    if call.name == "PERCENT_RANK":
        return np.where(sizes > 1, first / np.maximum(sizes - 1, 1), 0.0)
    ends = np.append(np.flatnonzero(opens)[1:], rows.row_count)
    return (ends[groups - 1] - begins) / sizes
