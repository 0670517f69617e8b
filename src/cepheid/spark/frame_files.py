"""Parquet files beneath a DataFrame, which tasks read with Arrow.

Spark decodes a file into rows, and turns rows into Arrow for Python, which takes most of the time
of a task. If a DataFrame is nothing but columns of Parquet files, tasks read these themselves and
get the same rows. Everything else, such as filters, partitioned folders, tables with a log, types
that Arrow reads differently, or another file system, goes the usual way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.types as pt
from pyarrow import parquet

from cepheid.errors import DataError, Diagnostic
from cepheid.jobs.blobs import Batches
from cepheid.spark.batches import Task, in_task
from cepheid.spark.size import cores_of
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES_MAX = 4096
"""The driver reads the footers; those of more files are left to Spark's tasks."""

FOOTER_THREADS = 8

PARTS_PER_CORE = 4
PART_ROWS_MIN = 250_000
"""Fewer rows are not worth a task."""

BATCH_ROWS = 1 << 16
"""Rows that a task gets at once."""

_LEGACY, _VERSION = b"org.apache.spark.legacyDateTime", b"org.apache.spark.version"
"""Files with this mark, or of Spark 2, have days of another calendar, which Spark converts."""

_REBASE = "datetimeRebaseMode"
"""Of a file that does not name its version, this option says whether days are converted."""

_SINCE_1900 = {
    "day": -25_567,
    "milliseconds": -2_208_988_800_000,
    "microseconds": -2_208_988_800_000_000,
}
"""From then on, both calendars are the same."""

_IGNORED = ("ignoreCorruptFiles", "ignoreMissingFiles")

_LISTS = ("InMemoryFileIndex", "CatalogFileIndex")
"""Classes that list the files of a relation; others may list files that are not to be read."""

Part = tuple[tuple[str, int], ...]
"""Row groups that one task reads: the paths of their files, and their numbers."""


class FrameFiles(NamedTuple):
    """The row groups of files, in a part for each task, and their columns as Spark sends them."""

    parts: tuple[Part, ...]
    schema: pa.Schema
    rows: int

    @staticmethod
    def of(frame: DataFrame, names: Sequence[str], zone: str | None = "UTC") -> FrameFiles | None:
        """Find the files of a DataFrame for some of its columns; None if there is more to do.

        Times have the given zone, which does not change what they are.
        """
        relation = _relation_of(frame)
        paths = [] if relation is None else _paths_of(relation)
        if not paths or len(paths) > FILES_MAX or not set(names) <= set(frame.columns):
            return None
        kinds = arrow_schema(frame.schema, zone)
        schema = pa.schema([kinds.field(name) for name in names])
        rebases = _rebases(frame, str(relation.options()))
        with ThreadPoolExecutor(FOOTER_THREADS) as pool:
            found = list(pool.map(lambda path: _row_groups(path, schema, rebases=rebases), paths))
        groups = [group for one in found if one is not None for group in one]
        if any(one is None for one in found):
            return None
        rows = sum(count for _, _, count in groups)
        return FrameFiles(_parts(groups, cores_of(frame.sparkSession)), schema, rows)

    def in_one_part(self) -> FrameFiles:
        """Let one task read all files."""
        return self._replace(parts=(tuple(group for part in self.parts for group in part),))

    def mapped(
        self, frame: DataFrame, task: Task, columns: Any, change: Callable[[pa.Table], pa.Table]
    ) -> DataFrame:
        """Run a task over the rows, as ``mapInArrow`` does; ``change`` may add columns to them."""
        parts, schema = self.parts, self.schema.serialize().to_pybytes()

        def run(batches: Batches) -> Batches:
            wanted = pa.ipc.read_schema(pa.py_buffer(schema))
            groups = (group for number in numbers_of(batches) for group in parts[number])
            yield from task(_read(groups, wanted, change))

        return numbered(frame, len(parts)).mapInArrow(in_task(run), columns)

    def read_by_all(
        self,
        frame: DataFrame,
        count: int,
        task: Task,
        columns: Any,
        keep: Callable[[int, pa.Table], pa.Table],
    ) -> DataFrame:
        """Let each of some tasks read all files, and keep the rows of its number."""
        groups = tuple(group for part in self.parts for group in part)
        schema = self.schema.serialize().to_pybytes()

        def run(batches: Batches) -> Batches:
            wanted = pa.ipc.read_schema(pa.py_buffer(schema))
            for number in numbers_of(batches):
                own = partial(keep, number)
                yield from task(_read(iter(groups), wanted, own))

        return numbered(frame, count).mapInArrow(in_task(run), columns)


def numbered(frame: DataFrame, count: int) -> DataFrame:
    """Build a DataFrame with a task for each number below ``count``."""
    return frame.sparkSession.range(0, count, 1, count)


def numbers_of(batches: Batches) -> list[int]:
    """Return the numbers that a task of ``numbered`` gets: one, its own."""
    return [int(n) for batch in batches for n in batch.column(0).to_numpy()]


def _relation_of(frame: DataFrame) -> Any:
    """Return the files that a DataFrame reads unchanged; None if it does anything else."""
    local: Any = getattr(frame, "_jdf", None)
    if local is None or frame.isStreaming:
        return None
    plan = local.queryExecution().optimizedPlan()
    if _name(plan) == "Project":
        chosen = plan.projectList()
        if any(_name(chosen.apply(n)) != "AttributeReference" for n in range(chosen.size())):
            return None
        plan = plan.child()
    if _name(plan) != "LogicalRelation" or _name(plan.relation()) != "HadoopFsRelation":
        return None
    relation = plan.relation()
    if _name(relation.fileFormat()) != "ParquetFileFormat" or relation.partitionSchema().size():
        return None
    if _name(relation.location()) not in _LISTS:
        return None
    by_number = _is_on(frame, "spark.sql.parquet.fieldId.read.enabled")
    return None if by_number or _ignores_files(frame, str(relation.options())) else relation


def _paths_of(relation: Any) -> list[str]:
    """List the files of a relation; one that is named twice has its rows twice, as in Spark."""
    uris = [urlparse(uri) for uri in relation.location().inputFiles()]
    return [] if any(u.scheme != "file" for u in uris) else sorted(unquote(u.path) for u in uris)


def _ignores_files(frame: DataFrame, options: str) -> bool:
    """Check whether Spark is to leave out files that are damaged or gone."""
    asked = any(_is_on(frame, f"spark.sql.files.{name}") for name in _IGNORED)
    return asked or any(name.lower() in options.lower() for name in _IGNORED)


def _rebases(frame: DataFrame, options: str) -> bool:
    """Check whether Spark may convert, or refuse, old days of a file that names no version."""
    mode = frame.sparkSession.conf.get("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    return str(mode).upper() != "CORRECTED" or _REBASE.lower() in options.lower()


def _is_on(frame: DataFrame, setting: str) -> bool:
    return str(frame.sparkSession.conf.get(setting, "false")).lower() == "true"


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _row_groups(
    path: str, schema: pa.Schema, *, rebases: bool
) -> list[tuple[str, int, int]] | None:
    """List the row groups of a file and their rows; None if Arrow would read other values."""
    try:
        file = parquet.ParquetFile(path)
    except (OSError, pa.ArrowException):
        return None  # Spark finds the words.
    has, about = file.schema_arrow, file.metadata
    if _LEGACY in (about.metadata or {}):
        return None
    small = [name.lower() for name in has.names]
    for field in schema:
        # Spark may look for a name in letters of any case, and refuses two of them.
        if field.name not in has.names or small.count(field.name.lower()) != 1:
            return None
        if not _reads_alike(has.field(field.name).type, field.type):
            return None
    dates = [f.name for f in schema if pt.is_date32(f.type) or getattr(f.type, "tz", None)]
    if dates and _is_of_another_calendar(about, dates, rebases=rebases):
        return None
    counts = [about.row_group(n).num_rows for n in range(about.num_row_groups)]
    return [(path, n, rows) for n, rows in enumerate(counts) if rows]


def _is_of_another_calendar(about: Any, names: list[str], *, rebases: bool) -> bool:
    """Check whether Spark may convert days of a file that Arrow reads as they are."""
    version = (about.metadata or {}).get(_VERSION, b"")
    if version:
        return int(version.partition(b".")[0]) < 3
    return rebases and not all(
        _is_since_1900(about.row_group(number), name)
        for number in range(about.num_row_groups)
        for name in names
    )


def _is_since_1900(group: Any, name: str) -> bool:
    """Check by the statistics of a row group whether all times of a column are in our calendar."""
    columns = (group.column(n) for n in range(group.num_columns))
    column = next(one for one in columns if one.path_in_schema == name)
    about = column.statistics
    if about is None or not about.has_min_max:
        return not group.num_rows or (about is not None and about.null_count == column.num_values)
    unit = json.loads(about.logical_type.to_json()).get("timeUnit", "day")
    first: int = about.min_raw
    return first >= _SINCE_1900[unit]


def _reads_alike(own: Any, wanted: Any) -> bool:
    """Check whether Arrow reads a column with the values that Spark gives it."""
    if pt.is_timestamp(own) and pt.is_timestamp(wanted):
        return own.unit in ("ms", "us") and (own.tz is None) == (wanted.tz is None)
    plain = pt.is_signed_integer(own) or pt.is_floating(own) or pt.is_boolean(own)
    return bool((plain or pt.is_string(own) or pt.is_date32(own)) and own == wanted)


def _parts(groups: list[tuple[str, int, int]], cores: int) -> tuple[Part, ...]:
    """Put row groups that follow each other together, about as many rows in each part."""
    total = sum(rows for _, _, rows in groups)
    most = max(PART_ROWS_MIN, -(-total // (PARTS_PER_CORE * cores)))
    parts: list[list[tuple[str, int]]] = [[]]
    size = 0
    for path, number, rows in groups:
        if parts[-1] and size + rows > most:
            parts.append([])
            size = 0
        parts[-1].append((path, number))
        size += rows
    return tuple(tuple(part) for part in parts)


def _read(
    groups: Iterator[tuple[str, int]], schema: pa.Schema, change: Callable[[pa.Table], pa.Table]
) -> Batches:
    path, file = "", None
    for own, number in groups:
        try:
            if file is None or own != path:
                path, file = own, parquet.ParquetFile(own, memory_map=True)
            table = file.read_row_group(number, columns=schema.names, use_threads=False)
        except (OSError, pa.ArrowException) as error:
            message = f"could not read `{own}`: {str(error).splitlines()[0]}"
            raise DataError([Diagnostic("E501", message)]) from error
        table = table.select(schema.names).cast(schema)
        yield from change(table).combine_chunks().to_batches(BATCH_ROWS)
