"""Trailing windows by sums over all starts, or by counters for every start, instead of two stacks.

Counts take O(1) an event with sums, unless an event of the pattern may follow one of its own kind.
Other aggregates have counters where that costs less than two stacks. All are exact up to 2^53
matches; larger counts may differ in the last digit of a double.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import start_counters, start_sums
from cepheid.kernels.linear import OK
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Events
from cepheid.kinds.trend.program.program import Program
from cepheid.kinds.trend.program.wide import fit_doubles

EVENT_NS, COUNTER_NS, AGGREGATE_NS, STACK_NS = 30.0, 0.5, 4.0, 120.0
"""Measured costs: an event; a counter of an active start; one with sums or extremes; and for two
stacks an entry of a matrix of every event."""


SUM_MAX = 1 << 62
"""The largest sum over starts; two of them fit into 64 bits."""


class Changes(NamedTuple):
    """The aggregates of a partition from a time on: its number, the time, the cause, the values.

    ``ended`` counts the matches that end, or that leave with their first events.
    """

    key: NDArray[Any]
    time: NDArray[Any]
    kind: NDArray[Any]
    ended: NDArray[Any]
    numbers: NDArray[Any]
    values: NDArray[Any]


def count_by_starts(
    job: Job, program: Program, events: Events, fresh: int, until: int, *, expiries: bool
) -> Changes | None:
    """Compute the changes of all partitions, as ``trailing_changes`` does; None if it cannot.

    It can for plain programs in doubles, and it should unless many starts are active at a time.
    """
    plain = None if job.moduli or len(job.programs) > 1 or events.grouped else program.plain()
    if plain is None or not len(events.ts) or not fit_doubles(events.weights):
        return None
    unit = program.size
    begins = (plain.source == unit).any(axis=1)
    source = np.where(plain.source < unit, plain.source, -1)
    source = -np.sort(-source, axis=1)
    changed = np.flatnonzero(np.diff(events.key)) + 1
    seg = np.concatenate([[0], changed, [len(events.ts)]]).astype(np.int64)
    codes = events.codes.astype(np.int32, copy=False)
    width = job.plan.window.within
    counts = program.tables().counts
    parts, mins = len(job.parts), len(job.extremes)
    rows_room = len(codes) * (2 if expiries else 1)
    out: tuple[NDArray[Any], ...] = (
        np.empty(rows_room, np.int64),
        np.empty(rows_room, np.int64),
        np.empty(rows_room, np.int8),
        np.empty(rows_room, np.complex128),
        np.empty((rows_room, parts), np.complex128),
        np.empty((rows_room, mins), np.int64),
    )
    if parts + mins == 1 and SUM_MAX and are_summed(plain.target, source):
        starts = np.count_nonzero(begins[codes])
        square = (program.size, program.size)
        status, rows = start_sums.sum_starts(
            plain.target, source, begins, counts, events.ts, codes, seg, fresh, width, until,
            expiries, SUM_MAX // max(program.size, 1), np.zeros(square, np.int64),
            np.zeros(square, np.int64), np.zeros(program.size, np.int64),
            np.empty((starts, program.size), np.int64), np.empty(starts, np.int64), out,
        )  # fmt: skip
        if status == OK:
            return _changes(events, seg, rows, out)
    total, most = start_counters.active_starts(events.ts, codes, begins, seg, width)
    if not is_cheaper(program.size, parts, mins, len(codes), total):
        return None
    wcol, xcol = job.columns_of(program)
    room = 2 * most + 1
    status, rows = start_counters.count_starts(
        plain.target, source, begins, counts, program.tables().variable,
        events.ts, codes, events.weights.astype(np.float64, copy=False), events.values, wcol,
        xcol, seg, fresh, width, until, expiries, np.zeros((program.size, parts, room)),
        np.zeros((program.size, mins, room), np.int64), np.zeros(room, np.int64),
        np.zeros((parts, room)), out,
    )  # fmt: skip
    return _changes(events, seg, rows, out) if status == OK else None


def _changes(
    events: Events, seg: NDArray[np.int64], rows: int, out: tuple[NDArray[Any], ...]
) -> Changes:
    # What was not written takes no memory, so nothing is copied.
    part, *rest = (array[:rows] for array in out)
    return Changes(events.key[seg[part]], *rest)


def are_summed(target: NDArray[np.int64], source: NDArray[np.int64]) -> bool:
    """Tell whether no event adds to a count that it also adds from, so sums can be taken back."""
    return not (source == target[:, None])[target >= 0].any()


def is_cheaper(size: int, parts: int, mins: int, events: int, active: int) -> bool:
    """Compare the costs of counters and of two stacks.

    Parameters
    ----------
    size, parts, mins
        The number of configurations, of numbers and of extremes.
    events, active
        The number of events, and the sum of active starts over them.
    """
    counter_ns = COUNTER_NS if parts + mins == 1 else AGGREGATE_NS * (parts + mins)
    stacks_ns = STACK_NS * size * (size + 1) * (parts + mins)
    return EVENT_NS * events + counter_ns * active <= stacks_ns * events
