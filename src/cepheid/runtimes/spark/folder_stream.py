"""Streams of Parquet files in a folder, read by the tasks that send events to buckets.

The usual way is one for every source: records become rows of Spark, which judges them (§13) and
finds their buckets, and rows become Arrow again. For files that Cepheid reads itself one task does
all of it, with the same answers (``folder_tasks.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import functions as sf

from cepheid.runtimes.spark import folder_tasks as tasks
from cepheid.runtimes.spark.bad_records import RECORDS, Asked, Checked, Keys
from cepheid.runtimes.spark.stream_tasks import BAD, SENT_DDL, unpack
from cepheid.spark.file_records import ParquetFolder, folder_of
from cepheid.spark.hashes import can_hash
from cepheid.spark.records import event_columns
from cepheid.spark.schema import names_of, spark_schema_of
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from cepheid.jobs.blobs import Batches
    from cepheid.plans.plan import Plan
    from cepheid.runtimes.spark.live_output import Decode
    from cepheid.spark.batches import Task


class FolderColumns(NamedTuple):
    """The columns of Parquet files that go to buckets; takes the place of ``ReadColumns``."""

    folder: ParquetFolder
    asked: Asked
    schema: pa.Schema
    columns: pa.Schema
    keeps_bad: bool

    @staticmethod
    def of(
        frame: DataFrame, plan: Plan, asked: Asked, names: tuple[str, ...], bad: str
    ) -> FolderColumns | None:
        """Choose the columns that a plan reads, if tasks can read the files of a stream alone.

        ``names`` are the columns by which events are placed in buckets. None if the stream is of
        another source, or something has to be judged by Spark.
        """
        folder = folder_of(frame)
        if folder is None:
            return None
        reads = names_of(plan, [field.name for field in folder.columns.fields])
        return FolderColumns.reading(frame, reads, asked, names, bad)

    @staticmethod
    def reading(
        frame: DataFrame, reads: Iterable[str], asked: Asked, names: tuple[str, ...], bad: str
    ) -> FolderColumns | None:
        """Choose given columns in the same way: those of events or, if asked, of changes."""
        folder = folder_of(frame)
        if folder is None or bad == "fail":
            return None
        columns = arrow_schema(folder.columns)
        reads = tuple(dict.fromkeys(reads))
        keys = [name for one in asked.keys for name in one.names]
        judged = {*names, *asked.reads, *keys, asked.time} | ({asked.type} - {None})
        if not judged <= {*reads} <= {*columns.names}:
            return None
        kinds = {field.name: field.type for field in columns}
        if not _is_time(kinds[asked.time]) or not all(can_hash(kinds[name]) for name in names):
            return None
        texts = [asked.type, None if asked.changes is None else asked.changes.op]
        if not all(pt.is_string(kinds[name]) for name in texts if name is not None):
            return None
        schema = pa.schema([columns.field(name) for name in reads])
        return FolderColumns(folder, asked, schema, columns, bad == "side")

    @property
    def decode(self) -> dict[str, Decode]:
        """Return how bad records are decoded: Spark describes them, as for other sources."""
        return {BAD: self._bad}

    def sent(self, task: Task, names: tuple[str, ...], count: int) -> DataFrame:
        """Read the files and send their events to buckets; count the records on the way."""
        judged = self._judged(names, count)
        clock = sf.current_timestamp().alias("clock")
        files = self.folder.paths.select("path", "content", clock)
        counts = judged.counts().names
        told = ", ".join([SENT_DDL, *(f"{name} long" for name in counts)])
        sent = files.mapInArrow(_hidden(judged, task), told)
        return sent.observe(RECORDS, *self._counts()).drop(*counts)

    def _counts(self) -> list[Any]:
        sums = [sf.coalesce(sf.sum(n), sf.lit(0)).alias(n) for n in tasks.COUNTED]
        nulls = [
            sf.coalesce(sf.sum(f"null_{n}"), sf.lit(0)).alias(name)
            for n, name in enumerate(self.asked.reads)
        ]
        return [*sums, sf.struct(*nulls).alias("nulls")] if nulls else sums

    def _judged(self, names: tuple[str, ...], count: int) -> tasks.Judged:
        asked = self.asked
        keys = next(iter(asked.keys), Keys((), None))
        return tasks.Judged(
            columns=self.columns.serialize().to_pybytes(),
            reads=tuple(self.schema.names),
            time=asked.time,
            tick_ns=asked.tick_ns,
            ahead_us=asked.ahead_us,
            type=asked.type,
            types=keys.types,
            keys=keys.names,
            nulls=asked.reads,
            keeps_bad=self.keeps_bad,
            buckets=count if names else 0,
            placed_by=names,
            changes=asked.changes,
        )

    def _bad(self, frame: DataFrame) -> DataFrame:
        shown = tasks.bad_schema(self.columns)
        rows = frame.select("payload").mapInArrow(unpack(shown), spark_schema_of(shown))
        names = tuple(event_columns(rows.drop(tasks.CAUSE)))
        return Checked(rows, self.asked, RECORDS, names).bad()


def _hidden(judged: tasks.Judged, task: Task) -> Task:
    def run(batches: Batches) -> Batches:
        return tasks.send_files(judged, task)(batches)

    return run


def _is_time(kind: pa.DataType) -> bool:
    return (
        pt.is_signed_integer(kind)
        or pt.is_date32(kind)
        or (pt.is_timestamp(kind) and kind.unit == "us")
    )
