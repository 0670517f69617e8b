"""Group events into segments in which matches are searched, and mark the rows that may end them.

Usually a window only bounds the first event of a match, given its last one: the earliest window
that holds the last event also holds the match, or none does. So a partition is one segment, with or
without windows, and a match is emitted as soon as its last event is there (``find_at_once``).

Negation at the start or end of a window makes a match depend on the window: then every window is a
separate segment, and is listed when it is closed (``find_closed``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kinds.trend.listing.enumerate import Places
from cepheid.kinds.trend.listing.walk import Walker, is_walked
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.planning.needs import bounds_span, judged_by_window
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.windows.event_windows import count_windows
from cepheid.kinds.trend.windows.open_windows import ask, closing, needed
from cepheid.patterns.segments import (
    EXPANDED_ROWS,
    Segments,
    distinct_segments,
    distinct_windows,
    gather_segments,
    search_within,
    take,
    trailing_segments,
    tumbling_segments,
    whole_segment,
)
from cepheid.plans.plan import WindowKind, WindowPlan

if TYPE_CHECKING:
    from cepheid.kinds.trend.windows.step import PartitionState


CHUNKS_MAX = 16
"""Chunks beyond this number are concatenated, because lookups in many chunks are slow."""


class Stretch(NamedTuple):
    """Segments, and for their rows: where windows begin, and which rows end listed matches.

    ``start`` maps the last event of a match to the start of the window that reports it. With
    ``earlier`` windows, a match is dropped if one of that many earlier windows has it.

    For AFTER MATCH SKIP: the time or number of every event, which events may begin no match, and
    which of them stay in the state.

    A ``walker`` lists the matches without segments by key; then all events are one segment.
    """

    question: Question
    segments: Segments
    bound: Places
    wanted: Places
    turn: Places
    start: Places
    earlier: int = 0
    stamp: NDArray[np.int64] = np.zeros(0, np.int64)  # Nobody writes to it.
    barred: NDArray[np.bool_] = np.zeros(0, np.bool_)  # Nobody writes to it.
    kept: Any = slice(None)
    walker: Walker | None = None


def find_stretches(
    job: Job, state: PartitionState, batch: pa.Table, until: int | None, *, by_key: bool = False
) -> Iterable[Stretch]:
    """Add events and find the segments to search for matches; ``until`` is None at the end.

    The state is updated at once; the returned stretches may be consumed later. With ``by_key``,
    no segment has events of two keys, because no walker lists its matches.
    """
    fresh = 0 if state.events is None else len(state.events)
    columns = needed(job, state, batch)
    table = columns.batch
    if state.events is not None and fresh:
        table = pa.concat_tables([state.events, table])
    if len(table) and table.column(0).num_chunks > CHUNKS_MAX:
        table = table.combine_chunks()
    state.events = table
    if job.plan.skip is not None:
        state.barred = np.append(state.barred, np.zeros(len(table) - fresh, np.bool_))
    if not len(table):
        return ()
    if judged_by_window(job.plan):
        return _find_closed(job, state, table, until)
    columns = columns if table is columns.batch else Columns(table)
    return _find_at_once(job, state, columns, fresh, until, by_key=by_key)


# ---------------------------------------------------------------------------------------
# Matches that are emitted with their last event


def _find_at_once(
    job: Job, state: PartitionState, columns: Columns, fresh: int, until: int | None, *,
    by_key: bool,
) -> list[Stretch]:  # fmt: skip
    window = job.plan.window
    question = ask(job, state, columns)
    key, ts = question.arrays.key, question.arrays.ts
    stamp = ts
    if window.kind is WindowKind.COUNT:
        _grow_base(state)
        stamp = state.base[0][key] + _numbers_in_key(key)
    low = _least_stamp(job, stamp)
    barred, kept = state.barred, slice(None)
    if until is not None and (window.kind is not WindowKind.NONE or _is_decided(job)):
        kept = _forget_events(job, state, columns.batch, key, stamp, until)
        state.barred = barred[kept] if job.plan.skip is not None else barred
    if not (question.arrays.bits[fresh:] & _ending_bits(job)).any():
        return []
    start = low - 1 if window.kind is WindowKind.TRAILING else low
    walker = None if by_key else _walker(job, question, stamp, low)

    def bound(segments: Segments) -> NDArray[np.int64]:
        begin = _begins(segments)
        if window.kind is WindowKind.NONE:
            return begin
        rows = segments.rows
        return search_within(stamp[rows], begin, np.arange(1, len(rows) + 1), low[rows] - 1)

    bits = question.arrays.bits
    segments = tumbling_segments(key, ts, bits, 0) if walker is None else whole_segment(bits)
    return [
        Stretch(
            question, segments, bound,
            lambda segments: segments.rows >= fresh,
            lambda segments: np.zeros(len(segments.key), np.int64),
            lambda segments: take(start, segments.rows), stamp=stamp, barred=barred, kept=kept,
            walker=walker,
        )
    ]  # fmt: skip


def _walker(
    job: Job, question: Question, stamp: NDArray[np.int64], low: NDArray[np.int64]
) -> Walker | None:
    """Build a walker if it can list the matches of these events."""
    template = job.templates[0]
    if (
        job.patterns > 1
        or job.plan.skip is not None
        or job.plan.globals
        or not is_walked(question, template)
    ):
        return None
    windowed = job.plan.window.kind is not WindowKind.NONE
    if not windowed:
        low = np.full(len(low), LONG_AGO)
    walker = Walker(question, template, stamp, low, windowed=windowed)
    return walker if walker.fits else None


def _is_decided(job: Job) -> bool:
    """Check whether an event alone decides about its match, so that none has to be kept."""
    return bounds_span(job.templates)


def _ending_bits(job: Job) -> int:
    """Encode the variables that can end a match as bits."""
    states = [t.states[final.state] for t in job.templates for final in t.finals]
    return sum(1 << job.variables.index(name) for name in {state.variable for state in states})


def _forget_events(
    job: Job, state: PartitionState, table: pa.Table, key: NDArray[np.int64],
    stamp: NDArray[np.int64], until: int,
) -> Any:  # fmt: skip
    """Keep the events of windows that later events can lie in; return which these are."""
    if job.plan.window.kind is WindowKind.NONE:
        state.events = table.slice(len(table))
        return slice(len(table), None)
    if job.plan.window.kind is WindowKind.COUNT:
        counts = state.base[0] + np.bincount(key, minlength=len(state.keys))
        begins = _least_stamp(job, counts)
        kept = stamp >= begins[key]
        state.events = table.filter(pa.array(kept))
        state.base = np.stack([begins, begins])
        return kept
    least = _least_stamp(job, np.array([until]))[0]
    first = int(np.searchsorted(stamp, least))
    state.events = table.slice(first)
    return slice(first, None)


def _least_stamp(job: Job, stamp: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the start of the first window that holds each time, or number."""
    window = job.plan.window
    match window.kind:
        case WindowKind.NONE:
            return np.zeros(len(stamp), np.int64)
        case WindowKind.TUMBLING:
            return stamp // window.within * window.within
        case WindowKind.TRAILING:
            return stamp - window.within + 1
        case WindowKind.SLIDING:
            return ((stamp - window.within) // window.slide + 1) * window.slide
    return np.maximum((stamp - window.within) // window.slide + 1, 0) * window.slide


def _grow_base(state: PartitionState) -> None:
    """Allocate space for new keys: the number of the first kept event, and of the next window."""
    base = state.base if state.base.ndim == 2 else np.zeros((2, 0), np.int64)
    more = len(state.keys) - base.shape[1]
    state.base = np.concatenate([base, np.zeros((2, more), np.int64)], axis=1)


def _numbers_in_key(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count off the events of each key, from 0 on."""
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    numbers = np.empty(len(key), np.int64)
    lengths = np.diff(starts, append=len(key))
    numbers[order] = np.arange(len(key)) - np.repeat(starts, lengths)
    return numbers


# ---------------------------------------------------------------------------------------
# Matches that depend on their window


def _find_closed(
    job: Job, state: PartitionState, table: pa.Table, until: int | None
) -> Iterable[Stretch]:
    kind = job.plan.window.kind
    if kind is WindowKind.TRAILING:
        return _closed_trailing(job, state, table, until)
    if kind is WindowKind.COUNT:
        return _closed_counted(job, state, table, last=until is None)
    if kind is WindowKind.NONE and until is not None:
        return ()
    times = read_times(Columns(table), job.plan.time)
    closed, kept, first, last = closing(job, state, times, until)
    if not closed:
        return ()
    question = ask(job, state, table.slice(0, closed))
    window, arrays = job.plan.window, question.arrays
    if kind is WindowKind.SLIDING:
        # Windows that were listed already are searched again for the matches they had.
        before = (last - window.overlap + 1) * window.slide
        state.events = table.slice(int(np.searchsorted(times, before)))
        state.reported = last
        return _closed_sliding(question, window, first, last)
    state.events = table.slice(kept)
    width = window.within if kind is WindowKind.TUMBLING else 0
    segments = tumbling_segments(arrays.key, arrays.ts, arrays.bits, width)
    return [
        Stretch(
            question, segments, _begins,
            lambda segments: np.ones(len(segments.rows), np.bool_),
            lambda segments: segments.window,
            lambda segments: _spread(segments.window, segments),
        )
    ]  # fmt: skip


def _begins(segments: Segments) -> NDArray[np.int64]:
    return _spread(segments.ptr[:-1], segments)


def _spread(values: NDArray[Any], segments: Segments) -> NDArray[Any]:
    """Repeat the value of each segment for its rows."""
    return np.repeat(values, np.diff(segments.ptr))


def _closed_sliding(
    question: Question, window: WindowPlan, first: int, last: int
) -> Iterator[Stretch]:
    """Build the windows [first, last), a share of them at a time, with the windows before each.

    A window that holds the same events as the previous one has no new match.
    """
    before = window.overlap - 1
    arrays = question.arrays
    found = distinct_windows(arrays.ts, window.within, window.slide)
    found = found.take((found.number + found.repeats > first - before) & (found.number < last))
    ends = np.cumsum(found.end - found.begin)
    at = int(np.searchsorted(found.number, first))
    while at < len(ends):
        rows = ends[at - 1] if at else 0
        upto = max(int(np.searchsorted(ends, rows + EXPANDED_ROWS, side="right")), at + 1)
        least = np.searchsorted(found.number, found.number[at] - before, side="right") - 1
        share = found.take(slice(max(int(least), 0), upto))
        segments = distinct_segments(arrays.key, arrays.bits, share)
        yield _sliding_stretch(question, segments, window, int(found.number[at]))
        at = upto


def _sliding_stretch(
    question: Question, segments: Segments, window: WindowPlan, first: int
) -> Stretch:
    """Build windows, of which those from ``first`` on are listed."""
    return Stretch(
        question,
        segments,
        _begins,
        lambda segments: _spread(segments.window >= first, segments),
        lambda segments: segments.window,
        lambda segments: _spread(segments.window * window.slide, segments),
        window.overlap - 1,
    )


def _closed_counted(
    job: Job, state: PartitionState, table: pa.Table, *, last: bool
) -> list[Stretch]:
    window = job.plan.window
    question = ask(job, state, table)
    key = question.arrays.key
    _grow_base(state)
    base, reported = state.base[0], state.base[1]
    order = np.argsort(key, kind="stable")
    windows, begins = count_windows(key[order], base, window, last=last)
    following = np.maximum(begins, reported)
    kept = np.maximum(following - (window.overlap - 1) * window.slide, base)
    state.events = table.filter(pa.array(base[key] + _numbers_in_key(key) >= kept[key]))
    state.base = np.stack([kept, following])
    if not len(windows.key):
        return []
    segments = gather_segments(
        windows.owner, np.zeros_like(windows.owner), order[windows.rows], question.arrays.bits
    )
    segments = segments._replace(key=windows.key, window=windows.start)

    def turn(segments: Segments) -> NDArray[np.int64]:
        # Full windows are closed by their last events, the others by the end of the stream.
        full = np.diff(segments.ptr) == window.within
        return segments.rows[segments.ptr[1:] - 1] + np.where(full, 0, len(key))

    return [
        Stretch(
            question, segments, _begins,
            lambda segments: _spread(segments.window >= reported[segments.key], segments),
            turn,
            lambda segments: _spread(segments.window, segments),
            window.overlap - 1,
        )
    ]  # fmt: skip


def _closed_trailing(
    job: Job, state: PartitionState, table: pa.Table, until: int | None
) -> Iterator[Stretch]:
    width = job.plan.window.within
    keys = state.keys.number(Columns(table))
    question = ask(job, state, table.take(np.argsort(keys, kind="stable")))
    fresh, end = state.reported, FOREVER if until is None else until - 1
    if until is not None:
        times = read_times(Columns(table), job.plan.time)
        state.events = table.slice(int(np.searchsorted(times, until - width)))
        state.reported = until
    arrays = question.arrays
    time, key = np.unique(np.stack([arrays.ts, arrays.key]), axis=1)
    asked = (time >= fresh) & (time <= end)
    time, key = time[asked], key[asked]
    parts = trailing_segments(arrays.key, arrays.ts, arrays.bits, key, time - width, time)
    return (
        Stretch(
            question, segments, _begins,
            lambda segments: arrays.ts[segments.rows] == _spread(segments.window, segments),
            lambda segments: segments.base,
            lambda segments: _spread(segments.window - width, segments),
        )
        for _, segments in parts
    )  # fmt: skip
