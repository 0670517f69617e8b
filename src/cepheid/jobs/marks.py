"""Marks: records of a stream that carry its watermark (§15.8).

A live query adds them to its rows, and the next one reads them: a mark has a time in the column
``_watermark`` and NULL in all others, and promises that no event before this time follows. So a
query that reads the rows of another one closes its windows exactly when they are complete,
whatever the delays and pauses of the first one.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

CARRIED = "carried"
"""In place of a delay: the stream carries its watermark."""

MARK = "_watermark"
"""The column of marks: microseconds since 1970, NULL in an event."""

MARK_FIELD = pa.field(MARK, pa.int64())


class Marks(msgspec.Struct, frozen=True):
    """Rows carry the watermark: the bucket that adds it, and how far rows are behind it."""

    bucket: int
    behind: int


def with_mark(rows: pa.Table, mark_us: int | None) -> pa.Table:
    """Add the column of marks to rows and, if there is one, a mark."""
    marked = rows.append_column(MARK_FIELD, pa.nulls(len(rows), MARK_FIELD.type))
    if mark_us is None:
        return marked
    columns = [pa.nulls(1, field.type) for field in rows.schema]
    mark = pa.table([*columns, pa.array([mark_us], MARK_FIELD.type)], schema=marked.schema)
    return pa.concat_tables([marked, mark])


def without_marks(records: pa.Table, column: str) -> tuple[pa.Table, int | None]:
    """Take the marks out of records; return the events and the latest mark, in microseconds."""
    marks = records[column]
    events = records.drop_columns([column])
    if marks.null_count == len(marks):
        return events, None
    return events.filter(pc.is_null(marks)), pc.max(marks).as_py()
