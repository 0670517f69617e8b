"""Convert rows of some partitions to a table and back, so that groups can be merged elsewhere.

A group may have partitions in several tasks. Each task sums its own; the partial rows keep wide
numbers and residues, because a sum of doubles could be infinite where an average is not.

    run       the program and the number format
    key_0...  the values of the partition attributes, of one partition that stands for its group
    window    as in ``Rows``
    numbers, values    the aggregates of a row, as bytes
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE, Columns, KeyTable
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.kernels.compose import add_rows
from cepheid.kinds.trend.program.counted_keys import width_of, with_keys
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.program.results import groups_of
from cepheid.plans.plan import WindowKind

RowsOfRuns = list[list[Rows]]


def is_whole(job: Job) -> bool:
    """Check whether every group is one partition, so that its rows are final."""
    partition = job.plan.partition
    return set(partition.attributes) == set(partition.group_by)


def rows_to_table(job: Job, rows: RowsOfRuns, keys: KeyTable, schema: pa.Schema) -> pa.Table:
    """Convert the rows of the runs of a job to one table, with partitions summed by group."""
    group_of, _ = groups_of(job, keys)
    tables = []
    for number, found in enumerate(rows):
        merged = _merge(found)
        if merged is None:
            continue
        if not _modulus(job, number):
            merged = with_keys(job, merged)
        if len(job.templates) == 1:
            merged = _add_up(merged, group_of, _modulus(job, number))
        tables.append(_encode(job, number, merged, keys, schema))
    return pa.concat_tables(tables) if tables else partial_schema(job, schema).empty_table()


def rows_from_table(job: Job, table: pa.Table) -> tuple[RowsOfRuns, KeyTable]:
    """Read the rows of ``rows_to_table``, and their keys."""
    keys = KeyTable(job.plan.partition.attributes)
    names = [f"key_{n}" for n in range(len(keys.names))]
    number = keys.number(Columns(table.select(["run", *names]).rename_columns(["", *keys.names])))
    run_of = table["run"].to_numpy()
    window = table["window"].to_numpy()
    strides = 1 + len(job.moduli)
    found: RowsOfRuns = []
    for run in range(len(job.templates) * strides):
        here = np.flatnonzero(run_of == run)
        part = table.take(here)
        modulus = _modulus(job, run)
        dtype = np.dtype(np.uint64 if modulus else np.complex128)
        width = len(job.parts) if modulus else width_of(job)
        numbers = _unpack(part["numbers"], dtype, width)
        extremes = _unpack(part["values"], np.dtype(np.int64), len(job.extremes))
        found.append([Rows(number[here], window[here], numbers, extremes)] if len(here) else [])
    return found, keys


def partial_schema(job: Job, schema: pa.Schema) -> pa.Schema:
    """Build the schema of ``rows_to_table``."""
    fields: list[Any] = [("run", pa.int32())]
    attributes = job.plan.partition.attributes
    fields += [(f"key_{n}", schema.field(name).type) for n, name in enumerate(attributes)]
    fields += [("window", pa.int64()), ("numbers", pa.binary()), ("values", pa.binary())]
    return pa.schema(fields)


def buckets_of_groups(job: Job, keys: KeyTable, count: int) -> NDArray[np.int64]:
    """Compute for every key the bucket of its group; the same in every process."""
    places = [job.plan.partition.attributes.index(name) for name in job.plan.partition.group_by]
    buckets = [zlib.crc32(repr([key[p] for p in places]).encode()) % count for key in keys.values]
    return np.array(buckets or [0], np.int64)


def key_table(keys: KeyTable, numbers: NDArray[np.int64], schema: pa.Schema) -> pa.Table:
    """Build a table of the values of some keys; without attributes, one dummy column."""
    columns: dict[str, Any] = {"": pa.nulls(len(numbers))}
    for name, values in zip(keys.names, keys.arrays(), strict=True):
        columns[name] = values.take(pa.array(numbers)).cast(schema.field(name).type)
    return pa.table(columns)


def _modulus(job: Job, run: int) -> int:
    return (0, *job.moduli)[run % (1 + len(job.moduli))]


def _merge(rows: list[Rows]) -> Rows | None:
    some = [r for r in rows if len(r.key)]
    return Rows(*(np.concatenate(parts) for parts in zip(*some, strict=True))) if some else None


def _add_up(rows: Rows, group_of: NDArray[np.int64], modulus: int) -> Rows:
    """Sum the rows of one window and group; the group's first key stands for it."""
    group = group_of[rows.key]
    order = np.lexsort((rows.key, group, rows.window))
    window, group = rows.window[order], group[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (window[1:] != window[:-1]) | (group[1:] != group[:-1])
    place = np.cumsum(new) - 1
    numbers = np.zeros((int(new.sum()), rows.numbers.shape[1]), rows.numbers.dtype)
    extremes = np.full((len(numbers), rows.values.shape[1]), NO_VALUE, np.int64)
    add_rows(rows.numbers[order], rows.values[order], place, numbers, extremes, np.uint64(modulus))
    # The same key in all number formats, whichever of the group's keys have rows there.
    first = np.full(int(group_of.max()) + 1, len(group_of), np.int64)
    np.minimum.at(first, group_of, np.arange(len(group_of)))
    return Rows(first[group[new]], window[new], numbers, extremes)


def _encode(job: Job, number: int, rows: Rows, keys: KeyTable, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [pa.array(np.full(len(rows.key), number, np.int32))]
    seen, inverse = np.unique(rows.key, return_inverse=True)
    columns += key_table(keys, seen, schema).take(inverse).columns[1:]
    columns += [pa.array(rows.window), _pack(rows.numbers), _pack(rows.values)]
    return pa.Table.from_arrays(columns, schema=partial_schema(job, schema))


def _pack(rows: NDArray[Any]) -> Any:
    """Serialize rows of numbers, one value per row."""
    data = np.ascontiguousarray(rows)
    width = data.itemsize * data.shape[1]
    offsets = np.arange(len(data) + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(data), buffers)


def _unpack(column: Any, dtype: np.dtype[Any], width: int) -> NDArray[Any]:
    data = b"".join(column.to_pylist())
    return np.frombuffer(data, dtype).reshape(len(column), width)


def owned_rows(job: Job, rows: RowsOfRuns, owned: Owned) -> RowsOfRuns:
    """Select the rows of the windows that start in a range or, without SLIDE, end in it."""
    if owned == EVERYTHING:
        return rows
    return [[_owned(job, part, owned) for part in found] for found in rows]


def _owned(job: Job, rows: Rows, owned: Owned) -> Rows:
    window = job.plan.window
    place = rows.window
    if window.kind is WindowKind.SLIDING:
        place = rows.window * window.pane - window.within
    kept = np.ones(len(place), np.bool_)
    if owned.begin is not None:
        kept &= place >= owned.begin
    if owned.end is not None:
        kept &= place < owned.end
    return rows if kept.all() else Rows(*(column[kept] for column in rows))
