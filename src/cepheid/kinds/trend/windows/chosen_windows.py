"""Windows over chosen matches: AFTER MATCH SKIP with aggregates (§14.4).

Matches are chosen when their last events are there, as where they are listed. What stays of each is
its aggregates and the windows that hold it, until these windows close; matches that lie in the same
windows are added up at once. So the state is a row for each range of windows, not for each match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE
from cepheid.events.temporal import FOREVER
from cepheid.kernels import trailing
from cepheid.kernels.compose import add_rows
from cepheid.kernels.window_sums import sum_windows
from cepheid.kinds.trend.listing.choose import Chooser
from cepheid.kinds.trend.listing.enumerate import Lister
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.listing.match_aggregates import numbers_of_matches
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.results import groups_of
from cepheid.kinds.trend.windows.event_windows import report_changes
from cepheid.kinds.trend.windows.match_windows import Stretch, find_stretches
from cepheid.kinds.trend.windows.start_counters import Changes
from cepheid.language import tree
from cepheid.patterns.segments import EXPANDED_ROWS
from cepheid.plans.plan import WindowKind

if TYPE_CHECKING:
    from cepheid.kinds.trend.windows.step import PartitionState

Numbers = NDArray[np.int64]


class ChosenMatches(NamedTuple):
    """Aggregates of chosen matches that open windows hold.

    ``low`` and ``high`` are the first window that is not reported yet and the last one; without
    SLIDE they are the times of the first and the last event. ``numbers`` has an array for the
    default numbers and one for each modulus.
    """

    key: Numbers
    low: Numbers
    high: Numbers
    values: Numbers
    numbers: tuple[NDArray[Any], ...]

    @staticmethod
    def nothing(job: Job) -> ChosenMatches:
        """Create the state before the first match."""
        none = np.zeros(0, np.int64)
        numbers = tuple(
            np.zeros((0, len(job.parts)), np.uint64 if modulus else np.complex128)
            for modulus in (0, *job.moduli)
        )
        return ChosenMatches(none, none, none, np.zeros((0, len(job.extremes)), np.int64), numbers)

    def take(self, kept: Any) -> ChosenMatches:
        """Select some of the rows."""
        return ChosenMatches(
            self.key[kept], self.low[kept], self.high[kept], self.values[kept],
            tuple(numbers[kept] for numbers in self.numbers),
        )  # fmt: skip

    def join(self, other: ChosenMatches) -> ChosenMatches:
        """Concatenate the rows of both."""
        both = zip(self.numbers, other.numbers, strict=True)
        return ChosenMatches(
            np.concatenate([self.key, other.key]), np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]), np.concatenate([self.values, other.values]),
            tuple(np.concatenate(pair) for pair in both),
        )  # fmt: skip


def choose(job: Job, state: PartitionState, stretch: Stretch, lister: Lister) -> Iterator[Found]:
    """Choose the matches of a stretch; after the last one, the state knows what is dropped."""
    assert job.plan.skip is not None, "only AFTER MATCH SKIP chooses"
    chooser = Chooser(job.plan.skip, lister, stretch.barred)
    yield from chooser.batches()
    barred = chooser.barred[stretch.kept]
    counted = job.plan.window.kind is WindowKind.COUNT
    if state.events is not None and job.plan.skip.mode is not tree.SkipMode.TO_NEXT and not counted:
        # No later match begins before this point, so none has an event before it.
        state.events = state.events.filter(pa.array(~barred))
        barred = np.zeros(len(state.events), np.bool_)
    state.barred = barred


def process_chosen(
    job: Job, state: PartitionState, batch: pa.Table, until: int | None
) -> list[list[Rows]]:
    """Add events, choose matches, and report the windows that end by ``until``; None is the end."""
    (template,) = job.templates
    state.chosen = state.chosen or ChosenMatches.nothing(job)
    for stretch in find_stretches(job, state, batch, until):
        lister = Lister(
            stretch.question, template, stretch.segments, stretch.bound, stretch.wanted,
            stretch.turn, job.plan.globals,
        )  # fmt: skip
        for found in choose(job, state, stretch, lister):
            state.chosen = _added(job, state.chosen, stretch, found)
    if job.plan.window.kind is WindowKind.TRAILING:
        return _report_trailing(job, state, until)
    return _report(job, state, until)


def _added(job: Job, chosen: ChosenMatches, stretch: Stretch, found: Found) -> ChosenMatches:
    first, last = (
        stretch.stamp[found.rows[place]] for place in (found.ptr[:-1], found.ptr[1:] - 1)
    )
    key = stretch.question.arrays.key[found.rows[found.ptr[:-1]]]
    numbers, values = numbers_of_matches(stretch.question, found, job.moduli)
    if job.plan.window.kind is not WindowKind.TRAILING:
        first, last = _windows_of(job, first, last)
    new = ChosenMatches(key, first, last, values, numbers)
    if job.plan.window.kind is WindowKind.TRAILING:
        return chosen.join(new)
    return _folded(job, chosen.join(new))


def _windows_of(job: Job, first: Numbers, last: Numbers) -> tuple[Numbers, Numbers]:
    """Compute the numbers of the first and the last window that hold a match."""
    window = job.plan.window
    if window.kind is WindowKind.NONE:
        return np.zeros_like(first), np.zeros_like(first)
    slide = window.slide or window.within
    low = (last - window.within) // slide + 1
    if window.kind is WindowKind.COUNT:
        low = np.maximum(low, 0)
    return low, first // slide


def _folded(job: Job, chosen: ChosenMatches) -> ChosenMatches:
    """Add up the rows of one key and the same windows."""
    names = np.stack([chosen.key, chosen.low, chosen.high])
    unique, place = np.unique(names, axis=1, return_inverse=True)
    if unique.shape[1] == names.shape[1]:
        return chosen
    return _summed(job, chosen, place.ravel(), unique)


def _summed(job: Job, chosen: ChosenMatches, place: Numbers, names: Numbers) -> ChosenMatches:
    """Add rows up to their places, which have the given keys and windows."""
    count = names.shape[1]
    sums = []
    least = np.zeros(0, np.int64)
    for numbers, modulus in zip(chosen.numbers, (0, *job.moduli), strict=True):
        total = np.zeros((count, numbers.shape[1]), numbers.dtype)
        least = np.full((count, chosen.values.shape[1]), NO_VALUE, np.int64)
        add_rows(numbers, chosen.values, place, total, least, np.uint64(modulus or 1))
        sums.append(total)
    return ChosenMatches(names[0], names[1], names[2], least, tuple(sums))


def _report(job: Job, state: PartitionState, until: int | None) -> list[list[Rows]]:
    """Return the rows of closed windows; matches that lie in open windows stay."""
    chosen, window = state.chosen, job.plan.window
    assert chosen is not None, "there are chosen matches, or none"
    closed = np.full(len(chosen.key), FOREVER, np.int64)
    if until is not None:
        match window.kind:
            case WindowKind.NONE:
                closed[:] = 0
            case WindowKind.COUNT:
                closed = state.base[0][chosen.key] // window.slide if len(closed) else closed
            case _:
                closed[:] = (until - window.within) // (window.slide or window.within) + 1
    rows: list[list[Rows]] = [[] for _ in range(job.outputs)]
    upto = np.minimum(chosen.high, closed - 1)
    for first, last in _shares(np.maximum(upto - chosen.low + 1, 0)):
        _add_rows(job, chosen.take(slice(first, last)), upto[first:last], rows)
    low = np.maximum(chosen.low, closed)
    state.chosen = chosen._replace(low=low).take(chosen.high >= closed)
    if window.kind is not WindowKind.COUNT:
        return rows
    if set(job.plan.partition.attributes) == set(job.plan.partition.group_by):
        return rows
    for waiting, found in zip(state.waiting, rows, strict=True):
        waiting += found
    return state.waiting if until is None else [[] for _ in rows]


def _shares(lengths: Numbers) -> Iterator[tuple[int, int]]:
    """Split rows into shares that expand to a bounded number of windows."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        done = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, done + EXPANDED_ROWS, side="right")), first + 1)
        yield first, last
        first = last


def _add_rows(job: Job, chosen: ChosenMatches, upto: Numbers, rows: list[list[Rows]]) -> None:
    """Append a row for every key and window from ``low`` to ``upto``."""
    counts = np.maximum(upto - chosen.low + 1, 0)
    if not counts.any():
        return
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    number += chosen.low[owner]
    expanded = chosen.take(owner)._replace(low=number, high=number)
    expanded = _folded(job, expanded)
    window = job.plan.window
    name = expanded.low * (window.slide or window.within)
    if window.kind is WindowKind.SLIDING:
        # Sliding windows are named by the pane in which they end, other windows by their starts.
        name = (name + window.within) // window.pane
    for found, numbers in zip(rows, expanded.numbers, strict=True):
        found.append(Rows(expanded.key, name, numbers, expanded.values))


# ---------------------------------------------------------------------------------------
# The trailing window


def _report_trailing(job: Job, state: PartitionState, until: int | None) -> list[list[Rows]]:
    """Report the chosen matches of the last time, whenever one ends, or leaves (§6.3, §6.4)."""
    chosen, width = state.chosen, job.plan.window.within
    assert chosen is not None, "there are chosen matches, or none"
    end = FOREVER if until is None else until - 1
    group_of, _ = groups_of(job, state.keys)
    rows: list[list[Rows]] = []
    for changes, modulus in zip(_changes(job, chosen, end), (0, *job.moduli), strict=True):
        rows.append(report_changes(job, changes, group_of, state.reported, modulus))
    if until is not None:
        state.chosen = chosen.take(chosen.low + width >= until)
        state.reported = until
    return rows


def _changes(job: Job, chosen: ChosenMatches, end: int) -> list[Changes]:
    """Compute the aggregates of every key at all times at which they change."""
    width = job.plan.window.within
    left = chosen.low + width
    both = np.stack([np.tile(chosen.key, 2), np.concatenate([chosen.high, left])])
    times, place = np.unique(both, axis=1, return_inverse=True)
    place = place.ravel()
    kind = np.zeros(times.shape[1], np.int8)
    kind[place[len(left) :]] |= trailing.EXPIRED
    kind[place[: len(left)]] |= trailing.ENDED
    known = times[1] <= end
    key, time = times[:, known]
    order = np.lexsort((chosen.high, chosen.key))
    ordered = chosen.take(order)
    sums = _sums_at(job, ordered, key, time, width)
    nothing = np.zeros(len(key), np.int64)
    return [
        Changes(key, time, kind[known], nothing, numbers, sums.values) for numbers in sums.numbers
    ]


def _sums_at(
    job: Job, chosen: ChosenMatches, key: Numbers, time: Numbers, width: int
) -> ChosenMatches:
    """Add up, for keys and times, the matches that end by the time and began less than w ago.

    Both are sorted by key and time.
    """
    keys = np.unique(key)
    begin, end = (np.searchsorted(chosen.key, keys, side=side) for side in ("left", "right"))
    time_ptr = np.append(np.searchsorted(key, keys), len(key))
    leaving = np.lexsort((chosen.low, chosen.key))
    nodes = 2 * int((end - begin).max(initial=0)) + 2
    mins = chosen.values.shape[1]
    values = np.full((len(key), mins), NO_VALUE, np.int64)
    sums, times = [], np.ascontiguousarray(time)
    for numbers, modulus in zip(chosen.numbers, (0, *job.moduli), strict=True):
        total = np.zeros((len(key), numbers.shape[1]), numbers.dtype)
        tree = np.zeros((1, nodes, numbers.shape[1]), numbers.dtype)
        least = np.full((1, nodes, mins), NO_VALUE, np.int64)
        sum_windows(
            begin, end, time_ptr, chosen.high, chosen.low, leaving, times, width,
            numbers[:, None], chosen.values[:, None], tree, least, numbers.dtype.type(0),
            np.uint64(modulus or 1), total, values,
        )  # fmt: skip
        sums.append(total)
    return ChosenMatches(key, time, time, values, tuple(sums))
