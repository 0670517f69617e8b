"""Queries that look up earlier events: keep the events of open windows, evaluate closed windows.

The state is the events that some open window may need, in order of arrival, except those that fit
no variable. A window is evaluated when it can get no more events; so the segments, and with them
the results, do not depend on how the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, EventArrays, KeyTable, read_times, type_bits
from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels import trailing
from cepheid.kernels.distinct import distinct
from cepheid.kernels.ring import MERSENNE
from cepheid.kinds.trend.listing.match_aggregates import aggregate_matches, fingerprint_matches
from cepheid.kinds.trend.look_back.evaluate import Answer, answer_segments, fingerprint_segments
from cepheid.kinds.trend.look_back.overlapping import run_overlapping
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.look_back.relations import read_relations
from cepheid.kinds.trend.planning.needs import drops_events
from cepheid.kinds.trend.program.conjunction import Whole, fingerprints
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.reading import read_arrays
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.windows.event_windows import (
    changes_of_sets,
    count_windows,
    report_changes,
)
from cepheid.kinds.trend.windows.start_counters import Changes
from cepheid.language import tree
from cepheid.patterns.segments import (
    Segments,
    gather_segments,
    sliding_segments,
    trailing_segments,
    tumbling_segments,
)
from cepheid.plans.plan import Evaluator, WindowKind

if TYPE_CHECKING:
    from cepheid.kinds.trend.windows.step import PartitionState

CHUNKS_MAX = 64
"""Chunks of the kept events, one per step, before they are concatenated."""


def process_open_windows(
    job: Job, state: PartitionState, batch: pa.Table, until: int | None
) -> list[list[Rows]]:
    """Add events and evaluate the windows that end by ``until``, or all at the end (None)."""
    table = keep_events(job, state, batch)
    nothing: list[list[Rows]] = [[] for _ in range(job.outputs)]
    kind = job.plan.window.kind
    if kind is WindowKind.COUNT:
        # Also without events: rows of windows that closed earlier may wait for the end.
        return _answer_counted(job, state, table, last=until is None)
    if not len(table):
        return nothing
    if kind is WindowKind.TRAILING:
        return _answer_trailing(job, state, table, until)
    found = close_events(job, state, table, until)
    return nothing if found is None else answer_closed(job, *found)


def answer_closed(
    job: Job,
    question: Question,
    first: int,
    last: int,
    segments: Iterable[Segments] | None = None,
) -> list[list[Rows]]:
    """Evaluate closed windows of time; ``segments`` are theirs, if they are known."""
    rows: list[list[Rows]] = [[] for _ in range(job.outputs)]
    fast = _overlapping(job, question, first, last)
    if fast is not None:
        rows = fast
    else:
        for some in segments or segments_of(job, question.arrays, first, last):
            _answer(job, question, some, rows)
    if job.plan.window.kind is WindowKind.SLIDING:
        window = job.plan.window
        # Sliding windows are named by the pane in which they end, other windows by their starts.
        ends = [r._replace(window=(r.window * window.slide + window.within) // window.pane)
                for found in rows for r in found]  # fmt: skip
        renamed = iter(ends)
        rows = [[next(renamed) for _ in found] for found in rows]
    return rows


def close_windows(
    job: Job, state: PartitionState, batch: pa.Table, until: int | None
) -> tuple[Question, Iterator[Segments]] | None:
    """Add events and find the segments of windows of time that end by ``until``, if there are any.

    All segments of a window come together. The state is updated at once.
    """
    table = keep_events(job, state, batch)
    found = close_events(job, state, table, until) if len(table) else None
    if found is None:
        return None
    question, first, last = found
    return question, segments_of(job, question.arrays, first, last)


def keep_events(job: Job, state: PartitionState, batch: pa.Table) -> pa.Table:
    """Add the events that can matter to those that are kept."""
    table = needed(job, state, batch).batch
    if state.events is not None:
        table = pa.concat_tables([state.events, table])
    if table.num_columns and table.column(0).num_chunks > CHUNKS_MAX:
        table = table.combine_chunks()
    state.events = table
    return table


def close_events(
    job: Job, state: PartitionState, table: pa.Table, until: int | None
) -> tuple[Question, int, int] | None:
    """Take the events of windows that are closed out of the state, with the windows' numbers."""
    if job.plan.window.kind is WindowKind.NONE and until is not None:
        return None
    times = read_times(Columns(table), job.plan.time)
    closed, kept, first, last = closing(job, state, times, until)
    if not closed:
        return None
    question = ask(job, state, table.slice(0, closed))
    state.events = table.slice(kept)
    if job.plan.window.kind is WindowKind.SLIDING:
        state.reported = last
    return question, first, last


def _overlapping(job: Job, question: Question, first: int, last: int) -> list[list[Rows]] | None:
    """Evaluate sliding windows in one pass, where possible."""
    if job.plan.window.kind is not WindowKind.SLIDING or job.moduli:
        return None
    if job.plan.choice.evaluator is Evaluator.ENUMERATE:
        return None
    found: list[list[Rows]] = []
    for template in job.templates:
        rows = run_overlapping(question, template, job.plan.window, first, last)
        if rows is None:
            return None
        found.append(rows)
    return found


def ask(job: Job, state: PartitionState, table: pa.Table | Columns) -> Question:
    """Read events and the operands of their predicates."""
    columns = table if isinstance(table, Columns) else Columns(table)
    arrays = read_arrays(job, state.keys, columns)
    arrays = arrays._replace(bits=arrays.bits.astype(np.int64))
    weight_of, value_of = job.columns_for(job.variables)
    partial = job.plan.partition.partial
    listed = tuple(frozenset(entry.variables) for entry in partial)
    codes = tuple(KeyTable([entry.attribute]).number(columns) for entry in partial)
    apart: tuple[NDArray[np.bool_], ...] = ()
    if job.plan.semantics is tree.Semantics.CONTIGUOUS and partial:
        types = [job.types[name] for name in job.variables]
        typed = type_bits(columns, job.plan.type, types, len(columns.batch)).astype(np.int64)
        masks = [sum(1 << n for n, v in enumerate(job.variables) if v in names) for names in listed]
        apart = tuple(typed & mask != 0 for mask in masks)
    return Question(
        arrays, columns, read_relations(job.plan.edges, columns), job.variables,
        job.plan.semantics, job.plan.choice.evaluator, job.plan.ties is tree.Ties.STRICT,
        job.plan.window.kind is WindowKind.TRAILING,
                weight_of, value_of, listed, codes, apart, job.plan.links,
    )  # fmt: skip


def needed(job: Job, state: PartitionState, batch: pa.Table) -> Columns:
    """Select the columns and rows of a batch that can matter."""
    if job.plan.columns is not None:
        batch = batch.select([name for name in batch.column_names if job.reads(name)])
    columns = Columns(batch)
    fitting = np.ones(len(batch), np.bool_)
    if drops_events(job.plan):
        fitting = job.bits_of(columns) != 0
    if job.plan.skip is None and not fitting.all():
        # Before their keys are looked up: most events fit no variable of a rare pattern. With SKIP
        # the order of all keys decides which mistake is reported first.
        columns, fitting = Columns(batch.filter(pa.array(fitting))), fitting[fitting]
    kept = (columns.numbers(state.keys) >= 0) & fitting
    return columns if kept.all() else Columns(columns.batch.filter(pa.array(kept)))


def closing(
    job: Job, state: PartitionState, times: NDArray[np.int64], until: int | None
) -> tuple[int, int, int, int]:
    """Find the number of events of closed windows, the first event to keep, and the windows."""
    window = job.plan.window
    if window.kind is WindowKind.NONE:
        return len(times), len(times), 0, 1
    if window.kind is WindowKind.TUMBLING:
        end = FOREVER if until is None else until // window.within * window.within
        closed = int(np.searchsorted(times, end))
        return closed, closed, 0, 1
    first = max(state.reported, int(times[0] - window.within) // window.slide + 1)
    last = int(times[-1]) // window.slide + 1
    if until is not None:
        last = min(last, (until - window.within) // window.slide + 1)
    if last <= first:
        return 0, 0, first, last
    closed = int(np.searchsorted(times, (last - 1) * window.slide + window.within))
    return closed, int(np.searchsorted(times, last * window.slide)), first, last


def segments_of(job: Job, arrays: EventArrays, first: int, last: int) -> Iterator[Segments]:
    """Build the segments of closed windows of time."""
    window = job.plan.window
    if window.kind is WindowKind.SLIDING:
        place = (window.within, window.slide, first, last)
        yield from sliding_segments(arrays.key, arrays.ts, arrays.bits, *place)
    else:
        width = window.within if window.kind is WindowKind.TUMBLING else 0
        yield tumbling_segments(arrays.key, arrays.ts, arrays.bits, width)


def _answers(job: Job, question: Question, number: int, segments: Segments) -> list[Answer]:
    """Compute aggregates; conditions on whole matches need the matches themselves (§4.5)."""
    template = job.templates[number]
    if job.plan.choice.evaluator is Evaluator.ENUMERATE:
        return aggregate_matches(question, template, segments, job.moduli, job.judges[number])
    return answer_segments(question, template, segments, job.moduli)


def _answer(job: Job, question: Question, segments: Segments, rows: list[list[Rows]]) -> None:
    """Append the rows of segments to those of every program and number format."""
    kinds = 1 + len(job.moduli)
    for number in range(len(job.templates)):
        answers = _answers(job, question, number, segments)
        some = np.flatnonzero(answers[0].numbers[:, 0].real > 0)
        for place, answer in enumerate(answers):
            rows[number * kinds + place].append(
                Rows(
                    segments.key[some],
                    segments.window[some],
                    answer.numbers[some],
                    answer.values[some],
                )
            )


def _answer_counted(
    job: Job, state: PartitionState, table: pa.Table, *, last: bool
) -> list[list[Rows]]:
    """Evaluate the count-based windows that are full, or all of them at the end (§6.6)."""
    question = ask(job, state, table)
    key = question.arrays.key
    order = np.argsort(key, kind="stable")
    state.base = np.append(state.base, np.zeros(len(state.keys) - len(state.base), np.int64))
    windows, begins = count_windows(key[order], state.base, job.plan.window, last=last)
    rows: list[list[Rows]] = [[] for _ in range(job.outputs)]
    if len(windows.key):
        numbers = np.arange(len(windows.key))
        segments = gather_segments(
            windows.owner, np.zeros_like(windows.owner), order[windows.rows], question.arrays.bits
        )
        segments = segments._replace(key=windows.key[numbers], window=windows.start[numbers])
        _answer(job, question, segments, rows)
    # An event is kept if its number within its key is not below the next window's start.
    sorted_key = key[order]
    starts = np.flatnonzero(np.diff(sorted_key, prepend=-1))
    place = np.arange(len(key)) - np.repeat(starts, np.diff(starts, append=len(key)))
    kept = np.sort(order[place >= (begins - state.base)[sorted_key]])
    state.events = table.take(kept)
    state.base = begins
    if set(job.plan.partition.attributes) == set(job.plan.partition.group_by):
        return rows
    for waiting, found in zip(state.waiting, rows, strict=True):
        waiting += found
    return state.waiting if last else [[] for _ in rows]


# ---------------------------------------------------------------------------------------
# The trailing window


def _answer_trailing(
    job: Job, state: PartitionState, table: pa.Table, until: int | None
) -> list[list[Rows]]:
    """Report the trailing window, for every time at which it changes (§6.3, §6.4).

    Every such window is evaluated separately: O(events in a window) segments of that size.
    """
    columns = Columns(table)
    keys = state.keys.number(columns)
    question = ask(job, state, table.take(np.argsort(keys, kind="stable")))
    fresh = state.reported
    end = FOREVER if until is None else until - 1
    group_of, _ = groups_of(job, state.keys)
    pairs = len(job.templates) > 1
    several = len(distinct(group_of)) < len(group_of)
    expiries = several or pairs or job.plan.window.emit_on_expiry
    begin = LONG_AGO if several or pairs else fresh
    sides = [
        _changes(job, question, number, begin, end, expiries=expiries)
        for number in range(len(job.templates))
    ]
    moduli = (0, *job.moduli)
    if pairs:
        # Pairs replace the matches of the first program; nothing is left to combine.
        found = [changes_of_sets(s, modulus=m) for *s, m in zip(*sides, moduli, strict=True)]
    else:
        (found,) = sides
    if job.plan.window.emit_on_expiry:
        found[0].kind[_leaving(job, question, found[0])] |= trailing.EXPIRED
    # Residues cannot show whether a match ended; the default numbers can.
    found = [changes._replace(kind=found[0].kind) for changes in found]
    rows = [
        report_changes(job, changes, group_of, fresh, modulus)
        for changes, modulus in zip(found, moduli, strict=True)
    ]
    rows += [[] for _ in range(job.outputs - len(rows))]
    if until is not None:
        times = read_times(columns, job.plan.time)
        state.events = table.slice(int(np.searchsorted(times, until - job.plan.window.within)))
        state.reported = until
    return rows


def _changes(
    job: Job, question: Question, number: int, begin: int, end: int, *, expiries: bool
) -> list[Changes]:
    """Compute the aggregates of partitions at every time at which events come or leave."""
    arrays, width = question.arrays, job.plan.window.within
    times = np.stack([arrays.key, arrays.ts])
    if expiries:
        times = np.concatenate([times, times + np.array([[0], [width]])], axis=1)
    times = np.unique(times, axis=1)
    key, time = times[:, (times[1] >= begin) & (times[1] <= end)]
    changes = [no_change(job, key, time, modulus) for modulus in (0, *job.moduli)]
    now = (arrays.key, arrays.ts, arrays.bits, key)
    for mine, segments in trailing_segments(*now, time - width, time):
        answers = _answers(job, question, number, segments)
        ended = answers[0].ended.real > 0
        for change, answer in zip(changes, answers, strict=True):
            fill_change(change, mine, answer, ended)
    return changes


def _leaving(job: Job, question: Question, changes: Changes) -> NDArray[np.bool_]:
    """Mark the times at which events that leave change the set of matches, or of pairs (§6.4)."""
    arrays, width = question.arrays, job.plan.window.within
    now = (arrays.key, arrays.ts, arrays.bits, changes.key)
    prints = []
    for low in (changes.time - width - 1, changes.time - width):
        sides = np.zeros((job.patterns, len(job.templates), len(changes.time)), np.uint64)
        for mine, segments in trailing_segments(*now, low, changes.time - 1):
            for power, n in product(range(job.patterns), range(len(job.templates))):
                found = _fingerprints(job, question, n, segments, power + 1)
                sides[power, n, mine] = found
        columns = [[Whole(column, MERSENNE) for column in side] for side in sides.tolist()]
        prints.append(np.array(fingerprints(columns).values, np.uint64))
    return np.asarray(prints[0] != prints[1])


def _fingerprints(
    job: Job, question: Question, number: int, segments: Segments, power: int
) -> NDArray[np.uint64]:
    template = job.templates[number]
    if job.plan.choice.evaluator is Evaluator.ENUMERATE:
        return fingerprint_matches(question, template, segments, job.judges[number], power)
    return fingerprint_segments(question, template, segments, power=power)


def no_change(
    job: Job, key: NDArray[np.int64], time: NDArray[np.int64], modulus: int = 0
) -> Changes:
    """Build the changes of windows without matches."""
    dtype = np.uint64 if modulus else np.complex128
    count = len(key)
    return Changes(
        key,
        time,
        np.zeros(count, np.int8),
        np.zeros(count, dtype),
        np.zeros((count, len(job.parts)), dtype),
        np.full((count, len(job.extremes)), np.iinfo(np.int64).max, np.int64),
    )


def fill_change(
    change: Changes, mine: NDArray[np.int64], answer: Answer, ended: NDArray[np.bool_]
) -> None:
    """Enter the answer of some windows; ``ended`` tells where matches end with the last time."""
    change.kind[mine] |= np.where(ended, trailing.ENDED, 0).astype(np.int8)
    change.ended[mine] = np.where(ended, answer.ended, 0)
    change.numbers[mine] = answer.numbers
    change.values[mine] = answer.values
