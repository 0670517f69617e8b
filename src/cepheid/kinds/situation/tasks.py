"""Situations inside Spark tasks: events in, stretches or rows out."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.accelerator.assigned import scheduler_of
from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.blobs import (
    STRETCH,
    Batches,
    Blob,
    blobs_to_batch,
    split,
)
from cepheid.jobs.owned import Owned
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.work import Work
from cepheid.kinds.situation.compose import compose, summarise_events
from cepheid.kinds.situation.job import SituationJob
from cepheid.kinds.situation.step import SituationState, finish_situations, step_situations
from cepheid.kinds.situation.stretches import KEY, TIME, Cutting, cut
from cepheid.plans.plan import SituationPlan
from cepheid.spark.batches import REPORT_ROWS
from cepheid.spark.task_device import task_address

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Spreads consecutive integers."""


class SituationTasks(NamedTuple):
    """The job of tasks for situations."""

    work: Work
    job: SituationJob

    @staticmethod
    def of(work: Work) -> SituationTasks:
        """Create the tasks of a plan of situations."""
        return SituationTasks(work, SituationJob(SituationPlan.from_json(work.plan)))

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Compute the rows of sorted events that become final within a range."""
        del number
        work, job = self
        state, cutting = SituationState.start(job), task_cutting()
        for table in tables:
            state, rows = step_situations(job, state, table, cutting=cutting)
            yield from _report(work, _between(rows, owned.begin, owned.end))
        state, rows = finish_situations(job, state, work.schema)
        yield from _report(work, _between(rows, owned.begin, owned.end))

    def summarise(self, tables: Iterable[pa.Table], seq: int) -> Batches:
        """Compute the stretches of sorted events, for the tasks of their partitions."""
        work, job = self
        cutting = task_cutting()
        for place, events in enumerate(tables):
            table = summarise_events(job, events, cutting)
            bucket = _buckets(job, table, work.buckets)
            number = (seq << 32) + place
            blobs = [
                Blob(to, part[TIME][0].as_py(), number, STRETCH, table_to_bytes(part))
                for to, part in split(table, bucket, work.buckets)
            ]
            if blobs:
                yield blobs_to_batch(blobs)

    def compose(self, blobs: Iterable[Blob]) -> Batches:
        """Compute the rows of stretches, which come in time order."""
        work, job = self
        tables = (table_from_bytes(blob.payload) for blob in blobs)
        for rows in compose(job, tables, work.schema):
            yield from _report(work, rows)


def task_cutting() -> Cutting:
    """Choose how this task cuts events: on its GPU, if it has one, or on the CPU."""
    scheduler = scheduler_of(task_address())
    if scheduler is None:
        return cut
    # Loads numba.cuda, which takes a moment.
    from cepheid.kinds.situation.device import PlacedCut

    return PlacedCut(scheduler)


def _between(rows: pa.Table, begin: int | None, end: int | None) -> pa.Table:
    """Select the rows that become final in a time range; they are sorted by that time."""
    if begin is None and end is None:
        return rows
    when = read_times(Columns(rows), TIME)
    first = 0 if begin is None else int(np.searchsorted(when, begin))
    last = len(when) if end is None else int(np.searchsorted(when, end))
    return rows.slice(first, last - first)


def _report(work: Work, rows: pa.Table) -> Batches:
    yield from work.shown(rows).combine_chunks().to_batches(REPORT_ROWS)


def _buckets(job: SituationJob, table: pa.Table, count: int) -> NDArray[np.int64]:
    """Compute the bucket of every stretch; a partition has the same bucket in every process."""
    mixed = np.zeros(len(table), np.uint64)
    if count > 1:
        for place in range(len(job.plan.partition.attributes)):
            mixed = (mixed ^ _hashes(table[f"{KEY}{place}"])) * _MIX
            mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(count)).astype(np.int64)


def _hashes(column: pa.ChunkedArray[Any]) -> NDArray[np.uint64]:
    if pa.types.is_integer(column.type):
        return np.asarray(column).astype(np.uint64)
    array: Any = column.combine_chunks()
    encoded = array.dictionary_encode()
    known = [zlib.crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()]
    hashes: NDArray[np.uint64] = np.array(known, np.uint64)[np.asarray(encoded.indices)]
    return hashes
