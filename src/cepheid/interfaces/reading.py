"""Read the events of data sets: their columns, their number, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from cepheid.errors import DataError, Diagnostic
from cepheid.events.files import content_of, find_files, present, read_all, schema_of_file
from cepheid.events.text_times import timed_schema
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import STORE, TOPIC, Columns, DataSet, is_inside
from cepheid.interfaces.topic_events import topic_fields, topic_sample
from cepheid.store.event_store import EventStore


def text_times(columns: Columns) -> TextTimes:
    """Tell how times that are text are read."""
    return TextTimes(columns.time, as_format(columns.time_format) or "")


def files_of(data: DataSet) -> list[Path]:
    """Find the files of a data set, as they are now; others in a folder are no events."""
    _refuse_topics(data)
    found = [file for file in find_files(data.place) if content_of(file.name)]
    return [file for file in found if is_inside(file, Path(data.place))]


def _refuse_topics(data: DataSet) -> None:
    """Refuse topics where events have to end.

    Raises
    ------
    WrongUseError
        If the data set has no end.
    """
    if data.kind == TOPIC:
        message = f"`{data.name}` has no end: start the query under Live"
        raise WrongUseError(message)


def open_store(data: DataSet, columns: Columns) -> EventStore:
    """Open the store of a data set."""
    return EventStore(data.place, time=columns.time)


def events_of(data: DataSet, columns: Columns) -> Any:
    """Return the events as queries take them: a store, or the place of files."""
    _refuse_topics(data)
    return open_store(data, columns) if data.kind == STORE else data.place


def schema_of(data: DataSet, columns: Columns) -> pa.Schema:
    """Read the columns of a data set."""
    if data.kind == STORE:
        return open_store(data, columns).schema
    if data.kind == TOPIC:
        times = text_times(columns)
        return timed_schema(topic_fields(data, times), times)
    for file in files_of(data)[:1]:
        return schema_of_file(file, text_times(columns))
    message = f"`{data.name}` has no events"
    raise DataError([Diagnostic("E501", message)])


def count_of(data: DataSet, columns: Columns) -> int | None:
    """Count the events, where that needs no reading."""
    if data.kind == STORE:
        return len(open_store(data, columns))
    if data.kind == TOPIC:
        return None
    files = files_of(data)
    if any(content_of(file.name) != "parquet" for file in files):
        return None
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files)
    except (OSError, pa.ArrowException):
        return None


def batches_of(
    data: DataSet,
    columns: Columns,
    names: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.Table]:
    """Read the named columns of a data set, batch by batch."""
    total = 0
    for batch in _batches(data, columns, names):
        total += len(batch)
        progress(total)
        yield batch


def _batches(data: DataSet, columns: Columns, names: Sequence[str] | None) -> Iterator[pa.Table]:
    if data.kind == STORE:
        for one in open_store(data, columns).scan():
            table = pa.Table.from_batches([one])
            yield table if names is None else table.select(present(table.column_names, names))
        return
    for table in read_all(files_of(data), names, text_times(columns)):
        yield table if names is None else table.select(present(table.column_names, names))


def sample_of(data: DataSet, columns: Columns, rows: int) -> pa.Table:
    """Read the first events of a data set."""
    if data.kind == TOPIC:
        return topic_sample(data, text_times(columns), rows)
    found: list[pa.Table] = []
    have = 0
    for batch in _batches(data, columns, None):
        found.append(batch.slice(0, rows - have))
        have += len(found[-1])
        if have >= rows:
            break
    return pa.concat_tables(found) if found else schema_of(data, columns).empty_table()
