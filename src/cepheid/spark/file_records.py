"""Records of a folder to which files are added: what cannot be read becomes a bad record.

Lines of JSON are read as text and parsed by Spark. Parquet and CSV files are named by Spark, which
keeps account of those that were read, and read by tasks with Arrow: Spark's own readers either stop
at a damaged file or leave it out without a word.
"""

from __future__ import annotations

import csv
import errno
import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from cepheid.errors import DataError, Diagnostic
from cepheid.spark.batches import in_task
from cepheid.spark.records import (
    CORRUPT,
    ORIGIN,
    RAW,
    REASON,
    RECORD_COLUMNS,
    parse_json,
    quoted,
)
from cepheid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

_FILES = "path string, modificationTime timestamp, length long, content binary"
_ABOUT = StructType([StructField(name, StringType()) for name in RECORD_COLUMNS])
_ROWS = 1 << 16
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_GONE = (errno.ENOENT, errno.EACCES, errno.EISDIR)
"""Errors of the file itself; others, such as a full table of open files, stop the task."""


class ParquetFolder(NamedTuple):
    """A stream of the Parquet files of a folder: their paths, and the columns of the events."""

    paths: DataFrame
    columns: StructType


_FOLDERS: WeakKeyDictionary[DataFrame, ParquetFolder] = WeakKeyDictionary()
"""The folders of streams that ``read_folder`` opened."""


def folder_of(frame: DataFrame) -> ParquetFolder | None:
    """Return the folder whose Parquet files a stream reads, if it is one of ``read_folder``."""
    return _FOLDERS.get(frame)


def infer_columns(spark: SparkSession, folder: str, form: str) -> StructType:
    """Infer the columns of events from the files that are there, damaged ones left out.

    Raises
    ------
    DataError
        E501 if no file can be read.
    """
    reader = spark.read.format(form).option("header", "true").option("mode", "DROPMALFORMED")
    if form == "csv":
        reader = reader.option("inferSchema", "true")
    try:
        found = reader.load(folder).schema
    except Exception as error:
        if form != "parquet":
            raise _no_columns(folder) from error
        whole = reader.option("mergeSchema", "true").option("ignoreCorruptFiles", "true")
        try:
            found = whole.load(folder).schema
        except AnalysisException:
            raise _no_columns(folder) from error
    fields = [field for field in found.fields if field.name != CORRUPT]
    if not fields:
        raise _no_columns(folder)
    return StructType(fields)


def _no_columns(folder: str) -> DataError:
    message = f"no file in `{folder}` tells the columns of the events"
    helps = ("name them: `--columns 'ts timestamp, type string'`",)
    return DataError([Diagnostic("E501", message, helps=helps)])


def read_folder(
    spark: SparkSession, folder: str, form: str, columns: StructType, files: int | None
) -> DataFrame:
    """Read the files of a folder as a stream of records, ``files`` of them in a micro-batch."""
    reader = spark.readStream
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    if form == "json":
        lines = reader.format("text").load(folder)
        lines = lines.where(sf.trim(sf.col("value")) != sf.lit(""))
        return parse_json(lines, sf.col("value"), sf.col("_metadata.file_path"), columns)
    named = reader.format("binaryFile").schema(_FILES).load(folder)
    # Files on this machine are opened by tasks; others travel through Spark.
    content = sf.lit(None).cast("binary")
    content = sf.when(~sf.col("path").startswith("file:"), sf.col("content")).otherwise(content)
    if urlparse(folder).scheme in ("", "file"):
        content = sf.lit(None).cast("binary")
    chosen = named.select("path", content.alias("content"))
    if form == "parquet":
        schema = StructType([*columns.fields, *_ABOUT.fields])
        records = chosen.mapInArrow(_read_parquet(arrow_schema(schema)), schema)
        _FOLDERS[records] = ParquetFolder(chosen, columns)
        return records
    texts = StructType([StructField(f.name, StringType()) for f in columns.fields])
    schema = StructType([*texts.fields, *_ABOUT.fields])
    read = chosen.mapInArrow(_read_csv(arrow_schema(schema, None)), schema)
    return _typed(read, columns)


def _typed(texts: DataFrame, columns: StructType) -> DataFrame:
    """Cast texts to the types of columns, with a reason where one cannot be cast."""
    values, reason = [], sf.col(REASON)
    for field in columns.fields:
        text = sf.col(quoted(field.name))
        value = text.try_cast(field.dataType)
        values.append(value.alias(field.name))
        message = f"the value of `{field.name}` is not of type {field.dataType.simpleString()}"
        wrong = sf.when(text.isNotNull() & value.isNull(), sf.lit(message))
        reason = sf.coalesce(reason, wrong)
    whole = sf.to_json(sf.struct(*(quoted(field.name) for field in columns.fields)))
    raw = sf.when(reason.isNotNull(), sf.coalesce(sf.col(RAW), whole))
    return texts.select(*values, raw.alias(RAW), ORIGIN, reason.alias(REASON))


def _over_files(
    schema: pa.Schema, read: Callable[[Any, str, pa.Schema], Iterator[pa.Table]]
) -> Callable[[Batches], Batches]:
    """Build the task that reads files; where one cannot be read, that is a record too."""
    promised = schema.serialize().to_pybytes()

    def run(batches: Batches) -> Batches:
        wanted = pa.ipc.read_schema(pa.py_buffer(promised))
        for batch in batches:
            for path, content in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                count = 0
                try:
                    source = open_file(path, content)
                    for table in read(source, path, wanted):
                        count += len(table)
                        yield from table.combine_chunks().to_batches()
                except (pa.ArrowException, OSError) as error:
                    yield _bad(wanted, path, [None], [unread(error, count)])

    return in_task(run)


def open_file(path: str, content: bytes | None) -> Any:
    """Open a file by its path, or its content where it came along."""
    if content is not None:
        return pa.BufferReader(content)
    return pa.OSFile(unquote(urlparse(path).path), "rb")


def unread(error: Exception, count: int) -> str:
    """Say why a file cannot be read; raise errors that are not of the file."""
    if isinstance(error, OSError) and error.errno not in (None, *_GONE):
        raise error
    lines = str(error).strip().splitlines() or [type(error).__name__]
    after = f" after {count:,} rows" if count else ""
    return f"the file could not be read{after}: {lines[0]}"


def _bad(
    schema: pa.Schema, path: str, texts: list[str | None], reasons: list[str]
) -> pa.RecordBatch:
    about = {
        RAW: pa.array(texts, pa.string()),
        ORIGIN: pa.array([path] * len(texts), pa.string()),
        REASON: pa.array(reasons, pa.string()),
    }
    columns = [about.get(f.name, pa.nulls(len(texts), f.type)) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_parquet(schema: pa.Schema) -> Callable[[Batches], Batches]:
    def read(source: Any, path: str, wanted: pa.Schema) -> Iterator[pa.Table]:
        file = parquet.ParquetFile(source)
        names = [name for name in wanted.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(_ROWS, columns=names):
            yield _fitted(pa.Table.from_batches([batch]), path, wanted)

    return _over_files(schema, read)


def _read_csv(schema: pa.Schema) -> Callable[[Batches], Batches]:
    def read(source: Any, path: str, wanted: pa.Schema) -> Iterator[pa.Table]:
        opened = source
        if path.endswith((".gz", ".zst")):
            opened = pa.CompressedInputStream(source, "gzip" if path.endswith("gz") else "zstd")
        data = opened.read()
        if not data.strip():
            return
        header = next(csv.reader(io.StringIO(data.split(b"\n", 1)[0].decode("utf-8-sig"))))
        wrong: list[arrow_csv.InvalidRow] = []

        def skip(row: arrow_csv.InvalidRow) -> Literal["skip", "error"]:
            wrong.append(row)
            return "skip"

        table = arrow_csv.read_csv(
            io.BytesIO(data),
            # Rows have numbers only without threads.
            arrow_csv.ReadOptions(use_threads=False),
            arrow_csv.ParseOptions(invalid_row_handler=skip),
            arrow_csv.ConvertOptions(
                column_types={name: pa.binary() for name in header},
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        yield _fitted(table, path, wanted)
        if wrong:
            reasons = [
                f"line {row.number} has {row.actual_columns} columns, not {row.expected_columns}"
                for row in wrong
            ]
            yield pa.Table.from_batches([_bad(wanted, path, [row.text for row in wrong], reasons)])

    return _over_files(schema, read)


def _fitted(table: pa.Table, path: str, wanted: pa.Schema) -> pa.Table:
    """Cast the columns of a file to those of the events; what cannot be cast gets a reason."""
    check_names(table.column_names, wanted)
    reasons: dict[int, str] = {}
    columns: list[Any] = []
    for field in wanted:
        if field.name == ORIGIN:
            column: Any = pa.repeat(pa.scalar(path, pa.string()), len(table))
        elif field.name in RECORD_COLUMNS:
            column = pa.nulls(len(table), field.type)
        else:
            column = fitted_column(table, field, path, reasons)
        columns.append(column)
    if reasons:
        said = [reasons.get(row) for row in range(len(table))]
        columns[wanted.get_field_index(REASON)] = pa.array(said, pa.string())
    return pa.Table.from_arrays(columns, schema=wanted)


def check_names(names: list[str], wanted: pa.Schema) -> None:
    """Refuse a file with two columns of a name that is asked for, as one that cannot be read."""
    for field in wanted:
        if names.count(field.name) > 1:
            message = f"two of its columns are named `{field.name}`"
            raise pa.ArrowInvalid(message)


def fitted_column(table: pa.Table, field: pa.Field[Any], path: str, reasons: dict[int, str]) -> Any:
    """Cast a column of a file, which may stand in its path; write reasons where one fails."""
    if field.name in table.column_names:
        return _cast(table[field.name], field, reasons)
    folders = dict(re.findall(r"/([^/=]+)=([^/]*)(?=/)", path))
    if field.name not in folders or folders[field.name] == _NO_PARTITION:
        return pa.nulls(len(table), field.type)
    text = pa.array([unquote(folders[field.name])] * len(table), pa.string())
    return _cast(pa.chunked_array([text]), field, reasons)


def _cast(column: pa.ChunkedArray[Any], field: pa.Field[Any], reasons: dict[int, str]) -> Any:
    try:
        return column.cast(field.type)
    except pa.ArrowException:
        pass
    # A damaged column is rare, so it may be cast value by value.
    values: list[Any] = []
    for row, value in enumerate(column):
        try:
            values.append(pc.cast(value, field.type))
        except pa.ArrowException:
            values.append(pa.scalar(None, field.type))
            reasons[row] = f"the value of `{field.name}` is not of type {field.type}"
    return pa.array([value.as_py() for value in values], field.type)
