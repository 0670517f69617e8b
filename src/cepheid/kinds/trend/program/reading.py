"""Read a batch into the event arrays of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import (
    NO_VALUE,
    Columns,
    EventArrays,
    KeyTable,
    read_times,
    value_keys,
)
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.kinds.trend.program.job import Job


def read_arrays(job: Job, keys: KeyTable, columns: Columns) -> EventArrays:
    """Read the arrays of the events that belong to a partition (§4.2)."""
    plan, batch = job.plan, columns.batch
    # One extra row each, of zeros and of no values, for variables that add nothing; a query that
    # only counts reads neither.
    rows = len(job.parts) if len(job.parts) > 1 or job.extremes else 0
    weights = job.room("weights", rows, len(batch), np.int64 if job.moduli else np.float64)
    weights[rows - 1 :] = 0
    for row, part in enumerate(job.parts[1:]):
        fill_weights(weights[row], columns, part.what, part.attribute)
    values = job.room("values", len(job.extremes) + 1 if rows else 0, len(batch), np.int64)
    values[len(job.extremes) :] = NO_VALUE
    bits = job.bits_of(columns)
    numbers = columns.numbers(keys)

    def bound() -> NDArray[np.bool_]:
        return np.asarray((bits != 0) & (numbers >= 0))

    for row, extreme in enumerate(job.extremes):
        vector = columns.vector(extreme.attribute)
        values[row] = value_keys(vector, largest=extreme.largest, bound=bound)
    arrays = EventArrays(
        read_times(columns, plan.time),
        numbers,
        bits,
        weights,
        values,
    )
    if keys.names and (arrays.key < 0).any():
        arrays = arrays.take(np.flatnonzero(arrays.key >= 0))
    return arrays


def fill_weights(row: NDArray[Any], columns: Columns, what: str, attribute: str | None) -> None:
    """Fill a row with the weight of every event in a part."""
    adds = what in ("sum", "squares")
    if not adds:
        row[:] = 1
    if attribute is None:
        return
    vector = columns.vector(attribute)
    if vector.kind in (ValueKind.TEXT, ValueKind.BOOLEAN):
        message = f"the column `{attribute}` is of kind {vector.kind.value} and cannot be summed"
        raise DataError([Diagnostic("E506", message)])
    if adds:
        row[:] = vector.numbers
    if what == "squares":
        with np.errstate(over="ignore"):
            row *= row
    if vector.valid is not None:
        row[~vector.valid] = 0
