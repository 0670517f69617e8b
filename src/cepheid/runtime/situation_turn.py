"""One bucket of a live stream of situations: its state and what arrived in, rows out.

The same shape as ``stream_state.turn``. Events wait until the watermark passes them; then all of
their time are there, and what is certain leaves at once, while situations still go on.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cepheid.engine.events import Columns, read_times
from cepheid.engine.situation_job import SituationJob
from cepheid.engine.situation_results import empty_rows
from cepheid.engine.situation_snapshot import situations_from_bytes, situations_to_bytes
from cepheid.engine.situations import (
    SituationState,
    forget_idle_partitions,
    step_situations,
)
from cepheid.planner.plan import Plan
from cepheid.runtime.blobs import table_from_bytes, table_to_bytes
from cepheid.runtime.ordering import STEP_ROWS, ordered, slices
from cepheid.runtime.watermarks import watermark_after
from cepheid.runtime.work import Work

TURN_VERSION = 2
"""Goes up whenever old bytes can no longer be read."""


class _Saved(msgspec.Struct, array_like=True):
    """The state of a bucket, as it lies in the state store."""

    version: int
    buckets: int
    columns: bytes
    until: int | None
    engine: bytes
    buffer: bytes


class SituationOutcome(NamedTuple):
    """What a turn gives: rows, and counts for the progress of the query."""

    results: pa.Table
    events: int
    late: int
    buffered: int
    partitions: int
    open_windows: int
    lag: int


def turn_situations(
    work: Work, data: bytes | None, arrived: list[pa.Table], latest: int | None
) -> tuple[bytes, SituationOutcome]:
    """Take in what arrived, up to the watermark that follows from the latest time.

    Raises
    ------
    ValueError
        If the state was written by another query, or for other columns.
    DataError
        E5xx for what is wrong with the events.
    """
    job = SituationJob(Plan.from_json(work.plan))
    before, state, buffer = _restore(work, job, data)
    until = watermark_after(work, before, latest)
    fresh = pa.concat_tables(arrived) if arrived else work.schema.empty_table()
    times = read_times(Columns(fresh), job.plan.time)
    on_time = fresh if before is None else fresh.filter(pa.array(times >= before))
    waiting = ordered(pa.concat_tables([buffer, on_time]), job.plan)
    found = [empty_rows(job, work.schema)]
    partitions = len(state.keys)
    if until is not None:
        cut = int(np.searchsorted(read_times(Columns(waiting), job.plan.time), until))
        for part in slices(waiting.slice(0, cut), STEP_ROWS):
            state, rows = step_situations(job, state, part)
            found.append(rows)
        # No event before the watermark can come any more.
        state, rows = step_situations(job, state, work.schema.empty_table(), complete=True)
        found.append(rows)
        waiting = waiting.slice(cut)
        partitions = len(state.keys)
        state = forget_idle_partitions(state)
    saved = _Saved(
        TURN_VERSION,
        work.buckets,
        work.events,
        until,
        situations_to_bytes(job, state),
        table_to_bytes(waiting) if len(waiting) else b"",
    )
    results = pa.concat_tables(found).cast(work.result_schema)
    lag = max(latest - until, 0) if until is not None and latest is not None else 0
    counts = (len(fresh), len(fresh) - len(on_time), len(waiting), partitions, partitions, lag)
    return msgspec.msgpack.encode(saved), SituationOutcome(results, *counts)


def _restore(
    work: Work, job: SituationJob, data: bytes | None
) -> tuple[int | None, SituationState, pa.Table]:
    if data is None:
        return None, SituationState.start(job), work.schema.empty_table()
    try:
        saved = msgspec.msgpack.decode(data, type=_Saved)
    except msgspec.MsgspecError as error:
        message = "it holds no state of a query about situations"
        raise ValueError(message) from error
    if saved.version != TURN_VERSION:
        message = f"the state has version {saved.version}, this Cepheid reads {TURN_VERSION}"
        raise ValueError(message)
    if saved.buckets != work.buckets:
        message = f"it was started with {saved.buckets} buckets, and now there are {work.buckets}"
        raise ValueError(message)
    if saved.columns != work.events:
        message = "the columns that the query reads have other names or types"
        raise ValueError(message)
    buffer = table_from_bytes(saved.buffer) if saved.buffer else work.schema.empty_table()
    return saved.until, situations_from_bytes(job, saved.engine), buffer
