"""Drop keys whose windows are all closed, so that new keys do not grow the state forever.

A key that comes again gets a new number. Only count-based windows keep their keys forever, since
they count from the first event of a key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import KeyTable
from cepheid.kinds.trend.program.choosing_state import ChoosingRun
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import LinearRun
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.plans.plan import WindowKind


def forget_idle_keys(job: Job, state: PartitionState, until: int) -> PartitionState:
    """Drop the keys that no open window needs, after ``advance`` up to ``until``.

    Rows that were returned before refer to old key numbers: convert them to results first.
    """
    kind = job.plan.window.kind
    if not state.keys.names or kind is WindowKind.COUNT:
        return state
    if kind is WindowKind.NONE and not job.looks_back:
        return state
    state = state.copy()
    until -= job.horizon
    if job.looks_back:
        # Events are kept as they came, and numbered in every step; chosen matches have a number.
        if state.chosen is None:
            state.keys = KeyTable(state.keys.names)
            return state
        used, number = np.unique(state.chosen.key, return_inverse=True)
        state.keys = state.keys.take(used)
        state.chosen = state.chosen._replace(key=number.ravel())
        return state
    busy = busy_keys(job, state, until, len(state.keys))
    if busy.all():
        return state
    kept = np.flatnonzero(busy)
    new = np.full(len(busy), -1, np.int64)
    new[kept] = np.arange(len(kept))
    state.keys = state.keys.take(kept)
    if state.kept is not None:
        state.kept = state.kept._replace(key=new[state.kept.key])
    for run in state.runs:
        run.keep(kept)
    return state


def busy_keys(job: Job, state: PartitionState, until: int, count: int) -> NDArray[np.bool_]:
    """Mark the keys that an open window needs, for a query that keeps counts and no events."""
    busy = np.zeros(count, np.bool_)
    if job.plan.window.kind is WindowKind.TRAILING:
        if state.kept is not None:
            busy[state.kept.key] = True
        return busy
    for run in state.runs:
        busy |= _busy(run, until, count)
    return busy


def _busy(run: LinearRun | ChoosingRun, until: int, count: int) -> NDArray[np.bool_]:
    """Mark the keys that have an open window with events; keys beyond the arrays have none."""
    busy = np.zeros(count, np.bool_)
    known = min(count, run.keys)
    if not known:
        return busy
    busy[:known] = run.has_open(until)[:known]
    return busy
