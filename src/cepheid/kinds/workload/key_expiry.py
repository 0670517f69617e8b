"""Drop keys that no open window of any query needs; see ``key_expiry.py`` of trends for one query.

Queries with the same partition share a key table, so a key is dropped when none needs it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.kinds.trend.windows.key_expiry import busy_keys
from cepheid.kinds.workload.step import WorkloadJob, WorkloadState
from cepheid.plans.plan import WindowKind


def forget_idle_keys_of_all(job: WorkloadJob, state: WorkloadState, until: int) -> None:
    """Drop, in place, the keys that no query needs, after ``advance_workload`` up to ``until``.

    Rows that were returned before refer to old key numbers: convert them to results first.
    """
    for names, keys in state.keys.items():
        count = len(keys)
        if not names or not count:
            continue
        busy = _busy(job, state, names, until, count)
        if busy is None or busy.all():
            continue
        kept = np.flatnonzero(busy)
        new = np.full(count, -1, np.int64)
        new[kept] = np.arange(len(kept))
        state.keys[names] = keys.take(kept)
        for run in state.runs:
            if run.program.group.plan.partition.attributes == names:
                run.keep(kept)
        for n, lone in state.alone.items():
            if job.jobs[n].plan.partition.attributes != names:
                continue
            lone.keys = state.keys[names]
            if lone.kept is not None:
                lone.kept = lone.kept._replace(key=new[lone.kept.key])
            for own in lone.runs:
                own.keep(kept)


def _busy(
    job: WorkloadJob, state: WorkloadState, names: tuple[str, ...], until: int, count: int
) -> NDArray[np.bool_] | None:
    """Mark the keys that some query needs; None if one needs all of them forever."""
    busy = np.zeros(count, np.bool_)
    for run in state.runs:
        plan = run.program.group.plan
        if plan.partition.attributes == names:
            if plan.window.kind is WindowKind.NONE:
                return None
            busy |= run.busy(until, count)
    for n, lone in state.alone.items():
        own = job.jobs[n]
        if own.plan.partition.attributes != names:
            continue
        if own.plan.window.kind in (WindowKind.COUNT, WindowKind.NONE):
            return None
        if own.looks_back:
            # Its events are numbered in every step, with the keys that remain.
            if lone.events is not None:
                numbers = state.keys[names].number(Columns(lone.events))
                busy[numbers[numbers >= 0]] = True
        else:
            busy |= busy_keys(own, lone, until, count)
    return busy
