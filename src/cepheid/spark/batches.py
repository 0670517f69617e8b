"""Convert Spark's Arrow batches to tables of events, for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import CepheidError
from cepheid.jobs.blobs import Batches, Blob
from cepheid.jobs.ordering import STEP_ROWS, TimeMerge, put_together
from cepheid.jobs.tables import table_from_bytes
from cepheid.plans.plan import Plan
from cepheid.spark.worker import begin_task

Task = Callable[[Batches], Batches]

REPORT_ROWS = 100_000
"""Rows of complete windows that wait before they leave a task."""

BUCKET = "__bucket"
"""The column with the task of an event."""


def in_task(task: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Re-raise Cepheid errors without the worker's traceback."""

    def run(batches: Batches) -> Batches:
        begin_task()
        try:
            yield from task(batches)
        except CepheidError as error:
            raise type(error)(error.diagnostics, error.text) from None

    return run


def partition_id() -> int:
    """Return the partition number of the task."""
    context = TaskContext.get()
    assert context is not None, "this runs inside a Spark task"
    return context.partitionId()


def chunks(batches: Iterable[pa.RecordBatch], rows: int = STEP_ROWS) -> Iterator[pa.Table]:
    """Concatenate non-empty batches to tables of at least the given number of rows."""
    return put_together((batch for batch in batches if len(batch)), rows)


def with_names(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rename and cast the columns of a Spark table to those of the query.

    Spark passes times in the zone of the session, and a schema is in UTC: the instants are the
    same, so nothing is copied. All code after this sees one zone only.
    """
    fields = list(schema)
    fields += [table.schema.field(i) for i in range(len(schema), table.num_columns)]
    named = table.rename_columns([field.name for field in fields])
    wanted = pa.schema([(field.name, field.type) for field in fields])
    return named if named.schema.equals(wanted) else named.cast(wanted)


def begin_of(table: pa.Table, plan: Plan) -> int:
    """Read the time of the first event."""
    return int(read_times(Columns(table.slice(0, 1)), plan.time)[0])


def merged_events(plan: Plan, blobs: Iterable[Blob]) -> Iterator[pa.Table]:
    """Merge the events of blobs and yield them sorted by time."""
    merge = TimeMerge(plan)
    for blob in blobs:
        yield from merge.add(blob.seq, blob.begin, table_from_bytes(blob.payload))
    yield from merge.rest()
