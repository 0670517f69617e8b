"""The situations of one definition: what is kept of them between steps, and during one.

Between steps there is a row for each situation of the window and for each that goes on. A step
derives runs from its events, goes on with those that were open, and puts both together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.events import NO_VALUE, Columns, value_keys
from cepheid.engine.situation_job import Accumulator, SituationJob
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.kernels.derive import FOREVER, add_up, derive_runs, least_of, sort_by_key

Numbers = NDArray[Any]


class Kept(NamedTuple):
    """The situations of one definition between two steps, those of a partition in order.

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
        """Return no situations; values get their types with the first events."""
        empty = np.zeros(0, np.int64)
        totals: tuple[Numbers, ...] = tuple(
            np.zeros(0, _dtype(a)) for a in job.accumulators[number]
        )
        return Kept(empty, empty, empty, empty, totals, (None,) * len(job.values[number]))


class Step(NamedTuple):
    """The events of a step that belong to a partition, and their order."""

    columns: Columns
    rows: NDArray[np.int64] | None
    present: NDArray[np.int64]
    place: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    ts: NDArray[np.int64]

    def pick(self, array: Numbers) -> Numbers:
        """Return the values of the events that belong to a partition."""
        return array if self.rows is None else array[self.rows]

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the batch that stand at places of the order."""
        rows = self.order[places]
        return rows if self.rows is None else self.rows[rows]


class Derived(NamedTuple):
    """The situations of one definition in the partitions of a step, partition by partition.

    ``first`` and ``last`` are places of events of this step, ``first_value`` and ``last_value``
    numbers of values: kept ones, then the batch. ``fresh`` marks what this step derived, ``began``
    what it began, ``became`` what it made known to last long enough.
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
    running: tuple[Numbers | None, ...]
    values: tuple[Any, ...]
    resting: NDArray[np.int64]


def derive(
    job: SituationJob, number: int, kept: Kept, step: Step, mask: NDArray[np.bool_]
) -> Derived:
    """Return the situations of a definition after a step; ``mask`` is its condition."""
    definition = job.definitions[number]
    count = len(step.present)
    place = step.place[kept.key]
    goes_on = kept.te == FOREVER
    open_row = np.full(count, -1, np.int64)
    taken = np.flatnonzero(goes_on & (place >= 0))
    open_row[place[taken]] = taken
    most = -1 if definition.at_most is None else definition.at_most
    runs = derive_runs(
        mask, step.order, step.starts, step.ts, open_row, kept.ts, kept.known,
        definition.at_least, most,
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
        _values(before, step.columns.arrow(value.attribute))
        for value, before in zip(job.values[number], kept.values, strict=True)
    )
    arrays: list[Any] = [part[order] for part in parts]
    totals = [total[order] for total in totals]
    arrays += [starts, tuple(totals), tuple(running), values, resting]
    return Derived._make(arrays)


def _first_values(
    step: Step, kept: Kept, first: Numbers, last: Numbers, old: Numbers
) -> NDArray[np.int64]:
    """Return the number of the value at the first event of every run."""
    numbers = old.copy()
    new = old < 0
    assert (last[new] > first[new]).all(), "a new run has an event"
    numbers[new] = len(kept.key) + step.rows_at(first[new])
    return numbers


def _last_values(
    step: Step, kept: Kept, first: Numbers, last: Numbers, old: Numbers
) -> NDArray[np.int64]:
    """Return the number of the value at the last event of every run, so far."""
    numbers = old.copy()
    some = last > first
    numbers[some] = len(kept.key) + step.rows_at(last[some] - 1)
    return numbers


def _values(before: Any, column: pa.ChunkedArray[Any]) -> Any:
    """Return the kept values of an attribute and, after them, those of the batch."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if before is None or not len(before):
        return column
    return pa.chunked_array([*before.cast(column.type).chunks, *column.chunks], column.type)


def _dtype(accumulator: Accumulator) -> type:
    return np.float64 if accumulator.what == "sum" else np.int64


def _accumulate(
    job: SituationJob,
    accumulator: Accumulator,
    kept: Numbers,
    step: Step,
    runs: tuple[Numbers, Numbers, Numbers],
) -> tuple[Numbers, Numbers | None]:
    """Return the totals of runs, and the numbers up to each of their events.

    Where every event counts one, these follow from its place (None). Where all ends are waited
    for, nobody asks for them.
    """
    first, last, old = runs
    dtype = _dtype(accumulator)
    least = accumulator.what == "least"
    before: Numbers = np.full(len(old), NO_VALUE if least else 0, dtype)
    before[old >= 0] = kept[old[old >= 0]]
    if _counts_all(accumulator, step.columns):
        return before + (last - first), None
    early = job.relates and not job.waits
    running: Numbers = np.empty(len(step.order) if early else 0, dtype)
    total: Numbers = np.empty(len(old), dtype)
    read = _read(accumulator, step.columns)
    values = np.ascontiguousarray(step.pick(np.broadcast_to(read, len(step.columns.batch))))
    (least_of if least else add_up)(step.order, first, last, before, values, running, total)
    return total, running


def _counts_all(accumulator: Accumulator, columns: Columns) -> bool:
    """Return whether every event adds one."""
    if accumulator.attribute is None:
        return True
    values = accumulator.what == "values"
    return values and not columns.arrow(accumulator.attribute).null_count


def _read(accumulator: Accumulator, columns: Columns) -> Numbers:
    """Return what every event of a batch adds."""
    assert accumulator.attribute is not None, "the number of events needs no reading"
    if accumulator.what == "values":
        valid = columns.arrow(accumulator.attribute).is_valid()
        return np.asarray(valid).astype(np.int64)
    vector = columns.vector(accumulator.attribute)
    if vector.kind in (ValueKind.TEXT, ValueKind.BOOLEAN):
        what = f"the column `{accumulator.attribute}` is of kind {vector.kind.value}"
        raise DataError([Diagnostic("E506", f"{what} and cannot be aggregated")])
    if accumulator.what == "least":
        return value_keys(vector, largest=accumulator.largest)
    return vector.numbers if vector.valid is None else np.where(vector.valid, vector.numbers, 0)


def keep(
    job: SituationJob,
    number: int,
    kept: Kept,
    derived: Derived,
    step: Step,
    chosen: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> Kept:
    """Return what is kept of a definition after a step.

    Parameters
    ----------
    chosen
        Which situations of the step's partitions stay, and which of all others.
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
