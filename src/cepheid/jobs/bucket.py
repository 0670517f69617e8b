"""The state of one bucket of a live stream, and the input and output of one micro-batch.

Trends, situations and rules keep different engine states. They share the watermark, the buffer of
events that wait for it, and the checks of a state that is read back.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.misfits import misfit, other_buckets
from cepheid.jobs.ordering import ordered
from cepheid.jobs.state_format import Format, meaning_by, read_state, write_state
from cepheid.jobs.tables import pack_table, unpack_table, with_columns
from cepheid.jobs.watermarks import in_ticks, watermark_after
from cepheid.jobs.work import Work
from cepheid.plans.plan import Plan

BUCKET = "bucket"
COUNTED = "__counted"
"""A column of events that go to several buckets: true in the one that counts them."""

BUCKET_VERSION = 4
"""Goes up whenever old bytes can no longer be read."""


class Saved(msgspec.Struct, array_like=True):
    """The state of a bucket as it is stored in the state store.

    ``means`` and ``memory`` describe the query that wrote it, for one that goes on with it; earlier
    states have neither. ``dead`` are columns that have NULL for newer events.
    """

    kind: str
    buckets: int
    columns: bytes
    until: int | None
    engine: bytes
    buffer: bytes
    means: str = ""
    memory: bytes = b""
    dead: tuple[str, ...] = ()


class Bucket(NamedTuple):
    """The state of a bucket before a micro-batch; the engine is empty before the first one."""

    until: int | None
    engine: bytes | None
    buffer: pa.Table


class Arrived(NamedTuple):
    """The events of a micro-batch together with the buffered ones, split at the watermark."""

    events: int
    on_time: pa.Table
    until: int | None
    ready: pa.Table
    """In time order, before the watermark."""
    waiting: pa.Table
    lag: int
    late_events: pa.Table
    """Those before the previous watermark, each in one bucket only."""


class Outcome(NamedTuple):
    """The output of a micro-batch: final rows, and counts for the progress of the query."""

    results: pa.Table
    events: int
    late: int
    buffered: int
    partitions: int
    open_windows: int
    lag: int
    late_events: pa.Table
    suppressed: pa.Table | None = None
    """Counts of rows that limits of alerts suppressed, by rule and reason."""
    since: int | None = None
    """The watermark before the micro-batch; all rows before it had left."""
    panes: pa.Table | None = None
    """Panes of hot keys whose windows close."""
    shed: int = 0
    """Events that were dropped before they came here."""


def read_bucket(work: Work, data: bytes | None, kind: str, *, same_columns: bool = True) -> Bucket:
    """Read the state of a bucket.

    Raises
    ------
    DataError
        E524 if the state was written by another query or version, or for other columns or
        buckets; E546 if it is damaged.
    """
    return bucket_of(work, open_bucket(kind, data), kind, same_columns=same_columns)


def open_bucket(kind: str, data: bytes | None) -> Saved | None:
    """Deserialize a bucket without a look at its query; raises as ``read_bucket``."""
    form = Format(BUCKET, BUCKET_VERSION, kind)
    return None if data is None else read_state(form, data, Saved)


def bucket_of(work: Work, saved: Saved | None, kind: str, *, same_columns: bool) -> Bucket:
    """Check that a bucket fits the work; raises as ``read_bucket``."""
    if saved is None:
        return Bucket(None, None, work.schema.empty_table())
    # First, because one bucket may have another kind of state than several.
    if saved.buckets != work.buckets:
        setting = f"set spark.cepheid.buckets to {saved.buckets}"
        raise other_buckets(saved.buckets, work.buckets, setting=setting)
    if why := _difference(work, saved, kind, same_columns=same_columns):
        raise misfit(why)
    buffer = unpack_table(saved.buffer) if saved.buffer else work.schema.empty_table()
    return Bucket(saved.until, saved.engine, buffer)


def write_bucket(work: Work, kind: str, arrived: Arrived, engine: bytes) -> bytes:
    """Serialize the state of a bucket."""
    buffer = pack_table(arrived.waiting) if len(arrived.waiting) else b""
    plan = work.planned()
    memory = msgspec.msgpack.encode(work.kind.memory(plan))
    about = meaning_by(work.kind, plan), memory, work.dead
    saved = Saved(kind, work.buckets, work.events, arrived.until, engine, buffer, *about)
    return write_state(Format(BUCKET, BUCKET_VERSION, kind), saved)


def take_in(
    work: Work, plan: Plan, bucket: Bucket, tables: list[pa.Table], latest: int | None
) -> Arrived:
    """Advance the watermark to the latest time, and split new and buffered events at it."""
    fresh = pa.concat_tables(tables) if tables else work.schema.empty_table()
    fresh, counted = _counted(fresh)
    on_time, late_events = fresh, fresh.slice(0, 0)
    if bucket.until is not None and len(fresh):
        late = is_late(work, fresh, bucket.until - in_ticks(work, work.lateness))
        if late.any():
            on_time = fresh.filter(pa.array(~late))
            late_events = fresh.filter(pa.array(late & counted))
    until = watermark_after(work, bucket.until, latest)
    waiting = ordered(pa.concat_tables([bucket.buffer, on_time]), plan)
    cut = 0
    if until is not None:
        cut = int(np.searchsorted(read_times(Columns(waiting), plan.time), until))
    lag = max(latest - until, 0) if until is not None and latest is not None else 0
    ready, later = waiting.slice(0, cut), waiting.slice(cut)
    return Arrived(int(counted.sum()), on_time, until, ready, later, lag, late_events)


def arriving(events: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert new events to the columns of a schema; the mark of counted events stays."""
    fitted = with_columns(events, schema)
    if COUNTED in events.column_names:
        fitted = fitted.append_column(COUNTED, events[COUNTED])
    return fitted


def _counted(events: pa.Table) -> tuple[pa.Table, NDArray[np.bool_]]:
    """Take the mark of counted events off; without it, all are."""
    if COUNTED not in events.column_names:
        return events, np.ones(len(events), np.bool_)
    return events.drop_columns([COUNTED]), np.asarray(events[COUNTED])


def is_late(work: Work, events: pa.Table, until: int) -> NDArray[np.bool_]:
    """Mark the events before the watermark, whose windows may be closed."""
    return np.asarray(read_times(Columns(events), work.time) < until)


def _difference(work: Work, saved: Saved, kind: str, *, same_columns: bool) -> str:
    """Explain why a state cannot be continued with this work; empty if it can."""
    if saved.kind != kind:
        return f"it holds the state of {saved.kind}, not of {kind}"
    if same_columns and saved.columns != work.events:
        return "the columns that the query reads have other names or types"
    before = pa.ipc.read_schema(pa.py_buffer(saved.columns))
    for field in work.schema:
        if field.name in before.names and before.field(field.name).type != field.type:
            return f"the column `{field.name}` has another type"
    return ""
