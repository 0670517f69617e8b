"""Tasks that read the Parquet files of a folder: paths in, blobs for buckets out, without rows.

Spark names the files of a micro-batch and keeps account of them. A task reads the columns that the
query needs with Arrow, judges the records (§13) and hands the events to the task that sends them to
buckets. On the usual way each record goes through the JVM between these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray
from pyarrow import parquet

from cepheid.events.temporal import TIME_MAX
from cepheid.jobs.blobs import Batches
from cepheid.jobs.changes.asked import Changes
from cepheid.jobs.changes.ops import BAD, BEFORE, DELETE, UPDATE, read_ops
from cepheid.jobs.tables import table_to_bytes
from cepheid.runtimes.spark.stream_tasks import SENT, only_bad
from cepheid.spark.batches import BUCKET, in_task
from cepheid.spark.file_records import check_names, fitted_column, open_file, unread
from cepheid.spark.hashes import buckets_of_keys
from cepheid.spark.records import ORIGIN, REASON

CAUSES = ("unread", "no_time", "too_far", "ahead", "no_key")
UNREAD, NO_TIME, TOO_FAR, AHEAD, NO_KEY = range(len(CAUSES))
NO_CAUSE = -1
CAUSE = "__cause"
COUNTED = ("records", "bad", *CAUSES)
"""Counters of records that leave a task beside its blobs; one for each column's NULLs follows."""

_ROWS = 1 << 18
_DAY_US = 86_400_000_000


class Judged(NamedTuple):
    """The demands of a query on a record: columns of its time, type and keys, and its limits.

    ``columns`` is the serialized schema of all columns of events, ``reads`` has those of the query.
    """

    columns: bytes
    reads: tuple[str, ...]
    time: str
    tick_ns: int
    ahead_us: int
    type: str | None
    types: tuple[str, ...] | None
    keys: tuple[str, ...]
    nulls: tuple[str, ...]
    keeps_bad: bool
    buckets: int
    """The number of buckets by keys; 0 if events are placed otherwise."""
    placed_by: tuple[str, ...]
    changes: Changes | None = None
    """The columns of a changelog, if records are changes (§18.3)."""

    @property
    def schema(self) -> pa.Schema:
        """Deserialize the schema."""
        return pa.ipc.read_schema(pa.py_buffer(self.columns))

    def counts(self) -> pa.Schema:
        """Return the columns of counters."""
        names = [*COUNTED, *(f"null_{n}" for n in range(len(self.nulls)))]
        return pa.schema([(name, pa.int64()) for name in names])

    def latest(self, kind: pa.DataType, clock_us: int) -> int:
        """Return the latest time that an event may have, in ticks."""
        tick_ns = self.tick_ns if pt.is_integer(kind) else 1000
        micros = clock_us + self.ahead_us
        if tick_ns >= 1000:
            return micros // (tick_ns // 1000)
        return min(micros, TIME_MAX // 1000) * 1000


class _Tally:
    """Counters of the records since the last blobs left, and the bad ones."""

    def __init__(self, judged: Judged) -> None:
        self._columns = judged.counts()
        self._sums = np.zeros(len(self._columns), np.int64)
        self._wrong: list[pa.Table] = []

    def add(self, causes: NDArray[np.int8], nulls: list[int]) -> None:
        """Count records."""
        bad = np.bincount(causes[causes >= 0], minlength=len(CAUSES))
        self._sums += [len(causes), bad.sum(), *bad, *nulls]

    def keep(self, wrong: pa.Table) -> None:
        """Keep bad records."""
        self._wrong.append(wrong)

    def beside(self, sent: pa.RecordBatch) -> pa.RecordBatch:
        """Put the counters and bad records so far into the rows that leave."""
        columns = list(sent.columns)
        if self._wrong:
            place = sent.schema.get_field_index("wrong")
            data = table_to_bytes(pa.concat_tables(self._wrong))
            columns[place] = pa.array([data, *(None for _ in range(len(sent) - 1))], pa.binary())
        rest = np.zeros(len(sent) - 1, np.int64)
        columns += [pa.array(np.append(count, rest)) for count in self._sums]
        self._sums[:] = 0
        self._wrong = []
        return pa.RecordBatch.from_arrays(columns, schema=sent_schema(self._columns))

    @property
    def is_empty(self) -> bool:
        """Check whether nothing was counted."""
        return not self._sums[0]


def sent_schema(counts: pa.Schema) -> pa.Schema:
    """Return the columns that leave a task: blobs, then counters."""
    return pa.schema([*SENT, *counts])


def bad_schema(columns: pa.Schema) -> pa.Schema:
    """Return the columns of bad records: those of events, the origin, the reason, the cause."""
    about = [pa.field(ORIGIN, pa.string()), pa.field(REASON, pa.string())]
    return pa.schema([*columns, *about, pa.field(CAUSE, pa.int32())])


def send_files(judged: Judged, send: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Build the task that reads files and sends their events; ``send`` takes batches of events."""

    def run(batches: Batches) -> Batches:
        tally = _Tally(judged)
        for sent in send(_events(judged, batches, tally)):
            yield tally.beside(sent)
        if not tally.is_empty:
            yield tally.beside(only_bad(0, None))

    return in_task(run)


def _events(judged: Judged, batches: Batches, tally: _Tally) -> Batches:
    """Read files, count and set aside bad records, and yield the events."""
    for batch in batches:
        columns: list[Any] = batch.columns
        paths, contents, clocks = columns
        for n, path in enumerate(paths.to_pylist()):
            clock_us = clocks[n].value
            file = _File(judged, path, contents[n].as_py())
            try:
                for table, reasons in file.tables():
                    yield from _good(judged, file, table, reasons, clock_us, tally)
            except (pa.ArrowException, OSError) as error:
                tally.add(np.array([UNREAD], np.int8), [0] * len(judged.nulls))
                reason = unread(error, file.count)
                if judged.keeps_bad:
                    tally.keep(file.unread(reason))


class _File:
    """One Parquet file: the columns that a query reads, batch by batch."""

    def __init__(self, judged: Judged, path: str, content: bytes | None) -> None:
        self._judged, self.path, self._content = judged, path, content
        self._schema = judged.schema
        self._whole: pa.Table | None = None
        self.count = 0
        """Rows that were read."""

    def tables(self) -> Iterator[tuple[pa.Table, dict[int, str]]]:
        """Yield the columns of the query, and reasons if values do not fit their columns."""
        file = parquet.ParquetFile(open_file(self.path, self._content))
        has = file.schema_arrow
        check_names(has.names, self._schema)
        names = [f.name for f in self._schema if f.name in has.names and self._reads(f, has)]
        fields = [self._schema.field(name) for name in self._judged.reads]
        # A column that is not in the file may stand in its path.
        others = {*has.names} - {*names} | {*self._judged.reads}
        checked = [field for field in self._schema if field.name not in others]
        for batch in file.iter_batches(_ROWS, columns=names):
            table = pa.Table.from_batches([batch])
            reasons: dict[int, str] = {}
            columns = [fitted_column(table, f, self.path, reasons) for f in [*fields, *checked]]
            read = pa.Table.from_arrays(columns[: len(fields)], schema=pa.schema(fields))
            yield read, reasons
            self.count += len(table)

    def _reads(self, field: pa.Field[Any], has: pa.Schema) -> bool:
        """Check whether a column is read: by the query, or as its values may not fit their type."""
        return field.name in self._judged.reads or has.field(field.name).type != field.type

    def records(self, causes: NDArray[np.int8], reasons: dict[int, str]) -> pa.Table:
        """Return the bad records among the rows that were read last, with all columns."""
        rows = np.flatnonzero(causes >= 0)
        if self._whole is None:
            self._whole = parquet.ParquetFile(open_file(self.path, self._content)).read()
        part = self._whole.slice(self.count, len(causes)).take(rows)
        columns = [fitted_column(part, field, self.path, {}) for field in self._schema]
        said = [reasons.get(row) for row in rows.tolist()]
        return self._about(columns, said, causes[rows])

    def unread(self, reason: str) -> pa.Table:
        """Return the record of a file that cannot be read."""
        columns = [pa.nulls(1, field.type) for field in self._schema]
        return self._about(columns, [reason], np.array([UNREAD], np.int8))

    def _about(
        self, columns: list[Any], reasons: list[str | None], causes: NDArray[np.int8]
    ) -> pa.Table:
        origin = pa.array([self.path] * len(reasons), pa.string())
        about: list[Any] = [
            origin,
            pa.array(reasons, pa.string()),
            pa.array(causes.astype(np.int32)),
        ]
        return pa.Table.from_arrays([*columns, *about], schema=bad_schema(self._schema))


def _good(
    judged: Judged,
    file: _File,
    table: pa.Table,
    reasons: dict[int, str],
    clock_us: int,
    tally: _Tally,
) -> Batches:
    """Count the records of a batch, and yield its events with their buckets."""
    causes = causes_of(judged, table, reasons, clock_us)
    good = causes == NO_CAUSE
    events = table
    if not good.all():
        if judged.keeps_bad:
            tally.keep(file.records(causes, reasons))
        events = table.filter(pa.array(good))
    tally.add(causes, [events[name].null_count for name in judged.nulls])
    if not len(events):
        return
    if judged.buckets:
        keys = [events[name].combine_chunks() for name in judged.placed_by]
        events = events.append_column(BUCKET, pa.array(buckets_of_keys(keys, judged.buckets)))
    yield from events.combine_chunks().to_batches()


def causes_of(
    judged: Judged, table: pa.Table, reasons: dict[int, str], clock_us: int
) -> NDArray[np.int8]:
    """Find the cause for which each record is bad; -1 if it is an event."""
    found = np.full(len(table), NO_CAUSE, np.int8)
    time = table[judged.time]
    ticks = _ticks(time)
    known = np.asarray(pc.is_valid(time)) if time.null_count else None
    # In the order in which a later cause gives way to an earlier one.
    if judged.keys:
        found[_lacks_key(judged, table)] = NO_KEY
    far = (ticks > TIME_MAX) | (ticks < -TIME_MAX)
    found[ticks > judged.latest(time.type, clock_us)] = AHEAD
    found[far] = TOO_FAR
    if known is not None:
        found[~known] = NO_TIME
    if judged.changes is not None:
        found = _of_changes(judged.changes, table, found)
    found[list(reasons)] = UNREAD
    return found


def _of_changes(changes: Changes, table: pa.Table, found: NDArray[np.int8]) -> NDArray[np.int8]:
    """Find the same of changes, given the causes for which they are no events (§18.3)."""
    op = read_ops(table[changes.op])
    # Of an event that leaves, only the columns that tell events apart are looked at.
    found[(op == BEFORE) | (op == DELETE)] = NO_CAUSE
    for name in changes.id:
        if table[name].null_count:
            lacks = ~np.asarray(pc.is_valid(table[name]))
            found[lacks & (found == NO_CAUSE)] = NO_KEY
    found[op == BAD] = UNREAD
    if not changes.id:
        found[op == UPDATE] = UNREAD
    return found


def _ticks(time: Any) -> NDArray[np.int64]:
    """Convert times to whole ticks; NULL is any number."""
    if pt.is_date32(time.type):
        return np.asarray(time.cast(pa.int32()).cast(pa.int64()).fill_null(0)) * _DAY_US
    return np.asarray(time.cast(pa.int64()).fill_null(0))


def _lacks_key(judged: Judged, table: pa.Table) -> NDArray[np.bool_]:
    """Find the records that the query would take, but for a key that is NULL."""
    missing = np.zeros(len(table), np.bool_)
    for name in judged.keys:
        if table[name].null_count:
            missing |= ~np.asarray(pc.is_valid(table[name]))
    if not missing.any() or judged.types is None or judged.type is None:
        return missing
    fits = pc.is_in(table[judged.type], value_set=pa.array(judged.types, pa.string()))
    matches: NDArray[np.bool_] = np.asarray(fits)
    return missing & matches
