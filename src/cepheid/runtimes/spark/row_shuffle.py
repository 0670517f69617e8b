"""Bring the rows with equal keys to one task, as blobs of thousands of rows.

A shuffle of single rows would turn each of them into Arrow on its way to Python. Of Parquet files,
few tasks each read all rows and keep those of their keys, if that is faster than sending them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from cepheid.jobs.blobs import BLOB_DDL, EVENTS, Batches, Blob, blobs_of, blobs_to_batch, split
from cepheid.jobs.tables import table_from_bytes, table_to_bytes
from cepheid.runtimes.spark.costs import Facts, all_read_all
from cepheid.runtimes.spark.key_spread import hashed
from cepheid.runtimes.task_rates import read_task_rates
from cepheid.spark.batches import BUCKET, Task, chunks, in_task
from cepheid.spark.frame_files import FrameFiles
from cepheid.spark.hashes import buckets_of_keys, can_hash
from cepheid.spark.size import SHUFFLE_PARTITIONS_DEFAULT, cores_of, given_tasks, known_bytes
from cepheid.spark.versions import repartition_by_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASK_BYTES = 1 << 27
"""A task takes about so much of a file or a table; rows in memory are several times as large."""

TASKS_MAX = 4096

BLOB_ROWS = 1 << 16
"""Rows that are split into blobs at once: the JVM is slow with values of many megabytes."""


def run_by_keys(frame: DataFrame, keys: tuple[str, ...], task: Task, columns: Any) -> DataFrame:
    """Run a task over all rows of some keys at a time; without keys over all rows.

    The rows come to the task as batches, in no order.
    """
    files = _files_of(frame)
    if not keys:
        if files is None:
            return frame.coalesce(1).mapInArrow(task, columns)
        return files.in_one_part().mapped(frame, task, columns, lambda table: table)
    count = _task_count(frame)
    if files is not None and _all_read_all(frame, files, keys, count):

        def own(number: int, table: pa.Table) -> pa.Table:
            return table.filter(pa.array(_buckets(table, keys, count) == number))

        return files.read_by_all(frame, count, task, columns, own)
    sent = _sent(frame, files, keys, count)
    return repartition_by_id(sent, count, "bucket").mapInArrow(_over_blobs(task), columns)


def describe_ways(frame: DataFrame, keys: tuple[str, ...]) -> str:
    """Describe how the rows of some keys come to one task."""
    files, count = _files_of(frame), _task_count(frame)
    if files is not None and _all_read_all(frame, files, keys, count):
        tasks = "1 task" if count == 1 else f"each of {count} tasks"
        return f"{tasks} reads all files, and keeps its rows by {', '.join(keys)}"
    return f"one shuffle by {', '.join(keys)}"


def _files_of(frame: DataFrame) -> FrameFiles | None:
    # Spark sends times in the zone of the session, by which a clause reads hours and days.
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return FrameFiles.of(frame, frame.columns, zone)


def _task_count(frame: DataFrame) -> int:
    """Choose the number of tasks, so that the rows of one fit into memory."""
    spark = frame.sparkSession
    given = given_tasks(spark)
    if given is not None:
        return given
    size = known_bytes(frame)
    wanted = int(SHUFFLE_PARTITIONS_DEFAULT) if size is None else size // TASK_BYTES
    return min(max(cores_of(spark), wanted), TASKS_MAX)


def _sent(
    frame: DataFrame, files: FrameFiles | None, keys: tuple[str, ...], count: int
) -> DataFrame:
    if files is not None and _placed_by_tasks(files, keys):

        def placed(table: pa.Table) -> pa.Table:
            return table.append_column(BUCKET, pa.array(_buckets(table, keys, count)))

        return files.mapped(frame, _send(count), BLOB_DDL, placed)
    # A column of Spark is found by its name, in which a dot would be a field.
    number = hashed(frame, keys, count) if count > 1 else sf.lit(0)
    return frame.withColumn(BUCKET, number).mapInArrow(in_task(_send(count)), BLOB_DDL)


def _placed_by_tasks(files: FrameFiles, keys: tuple[str, ...]) -> bool:
    """Check whether tasks that read the files find the buckets of keys."""
    return all(can_hash(files.schema.field(name).type) for name in keys)


def _all_read_all(frame: DataFrame, files: FrameFiles, keys: tuple[str, ...], count: int) -> bool:
    """Check whether tasks read all files, each for its own keys, instead of sending rows."""
    facts = Facts(
        rows=files.rows,
        columns=len(files.schema),
        span=1,
        cores=cores_of(frame.sparkSession),
        parts=len(files.parts),
        keeps=_placed_by_tasks(files, keys),
    )
    return all_read_all(facts, count, read_task_rates())


def _buckets(table: pa.Table, keys: tuple[str, ...], count: int) -> NDArray[np.int32]:
    columns: list[Any] = [table[name].combine_chunks() for name in keys]
    return buckets_of_keys(columns, count)


def _send(count: int) -> Task:
    def run(batches: Batches) -> Batches:
        for chunk in chunks(batches, BLOB_ROWS):
            bucket = chunk[BUCKET].to_numpy().astype(np.int64)
            rows = chunk.drop_columns([BUCKET])
            yield blobs_to_batch(
                [
                    Blob(number, 0, 0, EVENTS, table_to_bytes(part))
                    for number, part in split(rows, bucket, count)
                ]
            )

    return run


def _over_blobs(task: Task) -> Task:
    def run(batches: Batches) -> Batches:
        tables = (table_from_bytes(blob.payload) for blob in blobs_of(batches))
        yield from task(batch for table in tables for batch in table.to_batches())

    return run
