"""The step: state and events in, new state and rows out.

    step(job, state, batch)     ->  (state, rows)
    advance(job, state, until)  ->  (state, rows of the windows that end by a time)
    step_until(job, state, batch, until)  ->  both, in one pass over the state
    finish(job, state)          ->  (state, rows of the windows that the end of the stream closes)

``step`` changes neither of its arguments. Batches are in time order; the rows do not depend on how
the stream is cut into batches. Under TIES strict the events of the last time wait in the state,
because events of the same time may still come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays, KeyTable, look_up_codes, read_times
from cepheid.errors import DataError, Diagnostic
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels.columns import scan_times
from cepheid.kernels.distinct import distinct
from cepheid.kinds.trend.program.apart_state import ApartRun
from cepheid.kinds.trend.program.choosing_state import ChoosingRun
from cepheid.kinds.trend.program.job import UNKNOWN_CODE, Job
from cepheid.kinds.trend.program.linear_state import Events, LinearRun, Rows
from cepheid.kinds.trend.program.program import Program
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.windows.chosen_windows import ChosenMatches, process_chosen
from cepheid.kinds.trend.windows.event_windows import (
    changes_of_sets,
    count_windows,
    join,
    report_changes,
    run_count_windows,
    sorted_by_key,
    trailing_changes,
)
from cepheid.kinds.trend.windows.marker import Marker
from cepheid.kinds.trend.windows.open_windows import process_open_windows
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan, WindowKind

LARGE_ROWS = 10_000
"""The size of batches from which events with a deadline may wait longer than they must."""


class PartitionState:
    """The state of a job between batches, for all partitions."""

    def __init__(self, job: Job) -> None:
        self.keys = KeyTable(job.plan.partition.attributes)
        # For each program a run in default numbers, then one for each modulus.
        self.runs = _runs_of(job)
        self.held: pa.Table | None = None
        # Events on which the marks of later ones depend (§2.12).
        self.past: pa.Table | None = None
        # Queries that look up earlier events: the events of open windows.
        self.events: pa.Table | None = None
        self.last: int | None = None
        # Windows that keep their events: the events, and where their numbers begin.
        self.kept: EventArrays | None = None
        self.base: NDArray[np.int64] = np.zeros(0, np.int64)
        self.reported = LONG_AGO
        # Queries that list matches: the number of listed matches.
        self.listed = 0
        # Count-based windows end at another time in each partition; a group waits for all of them.
        self.waiting: list[list[Rows]] = [[] for _ in range(job.outputs)]
        # AFTER MATCH SKIP: which kept events begin no match any more, and the chosen matches of
        # open windows.
        self.barred: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.chosen: ChosenMatches | None = None

    def copy(self, keys: KeyTable | None = None) -> PartitionState:
        """Copy the state, so that both can continue; several copies may share their keys."""
        other = object.__new__(PartitionState)
        other.keys = self.keys.copy() if keys is None else keys
        other.runs = [run.copy() for run in self.runs]
        other.held, other.events, other.last = self.held, self.events, self.last
        other.past = self.past
        other.kept, other.base, other.reported = self.kept, self.base.copy(), self.reported
        other.waiting = [list(rows) for rows in self.waiting]
        other.listed, other.barred, other.chosen = self.listed, self.barred, self.chosen
        return other


def _runs_of(job: Job) -> list[LinearRun | ChoosingRun]:
    window, skip = job.plan.window, job.plan.skip
    kinds = [(program, modulus) for program in job.programs for modulus in (0, *job.moduli)]
    if skip is not None:
        return [ChoosingRun(program, window, skip.mode, modulus) for program, modulus in kinds]
    run = ApartRun if window.kind is WindowKind.SLIDING else LinearRun
    return [run(program, window, job.columns_of(program), modulus) for program, modulus in kinds]


def step(
    job: Job, state: PartitionState, batch: pa.Table
) -> tuple[PartitionState, list[list[Rows]]]:
    """Process a batch; return the new state and, for each program, the complete rows.

    Raises
    ------
    DataError
        E505 and E506 if a column is missing or has a wrong type, E509 if the batch is not in order.
    """
    state = state.copy()
    return state, feed(job, state, batch)


def feed(job: Job, state: PartitionState, batch: pa.Table) -> list[list[Rows]]:
    """Process a batch as ``step`` does, in place, for a caller that needs the old state no more.

    A copy would cost as much as there are keys, however few of them the batch has.
    """
    ready = admit(job, state, batch)
    if ready is None:
        return [[] for _ in range(job.outputs)]
    return process(job, state, Columns(ready), flush_until=known_until(job, state))


def admit(job: Job, state: PartitionState, batch: pa.Table) -> pa.Table | None:
    """Return the events that can be processed, None for none; others wait in the state.

    With deadlines, an event waits until its marks are known (§2.12).
    """
    if job.marked is not None and job.plan.columns is not None:
        batch = batch.select([name for name in batch.column_names if job.reads(name)])
    ready, held, last = admit_events(
        batch,
        state.held,
        state.last,
        job.plan.time,
        whole_times=waits(job.plan),
        horizon=job.horizon,
    )
    state.held, state.last = held, last
    if ready is None:
        return None
    return ready if job.marked is None else _mark(Marker(job.marked), state, ready, job.plan.time)


def known_until(job: Job, state: PartitionState) -> int | None:
    """Return the time before which all events have been processed, None before the first event."""
    return None if state.last is None else state.last - job.horizon


def release(job: Job, state: PartitionState, until: int | None) -> pa.Table | None:
    """Take the waiting events that can be processed at a time; all of them if it is None.

    No more events before ``until`` come; None says that no more events come at all.
    """
    held, state.held = state.held, None
    if held is None or job.marked is None:
        return held
    if until is not None:
        times = read_times(Columns(held), job.plan.time)
        ready = int(np.searchsorted(times, until - job.horizon))
        state.held = held.slice(ready) if ready < len(held) else None
        held = held.slice(0, ready)
    return _mark(Marker(job.marked), state, held, job.plan.time)


def _mark(marker: Marker, state: PartitionState, ready: pa.Table, time: str) -> pa.Table:
    """Mark events that leave the buffer, and keep those on which the marks of others depend."""
    marked = marker.mark(ready, state.past, state.held)
    if marker.past and len(ready):
        known = [] if state.past is None else [state.past]
        past = pa.concat_tables([*known, marker.narrow(ready)])
        times = read_times(Columns(past), time)
        first = int(np.searchsorted(times, times[-1] - marker.past, side="right"))
        # Slices would keep all events so far in memory.
        state.past = past.slice(first).combine_chunks()
    return marked


def waits(plan: TrendPlan) -> bool:
    """Check whether the events of the last time wait for others of the same time."""
    return plan.ties is tree.Ties.STRICT or plan.window.kind is WindowKind.TRAILING


def admit_events(
    batch: pa.Table,
    held: pa.Table | None,
    last: int | None,
    time: str,
    *,
    whole_times: bool,
    horizon: int = 0,
) -> tuple[pa.Table | None, pa.Table | None, int | None]:
    """Split off the events that can be processed from those that wait; return the last time.

    Events wait until the stream is ``horizon`` further. Those that wait are read in every step, so
    they wait longer if they are most of the events and come in large batches, as from files; the
    rows of a live query leave at once.

    Raises
    ------
    DataError
        E505 and E506 if the times cannot be read, E509 if the events are not in order.
    """
    whole = batch if held is None else pa.concat_tables([held, batch])
    times = read_times(Columns(whole), time)
    check_order(times, last, time, 0 if held is None else len(held))
    if not len(times):
        return None, held, last
    ready = len(times)
    if horizon:
        ready = int(np.searchsorted(times, times[-1] - horizon))
        if not ready or (len(batch) >= LARGE_ROWS and 2 * ready < len(times)):
            return None, whole, int(times[-1])
    elif whole_times:
        ready = int(np.searchsorted(times, times[-1], side="left"))
    rest = whole.slice(ready) if ready < len(times) else None
    return whole.slice(0, ready), rest, int(times[-1])


def advance(
    job: Job, state: PartitionState, until: int, keys: KeyTable | None = None
) -> tuple[PartitionState, list[list[Rows]]]:
    """Close the windows that end by a time, and return their rows; no earlier event comes.

    All events so far are earlier than ``until``. The new state may share its keys with others.
    """
    state = state.copy(keys)
    held = release(job, state, until)
    state.last = until
    until -= job.horizon
    nothing: list[list[Rows]] = [[] for _ in range(job.outputs)]
    kind = job.plan.window.kind
    if held is not None:
        return state, process(job, state, Columns(held), flush_until=until)
    if job.looks_back:
        if state.events is None:
            return state, nothing
        return state, _look_back(job, state, state.events.slice(0, 0), until)
    if kind is WindowKind.TRAILING and state.kept is not None:
        return state, _process_trailing(job, state, state.kept.take(slice(0, 0)), until)
    if kind in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return state, [run.flush(until) for run in state.runs]
    return state, nothing


def step_until(
    job: Job, state: PartitionState, batch: pa.Table, until: int
) -> tuple[PartitionState, list[list[Rows]]]:
    """Process a batch and close the windows that end by a time, as ``step`` and ``advance`` do.

    All events are earlier than ``until``, so that none of them waits for others of its time.
    """
    if job.marked is not None:
        state, first = step(job, state, batch)
        state, second = advance(job, state, until)
        return state, [before + after for before, after in zip(first, second, strict=True)]
    ready, held, _ = admit_events(batch, state.held, state.last, job.plan.time, whole_times=False)
    if ready is None:
        return advance(job, state, until)
    state = state.copy()
    state.held, state.last = held, until
    return state, process(job, state, Columns(ready), flush_until=until)


def finish(job: Job, state: PartitionState) -> tuple[PartitionState, list[list[Rows]]]:
    """Return the rows of all open windows; the stream has ended."""
    state = state.copy()
    return state, close(job, state)


def close(job: Job, state: PartitionState, rest: Columns | None = None) -> list[list[Rows]]:
    """Return the rows of all open windows as ``finish`` does, in place, after the last events."""
    rows: list[list[Rows]] = [[] for _ in range(job.outputs)]
    held = release(job, state, None) if rest is None else rest.batch
    if job.looks_back:
        last = held
        if last is None and state.events is not None:
            last = state.events.slice(0, 0)
        if last is not None:
            rows = _look_back(job, state, last, None)
        return rows
    if held is not None:
        rows = process(job, state, rest or Columns(held), flush_until=None)
    elif state.kept is not None and job.plan.window.kind in (WindowKind.COUNT, WindowKind.TRAILING):
        none = state.kept.take(slice(0, 0))
        if job.plan.window.kind is WindowKind.COUNT:
            rows = _process_counted(job, state, none, last=True)
        else:
            rows = _process_trailing(job, state, none, None)
    if job.plan.window.kind in (WindowKind.COUNT, WindowKind.TRAILING):
        return rows
    width = job.plan.window.within
    end = FOREVER if state.last is None else state.last + width + 1
    for found, run in zip(rows, state.runs, strict=True):
        found += run.flush(end if job.plan.window.kind is not WindowKind.NONE else FOREVER)
    return rows


def _look_back(
    job: Job, state: PartitionState, batch: pa.Table, until: int | None
) -> list[list[Rows]]:
    """Process events that look up earlier ones; ``until`` is None at the end."""
    if job.plan.skip is not None:
        return process_chosen(job, state, batch, until)
    return process_open_windows(job, state, batch, until)


def process(
    job: Job, state: PartitionState, columns: Columns, *, flush_until: int | None
) -> list[list[Rows]]:
    """Process admitted events in place, and close the windows that end by a time.

    If the time is None, the stream has ended.
    """
    if job.looks_back:
        return _look_back(job, state, columns.batch, flush_until)
    arrays = read_arrays(job, state.keys, columns)
    if job.plan.window.kind is WindowKind.COUNT:
        return _process_counted(job, state, arrays, last=flush_until is None)
    if job.plan.window.kind is WindowKind.TRAILING:
        return _process_trailing(job, state, arrays, flush_until)
    rows = []
    encoded: dict[int, Events] = {}
    for run in state.runs:
        if id(run.program) not in encoded:
            encoded[id(run.program)] = encode_events(job, run.program, arrays)
        events = encoded[id(run.program)]
        if isinstance(run, ApartRun):
            run.choose(events, len(state.keys))
        run.grow(len(state.keys))
        found = run.feed(events) if len(events.ts) else []
        if flush_until is not None and job.plan.window.kind is not WindowKind.NONE:
            found += run.flush(flush_until)
        rows.append(found)
    return rows


def _process_counted(
    job: Job, state: PartitionState, arrays: EventArrays, *, last: bool
) -> list[list[Rows]]:
    """Run the count-based windows that are full, or all of them at the end (§6.6)."""
    whole = sorted_by_key(
        arrays if state.kept is None else join(state.kept, arrays), len(state.keys)
    )
    state.base = np.append(state.base, np.zeros(len(state.keys) - len(state.base), np.int64))
    windows, begins = count_windows(whole.key, state.base, job.plan.window, last=last)
    copied = whole.take(windows.rows)._replace(key=windows.owner)
    rows = []
    for program in job.programs:
        events = encode_events(job, program, copied)
        rows += [run_count_windows(job, program, windows, events, m) for m in (0, *job.moduli)]
    # An event is kept if its number within its key is not below the next window's start.
    starts = np.flatnonzero(np.diff(whole.key, prepend=-1))
    lengths = np.diff(starts, append=len(whole.key))
    place = np.arange(len(whole.key)) - np.repeat(starts, lengths)
    state.kept = whole.take(np.flatnonzero(place >= (begins - state.base)[whole.key]))
    state.base = begins
    if set(job.plan.partition.attributes) == set(job.plan.partition.group_by):
        return rows
    for waiting, found in zip(state.waiting, rows, strict=True):
        waiting += found
    return state.waiting if last else [[] for _ in rows]


def _process_trailing(
    job: Job, state: PartitionState, arrays: EventArrays, until: int | None
) -> list[list[Rows]]:
    """Report the trailing window, for every time at which it changes (§6.3, §6.4)."""
    whole = sorted_by_key(
        arrays if state.kept is None else join(state.kept, arrays), len(state.keys)
    )
    width = job.plan.window.within
    fresh = state.reported
    end = FOREVER if until is None else until - 1
    partition = job.plan.partition
    alone = set(partition.group_by) == set(partition.attributes)
    # A group that is one partition needs no number.
    group_of = None if alone else groups_of(job, state.keys)[0]
    several = group_of is not None and len(distinct(group_of)) < len(group_of)
    pairs = len(job.programs) > 1
    moduli = (0, *job.moduli)
    sides = []
    for program in job.programs:
        events = encode_events(job, program, whole, sort=False)
        side = [
            trailing_changes(
                job,
                program,
                events,
                LONG_AGO if several or pairs else fresh,
                end,
                expiries=several or pairs or job.plan.window.emit_on_expiry,
                modulus=modulus,
            )
            for modulus in moduli
        ]
        sides.append(side)
    if pairs:
        # Pairs replace the matches of the first program; nothing is left to combine.
        found = [changes_of_sets(s, modulus=m) for *s, m in zip(*sides, moduli, strict=True)]
    else:
        (found,) = sides
    # Residues cannot show whether a match ended; the default numbers can.
    found = [changes._replace(kind=found[0].kind) for changes in found]
    rows = [
        report_changes(job, changes, group_of, fresh, modulus)
        for changes, modulus in zip(found, moduli, strict=True)
    ]
    rows += [[] for _ in state.runs[len(rows) :]]
    if until is not None:
        state.kept = whole.take(np.flatnonzero(whole.ts >= until - width))
        state.reported = until
    return rows


def check_order(times: NDArray[np.int64], last: int | None, name: str, held: int) -> None:
    """Report the first event that comes before its predecessor."""
    back, _ = scan_times(times)
    if last is not None and len(times) > held and times[held] < last:
        row = 0
    elif back >= 0:
        row = int(back) - held
    else:
        return
    message = (
        f"the events are not in the order of `{name}`: row {row} is earlier than the row before it"
    )
    helps = ("sort the events by time, or pass them as one table, which Cepheid sorts itself",)
    raise DataError([Diagnostic("E509", message, helps=helps)])


# ---------------------------------------------------------------------------------------
# Columns to arrays


def encode_events(job: Job, program: Program, arrays: EventArrays, *, sort: bool = True) -> Events:
    """Encode every event as a code and every time as a letter; make ties of a key adjacent."""
    grouped = False
    tied = np.zeros(0, np.bool_)
    if job.plan.ties is tree.Ties.STRICT and len(arrays.ts) > 1:
        back, ties = scan_times(arrays.ts)
        if ties or back >= 0:
            if sort:
                arrays = arrays.take(np.lexsort((arrays.key, arrays.ts)))
            tied = (arrays.ts[1:] == arrays.ts[:-1]) & (arrays.key[1:] == arrays.key[:-1])
            grouped = bool(tied.any())
    if grouped and program.guarded:
        codes = _codes_of_groups(job, program, arrays, tied)
    else:
        codes = _codes_of_events(job, program, arrays.bits)
    return Events(arrays.ts, arrays.key, codes, arrays.weights, arrays.values, grouped)


def _codes_of_events(job: Job, program: Program, bits: NDArray[Any]) -> NDArray[Any]:
    """Look up the code of every event, through a table where the classes fit into bytes."""
    if bits.dtype == np.uint8:
        table = job.byte_codes(program)
        codes = np.empty(len(bits), np.uint8)
        look_up_codes(bits, table, codes)
        if len(codes) == 0 or codes.max() < UNKNOWN_CODE:
            return codes
    seen, inverse = _distinct(bits)
    numbers = program.number_codes([(job.class_of(int(b)),) for b in seen])
    codes_of_seen = np.array([code for (code,) in numbers] or [0], np.int32)
    return np.asarray(codes_of_seen[inverse])


def _distinct(bits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Find the distinct values, and the index of every event's value among them."""
    if len(bits) and bits.min() >= 0 and bits.max() < 1 << 16:
        seen = np.flatnonzero(np.bincount(bits))
        table = np.zeros(int(seen[-1]) + 1, np.int32)
        table[seen] = np.arange(len(seen))
        return seen, table[bits]
    seen, inverse = np.unique(bits, return_inverse=True)
    return seen, inverse


def _codes_of_groups(
    job: Job, program: Program, arrays: EventArrays, tied: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Encode events of one key and time together: with negation, each depends on all."""
    starts = np.flatnonzero(np.concatenate([[True], ~tied]))
    ends = np.append(starts[1:], len(arrays.ts))
    codes = np.zeros(len(arrays.ts), np.int32)
    known: dict[tuple[int, ...], list[int]] = {}
    # Most groups have one event; they are numbered all at once.
    single = ends - starts == 1
    alone = starts[single]
    seen, inverse = _distinct(arrays.bits[alone])
    numbers = program.number_codes([(job.class_of(int(bits)),) for bits in seen])
    codes[alone] = np.array([code for (code,) in numbers] or [0], np.int32)[inverse]
    for first, last in zip(starts[~single], ends[~single], strict=True):
        bits = tuple(int(b) for b in arrays.bits[first:last])
        if bits not in known:
            (known[bits],) = program.number_codes([tuple(job.class_of(b) for b in bits)])
        codes[first:last] = known[bits]
    return codes
