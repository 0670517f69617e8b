"""Trailing windows of queries with common edge predicates: rows at every time of change.

Rows come where matches end. Where members report matches that leave, or add up the partitions of a
group, windows are also evaluated at the times at which events leave.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels import trailing
from cepheid.kinds.trend.look_back.evaluate import Answer
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.program.wide import to_double
from cepheid.kinds.trend.windows.event_windows import report_changes
from cepheid.kinds.trend.windows.open_windows import fill_change, no_change
from cepheid.kinds.trend.windows.start_counters import Changes
from cepheid.kinds.trend.windows.step import PartitionState
from cepheid.kinds.workload.look_back_evaluate import (
    NUMBERS_MAX,
    WINDOWS_MAX,
    LookBackProgram,
    Windows,
    ask,
    lanes_of_windows,
    run_pass,
)
from cepheid.kinds.workload.look_back_sharing import needs_expiries
from cepheid.kinds.workload.shared_reading import SharedEvents
from cepheid.patterns.segments import trailing_segments

RowsOfMembers = list[list[Rows]]

EXACT_MAX = 2.0**53
"""Counts up to it are exact as doubles."""


def answer_trailing(
    program: LookBackProgram, state: PartitionState, columns: Columns, until: int | None
) -> RowsOfMembers | None:
    """Report the trailing window, for every time at which it changes (§6.3, §6.4)."""
    order = np.argsort(columns.numbers(state.keys), kind="stable")
    asked = ask(program, state, Columns(columns.batch.take(order)))
    if asked is None:
        return None
    events, within = asked.events, program.group.plan.window.within
    kinds = events.kinds.astype(np.int64)
    expiries = needs_expiries(program.group.plan)
    end = FOREVER if until is None else until - 1
    key, time = _times_of_changes(events, within if expiries else 0, state.reported, end)
    numbers = len(key) * len(program.jobs) * max(len(program.group.parts), 1)
    if expiries and numbers > NUMBERS_MAX:
        return None
    rows: RowsOfMembers = [[] for _ in program.jobs]
    whole = [no_change(job, key, time) for job in program.jobs] if expiries else []
    for one in program.passes:
        many = lanes_of_windows(program, one, WINDOWS_MAX)
        owner, number = _rows_of_windows(key, many)
        used = number >= 0
        high = np.where(used, time[number], FOREVER)
        low = np.where(used, high - within, FOREVER)
        bounds = (low[:, 0], high.max(axis=1, where=used, initial=LONG_AGO))
        for mine, segments in trailing_segments(events.key, events.ts, kinds, owner, *bounds):
            windows = Windows(segments, number[mine], low[mine], high[mine])
            answers = run_pass(program, one, asked, windows, tailed=True)
            if answers is None:
                return None
            here = np.nonzero(windows.number >= 0)
            for member, answer in zip(one.members, answers, strict=True):
                own = Answer(answer.numbers[here], answer.values[here], answer.ended[here])
                if expiries:
                    ended = own.ended.real > 0
                    fill_change(whole[member], windows.number[here], own, ended)
                    continue
                # Most times of other queries' events are no rows of this one, so none waits.
                changes = _changes_of(own, segments.key[here[0]], windows.high[here])
                rows[member] += report_changes(program.jobs[member], changes, None, state.reported)
    if not expiries:
        return rows
    return _report_whole(program, state, whole)


def _times_of_changes(events: SharedEvents, within: int, fresh: int, end: int) -> NDArray[np.int64]:
    """List keys and times from ``fresh`` to ``end`` at which events come; with a width, leave too.

    With a width, the last time of a key before ``fresh`` comes first: its numbers still hold.
    """
    times = np.stack([events.key, events.ts])
    if within:
        times = np.concatenate([times, times + np.array([[0], [within]])], axis=1)
    times = np.unique(times, axis=1)
    times = times[:, times[1] <= end]
    chosen = times[1] >= fresh
    if within and len(chosen):
        chosen |= np.append(chosen[1:] | (times[0, 1:] != times[0, :-1]), True)
    return times[:, chosen]


def _report_whole(
    program: LookBackProgram, state: PartitionState, whole: list[Changes]
) -> RowsOfMembers | None:
    """Build the rows of members whose windows are known at all times; None if doubles do not do."""
    rows: RowsOfMembers = []
    for job, changes in zip(program.jobs, whole, strict=True):
        if job.plan.window.emit_on_expiry and not _mark_leaving(changes):
            return None
        group_of, _ = groups_of(job, state.keys)
        rows.append(report_changes(job, changes, group_of, state.reported))
    return rows


def _mark_leaving(changes: Changes) -> bool:
    """Mark the times at which matches leave (§6.4); return False if counts are not exact.

    Without negation, an event that leaves takes matches along and makes none. So those that left
    are the matches of the time before which are not among the older ones of now.
    """
    count, ended = to_double(changes.numbers[:, 0]), to_double(changes.ended)
    if (count > EXACT_MAX).any():
        return False
    before = np.roll(count, 1)
    before[np.diff(changes.key, prepend=-1) != 0] = 0
    changes.kind[before > count - ended] |= trailing.EXPIRED
    return True


def _rows_of_windows(
    key: NDArray[np.int64], many: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put windows of one key into rows: return the keys of rows, and numbers, -1 for none."""
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    lengths = np.diff(starts, append=len(key))
    counts = -(-lengths // many)
    first = np.repeat(starts, counts)
    stop = np.repeat(starts + lengths, counts)
    lap = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    number = (first + lap * many)[:, None] + np.arange(many)
    return np.repeat(key[starts], counts), np.where(number < stop[:, None], number, -1)


def _changes_of(answer: Answer, key: NDArray[np.int64], time: NDArray[np.int64]) -> Changes:
    """Build the changes of some windows."""
    kind = np.where(answer.ended.real > 0, trailing.ENDED, 0).astype(np.int8)
    return Changes(key, time, kind, answer.ended, answer.numbers, answer.values)
