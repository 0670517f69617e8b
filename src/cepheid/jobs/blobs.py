"""What travels between Spark tasks: a bucket, a place in time, and bytes.

Rows of Spark would be taken apart and put together again event by event. A blob holds thousands of
events, or the summaries of a stretch, as one value:

    bucket     the task that gets it
    begin      the first time in it
    seq        orders blobs of equal beginning, and events of equal time, by their arrival
    kind       what the payload is
    payload    Arrow, or msgpack of arrays
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Batches = Iterator[pa.RecordBatch]

EVENTS, STRETCH, ROWS = 0, 1, 2
"""Kinds of payload: events, summaries of a stretch, rows of partitions."""

_FIELDS: dict[str, pa.DataType] = {
    "bucket": pa.int32(),
    "begin": pa.int64(),
    "seq": pa.int64(),
    "kind": pa.int32(),
    "payload": pa.binary(),
}
BLOB_SCHEMA = pa.schema(_FIELDS)
BLOB_DDL = "bucket int, begin long, seq long, kind int, payload binary"
"""The same for Spark."""


class Blob(NamedTuple):
    """One row of a shuffle."""

    bucket: int
    begin: int
    seq: int
    kind: int
    payload: bytes


def blobs_to_batch(blobs: list[Blob]) -> pa.RecordBatch:
    """Return blobs as a batch."""
    columns = [
        pa.array([blob[n] for blob in blobs], field.type) for n, field in enumerate(BLOB_SCHEMA)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOB_SCHEMA)


def blobs_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    """Yield the blobs of batches, one after the other."""
    for batch in batches:
        columns: list[Any] = batch.columns
        for row in range(len(batch)):
            yield Blob(*(column[row].as_py() for column in columns))


def split(table: pa.Table, bucket: NDArray[np.int64], count: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of every bucket that has any, in their order."""
    if count == 1 or not len(table):
        if len(table):
            yield 0, table
        return
    # Sorting small numbers takes a pass over them, not a comparison sort.
    small = bucket.astype(np.uint16) if count < 1 << 16 else bucket
    order = np.argsort(small, kind="stable")
    together = table.take(order)
    ends = np.cumsum(np.bincount(bucket, minlength=count))
    for number, end in enumerate(ends.tolist()):
        begin = int(ends[number - 1]) if number else 0
        if end > begin:
            yield number, together.slice(begin, end - begin)
