"""Trailing windows by counters for every start, where that costs less than two stacks.

Both are exact up to 2^53 matches; larger counts may differ in the last digit of a double.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import start_counters
from cepheid.kernels.linear import OK
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Events
from cepheid.kinds.trend.program.program import Program
from cepheid.kinds.trend.program.wide import fit_doubles

EVENT_NS, COUNTER_NS, AGGREGATE_NS, STACK_NS = 30.0, 0.5, 4.0, 120.0
"""Measured costs: an event; a counter of an active start; one with sums or extremes; and for two
stacks an entry of a matrix of every event."""


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
    total, most = start_counters.active_starts(events.ts, codes, begins, seg, width)
    parts, mins = len(job.parts), len(job.extremes)
    if not is_cheaper(program.size, parts, mins, len(codes), total):
        return None
    wcol, xcol = job.columns_of(program)
    room = 2 * most + 1
    rows_room = len(codes) * (2 if expiries else 1)
    out: tuple[NDArray[Any], ...] = (
        np.empty(rows_room, np.int64),
        np.empty(rows_room, np.int64),
        np.empty(rows_room, np.int8),
        np.empty(rows_room, np.complex128),
        np.empty((rows_room, parts), np.complex128),
        np.empty((rows_room, mins), np.int64),
    )
    status, rows = start_counters.count_starts(
        plain.target, source, begins, program.tables().counts, program.tables().variable,
        events.ts, codes, events.weights.astype(np.float64, copy=False), events.values, wcol,
        xcol, seg, fresh, width, until, expiries, np.zeros((program.size, parts, room)),
        np.zeros((program.size, mins, room), np.int64), np.zeros(room, np.int64),
        np.zeros((parts, room)), out,
    )  # fmt: skip
    if status != OK:
        return None
    part, *rest = (array[:rows].copy() for array in out)
    return Changes(events.key[seg[part]], *rest)


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
