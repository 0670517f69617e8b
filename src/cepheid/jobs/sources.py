"""Inputs of a SELECT in process: tables, data frames, readers, files and stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import pyarrow as pa

from cepheid.arrays.event_parts import EventPart, TablePart
from cepheid.arrays.json_events import JsonEvents
from cepheid.events.arriving import as_table, plain_reader
from cepheid.events.files import find_files, present, read_all, schema_of_file
from cepheid.events.text_times import timed_reader, timed_table
from cepheid.events.time_formats import TextTimes
from cepheid.jobs.local_jobs import BATCH_ROWS, slices_of
from cepheid.jobs.ordering import put_together
from cepheid.store.event_store import EventStore
from cepheid.store.snapshot import Cover, Interval, Snapshot


class EventSource(NamedTuple):
    """Events with known columns: a table, a reader, files, or time ranges of a store version.

    With ``fitted``, files may lack columns, or have others; each is made to fit the schema.
    """

    schema: pa.Schema
    events: Any
    cover: Cover | None = None
    times: TextTimes | None = None
    fitted: bool = False

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read the given columns as at least one table; events of a store are in time order."""
        events = self.events
        if isinstance(events, JsonEvents):
            names = present(self.schema.names, columns) or self.schema.names[:1]
            for part in events.parts():
                yield part.table(names)
        elif isinstance(events, pa.Table):
            yield from slices_of(events, BATCH_ROWS)
        elif isinstance(events, pa.RecordBatchReader):
            yield self.schema.empty_table()
            yield from put_together(events, BATCH_ROWS)
        elif isinstance(events, Snapshot):
            names = present(self.schema.names, columns)
            needed = names if events.manifest.time in names else [*names, events.manifest.time]
            yield pa.schema([self.schema.field(name) for name in needed]).empty_table()
            yield from events.scan(self.cover or Interval(), needed)
        else:
            # A query that reads no column still counts events, so one column is read.
            names = present(self.schema.names, columns) or self.schema.names[:1]
            wanted = pa.schema([self.schema.field(name) for name in names])
            for table in read_all(events, names, self.times):
                yield _fitted(table, wanted) if self.fitted else table

    def parts(self, columns: Sequence[str]) -> Iterator[EventPart]:
        """Read events as parts whose columns are read when they are asked for.

        ``columns`` are all that is asked for of parts, but for events that are taken whole.
        """
        if isinstance(self.events, JsonEvents):
            yield from self.events.parts()
        else:
            yield from map(TablePart, self.tables(columns))

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """Read all events as one table."""
        if isinstance(self.events, pa.Table):
            return self.events
        tables = [
            table.select(present(table.column_names, columns)) for table in self.tables(columns)
        ]
        return pa.concat_tables(tables, promote_options="permissive")


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, NULL where a table lacks one."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def source_of(events: Any, times: TextTimes) -> EventSource:
    """Convert events of any supported type to a source; times that are text are read.

    Raises
    ------
    TypeError
        If the type of the events is not supported.
    """
    if isinstance(events, str | PathLike):
        files = find_files(fspath(events))
        schema = schema_of_file(files[0], times)
        return EventSource(schema, files, times=times)
    if isinstance(events, EventStore):
        snapshot = events.snapshot()
        return EventSource(snapshot.manifest.schema, snapshot)
    if isinstance(events, pa.RecordBatchReader):
        reader = timed_reader(plain_reader(events), times)
        return EventSource(reader.schema, reader)
    table = timed_table(as_table(events), times)
    return EventSource(table.schema, table)
