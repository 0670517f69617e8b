"""The situations of one definition: their state between steps, and during a step.

Between steps there is a row for each situation of the window and for each open one. A step derives
runs from its stretches, extends those that were open, and merges both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE
from cepheid.kernels.derive import FOREVER, add_up, derive_runs, least_of, sort_by_key
from cepheid.kinds.situation.job import EVENTS, Accumulator, SituationJob
from cepheid.kinds.situation.stretches import Stretches, dtype_of

Numbers = NDArray[Any]


class Kept(NamedTuple):
    """The situations of one definition between two steps, sorted within each partition.

    ``totals`` has one array for each accumulator, ``values`` one for each kept value.
    """

    key: NDArray[np.int64]
    ts: NDArray[np.int64]
    te: NDArray[np.int64]
    known: NDArray[np.int64]
    totals: tuple[Numbers, ...]
    values: tuple[Any, ...]

    @staticmethod
    def none(job: SituationJob, number: int) -> Kept:
        """Create an empty state; values get their types with the first events."""
        empty = np.zeros(0, np.int64)
        totals: tuple[Numbers, ...] = tuple(
            np.zeros(0, dtype_of(a)) for a in job.accumulators[number]
        )
        return Kept(empty, empty, empty, empty, totals, (None,) * len(job.values[number]))


class Step(NamedTuple):
    """The stretches of a step, and their order by partition.

    ``present`` are the partitions that have stretches, ``place`` the index of a partition among
    them.
    """

    stretches: Stretches
    present: NDArray[np.int64]
    place: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    ts: NDArray[np.int64]

    @staticmethod
    def of(stretches: Stretches, keys: int) -> Step:
        """Sort stretches by partition."""
        key = stretches.key
        place = np.full(max(keys, 1), -1, np.int64)
        present = np.flatnonzero(np.bincount(key, minlength=1))
        place[present] = np.arange(len(present))
        order, starts = sort_by_key(place[key], len(present))
        return Step(stretches, present, place, order, starts, stretches.ts[order])


class Derived(NamedTuple):
    """The situations of one definition in the partitions of a step, sorted by partition.

    ``first`` and ``last`` are indexes of stretches of this step, ``first_value`` and ``last_value``
    indexes of values: kept ones, then those of the stretches. ``fresh`` marks the situations that
    this step derived, ``began`` those that it began, ``became`` those whose minimum duration it
    reached.
    """

    key: NDArray[np.int64]
    ts: NDArray[np.int64]
    te: NDArray[np.int64]
    known: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    first_value: NDArray[np.int64]
    last_value: NDArray[np.int64]
    fresh: NDArray[np.bool_]
    began: NDArray[np.bool_]
    became: NDArray[np.bool_]
    starts: NDArray[np.int64]
    totals: tuple[Numbers, ...]
    running: tuple[Numbers, ...]
    values: tuple[Any, ...]
    resting: NDArray[np.int64]


def derive(job: SituationJob, number: int, kept: Kept, step: Step) -> Derived:
    """Compute the situations of a definition after a step."""
    mask = step.stretches.bits >> number & 1 == 1
    count = len(step.present)
    place = step.place[kept.key]
    goes_on = kept.te == FOREVER
    open_row = np.full(count, -1, np.int64)
    taken = np.flatnonzero(goes_on & (place >= 0))
    open_row[place[taken]] = taken
    runs = derive_runs(
        mask, step.order, step.starts, step.ts, open_row, kept.ts, kept.known,
        *_bounds(job, number, kept, step),
    )  # fmt: skip
    key, ts, te, known, first, last, old = runs
    ended = np.flatnonzero(~goes_on & (place >= 0))
    resting = np.flatnonzero(place < 0)
    totals, running = [], []
    for accumulator, before in zip(job.accumulators[number], kept.totals, strict=True):
        total, along = _accumulate(job, accumulator, before, step, (first, last, old))
        totals.append(np.concatenate([before[ended], total]))
        running.append(along)
    none = np.zeros(len(ended), np.bool_)
    began = old < 0
    waited = np.ones(len(old), np.bool_)
    waited[~began] = kept.known[old[~began]] == FOREVER
    parts = [
        np.concatenate([place[ended], key]),
        np.concatenate([kept.ts[ended], ts]),
        np.concatenate([kept.te[ended], te]),
        np.concatenate([kept.known[ended], known]),
        np.concatenate([np.zeros_like(ended), first]),
        np.concatenate([np.zeros_like(ended), last]),
        np.concatenate([ended, _first_values(step, kept, first, last, old)]),
        np.concatenate([ended, _last_values(step, kept, first, last, old)]),
        np.concatenate([none, np.ones(len(key), np.bool_)]),
        np.concatenate([none, began]),
        np.concatenate([none, waited & (known != FOREVER)]),
    ]
    order, starts = sort_by_key(parts[0], count)
    values = tuple(
        _values(before, step.stretches.values[job.ends.index(value)])
        for value, before in zip(job.values[number], kept.values, strict=True)
    )
    arrays: list[Any] = [part[order] for part in parts]
    totals = [total[order] for total in totals]
    arrays += [starts, tuple(totals), tuple(running), values, resting]
    return Derived._make(arrays)


def _bounds(
    job: SituationJob, number: int, kept: Kept, step: Step
) -> tuple[Numbers, Numbers, Numbers]:
    """Look up the events of stretches and of kept runs, if bounds count them, and the bounds."""
    definition = job.definitions[number]
    most, largest = (-1 if n is None else n for n in (definition.at_most, definition.most_events))
    bounds = np.array([definition.at_least, most, definition.least_events, largest], np.int64)
    if definition.least_events <= 1 and largest < 0:
        bounds[2] = 0
        return np.zeros(0, np.int64), np.zeros(0, np.int64), bounds
    events = step.stretches.totals[job.measures.index(EVENTS)]
    return events, kept.totals[job.accumulators[number].index(EVENTS)], bounds


def _first_values(
    step: Step, kept: Kept, first: Numbers, last: Numbers, old: Numbers
) -> NDArray[np.int64]:
    """Find the index of the value at the first event of every run."""
    numbers = old.copy()
    new = old < 0
    assert (last[new] > first[new]).all(), "a new run has an event"
    numbers[new] = len(kept.key) + step.order[first[new]]
    return numbers


def _last_values(
    step: Step, kept: Kept, first: Numbers, last: Numbers, old: Numbers
) -> NDArray[np.int64]:
    """Find the index of the value at the last event of every run, so far."""
    numbers = old.copy()
    some = last > first
    numbers[some] = len(kept.key) + step.order[last[some] - 1]
    return numbers


def _values(before: Any, column: pa.ChunkedArray[Any]) -> Any:
    """Concatenate the kept values of an attribute and those of the stretches."""
    if before is None or not len(before):
        return column
    return pa.chunked_array([*before.cast(column.type).chunks, *column.chunks], column.type)


def _accumulate(
    job: SituationJob,
    accumulator: Accumulator,
    kept: Numbers,
    step: Step,
    runs: tuple[Numbers, Numbers, Numbers],
) -> tuple[Numbers, Numbers]:
    """Aggregate runs, and compute the running aggregates up to each of their stretches.

    The latter are empty if matches wait for all ends, because nothing reads them.
    """
    first, last, old = runs
    dtype = dtype_of(accumulator)
    least = accumulator.what == "least"
    before: Numbers = np.full(len(old), NO_VALUE if least else 0, dtype)
    before[old >= 0] = kept[old[old >= 0]]
    early = job.relates and not job.waits
    running: Numbers = np.empty(len(step.order) if early else 0, dtype)
    total: Numbers = np.empty(len(old), dtype)
    values = step.stretches.totals[job.measures.index(accumulator)]
    (least_of if least else add_up)(step.order, first, last, before, values, running, total)
    return total, running


def keep(
    job: SituationJob,
    number: int,
    kept: Kept,
    derived: Derived,
    step: Step,
    chosen: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> Kept:
    """Build the state of a definition after a step.

    Parameters
    ----------
    chosen
        The situations of the step's partitions that are kept, and those of all other partitions.
    """
    staying = np.flatnonzero(chosen[0])
    resting = derived.resting[chosen[1]]
    values = []
    for value, combined in zip(job.values[number], derived.values, strict=True):
        numbers = (derived.last_value if value.last else derived.first_value)[staying]
        values.append(combined.take(pa.array(np.concatenate([resting, numbers]))))
    return Kept(
        np.concatenate([kept.key[resting], step.present[derived.key[staying]]]),
        np.concatenate([kept.ts[resting], derived.ts[staying]]),
        np.concatenate([kept.te[resting], derived.te[staying]]),
        np.concatenate([kept.known[resting], derived.known[staying]]),
        tuple(
            np.concatenate([before[resting], total[staying]])
            for before, total in zip(kept.totals, derived.totals, strict=True)
        ),
        tuple(values),
    )
