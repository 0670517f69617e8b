"""``cepheid stream``: a live query from a folder of files, or Spark's rate source, to a sink."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.errors import PySparkException
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cepheid.api import CompiledQuery
from cepheid.runtime import spark_session
from cepheid.runtime.spark_stream import METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_FORMATS = ("parquet", "json", "csv")
RATE = "rate:"
STANDARD_OUTPUT = "-"


class Options(msgspec.Struct, frozen=True):
    """What a live query reads and writes, and how it runs."""

    source: str
    sink: str
    checkpoint: Path
    watermark: str
    format: str = "parquet"
    every: str = "1 second"
    once: bool = False
    files: int | None = None
    master: str | None = None


def stream_query(compiled: CompiledQuery, options: Options) -> None:
    """Run a live query until it is stopped or, with ``once``, until its source is empty.

    Raises
    ------
    DataError
        What a task said about the events, or E523 if Spark itself failed.
    """
    with warnings.catch_warnings(record=True), spark_session.session(options.master) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        stream_in(spark, compiled, options)


def stream_in(spark: SparkSession, compiled: CompiledQuery, options: Options) -> None:
    """Run a live query in a session."""
    try:
        rows = compiled.stream(_source(spark, options), watermark=options.watermark)
        _watch(_start(rows, options), Console(stderr=True))
    except PySparkException as error:
        raise spark_session.clear_error(error) from error


def _source(spark: SparkSession, options: Options) -> DataFrame:
    if options.source.startswith(RATE):
        return spark.readStream.format("rate").option(
            "rowsPerSecond", options.source.removeprefix(RATE)
        ).load()  # fmt: skip
    # A stream has to know its columns: those of the files that are there already.
    known = spark.read.format(options.format).option("header", "true")
    if options.format == "csv":
        known = known.option("inferSchema", "true")
    reader = spark.readStream.format(options.format).option("header", "true")
    if options.files is not None:
        reader = reader.option("maxFilesPerTrigger", options.files)
    return reader.schema(known.load(options.source).schema).load(options.source)


def _start(rows: DataFrame, options: Options) -> Any:
    writer = rows.writeStream.option("checkpointLocation", str(options.checkpoint))
    if options.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=options.every)
    if options.sink == STANDARD_OUTPUT:
        return writer.foreachBatch(_print_rows).start()
    return writer.format("parquet").option("path", options.sink).start()


def _print_rows(batch: DataFrame, _number: int) -> None:
    lines = [msgspec.json.encode(row, enc_hook=str) for row in batch.toArrow().to_pylist()]
    sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
    sys.stdout.flush()


def _watch(live: Any, console: Console) -> None:
    """Wait for the end, and show on a terminal how the query is doing."""
    if not console.is_terminal:
        _wait(live, live.awaitTermination)
        return
    with Live(console=console, transient=True, auto_refresh=False) as view:

        def look() -> None:
            while not live.awaitTermination(1):
                view.update(progress_table(live.lastProgress), refresh=True)

        _wait(live, look)


def _wait(live: Any, wait: Callable[[], object]) -> None:
    try:
        wait()
    except KeyboardInterrupt:
        live.stop()


def progress_table(progress: Any) -> Table:
    """Return the numbers of the latest micro-batch: rates, lateness, state."""
    table = Table(show_header=False)
    if progress is None:
        table.add_row("waiting for the first micro-batch", "")
        return table
    counts = progress["observedMetrics"].get(METRICS)
    table.add_row("micro-batch", f"{progress['batchId']:,}")
    table.add_row("events a second", f"{progress['processedRowsPerSecond']:,.0f}")
    table.add_row("watermark", str(progress["eventTime"].get("watermark", "")))
    for name in ("events", "late", "buffered", "partitions", "state_bytes"):
        table.add_row(name.replace("_", " "), f"{(counts[name] if counts else 0) or 0:,}")
    return table
