"""Rows of a Spark shuffle: each holds a bucket, a time, and a payload of bytes.

Plain Spark rows would be converted event by event. A blob holds thousands of events, or the
summaries of a stretch of events, as one value:

    bucket     the task that receives the blob
    begin      the earliest time in the payload
    seq        orders blobs of equal begin, and events of equal time, by their arrival
    kind       the format of the payload
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
"""The same schema for Spark."""


class Blob(NamedTuple):
    """One row of a shuffle."""

    bucket: int
    begin: int
    seq: int
    kind: int
    payload: bytes


def blobs_to_batch(blobs: list[Blob]) -> pa.RecordBatch:
    """Convert blobs to one record batch."""
    columns = [
        pa.array([blob[n] for blob in blobs], field.type) for n, field in enumerate(BLOB_SCHEMA)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BLOB_SCHEMA)


def blobs_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    """Iterate over the blobs of record batches."""
    for batch in batches:
        columns: list[Any] = batch.columns
        for row in range(len(batch)):
            yield Blob(*(column[row].as_py() for column in columns))


def split(table: pa.Table, bucket: NDArray[np.int64], count: int) -> Iterator[tuple[int, pa.Table]]:
    """Split a table by bucket; skip empty buckets and keep the order of rows."""
    if count == 1 or not len(table):
        if len(table):
            yield 0, table
        return
    # A stable sort of small integers is a radix sort, which takes one pass, not a comparison sort.
    small = bucket.astype(np.uint16) if count < 1 << 16 else bucket
    order = np.argsort(small, kind="stable")
    together = table.take(order)
    ends = np.cumsum(np.bincount(bucket, minlength=count))
    for number, end in enumerate(ends.tolist()):
        begin = int(ends[number - 1]) if number else 0
        if end > begin:
            yield number, together.slice(begin, end - begin)
