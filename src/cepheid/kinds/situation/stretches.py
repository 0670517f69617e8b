"""Compute the stretches of a batch of events, from which situations are derived.

Conditions are evaluated, and values aggregated, in blocks that fit the CPU caches. Stretches of
successive time ranges can be computed in parallel: the first event of a partition in a range always
begins a new stretch, and a situation that spans ranges is joined when it is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE, Columns, KeyTable, value_keys
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.kernels.stretches import (
    add_values,
    count_events,
    cut_stretches,
    take_last,
    take_least,
)
from cepheid.kinds.situation.job import Accumulator, SituationJob
from cepheid.kinds.situation.relative import MASK

Numbers = NDArray[Any]

BLOCK_ROWS = 1 << 17
"""Events of a block; the columns of a few conditions fit the caches."""

TIME, BITS, KEY, TOTAL, VALUE = "ts", "bits", "k", "t", "v"
"""Columns of serialized stretches; partition attributes, totals and values are numbered."""


class Stretches(NamedTuple):
    """Stretches in time order.

    ``bits`` marks the conditions that hold, ``totals`` has an array for each of ``job.measures``,
    ``values`` one for each of ``job.ends``.
    """

    key: NDArray[np.int64]
    ts: NDArray[np.int64]
    bits: Numbers
    totals: tuple[Numbers, ...]
    values: tuple[Any, ...]


Cutting = Callable[[SituationJob, KeyTable, Columns, NDArray[np.int64]], Stretches]
"""Cuts a batch of these times into stretches, and adds its partitions to the keys."""


def kind_of(schema: pa.Schema, name: str) -> pa.DataType:
    """Look up the type of a column or a field of a structure; dictionaries are decoded."""
    kind: pa.DataType = Columns(schema.empty_table()).arrow(name).type
    if isinstance(kind, pa.DictionaryType):
        plain: pa.DataType = kind.value_type
        return plain
    return kind


def dtype_of(accumulator: Accumulator) -> type:
    """Choose the dtype of an accumulator."""
    return np.float64 if accumulator.what == "sum" else np.int64


def cut(job: SituationJob, keys: KeyTable, columns: Columns, times: NDArray[np.int64]) -> Stretches:
    """Cut a batch into stretches; add its partitions to ``keys``."""
    key = keys.number(columns)
    return cut_by(job, key, len(keys), columns, times)


def cut_by(
    job: SituationJob,
    key: NDArray[np.int64],
    count: int,
    columns: Columns,
    times: NDArray[np.int64],
) -> Stretches:
    """Cut a batch whose events have numbers below a count into stretches of equal numbers."""
    length = len(key)
    state = np.full((max(count, 1), 3), -1, np.int64)
    runs = np.zeros((len(state), len(job.lasting), 3), np.int64)
    first, kinds = np.empty(length, np.int64), np.empty(length, np.int64)
    last = np.empty(length if any(end.last for end in job.ends) else 0, np.int64)
    stretch_of = np.empty(BLOCK_ROWS if job.needed else 0, np.int64)
    totals = [_start(measure, length) for measure in job.measures]
    count = 0
    for base in range(0, length, BLOCK_ROWS):
        block = Columns(columns.batch.slice(base, BLOCK_ROWS))
        end = base + len(block.batch)
        mine, bits = _conditions(job, block, key[base:end])
        along = stretch_of[: len(mine)]
        count = cut_stretches(
            mine, times[base:end], bits, base, job.splits, job.needed, job.lasting, job.least,
            state, runs, first, kinds, count, along,
        )  # fmt: skip
        for measure, total in zip(job.measures, totals, strict=True):
            _add(measure, block, along, total)
        if len(last):
            take_last(along, base, last)
    rows, kinds = first[:count], kinds[:count].copy()
    # If no value is read, any row will do.
    ends = np.where(kinds & job.needed != 0, last[:count], rows) if len(last) else rows
    found = tuple(total[:count].copy() for total in totals)
    return Stretches(key[rows], times[rows], kinds, found, values_at(job, columns, rows, ends))


def _start(measure: Accumulator, length: int) -> Numbers:
    dtype = dtype_of(measure)
    if measure.what == "least":
        return np.full(length, NO_VALUE, dtype)
    return np.zeros(length, dtype)


def _conditions(
    job: SituationJob, block: Columns, key: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Numbers]:
    """Compute the partition of each event of a block, -1 for none, and the conditions that hold."""
    if job.situations.where is not None:
        key = np.where(block.mask(job.situations.where), key, -1)
    bits: Numbers = np.zeros(len(key), np.uint8 if len(job.definitions) <= 8 else np.int64)
    for number, definition in enumerate(job.definitions):
        if number in job.relative:
            mask = np.asarray(block.arrow(f"{MASK}{definition.name}"), np.bool_)
        else:
            mask = block.mask(definition.condition)
        bits |= np.left_shift(mask.view(np.uint8), number, dtype=bits.dtype)
    return key, bits


def _add(
    measure: Accumulator, block: Columns, stretch_of: NDArray[np.int64], total: Numbers
) -> None:
    """Add the events of a block to the aggregates of their stretches."""
    if measure.attribute is None:
        count_events(stretch_of, total)
        return
    column = block.arrow(measure.attribute)
    if measure.what == "values":
        if not column.null_count:
            count_events(stretch_of, total)
        else:
            add_values(stretch_of, np.asarray(column.is_valid()), total)
        return
    values = np.broadcast_to(_read(measure, block), len(stretch_of))
    (take_least if measure.what == "least" else add_values)(
        stretch_of, np.ascontiguousarray(values), total
    )


def _read(measure: Accumulator, columns: Columns) -> Numbers:
    """Read the values of an attribute that are summed or compared."""
    assert measure.attribute is not None, "the number of events needs no reading"
    vector = columns.vector(measure.attribute)
    if vector.kind in (ValueKind.TEXT, ValueKind.BOOLEAN):
        what = f"the column `{measure.attribute}` is of kind {vector.kind.value}"
        raise DataError([Diagnostic("E506", f"{what} and cannot be aggregated")])
    if measure.what == "least":
        return value_keys(vector, largest=measure.largest)
    return vector.numbers if vector.valid is None else np.where(vector.valid, vector.numbers, 0)


def add_measure(
    measure: Accumulator, columns: Columns, stretch_of: NDArray[np.int64], count: int
) -> Numbers:
    """Aggregate the events of every stretch; those of -1 do not count."""
    total = _start(measure, count)
    _add(measure, columns, stretch_of, total)
    return total


def values_at(
    job: SituationJob, columns: Columns, first: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[Any, ...]:
    """Take the values that situations keep, from the first and from the last rows."""
    found = []
    for end in job.ends:
        column = columns.arrow(end.attribute)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        rows = last if end.last else first
        found.append(column.take(rows))
    return tuple(found)


# ---------------------------------------------------------------------------------------
# Serialized stretches


def stretches_to_table(keys: KeyTable, stretches: Stretches, schema: pa.Schema) -> pa.Table:
    """Convert stretches to a table that any process can read."""
    columns: dict[str, Any] = {TIME: pa.array(stretches.ts), BITS: pa.array(stretches.bits)}
    number = pa.array(stretches.key)
    for place, (name, values) in enumerate(zip(keys.names, keys.arrays(), strict=True)):
        columns[f"{KEY}{place}"] = values.take(number).cast(kind_of(schema, name))
    columns |= {f"{TOTAL}{n}": pa.array(total) for n, total in enumerate(stretches.totals)}
    columns |= {f"{VALUE}{n}": values for n, values in enumerate(stretches.values)}
    return pa.table(columns)


def stretches_from_table(job: SituationJob, keys: KeyTable, table: pa.Table) -> Stretches:
    """Convert a table to stretches; add their partitions to ``keys``."""
    number = np.zeros(len(table), np.int64)
    if keys.names:
        places = [f"{KEY}{n}" for n in range(len(keys.names))]
        number = keys.number(Columns(table.select(places).rename_columns(list(keys.names))))
    return Stretches(
        number,
        np.asarray(table[TIME]),
        np.asarray(table[BITS]),
        tuple(np.asarray(table[f"{TOTAL}{n}"]) for n in range(len(job.measures))),
        tuple(table[f"{VALUE}{n}"] for n in range(len(job.ends))),
    )
