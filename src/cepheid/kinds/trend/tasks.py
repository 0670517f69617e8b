"""Aggregates of trends inside Spark tasks: events in; rows, summaries or partial rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cepheid.arrays.columns import Columns, KeyTable, read_times, type_bits
from cepheid.arrays.noticing import current
from cepheid.jobs.blobs import EVENTS, ROWS, STRETCH, Batches, Blob, blobs_to_batch, split
from cepheid.jobs.owned import EVERYTHING, Owned
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.jobs.work import Work
from cepheid.kinds.trend import tasks_on_gpu as spark_gpu
from cepheid.kinds.trend.planning.needs import shuffle_attributes
from cepheid.kinds.trend.program.job import Job, job_of
from cepheid.kinds.trend.program.partials import (
    RowsOfRuns,
    buckets_of_groups,
    is_whole,
    owned_rows,
    rows_from_table,
    rows_to_table,
)
from cepheid.kinds.trend.program.results import build_table
from cepheid.kinds.trend.windows.step import PartitionState, close, feed
from cepheid.kinds.trend.windows.summaries import (
    Composer,
    Summariser,
    stretch_from_bytes,
    stretch_to_bytes,
)
from cepheid.language import tree
from cepheid.spark.batches import REPORT_ROWS, begin_of, partition_id

RAW_RATIO = 4
"""With fewer events per matrix, the events themselves are shuffled."""


class TrendTasks(NamedTuple):
    """The job of tasks for aggregates of trends."""

    work: Work
    job: Job

    @staticmethod
    def of(work: Work) -> TrendTasks:
        """Create the tasks of a plan."""
        return TrendTasks(work, job_of(work.plan))

    def rows(self, tables: Iterable[pa.Table], owned: Owned, number: int) -> Batches:
        """Compute the results of sorted events, for the windows that the task owns."""
        del number
        return self._rows(tables, owned, final=True)

    def partial_rows(self, tables: Iterable[pa.Table]) -> Batches:
        """Compute partial rows of groups that have partitions in other tasks, as blobs."""
        return self._rows(tables, EVERYTHING, final=False)

    def _rows(self, tables: Iterable[pa.Table], owned: Owned, *, final: bool) -> Batches:
        work, job = self
        report = Report(work, job, final=final)
        if spark_gpu.on_device(job):
            rows, keys = spark_gpu.run_on_device(job, tables, work.schema)
            yield from report.add(owned_rows(job, rows, owned), keys)
            yield from report.close(keys)
            return
        state = PartitionState(job)
        for table in tables:
            rows = feed(job, state, table)
            yield from report.add(owned_rows(job, rows, owned), state.keys)
        rows = close(job, state)
        yield from report.add(owned_rows(job, rows, owned), state.keys)
        yield from report.close(state.keys)

    @property
    def merges(self) -> bool:
        """Check whether groups have partitions in several tasks of a key shuffle."""
        return needs_merge(self.job)

    def merge(self, blobs: Iterable[Blob]) -> Batches:
        """Merge the partial rows of all partitions of a group."""
        tables = [table_from_bytes(blob.payload) for blob in blobs]
        if tables:
            rows, keys = rows_from_table(self.job, pa.concat_tables(tables))
            yield from result_batches(self.work, self.job, rows, keys)

    def summarise(self, tables: Iterable[pa.Table], seq: int) -> Batches:
        """Summarise sorted events; pass the events on where these are smaller."""
        work, job = self
        iterator = iter(tables)
        first = next(iterator, None)
        if first is None:
            return
        begin = begin_of(first, job.plan)
        if _is_sparse(job, first):
            events = _types_noticed(job, _chain(first, iterator))
            yield from _send_raw(work, job, events, seq << 32)
            return
        summariser = spark_gpu.summariser_of(job)
        for table in spark_gpu.gathered(_chain(first, iterator), summariser.step_rows):
            summariser.feed(table)
        keys, summaries = summariser.close()
        bucket = buckets_of_groups(job, keys, work.buckets)
        blobs = []
        for number in range(work.buckets):
            data = stretch_to_bytes(job, keys, summaries, work.schema, bucket == number)
            if data:
                blobs.append(Blob(number, begin, seq << 32, STRETCH, data))
        if blobs:
            yield blobs_to_batch(blobs)

    def compose(self, blobs: Iterable[Blob]) -> Batches:
        """Compute the results of summaries, which come in time order."""
        work, job = self
        composer = Composer(job)
        for blob in blobs:
            if blob.kind == STRETCH:
                composer.add(*stretch_from_bytes(blob.payload))
            else:
                composer.add(*_stretch_of_events(work, job, blob.payload))
        rows = composer.finish()
        yield from result_batches(work, job, rows, composer.keys)


def needs_merge(job: Job) -> bool:
    """Check whether groups have partitions in several tasks of a key shuffle."""
    by_group = set(shuffle_attributes(job.plan)) == set(job.plan.partition.group_by)
    return not is_whole(job) and bool(job.plan.partition.attributes) and not by_group


class Report:
    """Buffers the rows of complete windows and emits them: final, or to be merged."""

    def __init__(self, work: Work, job: Job, *, final: bool) -> None:
        self.work, self.job, self.final = work, job, final
        # A window may still get rows of other partitions, programs and number formats.
        self._early = is_whole(job) and len(job.templates) == 1 and not job.moduli
        self._rows: RowsOfRuns = [[] for _ in range(len(job.templates) * (1 + len(job.moduli)))]

    def add(self, rows: RowsOfRuns, keys: KeyTable) -> Batches:
        """Add rows; emit results once there are many."""
        for found, new in zip(self._rows, rows, strict=True):
            found += new
        if self._early and sum(len(r.key) for r in self._rows[0]) >= REPORT_ROWS:
            yield from self.close(keys)

    def close(self, keys: KeyTable) -> Batches:
        """Emit the buffered rows."""
        rows, self._rows = self._rows, [[] for _ in self._rows]
        if self.final:
            yield from result_batches(self.work, self.job, rows, keys)
            return
        schema = self.work.schema
        table = rows_to_table(self.job, rows, keys, schema)
        _, named = rows_from_table(self.job, table)
        number = named.number(_named_keys(self.job, table))
        bucket = buckets_of_groups(self.job, named, self.work.buckets)[number]
        bucket = (bucket + table["window"].to_numpy()) % self.work.buckets
        blobs = [
            Blob(place, 0, partition_id(), ROWS, table_to_bytes(part))
            for place, part in split(table, bucket, self.work.buckets)
        ]
        if blobs:
            yield blobs_to_batch(blobs)


def _named_keys(job: Job, table: pa.Table) -> Columns:
    names = job.plan.partition.attributes
    places = ["run", *(f"key_{n}" for n in range(len(names)))]
    return Columns(table.select(places).rename_columns(["", *names]))


def result_batches(work: Work, job: Job, rows: RowsOfRuns, keys: KeyTable) -> Batches:
    """Build the results of rows, in the types that the driver has declared."""
    table = work.shown(build_table(job, rows, keys, work.schema))
    yield from table.combine_chunks().to_batches(REPORT_ROWS)


def _types_noticed(job: Job, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables, and notice their types: another task, which nobody asks, looks them up."""
    for table in tables:
        if current() is not None:
            type_bits(Columns(table), job.plan.type, [], len(table))
        yield table


def _chain(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _is_sparse(job: Job, table: pa.Table) -> bool:
    columns, keys = Columns(table), KeyTable(job.plan.partition.attributes)
    key = keys.number(columns)
    pairs = len(keys)
    if job.plan.window.pane and len(key):
        pane = read_times(columns, job.plan.time) // job.plan.window.pane
        pairs = len(np.unique((pane - pane.min()) * (key.max() + 2) + key + 1))
    lanes = sum(program.size + 1 for program in job.programs)
    return len(table) < RAW_RATIO * lanes * pairs


def _send_raw(work: Work, job: Job, tables: Iterable[pa.Table], seq: int) -> Batches:
    strict = job.plan.ties is tree.Ties.STRICT
    held: pa.Table | None = None
    for table in tables:
        whole = table if held is None else pa.concat_tables([held, table])
        times = read_times(Columns(whole), job.plan.time)
        # Tied events stay together: later ones may still come.
        ready = int(np.searchsorted(times, times[-1], side="left")) if strict else len(whole)
        held = whole.slice(ready)
        yield from _raw_blobs(work, job, whole.slice(0, ready), seq)
        seq += 1
    if held is not None:
        yield from _raw_blobs(work, job, held, seq)


def _raw_blobs(work: Work, job: Job, table: pa.Table, seq: int) -> Batches:
    keys = KeyTable(job.plan.partition.attributes)
    number = keys.number(Columns(table))
    if (number < 0).any():
        rows = np.flatnonzero(number >= 0)
        table, number = table.take(rows), number[rows]
    if not len(table):
        return
    bucket = buckets_of_groups(job, keys, work.buckets)[number]
    yield blobs_to_batch(
        [
            Blob(place, begin_of(part, job.plan), seq, EVENTS, table_to_bytes(part))
            for place, part in split(table, bucket, work.buckets)
        ]
    )


def _stretch_of_events(work: Work, job: Job, payload: bytes) -> Any:
    summariser = Summariser(job)
    summariser.feed(table_from_bytes(payload))
    keys, summaries = summariser.close()
    every = np.ones(len(keys), np.bool_)
    return stretch_from_bytes(stretch_to_bytes(job, keys, summaries, work.schema, every))
