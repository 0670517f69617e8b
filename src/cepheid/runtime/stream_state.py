"""One bucket of a live stream: its state and what arrived in, its state and what is certain out.

    turn(work, data, arrived, until)  ->  (data, Outcome)

The state is bytes: the engine's snapshot, and a buffer of the events that are not before the
watermark. Events wait in the buffer until the watermark passes them; then they are put in order and
go through ``step``, and ``advance`` closes the windows that end by the watermark. An event before
the watermark that arrives now is late: it is counted, and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.events import Columns, read_times
from cepheid.engine.idle import forget_idle_keys
from cepheid.engine.job import Job
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.results import build_table
from cepheid.engine.snapshot import state_from_bytes, state_to_bytes
from cepheid.engine.step import PartitionState, advance, step
from cepheid.errors import DataError, Diagnostic
from cepheid.planner.plan import Plan
from cepheid.runtime.blobs import table_from_bytes, table_to_bytes
from cepheid.runtime.local import LOOK_BACK_ROWS
from cepheid.runtime.ordering import STEP_ROWS, ordered, slices
from cepheid.runtime.situation_turn import turn_situations
from cepheid.runtime.work import Work

BUCKET_VERSION = 1
"""Goes up whenever old bytes can no longer be read."""


class _Saved(msgspec.Struct, array_like=True):
    """The state of a bucket, as it lies in the state store."""

    version: int
    buckets: int
    columns: bytes
    engine: bytes
    buffer: bytes


class Outcome(NamedTuple):
    """What a turn gives: rows of closed windows, and counts for the progress of the query."""

    results: pa.Table
    events: int
    late: int
    buffered: int
    partitions: int


def turn(
    work: Work, data: bytes | None, arrived: list[pa.Table], until: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark; None is the time before the first watermark.

    Raises
    ------
    DataError
        E524 if the state was written by another query; E5xx for what is wrong with the events.
    """
    if Plan.from_json(work.plan).situations is not None:
        try:
            saved_bytes, outcome = turn_situations(work, data, arrived, until)
        except ValueError as error:
            raise _misfit(str(error)) from error
        return saved_bytes, Outcome(*outcome)
    job = work.job()
    state, buffer = _restore(work, job, data)
    fresh = pa.concat_tables(arrived) if arrived else work.schema.empty_table()
    on_time = fresh if until is None else fresh.filter(pa.array(~is_late(work, fresh, until)))
    waiting = ordered(pa.concat_tables([buffer, on_time]), job.plan)
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    if until is not None:
        times = read_times(Columns(waiting), job.plan.time)
        cut = int(np.searchsorted(times, until))
        for part in slices(waiting.slice(0, cut), LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
            state, found = step(job, state, part)
            _add(rows, found)
        state, found = advance(job, state, until)
        _add(rows, found)
        waiting = waiting.slice(cut)
    results = build_table(job, rows, state.keys, work.schema).cast(work.result_schema)
    partitions = len(state.keys)
    if until is not None:
        state = forget_idle_keys(job, state, until)
    saved = _Saved(
        BUCKET_VERSION,
        work.buckets,
        work.events,
        state_to_bytes(job, state),
        table_to_bytes(waiting) if len(waiting) else b"",
    )
    late = len(fresh) - len(on_time)
    counts = (len(fresh), late, len(waiting), partitions)
    return msgspec.msgpack.encode(saved), Outcome(results, *counts)


def is_late(work: Work, events: pa.Table, until: int) -> NDArray[np.bool_]:
    """Return which events are before the watermark, so that their windows may be closed."""
    return np.asarray(read_times(Columns(events), work.time) < until)


def _add(rows: RowsOfRuns, found: RowsOfRuns) -> None:
    for mine, new in zip(rows, found, strict=True):
        mine += new


def _restore(work: Work, job: Job, data: bytes | None) -> tuple[PartitionState, pa.Table]:
    if data is None:
        return PartitionState(job), work.schema.empty_table()
    try:
        saved = msgspec.msgpack.decode(data, type=_Saved)
    except msgspec.MsgspecError as error:
        why = "it holds no state of a query"
        raise _misfit(why) from error
    if why := _difference(work, saved):
        raise _misfit(why)
    try:
        state = state_from_bytes(job, saved.engine)
    except ValueError as error:
        raise _misfit(str(error)) from error
    buffer = table_from_bytes(saved.buffer) if saved.buffer else work.schema.empty_table()
    return state, buffer


def _difference(work: Work, saved: _Saved) -> str:
    """Return why a state cannot go on with this work, or nothing if it can."""
    if saved.version != BUCKET_VERSION:
        return f"the state has version {saved.version}, this Cepheid reads {BUCKET_VERSION}"
    if saved.buckets != work.buckets:
        return f"it was started with {saved.buckets} buckets, and now there are {work.buckets}"
    if saved.columns != work.events:
        return "the columns that the query reads have other names or types"
    return ""


def _misfit(why: str) -> DataError:
    message = f"the checkpoint does not fit the query: {why}"
    helps = ("start the changed query with a new checkpoint, or go back to the old one",)
    return DataError([Diagnostic("E524", message, helps=helps)])
