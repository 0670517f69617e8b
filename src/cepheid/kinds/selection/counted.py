"""Count-based windows on a stream: events in time order in, rows of full windows out (§10.7).

    step_counted(job, state, events)  ->  (state, rows)

Every group numbers its events. The state holds the number of events of each group, and the
aggregated stretches that lie in windows that are not full, as in ``windows.py``. The windows of
a stretch are numbered from the first window of its group that is not full, so numbers stay small,
and stretches that differ only in full windows are merged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns
from cepheid.kinds.selection.finishing import finish_rows
from cepheid.kinds.selection.groups import Codes, group_codes, plain_array
from cepheid.kinds.selection.moments import Moments
from cepheid.kinds.selection.operators import ON_CPU, Operators
from cepheid.kinds.selection.windows import (
    Found,
    Measures,
    Stretches,
    arguments_of,
    event_numbers,
    find_windows,
    measure_values,
    reduce_stretches,
    united_stretches,
    window_rows,
    windows_of_places,
)
from cepheid.plans.plan import SelectPlan
from cepheid.plans.selection import Selection, SelectWindow


class CountedJob(NamedTuple):
    """The immutable part: the query, the columns of its events, and the aggregated expressions."""

    plan: SelectPlan
    select: Selection
    schema: pa.Schema
    arguments: Measures
    by: Operators = ON_CPU

    @staticmethod
    def of(plan: SelectPlan, schema: pa.Schema, by: Operators = ON_CPU) -> CountedJob:
        """Create the job of a windowed aggregation."""
        return CountedJob(plan, plan.select, schema, arguments_of(plan.select), by)


class CountedState(NamedTuple):
    """Groups, the number of events of each, and the stretches of windows that are not full.

    ``groups`` are the groups of the stretches, which have no keys of their own.
    """

    keys: list[pa.Array[Any]]
    seen: Codes
    groups: Codes
    stretches: Stretches | None

    @staticmethod
    def start(job: CountedJob) -> CountedState:
        """Create the state before the first event."""
        columns = Columns(job.schema.empty_table())
        keys = [plain_array(columns.arrow(key.attribute)) for key in job.select.keys]
        nothing = np.zeros(0, np.int64)
        return CountedState(keys, nothing, nothing, None)


def step_counted(
    job: CountedJob, state: CountedState, events: pa.Table
) -> tuple[CountedState, pa.Table]:
    """Add events for which WHERE is true, in order; return the rows of the windows they fill.

    O(events + groups + stretches that are kept), and a row for every window.

    Raises
    ------
    DataError
        E504 if a sum overflows 64 bits, E511 if there are too many windows.
    """
    window = job.select.window
    columns, known = Columns(events), len(state.seen)
    keys = [
        pa.concat_arrays([old, plain_array(columns.arrow(key.attribute)).cast(old.type)])
        for key, old in zip(job.select.keys, state.keys, strict=True)
    ]
    codes, at = group_codes(keys, known + len(events))
    before = np.zeros(len(at), np.int64)
    before[codes[:known]] = state.seen
    own = codes[known:]
    after = before + np.bincount(own, minlength=len(at))
    full = full_windows(before, window)
    counts = full_windows(after, window) - full
    places = before[own] - full[own] * window.slide + event_numbers(own)
    parts, owners = [_measured(job, columns, places)], own
    if state.stretches is not None:
        parts, owners = [state.stretches, *parts], np.concatenate([codes[state.groups], own])
    stretches, groups = reduce_stretches(united_stretches(parts), owners, job.by)
    found = find_windows(stretches, groups, np.arange(len(at)), np.zeros_like(counts), counts)
    keys = [key.take(at) for key in keys]
    rows = _rows(job, stretches, keys, found, full)
    open_ = np.flatnonzero(stretches.last >= counts[groups])
    kept, groups = _taken(stretches, open_), groups[open_]
    passed = counts[groups]
    kept = kept._replace(first=np.maximum(kept.first - passed, 0), last=kept.last - passed)
    return CountedState(keys, after, groups, kept), rows


def finish_counted(job: CountedJob, state: CountedState) -> pa.Table:
    """Build the rows of windows that have an event and are not full, at the end of a stream."""
    window = job.select.window
    if state.stretches is None:
        return empty_rows(job)
    full = full_windows(state.seen, window)
    counts = -(-state.seen // window.slide) - full
    owners = np.arange(len(state.seen))
    found = find_windows(state.stretches, state.groups, owners, np.zeros_like(counts), counts)
    return _rows(job, state.stretches, state.keys, found, full)


def empty_rows(job: CountedJob) -> pa.Table:
    """Create an empty result."""
    return step_counted(job, CountedState.start(job), job.schema.empty_table())[1]


def full_windows(seen: Codes, window: SelectWindow) -> Codes:
    """Count the windows that are full after ``seen`` events."""
    return np.maximum((seen - window.within) // window.slide + 1, 0)


def count_open(job: CountedJob, state: CountedState) -> int:
    """Count the windows that have an event and are not full."""
    window = job.select.window
    begun = -(-state.seen // window.slide)
    return int((begun - full_windows(state.seen, window)).sum())


def _measured(job: CountedJob, columns: Columns, places: Codes) -> Stretches:
    """Convert single events to stretches."""
    first, last = windows_of_places(places, job.select.window)
    # The sums of a stream may overflow 64 bits.
    ones = np.ones_like(places)
    moments = [measure_values(one, f, columns, ones).widened() for one, f in job.arguments.items()]
    return Stretches([], first, last, ones, list(moments))


def _rows(
    job: CountedJob, stretches: Stretches, keys: list[pa.Array[Any]], found: Found, full: Codes
) -> pa.Table:
    """Build the rows of windows; ``full`` has each group's number of windows before them."""
    folded = [m.folded(found.low, found.high) for m in stretches.moments]
    rows = Moments.counts(stretches.rows).folded(found.low, found.high).known
    shown = [key.take(found.groups) for key in keys]
    named = dict(zip(job.arguments, folded, strict=True))
    windows = full[found.groups] + found.windows
    table = window_rows(job.select, job.plan.time, job.schema, shown, windows, rows, named)
    return finish_rows(job.select, table)


def _taken(stretches: Stretches, rows: Codes) -> Stretches:
    moments = [moment.take(rows) for moment in stretches.moments]
    _, first, last, counted, _ = stretches
    return Stretches([], first[rows], last[rows], counted[rows], moments)
