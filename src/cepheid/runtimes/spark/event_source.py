"""The events of a DataFrame that tasks send to buckets, read by Spark or by the tasks themselves.

Spark filters events that cannot affect the result and finds their buckets. Where tasks read the
Parquet files of the DataFrame (``spark/frame_files.py``), they drop events of other types and find
the same buckets. A filter may keep too much, so predicates are left to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from cepheid.errors import CepheidError
from cepheid.jobs.blobs import BLOB_DDL, Batches
from cepheid.jobs.kind import kind_of, task_kind
from cepheid.runtimes.scan import RowGroup, Slice, read_footers, units_of
from cepheid.runtimes.scan_read import Reader
from cepheid.runtimes.spark.key_spread import Spread, hashed, task_of
from cepheid.runtimes.spark.tasks import Events
from cepheid.spark.batches import BUCKET, Task
from cepheid.spark.frame_files import FrameFiles, numbers_of
from cepheid.spark.hashes import buckets_of_keys, can_hash
from cepheid.spark.schema import columns_of, names_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cepheid.plans.plan import Plan


FOOTERS_MAX = 1000
"""The times of more files are left to a pass of Spark."""


class EventSource(NamedTuple):
    """The columns that a plan reads, as Spark gives them, and the files beneath them if any."""

    projected: DataFrame
    files: FrameFiles | None
    type: str | None
    types: tuple[str, ...] | None
    """The event types that the query needs; None if it needs all events."""

    @staticmethod
    def of(frame: DataFrame, projected: DataFrame, plan: Plan) -> EventSource:
        """Find the files of a DataFrame, which ``projected`` has the columns of."""
        files = FrameFiles.of(frame, names_of(plan, frame.columns))
        types = None
        if files is not None and plan.type is not None:
            column = files.schema.field(plan.type).type if plan.type in files.schema.names else None
            drops = task_kind(plan).fits(plan, columns_of(frame, plan)) is not None
            if drops and column is not None and pt.is_string(column):
                types = kind_of(plan).event_types(plan)
        return EventSource(projected, files, plan.type, types)

    def sent(self, task: Task) -> DataFrame:
        """Let a task send the events."""
        if self.files is None:
            return self.projected.mapInArrow(task, BLOB_DDL)
        return self.files.mapped(self.projected, task, BLOB_DDL, self._kept())

    def groups(self, plan: Plan) -> Sequence[RowGroup]:
        """Read the times of the row groups of the files; empty if they are not known."""
        parts = () if self.files is None else self.files.parts
        paths = sorted({path for part in parts for path, _ in part})
        if not paths or len(paths) > FOOTERS_MAX:
            return ()
        try:
            return read_footers(paths, plan.time).groups or ()
        except CepheidError:
            return ()  # Such as columns that only some files have.

    def keeps(self, names: tuple[str, ...], groups: Sequence[RowGroup]) -> bool:
        """Check whether each task can read all files, in time order, and keep its keys."""
        # A path that is named twice has its events twice, which no slice has.
        every = self.files is not None and sum(g.rows for g in groups) == self.files.rows
        return bool(groups) and every and self._can_place(names)

    def own_events(
        self,
        plan: Plan,
        groups: Sequence[RowGroup],
        names: tuple[str, ...],
        count: int,
        spread: Spread | None,
    ) -> Events:
        """Let each task read all files and keep the events of its keys."""
        assert self.files is not None, "files have keys that can be hashed"
        schema = self.files.schema
        everything = Slice(None, None, tuple(units_of(list(groups), apart=bool(plan.tiebreak))))
        tasks = np.arange(count) if spread is None else np.array(spread.tasks)

        def read(batches: Batches) -> Iterator[pa.Table]:
            for number in numbers_of(batches):
                for table in Reader(plan, schema).events(everything):
                    if count == 1:
                        yield _with_types(table, schema)
                        continue
                    place = tasks[_buckets(table, names, len(tasks))]
                    yield _with_types(table.filter(pa.array(place == number)), schema)

        return read

    def counts(self, names: tuple[str, ...], small: int) -> DataFrame | None:
        """Count the events of small buckets of keys in each file; None if Spark reads the events.

        The rows are numbers of buckets, each perhaps several times, and of events.
        """
        if not self._can_place(names):
            return None
        files = self.files
        assert files is not None, "files have keys that can be hashed"
        wanted = {*names, *([] if self.types is None else [self.type])}
        read = files._replace(schema=pa.schema([f for f in files.schema if f.name in wanted]))
        kept = self._kept()

        def run(batches: Batches) -> Batches:
            total = np.zeros(small, np.int64)
            for batch in batches:
                table = kept(pa.Table.from_batches([batch]))
                total += np.bincount(_buckets(table, names, small), minlength=small)
            columns: list[Any] = [pa.array(np.arange(small)), pa.array(total)]
            yield pa.RecordBatch.from_arrays(columns, ["small", "events"])

        return read.mapped(self.projected, run, "small long, events long", lambda table: table)

    def sent_by_keys(
        self, task: Task, names: tuple[str, ...], count: int, spread: Spread | None
    ) -> DataFrame:
        """Let a task send the events, with the bucket of their keys beside them."""
        files = self.files
        if files is None or not self._can_place(names):
            frame = self.projected
            number = task_of(frame, names, spread) if spread else hashed(frame, names, count)
            return frame.withColumn(BUCKET, number).mapInArrow(task, BLOB_DDL)
        tasks = np.arange(count) if spread is None else np.array(spread.tasks)
        kept = self._kept()

        def placed(table: pa.Table) -> pa.Table:
            table = kept(table)
            number = tasks[_buckets(table, names, len(tasks))]
            return table.append_column(BUCKET, pa.array(number))

        return files.mapped(self.projected, task, BLOB_DDL, placed)

    def _can_place(self, names: tuple[str, ...]) -> bool:
        """Check whether tasks read the events, and find the buckets of their keys."""
        if self.files is None:
            return False
        schema = self.files.schema
        return all(name in schema.names and can_hash(schema.field(name).type) for name in names)

    def _kept(self) -> Callable[[pa.Table], pa.Table]:
        column, types = self.type, self.types

        def kept(table: pa.Table) -> pa.Table:
            if types is None or column is None:
                return table
            return table.filter(pc.is_in(table[column], value_set=pa.array(types, pa.string())))

        return kept


def _with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Cast columns to the types that Spark gives them; texts stay in dictionaries."""
    kept = [
        old if pt.is_dictionary(old.type) else new
        for old, new in zip(table.schema, schema, strict=True)
    ]
    wanted = pa.schema(kept)
    return table if table.schema.equals(wanted) else table.cast(wanted)


def _buckets(table: pa.Table, names: tuple[str, ...], count: int) -> NDArray[np.int32]:
    columns: list[Any] = [table[name].combine_chunks() for name in names]
    return buckets_of_keys(columns, count)
