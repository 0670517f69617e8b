"""Serialize a PartitionState: versioned, without pickle, for restarts and state stores.

A snapshot holds arrays, keys and the classes that the programs have seen, in the order in which
they were numbered: a program rebuilt from them numbers its configurations the same way.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays, KeyTable
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, Meant, meaning_of, read_own, text_of, write_state
from cepheid.jobs.tables import pack_table, table_from_bytes, table_to_bytes, unpack_table
from cepheid.kinds.trend.program.apart_state import ApartRun
from cepheid.kinds.trend.program.job import Job
from cepheid.kinds.trend.program.linear_state import Rows
from cepheid.kinds.trend.windows.chosen_windows import ChosenMatches
from cepheid.kinds.trend.windows.step import PartitionState

FORMAT = Format("trends", 7, "a query")


class PackedArray(msgspec.Struct):
    """A serialized array."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _Run(msgspec.Struct):
    """The counts of one program."""

    dtype: str
    keys: int
    shape: tuple[int, int]
    arrays: dict[str, PackedArray]
    block: tuple[PackedArray, ...]
    groups: tuple[tuple[tuple[str, ...], ...], ...]


class _Snapshot(Meant):
    """The fields of a serialized state."""

    keys: bytes
    runs: tuple[_Run, ...]
    held: bytes | None
    events: bytes | None
    last: int | None
    kept: tuple[PackedArray, ...] | None
    base: PackedArray
    reported: int
    listed: int
    waiting: tuple[tuple[tuple[PackedArray, ...], ...], ...]
    barred: PackedArray | None = None
    chosen: tuple[PackedArray, ...] | None = None
    past: bytes | None = None


def state_to_bytes(job: Job, state: PartitionState) -> bytes:
    """Serialize a state."""
    runs = tuple(
        _Run(
            run.dtype.str,
            run.keys,
            run.shape,
            {name: pack(getattr(run, name)) for name in run.ARRAYS},
            tuple(pack(array) for array in run.block),
            tuple(tuple(tuple(sorted(c)) for c in group) for group in run.program.history),
        )
        for run in state.runs
    )
    snapshot = _Snapshot(
        (meaning_of(job.plan),),
        keys_to_bytes(state.keys),
        runs,
        None if state.held is None else pack_table(state.held),
        None if state.events is None else pack_table(state.events),
        state.last,
        None if state.kept is None else tuple(pack(array) for array in state.kept),
        pack(state.base),
        state.reported,
        state.listed,
        tuple(
            tuple(tuple(pack(array) for array in rows) for rows in found) for found in state.waiting
        ),
        pack(state.barred) if job.plan.skip is not None else None,
        None if state.chosen is None else _pack_chosen(state.chosen),
        None if state.past is None else pack_table(state.past),
    )
    return write_state(FORMAT, snapshot)


def state_from_bytes(job: Job, data: bytes) -> PartitionState:
    """Deserialize a state that ``state_to_bytes`` wrote.

    Raises
    ------
    DataError
        E524 if the bytes are no state, of another version, or of another query; E546 if they are
        damaged.
    """
    snapshot = read_own(FORMAT, data, _Snapshot, (meaning_of(job.plan),), text_of(job.plan))
    state = PartitionState(job)
    restore_keys(state.keys, snapshot.keys)
    if len(snapshot.runs) != len(state.runs):
        why = "it holds events where this version keeps counts, or counts for events"
        raise misfit(why)
    for run, packed in zip(state.runs, snapshot.runs, strict=True):
        for group in packed.groups:
            run.program.number_codes([tuple(frozenset(c) for c in group)])
        run.dtype, run.keys, run.shape = np.dtype(packed.dtype), packed.keys, packed.shape
        for name, array in packed.arrays.items():
            setattr(run, name, unpack(array))
        run.block = tuple(unpack(array) for array in packed.block)
        if isinstance(run, ApartRun):
            # Panes have blocks, and windows apart have none.
            run.apart = run.is_decided and not run.block
    state.held = None if snapshot.held is None else unpack_table(snapshot.held)
    state.past = None if snapshot.past is None else unpack_table(snapshot.past)
    state.events = None if snapshot.events is None else unpack_table(snapshot.events)
    state.last = snapshot.last
    if snapshot.kept is not None:
        state.kept = EventArrays(*(unpack(array) for array in snapshot.kept))
    state.base, state.reported = unpack(snapshot.base), snapshot.reported
    state.listed = snapshot.listed
    if snapshot.barred is not None:
        state.barred = unpack(snapshot.barred)
    if snapshot.chosen is not None:
        key, low, high, values, *numbers = map(unpack, snapshot.chosen)
        state.chosen = ChosenMatches(key, low, high, values, tuple(numbers))
    state.waiting = [
        [Rows(*(unpack(array) for array in rows)) for rows in found] for found in snapshot.waiting
    ]
    return state


def _pack_chosen(chosen: ChosenMatches) -> tuple[PackedArray, ...]:
    return tuple(map(pack, (*chosen[:4], *chosen.numbers)))


def keys_to_bytes(keys: KeyTable) -> bytes:
    """Serialize the values of keys, in the order of their numbers."""
    return table_to_bytes(pa.table({f"{n}": array for n, array in enumerate(keys.arrays())}))


def restore_keys(keys: KeyTable, data: bytes) -> None:
    """Restore the numbers of keys."""
    if keys.names:
        table = table_from_bytes(data)
        keys.restore(column.combine_chunks() for column in table.columns)


def pack(array: NDArray[Any]) -> PackedArray:
    """Serialize an array."""
    return PackedArray(array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes())


def unpack(packed: PackedArray) -> NDArray[Any]:
    """Deserialize an array that ``pack`` packed."""
    return np.frombuffer(packed.data, packed.dtype).reshape(packed.shape).copy()
