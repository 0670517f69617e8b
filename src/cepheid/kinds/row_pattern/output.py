"""Matches in, the rows of the result out: ONE ROW or ALL ROWS PER MATCH."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pyarrow import Table

from cepheid.expressions.arrow import Value, pa
from cepheid.kinds.row_pattern.arrange import ArrangedRows, Rows
from cepheid.kinds.row_pattern.matches import MatchSet
from cepheid.kinds.row_pattern.measures import MeasureFrame
from cepheid.kinds.row_pattern.plan import MatchPlan


class OutputRows(NamedTuple):
    """The rows of a result: the match, its current row, and the row of the input.

    ``match_of`` is ``slice(None)`` for one row of each match. ``current`` counts from 0; it is -1
    for an empty match and -2 for a row that no match took.
    """

    match_of: Rows | slice
    current: Rows
    rows: Rows


def build_output(plan: MatchPlan, rows: ArrangedRows, matches: MatchSet) -> Table:
    """Return the result of some matches."""
    output = _one_row(matches) if plan.one_row else _all_rows(plan, matches)
    matched = output.current > -2
    everything = bool(matched.all())
    match_of, current = output.match_of, output.current
    if not everything:
        assert not isinstance(match_of, slice), "a row that no match took is no row of each match"
        match_of, current = match_of[matched], current[matched]
    frame = MeasureFrame(rows, matches, match_of, current, plan.text)
    columns: list[Value] = []
    fields: list[Value] = []
    for name in plan.leading_columns:
        columns.append(rows.raw_column(name, output.rows))
        fields.append(rows.schema_field(name))
    for name, expression in plan.measures:
        value = frame.measure(expression)
        if not everything:
            places = np.cumsum(matched) - 1
            value = value.take(pa.array(places, mask=~matched))
        columns.append(value)
        fields.append(pa.field(name, value.type))
    for name in plan.trailing_columns:
        columns.append(rows.raw_column(name, output.rows))
        fields.append(rows.schema_field(name))
    if plan.time is not None:
        columns.append(rows.raw_column(plan.order_by[0].column, _timed_rows(plan, matches, output)))
        fields.append(pa.field(plan.time, columns[-1].type))
    fields = [pa.field(f.name, c.type) for f, c in zip(fields, columns, strict=True)]
    return Table.from_arrays(columns, schema=pa.schema(fields))


def _timed_rows(plan: MatchPlan, matches: MatchSet, output: OutputRows) -> Rows:
    """Return the input rows whose times are those of the result rows (§15.3)."""
    if not plan.one_row:
        return output.rows
    later: Rows = output.rows + np.maximum(matches.lengths[output.match_of], 1) - 1
    return later


def _one_row(matches: MatchSet) -> OutputRows:
    found = matches.lengths >= 0
    if found.all():
        return OutputRows(slice(None), matches.lengths - 1, matches.starts)
    return OutputRows(np.flatnonzero(found), matches.lengths[found] - 1, matches.starts[found])


def _all_rows(plan: MatchPlan, matches: MatchSet) -> OutputRows:
    """Return every row of every match that is not excluded, and what else is asked for."""
    shown = np.maximum(matches.lengths, 1)
    if plan.rows == "all omit":
        shown = np.where(matches.lengths == 0, 0, shown)
    match_of = np.repeat(np.arange(len(shown)), shown)
    begins = np.cumsum(shown) - shown
    place = np.arange(len(match_of)) - begins[match_of]
    rows = matches.starts[match_of] + place
    length = matches.lengths[match_of]
    current = np.where(length > 0, place, np.where(length == 0, -1, -2))
    excluded = matches.automaton.excluded
    if excluded.any():
        entry = np.where(length > 0, matches.offsets[match_of] + place, 0)
        hidden = np.zeros(len(match_of), np.bool_)
        inside = length > 0
        hidden[inside] = excluded[matches.states[entry[inside]]]
        keep = ~hidden
        return OutputRows(match_of[keep], current[keep], rows[keep])
    return OutputRows(match_of, current, rows)
