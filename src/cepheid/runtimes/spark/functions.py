"""Queries inside Spark SQL: a table function for any table, and a data source for files.

    SELECT * FROM cepheid(TABLE(events), 'RETURN COUNT(*) PATTERN SEQ(A, B)')
    CREATE TEMPORARY VIEW trends USING cepheid OPTIONS (path 'log/*.parquet', query 'RETURN ...')

The table function gets its rows one by one from Spark, which is slow; the data source reads files
as ``scan.py`` does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.functions import udtf
from pyspark.sql.types import Row, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, SelectedColumn

from cepheid.errors import CepheidError, Diagnostic, UnsupportedError
from cepheid.events.schema import EventSchema, read_schema
from cepheid.expressions.own import all_registered
from cepheid.jobs.kind import TaskKind, compile_query, kind_of, needs_of
from cepheid.jobs.ordering import STEP_ROWS, ordered, slices
from cepheid.jobs.work import Work
from cepheid.language.parser import parse
from cepheid.language.tree import with_own_functions
from cepheid.patterns.scope import Source
from cepheid.plans.plan import Plan
from cepheid.runtimes.local import run_batches
from cepheid.runtimes.scan import Slice, cut, find_paths, flat_schema, read_footers, units_of
from cepheid.runtimes.spark.tasks import run_slice
from cepheid.spark.schema import file_schema, result_schema_of, spark_schema_of
from cepheid.spark.session import SETTINGS
from cepheid.spark.versions import arrow_schema
from cepheid.spark.worker_python import prepare_workers

NAME = "cepheid"
CHUNK_ROWS = 1 << 16
SLICES_MAX = 16
"""Slices of a data source, which does not know how many cores there are."""


STREAM_PROPERTY = "sql.streaming.queryId"
"""The local property that Spark sets for the tasks of a micro-batch."""


def register(spark: Any) -> None:
    """Register ``cepheid(...)`` and ``USING cepheid`` with a session, and set options for speed."""
    prepare_workers(spark)
    function: Any = udtf(TrendFunction, returnType=None, useArrow=False)
    spark.udtf.register(NAME, function)
    spark.dataSource.register(TrendSource)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def _plan(text: str, time: str, type_: str, schema: EventSchema | None) -> Plan:
    known = all_registered()
    parsed = with_own_functions(parse(text), known)
    plan = compile_query(parsed, text, Source(time, type_, (), schema, functions=known))
    if not isinstance(kind_of(plan), TaskKind):
        message = "a SELECT has no pattern: write it in Spark SQL"
        raise UnsupportedError([Diagnostic("E404", message)], text)
    return plan


@dataclass
class PlannedFunction(AnalyzeResult):
    """The result of analysing a call, which Spark sends to the workers."""

    plan: bytes = b""
    events: bytes = b""
    stamps: tuple[int, ...] = field(default=())


class TrendFunction:
    """``cepheid(TABLE(events), 'RETURN ...', time => 'ts', type => 'type')``."""

    def __init__(self, planned: PlannedFunction) -> None:
        self._plan = Plan.from_json(planned.plan)
        _refuse_micro_batch(self._plan.text)
        self._schema = pa.ipc.read_schema(pa.py_buffer(planned.events))
        self._stamps = planned.stamps
        self._rows: list[Row] = []
        self._tables: list[pa.Table] = []

    @staticmethod
    def analyze(
        events: AnalyzeArgument,
        query: AnalyzeArgument,
        time: AnalyzeArgument | None = None,
        type: AnalyzeArgument | None = None,  # noqa: A002  # the name of an argument in SQL
    ) -> PlannedFunction:
        """Plan the query for the columns of the table; query errors become errors of the call."""
        table = events.dataType
        if not isinstance(table, StructType) or not isinstance(query.value, str):
            message = "cepheid(TABLE(events), 'RETURN ...') takes a table and a text"
            raise TypeError(message)
        names = [str(a.value) if a is not None else d for a, d in ((time, "ts"), (type, "type"))]
        try:
            plan = _plan(query.value, names[0], names[1], read_schema(table))
        except CepheidError as error:
            raise ValueError(str(error)) from None
        columns = plan.columns if plan.columns is not None else tuple(table.names)
        whole = arrow_schema(table)
        schema = flat_schema(whole, columns)
        # Matches are numbered, and limited, in one place.
        groups = () if plan.lists_matches else plan.partition.group_by
        stamps = tuple(
            n for n, f in enumerate(schema) if pa.types.is_timestamp(f.type) and f.type.tz
        )
        return PlannedFunction(
            schema=spark_schema_of(result_schema_of(plan, schema)),
            withSinglePartition=not groups,
            partitionBy=[PartitioningColumn(_quoted(name, table)) for name in groups],
            select=[
                SelectedColumn(_quoted(n, table), alias=f"_{i}") for i, n in enumerate(columns)
            ],
            plan=plan.to_json(),
            events=schema.serialize().to_pybytes(),
            stamps=stamps,
        )

    def eval(
        self,
        events: Row,
        query: str,
        time: str = "ts",
        type: str = "type",  # noqa: A002  # the name of an argument in SQL
    ) -> None:
        """Buffer a row."""
        del query, time, type
        self._rows.append(events)
        if len(self._rows) >= CHUNK_ROWS:
            self._pack()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Yield the result for the rows of one partition."""
        self._pack()
        table = pa.concat_tables(self._tables) if self._tables else self._schema.empty_table()
        batches = slices(ordered(table, self._plan), STEP_ROWS)
        result = run_batches(self._plan, batches, self._schema)
        for row in result.cast(result_schema_of(self._plan, self._schema)).to_pylist():
            yield tuple(row.values())

    def _pack(self) -> None:
        """Convert buffered rows to columns; Spark passes timestamps in the machine's time zone."""
        if not self._rows:
            return
        columns: list[list[Any]] = [list(column) for column in zip(*self._rows, strict=True)]
        for number in self._stamps:
            columns[number] = [t and t.astimezone(dt.UTC) for t in columns[number]]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        self._tables.append(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []


def _refuse_micro_batch(text: str) -> None:
    """Refuse to run in a task of a micro-batch, which sees no events of other micro-batches.

    Raises
    ------
    UnsupportedError
        E405.
    """
    context = TaskContext.get()
    if context is not None and context.getLocalProperty(STREAM_PROPERTY):
        message = "`cepheid(TABLE(...))` would give a separate result for each micro-batch"
        helps = (
            "run a live query with `q.stream(events, watermark='10 seconds')`",
            "in `foreachBatch`, `q.run(frame)` gives the result of one batch",
        )
        raise UnsupportedError([Diagnostic("E405", message, helps=helps)], text)


def _quoted(name: str, table: StructType) -> str:
    path = [name] if name in table.names else name.split(".")
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)


class SlicePartition(InputPartition):
    """A slice of time for one task."""

    def __init__(self, piece: Slice, number: int) -> None:
        super().__init__(None)
        self.piece, self.number = piece, number


class TrendSource(DataSource):
    """``USING cepheid OPTIONS (path '...', query '...')``; options time and type name columns."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the source in SQL."""
        return NAME

    def schema(self) -> StructType:
        """Compute the columns of the query's result."""
        plan, schema, _ = self._planned()
        return spark_schema_of(result_schema_of(plan, schema))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Build the reader of the files."""
        del schema
        return TrendReader(*self._planned())

    def _planned(self) -> tuple[Plan, pa.Schema, Any]:
        options = self.options
        for name in ("path", "query"):
            if name not in options:
                message = f"`USING cepheid` needs the option `{name}`"
                raise ValueError(message)
        paths = find_paths(options["path"])
        time = options.get("time", "ts")
        footers = read_footers(paths, time)
        kinds = read_schema(footers.schema)
        try:
            plan = _plan(options["query"], time, options.get("type", "type"), kinds)
        except CepheidError as error:
            raise ValueError(str(error)) from None
        if footers.groups is None:
            message = f"the footers of the files do not contain the times of `{time}`"
            raise ValueError(message)
        names = plan.columns if plan.columns is not None else footers.schema.names
        units = units_of(footers.groups, apart=bool(plan.tiebreak))
        return plan, file_schema(flat_schema(footers.schema, names)), units


class TrendReader(DataSourceReader):
    """Runs the query in the tasks that read the files."""

    def __init__(self, plan: Plan, schema: pa.Schema, units: Any) -> None:
        self._plan = plan.to_json()
        self._schema = schema.serialize().to_pybytes()
        self._units = units

    def partitions(self) -> list[InputPartition]:
        """Cut the files into slices of time that are processed independently."""
        plan = Plan.from_json(self._plan)
        needs = needs_of(plan)
        before, after = needs.reach
        # A source cannot count the rows of all its tasks.
        if needs.from_start or plan.limit is not None or not self._units:
            return [SlicePartition(Slice(None, None, tuple(self._units)), 0)]
        lead = needs.leads_in
        pieces = cut(self._units, SLICES_MAX, before=before, after=after, event_before=lead)
        return [SlicePartition(piece, number) for number, piece in enumerate(pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the results of a slice."""
        assert isinstance(partition, SlicePartition), "the source's own partition"
        plan = Plan.from_json(self._plan)
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        work = Work.of(plan, schema, result_schema_of(plan, schema), 1)
        yield from run_slice(work, partition.piece, partition.number)
