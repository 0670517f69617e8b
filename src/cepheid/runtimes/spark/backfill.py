"""Begin a live query with the events of a store: below a time from the store, from it on live.

    store, events before T --copy--> files --stream--+
                                                     +--union--> the query
    live source, events from T on -------------------+

Every event is on one side of T, so none comes twice and none is left out, if the store has all
events before T and the source still has those from T on. The copy is made once for a store and a
time: what happens to the store later, such as a compaction, does not reach the query. All of it
comes with the first micro-batch, together with the live events that are there. So its events are
sorted among them, and none is late.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as sf
from pyspark.sql import types

from cepheid.errors import BindError, DataError, Diagnostic, suggest_names
from cepheid.events.nanoseconds import PER_MICROSECOND, in_microseconds, is_nanoseconds
from cepheid.options import refuse
from cepheid.spark.schema import arrow_schema_of
from cepheid.store.file_system import LocalFiles
from cepheid.store.times import tick_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cepheid.store.event_store import EventStore

FOLDER = "backfill"


def events_since(frame: DataFrame, time: str, since: Any) -> DataFrame:
    """Keep the events of a stream from a time on.

    Raises
    ------
    OptionError
        E590 if it is no time.
    """
    found = _column(frame, time)
    # Records without a time are bad, and counted as such.
    return frame.where(found.isNull() | (found >= sf.lit(_ticks(frame, time, since))))


def backfilled(frame: DataFrame, store: EventStore, time: str, since: Any) -> DataFrame:
    """Return a stream of the events of a store before a time, and of a live source from it on.

    Raises
    ------
    DataError
        E543 if a column has another type in the store.
    OptionError
        E590 if it is no time, E592 if the store has another time column.
    """
    if store.time != time:
        message = f"the time column of the store is `{store.time}`, and that of the query `{time}`"
        refuse("E592", message)
    ticks = _ticks(frame, time, since)
    wanted = arrow_schema_of(frame, frame.columns)
    folder = copy_before(store, wanted, ticks)
    history = frame.sparkSession.readStream.schema(frame.schema).parquet(str(folder))
    return history.unionByName(events_since(frame, time, since))


def copy_before(store: EventStore, wanted: pa.Schema, ticks: int) -> Path:
    """Copy the events of a store before a time, unless they were copied for it before."""
    known = store.schema
    for field in wanted:
        place = known.get_field_index(field.name)
        if place >= 0 and not _fits(known.field(place).type, field.type):
            message = f"column `{field.name}` is of type {known.field(place).type} in the store"
            message += f", and of type {field.type} in the live events"
            helps = ("convert the live column, or name another store",)
            raise DataError([Diagnostic("E543", message, helps=helps)])
    names = ",".join(f"{field.name}:{field.type}" for field in wanted)
    stem = f"{ticks:+021d}-{uuid.uuid5(uuid.NAMESPACE_OID, names).hex[:12]}"
    folder = store.path.resolve() / FOLDER / stem
    if folder.is_dir():
        return folder
    files = LocalFiles()
    waiting = folder.with_name(f".{stem}-{uuid.uuid4().hex}")
    files.make_folder(waiting)
    try:
        _write(store, wanted, ticks, waiting)
        files.sync_folder(waiting)
        files.replace(waiting, folder)
    except DataError:
        if not folder.is_dir():  # Otherwise another process has made the same copy.
            raise
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    files.sync_folder(folder.parent)
    return folder


def _write(store: EventStore, wanted: pa.Schema, ticks: int, folder: Path) -> None:
    names = [name for name in wanted.names if name in store.schema.names]
    with parquet.ParquetWriter(folder / "events.parquet", wanted) as writer:
        for batch in store.scan(None, ticks, columns=names):
            table = pa.Table.from_batches([batch])
            columns = [
                table[field.name].cast(field.type)
                if field.name in names
                else pa.nulls(len(table), field.type)
                for field in wanted
            ]
            writer.write_table(in_microseconds(pa.table(columns, schema=wanted), wanted))
    LocalFiles().sync_file(folder / "events.parquet")


def _fits(stored: pa.DataType, live: pa.DataType) -> bool:
    """Check whether stored values can be read as live ones: times of any unit, or the same type."""
    both_times = pa.types.is_timestamp(stored) and pa.types.is_timestamp(live)
    texts = (pa.string(), pa.large_string())
    return stored == live or both_times or (stored in texts and live in texts)


def _column(frame: DataFrame, time: str) -> Column:
    column = sf.col(f"`{time.replace('`', '``')}`")
    is_number = isinstance(frame.schema[time].dataType, types.IntegralType)
    return column if is_number else sf.unix_micros(column.cast("timestamp"))


def _ticks(frame: DataFrame, time: str, since: Any) -> int:
    """Convert a time to whole microseconds, or to the unit of a column of numbers."""
    if time not in frame.columns:
        helps = (suggest_names(time, frame.columns, owner="the stream"),)
        message = f"the stream has no column `{time}`"
        raise BindError([Diagnostic("E505", message, helps=helps)])
    kind = arrow_schema_of(frame, [time]).field(0).type
    try:
        found = int(since) if isinstance(since, str) and since.lstrip("-").isdecimal() else since
        ticks = tick_of(found, kind)
    except (pa.ArrowException, TypeError, ValueError):
        message = f"since is a time such as '2026-01-31 13:30:00', not {since!r}"
        refuse("E590", message, "write a date and a time, or a whole number")
    return ticks // PER_MICROSECOND if is_nanoseconds(kind) else ticks
