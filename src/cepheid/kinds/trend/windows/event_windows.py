"""Windows that keep their events: trailing windows, and count-based windows.

The state of such a query is the events that some later window may need, in order of arrival. Each
step processes them together with the new ones, partition by partition. ``WITHIN w`` uses two stacks
per partition (``kernels/trailing.py``); count-based windows run independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays
from cepheid.events.temporal import FOREVER
from cepheid.kernels import trailing
from cepheid.kernels.derive import sort_by_key
from cepheid.kinds.trend.program.conjunction import Whole, combine, combine_wide
from cepheid.kinds.trend.program.counted_keys import numbers_with_keys
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import SEMANTICS_CODES, Events, LinearRun, Rows
from cepheid.kinds.trend.program.program import Program
from cepheid.kinds.trend.program.wide import numbers_of, to_double
from cepheid.kinds.trend.windows.start_counters import Changes, count_by_starts
from cepheid.plans.plan import WindowKind, WindowPlan

SPARSE_KEYS = 4
"""With more keys than so many times the events, events are sorted by comparing their keys."""


def trailing_changes(
    job: Job,
    program: Program,
    events: Events,
    fresh: int,
    until: int,
    *,
    expiries: bool,
    modulus: int = 0,
) -> Changes:
    """Compute the changes of every partition from ``fresh`` to ``until``.

    ``events`` are sorted by key, then time. Expiries are reported where a group sums several
    partitions, or where the query asks for them.
    """
    quick = count_by_starts(job, program, events, fresh, until, expiries=expiries)
    if quick is not None:
        return quick
    wcol, xcol = job.columns_of(program)
    tables = program.tables()
    parts, mins = len(job.parts), len(job.extremes)
    kind_of_number: Any = np.uint64 if modulus else np.complex128
    weights = numbers_of(events.weights, np.dtype(kind_of_number), modulus)
    codes = events.codes.astype(np.int32, copy=False)
    letters = program.letters_of_codes()[codes]
    found: list[Changes] = []
    for first, last in _segments(events.key):
        times = events.ts[first:last]
        together = np.concatenate([[True], times[1:] != times[:-1]])
        if not events.grouped:
            together[:] = True
        at = np.append(np.flatnonzero(together), len(times)).astype(np.int64)
        room = 2 * len(at) + 2
        out = (
            np.zeros(room, np.int64),
            np.zeros(room, np.int8),
            np.zeros(room, kind_of_number),
            np.zeros((room, parts), kind_of_number),
            np.zeros((room, mins), np.int64),
        )
        rows = trailing.aggregate_trailing(
            tables, times, codes[first:last], letters[first:last],
            weights[:, first:last], events.values[:, first:last], wcol, xcol, at, fresh,
            job.plan.window.within, until, expiries, SEMANTICS_CODES[program.semantics],
            program.start_size, kind_of_number(1), kind_of_number(0), np.uint64(modulus),
            program.size, parts, mins, *out,
        )  # fmt: skip
        key = np.full(rows, events.key[first], np.int64)
        found.append(Changes(key, *(array[:rows] for array in out)))
    if found:
        return Changes(*(np.concatenate(column) for column in zip(*found, strict=True)))
    empty = np.zeros(0, np.int64)
    numbers = np.zeros((0, parts), kind_of_number)
    ended = np.zeros(0, kind_of_number)
    return Changes(
        empty, empty, np.zeros(0, np.int8), ended, numbers, np.zeros((0, mins), np.int64)
    )


def changes_of_sets(sides: Sequence[Changes], *, modulus: int = 0) -> Changes:
    """Compute the changes of the sets of AND; a set ends with its latest match (§2.10).

    All sides saw the same events, so their rows correspond one to one.
    """
    first = sides[0]
    if modulus:
        columns = [[Whole(column, modulus) for column in side.numbers.T.tolist()] for side in sides]
        residues = np.array([part.values for part in combine(columns)], np.uint64).T
        return first._replace(numbers=np.ascontiguousarray(residues))
    numbers, values = combine_wide([s.numbers for s in sides], [s.values for s in sides])
    kinds = _kinds_of_sets(sides, numbers[:, 0])
    return first._replace(numbers=numbers, values=values, kind=kinds)


def _kinds_of_sets(sides: Sequence[Changes], sets: NDArray[Any]) -> NDArray[np.int8]:
    """Classify changes of sets: ended (§6.3), or changed by events that leave (§6.4).

    If there is a set, every match is in one.
    """
    patterns = sides[: (len(sides) + 1).bit_length() - 1]
    left = sides[0].kind & trailing.LEFT != 0
    # Matches leave from among those of the previous row; a key's first row is never of that kind.
    there = np.where(left, np.roll(sets, 1), sets).real > 0
    ended = np.any([to_double(side.ended) > 0 for side in patterns], axis=0)
    changed = ended & there
    # If the event of a leading NOT leaves, matches become valid although none leaves.
    expired = np.any([side.kind & trailing.EXPIRED != 0 for side in patterns], axis=0)
    changed |= left & expired & (sets != np.roll(sets, 1))
    return np.where(changed, np.where(left, trailing.EXPIRED, trailing.ENDED), 0).astype(np.int8)


def report_changes(
    job: Job, changes: Changes, group_of: NDArray[np.int64] | None, fresh: int, modulus: int = 0
) -> list[Rows]:
    """Build one row per group and reported time; its key is one of the group's.

    Without ``group_of`` every partition is a group.
    """
    if not len(changes.key):
        return []
    if not modulus:
        changes = changes._replace(numbers=numbers_with_keys(job, changes.numbers))
    wanted = trailing.ENDED | (trailing.EXPIRED if job.plan.window.emit_on_expiry else 0)
    if group_of is None:
        return [_reported(changes, wanted, fresh)]
    group = group_of[changes.key]
    order = np.lexsort((changes.key, changes.time, group))
    sorted_changes = Changes(*(column[order] for column in changes))
    found = []
    for first, last in _segments(group[order]):
        part = Changes(*(column[first:last] for column in sorted_changes))
        members, slot = np.unique(part.key, return_inverse=True)
        out = (
            np.zeros(len(slot), np.int64),
            np.zeros_like(part.numbers),
            np.zeros_like(part.values),
        )
        rows = trailing.add_up_partitions(
            slot, part.time, part.kind, part.numbers, part.values, len(members), wanted, fresh,
            np.uint64(modulus), *out,
        )  # fmt: skip
        key = np.full(rows, members[0], np.int64)
        found.append(Rows(key, *(array[:rows] for array in out)))
    return found


def _reported(changes: Changes, wanted: int, fresh: int) -> Rows:
    """Choose the last change of every time of a partition, if one of that time is wanted."""
    key, time = changes.key, changes.time
    new = np.append(True, (key[1:] != key[:-1]) | (time[1:] != time[:-1]))
    first = np.flatnonzero(new)
    kinds = np.bitwise_or.reduceat(changes.kind, first)
    last = np.append(first[1:], len(key)) - 1
    rows = last[((kinds & wanted) != 0) & (time[last] >= fresh)]
    return Rows(key[rows], time[rows], changes.numbers[rows], changes.values[rows])


def _segments(key: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Find where the events of each key begin and end."""
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if len(key) else key
    ends = np.append(starts[1:], len(key))
    return list(zip(starts.tolist(), ends.tolist(), strict=False)) if len(key) else []


class CountWindows(NamedTuple):
    """The windows of a step: for each its key and number, and the rows of its events."""

    key: NDArray[np.int64]
    start: NDArray[np.int64]
    rows: NDArray[np.int64]
    owner: NDArray[np.int64]


def count_windows(
    key: NDArray[np.int64], base: NDArray[np.int64], window: WindowPlan, *, last: bool
) -> tuple[CountWindows, NDArray[np.int64]]:
    """Split the events of each partition into windows; return them and the next start numbers.

    Parameters
    ----------
    key
        The keys of the events, sorted; events of a key in order.
    base
        (keys,) the number of the first kept event of a key.
    last
        Whether the stream has ended, so that windows that are not full count too.
    """
    size, slide = window.within, window.slide
    keys: list[int] = []
    starts: list[int] = []
    rows: list[NDArray[np.int64]] = []
    owners: list[NDArray[np.int64]] = []
    begins = base.copy()
    for first, end in _segments(key):
        k = int(key[first])
        total = int(base[k]) + end - first
        number = -(-int(base[k]) // slide) * slide
        while number + size <= total or (last and number < total):
            begin = first + number - int(base[k])
            stop = min(begin + size, end)
            owners.append(np.full(stop - begin, len(keys), np.int64))
            rows.append(np.arange(begin, stop))
            keys.append(k)
            starts.append(number)
            number += slide
        begins[k] = min(number, total)
    nothing = [np.zeros(0, np.int64)]
    windows = CountWindows(
        np.array(keys, np.int64),
        np.array(starts, np.int64),
        np.concatenate(rows or nothing),
        np.concatenate(owners or nothing),
    )
    return windows, begins


def run_count_windows(
    job: Job, program: Program, windows: CountWindows, events: Events, modulus: int = 0
) -> list[Rows]:
    """Run every window as a separate partition; O(windows x their events)."""
    if not len(windows.key):
        return []
    whole = WindowPlan(WindowKind.NONE)
    run = LinearRun(program, whole, job.columns_of(program), modulus)
    run.grow(len(windows.key))
    run.feed(events)
    found = run.flush(FOREVER)
    return [Rows(windows.key[r.key], windows.start[r.key], r.numbers, r.values) for r in found]


def join(first: EventArrays, second: EventArrays) -> EventArrays:
    """Concatenate the events of both."""
    columns = zip(first, second, strict=True)
    return EventArrays(*(np.concatenate(pair, axis=-1) for pair in columns))


def sorted_by_key(arrays: EventArrays, keys: int) -> EventArrays:
    """Sort events by partition, stably."""
    if keys <= 1:
        return arrays
    if keys > SPARSE_KEYS * len(arrays.key):
        return arrays.take(np.argsort(arrays.key, kind="stable"))
    return arrays.take(sort_by_key(arrays.key, keys)[0])
