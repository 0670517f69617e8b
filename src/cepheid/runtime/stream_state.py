"""One bucket of a live stream: its state and what arrived in, its state and what is certain out.

    turn(work, data, arrived, latest)  ->  (data, Outcome)

The state is bytes: the watermark, the engine's snapshot, and a buffer of the events that are not
before the watermark. Events wait in the buffer until the watermark passes them; then they are put
in order and go through ``step``, and ``advance`` closes the windows that end by the watermark.

Every bucket is told the latest time of all events of a micro-batch, so all move their watermarks
alike, and at once: Spark's own is one micro-batch behind, and all events would wait in the state.
What comes before the watermark of the micro-batches before is late: counted, without effect.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.engine.events import Columns, KeyTable, read_times
from cepheid.engine.idle import forget_idle_keys
from cepheid.engine.job import Job, lists_matches
from cepheid.engine.partials import RowsOfRuns
from cepheid.engine.results import build_table
from cepheid.engine.snapshot import state_from_bytes, state_to_bytes
from cepheid.engine.step import PartitionState, advance, finish, step
from cepheid.errors import DataError, Diagnostic
from cepheid.planner.plan import Plan, WindowKind, WindowPlan
from cepheid.runtime.blobs import table_from_bytes, table_to_bytes
from cepheid.runtime.local import LOOK_BACK_ROWS
from cepheid.runtime.ordering import STEP_ROWS, ordered, slices
from cepheid.runtime.situation_turn import turn_situations
from cepheid.runtime.stream_matches import list_until
from cepheid.runtime.watermarks import watermark_after
from cepheid.runtime.work import Work

BUCKET_VERSION = 2
"""Goes up whenever old bytes can no longer be read."""


class _Saved(msgspec.Struct, array_like=True):
    """The state of a bucket, as it lies in the state store."""

    version: int
    buckets: int
    columns: bytes
    until: int | None
    engine: bytes
    buffer: bytes


class Outcome(NamedTuple):
    """What a turn gives: rows of closed windows, and counts for the progress of the query."""

    results: pa.Table
    events: int
    late: int
    buffered: int
    partitions: int
    open_windows: int
    lag: int


def turn(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, Outcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    DataError
        E524 if the state was written by another query; E5xx for what is wrong with the events.
    """
    if Plan.from_json(work.plan).situations is not None:
        try:
            saved_bytes, happened = turn_situations(work, data, arrived, latest)
        except ValueError as error:
            raise misfit(str(error)) from error
        return saved_bytes, Outcome(*happened)
    job = work.job()
    before, state, buffer = _restore(work, job, data)
    fresh = pa.concat_tables(arrived) if arrived else work.schema.empty_table()
    on_time = fresh
    if before is not None and len(fresh):
        late_ones = is_late(work, fresh, before)
        on_time = fresh.filter(pa.array(~late_ones)) if late_ones.any() else fresh
    until = watermark_after(work, before, latest)
    waiting = ordered(pa.concat_tables([buffer, on_time]), job.plan)
    results = work.result_schema.empty_table()
    if until is not None:
        times = read_times(Columns(waiting), job.plan.time)
        cut = int(np.searchsorted(times, until))
        take = list_until if lists_matches(job.plan) else _answer_until
        state, found = take(job, state, waiting.slice(0, cut), until, work.schema)
        results = found.cast(work.result_schema)
        waiting = waiting.slice(cut)
    partitions = len(state.keys)
    if until is not None:
        state = forget_idle_keys(job, state, until)
    saved = _Saved(
        BUCKET_VERSION,
        work.buckets,
        work.events,
        until,
        state_to_bytes(job, state),
        table_to_bytes(waiting) if len(waiting) else b"",
    )
    if job.plan.window.emit_early and len(on_time):
        results = pa.concat_tables([results, _so_far(work, saved.engine, waiting, on_time)])
    lag = latest - until if until is not None and latest is not None else 0
    outcome = Outcome(
        results, len(fresh), len(fresh) - len(on_time), len(waiting), partitions,
        open_windows(job.plan.window, until, lag, partitions), max(lag, 0),
    )  # fmt: skip
    return msgspec.msgpack.encode(saved), outcome


def _so_far(work: Work, engine: bytes, waiting: pa.Table, came: pa.Table) -> pa.Table:
    """Return what is known of open windows, of the groups of which events came (§6.7).

    What waits goes through a copy of the state, with a job of its own: programs learn.
    """
    job = work.job()
    state = state_from_bytes(job, engine)
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    for part in slices(waiting, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
        state, found = step(job, state, part)
        _add(rows, found)
    state, found = finish(job, state)
    _add(rows, found)
    table = build_table(job, rows, state.keys, work.schema)
    groups = KeyTable(job.plan.partition.group_by)
    groups.number(Columns(came))
    count = len(groups)
    changed = groups.number(Columns(table)) < count
    return table.filter(pa.array(changed)).cast(work.result_schema)


def open_windows(window: WindowPlan, until: int | None, lag: int, partitions: int) -> int:
    """Return how many windows have begun by the latest event and are not closed.

    Windows that go with the events of a partition are one for each partition.
    """
    if window.kind not in (WindowKind.SLIDING, WindowKind.TUMBLING):
        return partitions
    if until is None:
        return 0
    slide = window.slide or window.within
    first = (until - window.within) // slide + 1
    return int((until + lag) // slide - first + 1)


def is_late(work: Work, events: pa.Table, until: int) -> NDArray[np.bool_]:
    """Return which events are before the watermark, so that their windows may be closed."""
    return np.asarray(read_times(Columns(events), work.time) < until)


def _answer_until(
    job: Job, state: PartitionState, events: pa.Table, until: int, schema: pa.Schema
) -> tuple[PartitionState, pa.Table]:
    """Return the results of the windows that end by a time, after events before it."""
    rows: RowsOfRuns = [[] for _ in range(job.outputs)]
    for part in slices(events, LOOK_BACK_ROWS if job.looks_back else STEP_ROWS):
        state, found = step(job, state, part)
        _add(rows, found)
    state, found = advance(job, state, until)
    _add(rows, found)
    return state, build_table(job, rows, state.keys, schema)


def _add(rows: RowsOfRuns, found: RowsOfRuns) -> None:
    for mine, new in zip(rows, found, strict=True):
        mine += new


def _restore(
    work: Work, job: Job, data: bytes | None
) -> tuple[int | None, PartitionState, pa.Table]:
    if data is None:
        return None, PartitionState(job), work.schema.empty_table()
    try:
        saved = msgspec.msgpack.decode(data, type=_Saved)
    except msgspec.MsgspecError as error:
        why = "it holds no state of a query"
        raise misfit(why) from error
    if why := _difference(work, saved):
        raise misfit(why)
    try:
        state = state_from_bytes(job, saved.engine)
    except ValueError as error:
        raise misfit(str(error)) from error
    buffer = table_from_bytes(saved.buffer) if saved.buffer else work.schema.empty_table()
    return saved.until, state, buffer


def _difference(work: Work, saved: _Saved) -> str:
    """Return why a state cannot go on with this work, or nothing if it can."""
    if saved.version != BUCKET_VERSION:
        return f"the state has version {saved.version}, this Cepheid reads {BUCKET_VERSION}"
    if saved.buckets != work.buckets:
        return f"it was started with {saved.buckets} buckets, and now there are {work.buckets}"
    if saved.columns != work.events:
        return "the columns that the query reads have other names or types"
    return ""


def misfit(why: str) -> DataError:
    """Return the error of a checkpoint that another query has written."""
    message = f"the checkpoint does not fit the query: {why}"
    helps = ("start the changed query with a new checkpoint, or go back to the old one",)
    return DataError([Diagnostic("E524", message, helps=helps)])
