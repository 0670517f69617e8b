"""The run of a group of queries over trailing windows: the events of the window are its state.

Each step processes the kept events together with the new ones, partition by partition, as a query
alone does (``event_windows.py`` of trends). Where members report matches that leave, or add up the
partitions of a group, there are also rows for the times at which events leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import KeyTable
from cepheid.events.temporal import LONG_AGO
from cepheid.kernels import shared_start_sums, shared_trailing, shared_trailing_counts
from cepheid.kernels.derive import sort_by_key
from cepheid.kernels.linear import NARROW, OK
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import DOUBLE, NO_VALUE, WIDE, Rows
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.program.wide import fit_doubles, numbers_of
from cepheid.kinds.trend.windows.event_windows import SPARSE_KEYS, report_changes
from cepheid.kinds.trend.windows.start_counters import Changes
from cepheid.kinds.workload.look_back_sharing import adds_partitions
from cepheid.kinds.workload.shared_reading import SharedEvents
from cepheid.kinds.workload.shared_run import (
    NO_MODULUS,
    ROOM_BYTES,
    SharedRows,
    split_by_member,
)
from cepheid.kinds.workload.shared_tables import SharedProgram
from cepheid.kinds.workload.start_sum_tables import SUM_MAX, StartSumProgram, StartSums, are_cheaper
from cepheid.kinds.workload.trailing_tables import TrailingCounts, TrailingProgram
from cepheid.language import tree


class _Call(NamedTuple):
    """Events sorted by partition, and how they are processed."""

    events: SharedEvents
    codes: NDArray[Any]
    seg: NDArray[np.int64]
    fresh: int
    width: int
    until: int
    grouped: bool


class SharedTrailingRun:
    """The run of one group, over all keys.

    ``program.group`` may lose members between steps, because events are all that is kept.
    """

    def __init__(self, program: SharedProgram) -> None:
        self.program = program
        self._trailing = TrailingProgram(program)
        self._sums = StartSumProgram(program)
        self.events: SharedEvents | None = None
        self.reported = LONG_AGO

    def copy(self) -> SharedTrailingRun:
        """Copy the run, so that both can continue independently."""
        other = object.__new__(SharedTrailingRun)
        other.program, other._trailing = self.program, self._trailing
        other._sums = self._sums
        other.events, other.reported = self.events, self.reported
        return other

    def busy(self, until: int, count: int) -> NDArray[np.bool_]:
        """Mark the keys that have events in the window, after ``feed`` up to a time."""
        del until
        busy = np.zeros(count, np.bool_)
        if self.events is not None:
            busy[self.events.key] = True
        return busy

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drop all keys except some, and renumber these by their position in the list."""
        if self.events is None or not len(self.events.key):
            return
        new = np.full(int(max(self.events.key.max(), kept.max(initial=0))) + 1, -1, np.int64)
        new[kept] = np.arange(len(kept))
        self.events = self.events._replace(key=new[self.events.key])

    def feed(self, events: SharedEvents | None, keys: int, until: int) -> list[SharedRows]:
        """Process events in order, all of them before a time; return the rows of their times.

        Rows of a group with expiries are changes of partitions, which ``report_expiries`` adds up.
        """
        whole = _join(self.events, events)
        if whole is None:
            self.reported = until
            return []
        whole = _by_key(whole, keys)
        come = events is not None and len(events.ts) > 0
        found = self._run(whole, until) if come or self.expiries else []
        kept = whole.ts >= until - self.program.group.plan.window.within
        self.events = whole if kept.all() else whole.take(np.flatnonzero(kept))
        self.reported = until
        return found

    @property
    def expiries(self) -> bool:
        """Tell whether rows also come when events leave."""
        return self._trailing.expiries

    def _run(self, events: SharedEvents, until: int) -> list[SharedRows]:
        changed = np.flatnonzero(np.diff(events.key)) + 1
        seg = np.concatenate([[0], changed, [len(events.ts)]]).astype(np.int64)
        same = np.diff(events.ts) == 0
        same[changed - 1] = False
        strict = self.program.group.plan.ties is tree.Ties.STRICT
        call = _Call(
            events,
            self.program.code(events.kinds),
            seg,
            # What partitions had before is added to what others have now.
            LONG_AGO if adds_partitions(self.program.group.plan) else self.reported,
            self.program.group.plan.window.within,
            until - 1,
            grouped=bool(strict and same.any()),
        )
        dtype = DOUBLE if fit_doubles(events.weights) else WIDE
        room = self._most_rows(call)
        parts, mins = len(self.program.group.parts), len(self.program.group.extremes)
        most = ROOM_BYTES // (25 + 16 * parts + 8 * mins) + len(self.program.group.members)
        found: list[SharedRows] = []
        begin = 0
        sums = self._summed(call, dtype)
        while True:
            out = _rows(min(room, most), parts, mins)
            if sums is not None:
                status, begin, rows = self._sum(call, begin, sums, out)
            else:
                status, begin, rows = self._call(call, begin, dtype, out)
            if rows:
                query, part, time, kind, numbers, values = (a[:rows].copy() for a in out)
                key = events.key[seg[part]]
                found.append(SharedRows(query, key, time, numbers, values, kind))
            if status == OK:
                return found
            if status == NARROW:
                dtype, sums = dtype if sums is not None else WIDE, None
            elif not rows:
                most *= 4

    def _summed(self, call: _Call, dtype: np.dtype[Any]) -> StartSums | None:
        """Return the arrays for sums over starts, if they count the events, at lower cost."""
        sums = None if call.grouped or dtype != DOUBLE else self._sums.tables()
        if sums is None or not len(call.codes):
            return None
        return sums if are_cheaper(sums, self._trailing.tables(), call.codes) else None

    def _sum(
        self, call: _Call, begin: int, sums: StartSums, out: tuple[NDArray[Any], ...]
    ) -> tuple[int, int, int]:
        """Run the kernel of sums from a partition on, as ``_call``."""
        found: tuple[int, int, int] = shared_start_sums.sum_shared_starts(
            call.events.ts, call.codes, call.seg, begin, call.fresh, call.width,
            SUM_MAX // self._sums.size, *sums[:3], self._sums.room(sums, call.codes, call.seg),
            out[:5],
        )  # fmt: skip
        return found

    def _most_rows(self, call: _Call) -> int:
        """Bound the number of rows: queries that events change when they come, and leave."""
        codes = call.codes[call.events.ts >= call.fresh]
        room = int(np.diff(self._trailing.tables().end_ptr)[codes].sum())
        return room + len(call.codes) * len(self.program.group.members) * self.expiries

    def _call(
        self, call: _Call, begin: int, dtype: np.dtype[Any], out: tuple[NDArray[Any], ...]
    ) -> tuple[int, int, int]:
        """Run a kernel from a partition on; return its status, the next partition and the rows."""
        group, events = self.program.group, call.events
        plain = len(group.parts) == 1 and not group.extremes and not call.grouped
        counts = self._trailing.counts() if plain and dtype == DOUBLE else None
        found: tuple[int, int, int]
        if counts is not None:
            found = shared_trailing_counts.count_shared_trailing(
                events.ts, call.codes, call.seg, begin, call.fresh, call.width, call.until,
                self.expiries, *counts, self._room_of_counts(counts), out[:5],
            )  # fmt: skip
        else:
            found = shared_trailing.run_shared_trailing(
                self.program.tables(), self._trailing.tables(), events.ts, call.codes,
                np.ascontiguousarray(numbers_of(events.weights, dtype)),
                np.ascontiguousarray(events.values), call.seg, begin, call.fresh, call.width,
                call.until, self.expiries, call.grouped, *self._room(dtype), dtype.type(0),
                NO_MODULUS, out,
            )  # fmt: skip
        return found

    def _room_of_counts(self, counts: TrailingCounts) -> tuple[NDArray[Any], ...]:
        """Make the stacks of no events, and buffers, for the count-only kernel."""
        initial = np.append(counts.behind[5], 0.0)
        queries = len(self.program.group.members)
        most = max(len(counts.behind[1]), len(counts.ahead[3]), 1)
        return (
            initial, initial.copy(), np.zeros(len(initial)), np.zeros(len(initial)),
            np.zeros(most), np.zeros(most), np.zeros(queries, np.bool_),
            np.zeros(queries, np.int32),
        )  # fmt: skip

    def _room(self, dtype: np.dtype[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Make the stacks of no events, buffers, and a list of no earlier values."""
        group, size = self.program.group, self.program.size
        parts, mins, queries = len(group.parts), len(group.extremes), len(group.members)

        def matrix(rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
            return np.zeros((rows, parts), dtype), np.full((rows, mins), NO_VALUE, np.int64)

        def flags(length: int) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
            return np.zeros(length, np.bool_), np.zeros(length, np.int32)

        back, front = matrix(size), matrix(size)
        for numbers, _ in (back, front):
            numbers[self.program.tables().initial, 0] = 1
        room = (
            *back, *front, *matrix(size), *flags(size), np.zeros((size, 1), dtype),
            np.zeros(size, dtype), np.zeros((size, 1), dtype), *flags(queries),
            np.zeros(parts, dtype), np.zeros(mins, np.int64),
        )  # fmt: skip
        return room, (np.empty(0, np.int32), np.empty(0, np.int64), *matrix(0))


def _join(kept: SharedEvents | None, events: SharedEvents | None) -> SharedEvents | None:
    if kept is None or events is None or not len(kept.ts):
        return kept if events is None else events
    columns = zip(kept, events, strict=True)
    return SharedEvents(*(np.concatenate(pair, axis=-1) for pair in columns))


def _by_key(events: SharedEvents, keys: int) -> SharedEvents:
    """Sort events by partition, stably."""
    if keys <= 1:
        return events
    if keys > SPARSE_KEYS * len(events.key):
        return events.take(np.argsort(events.key, kind="stable"))
    return events.take(sort_by_key(events.key, keys)[0])


def _rows(room: int, parts: int, mins: int) -> tuple[NDArray[Any], ...]:
    return (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int8),
        np.empty((room, parts), WIDE),
        np.empty((room, mins), np.int64),
    )


def report_expiries(
    run: SharedTrailingRun,
    jobs: Sequence[Job],
    keys: KeyTable,
    fresh: int,
    found: list[SharedRows],
) -> list[list[Rows]]:
    """Build the rows of each member from the changes of partitions (§6.4, §6.5)."""
    rows: list[list[Rows]] = [[] for _ in jobs]
    parts: list[list[Changes]] = [[] for _ in jobs]
    for member, part in split_by_member(run.program, found):
        assert part.kind is not None, "trailing windows tell what changed"
        ended = np.zeros(len(part.key), part.numbers.dtype)
        changes = Changes(part.key, part.window, part.kind, ended, part.numbers, part.values)
        parts[member].append(changes)
    for member, job in enumerate(jobs):
        if parts[member]:
            columns = zip(*parts[member], strict=True)
            whole = Changes(*(np.concatenate(column) for column in columns))
            group_of = groups_of(job, keys)[0] if adds_partitions(job.plan) else None
            rows[member] = report_changes(job, whole, group_of, fresh)
    return rows
