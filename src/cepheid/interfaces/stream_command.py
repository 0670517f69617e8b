"""``cepheid stream``: run a live query from files, Kafka or Spark's rate source to a sink."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cepheid.api import CompiledQuery
from cepheid.errors import DataError, Diagnostic
from cepheid.interfaces.colours import cell
from cepheid.interfaces.console import say_data
from cepheid.runtimes.checkpoints import clear_unplanned
from cepheid.runtimes.spark.stream import METRICS, delay_of
from cepheid.runtimes.spark.stream_tasks import COUNTS
from cepheid.spark import session as spark_session
from cepheid.spark.failures import clear_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_FORMATS = ("parquet", "json", "csv")
RATE = "rate:"
KAFKA = "kafka://"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
STANDARD_OUTPUT = "-"
EVERY = "1 second"
"""The interval between micro-batches."""


class Options(msgspec.Struct, frozen=True):
    """The source and the sink of a live query, and its settings.

    For a join of two streams, the source is a dict of sources by name.
    """

    source: str | dict[str, str]
    sink: str
    checkpoint: Path
    watermark: str
    format: str | None = None
    every: str | None = None
    once: bool = False
    files: int | None = None
    master: str | None = None
    columns: str | None = None
    packages: str | None = None


def wrong_use(compiled: CompiledQuery | None, options: Options) -> str:
    """Check the options before Spark starts, and describe the mistake; empty if there is none."""
    if options.format is not None and options.format not in FILE_FORMATS:
        return f"--format is one of {', '.join(FILE_FORMATS)}, not {options.format}"
    if options.files is not None and options.files < 1:
        return f"--files is 1 or more, not {options.files}"
    if options.once and options.every is not None:
        return "--every has no effect here: --once runs until the source is empty"
    sources = [options.source] if isinstance(options.source, str) else [*options.source.values()]
    if wrong := _without_effect(sources, options):
        return wrong
    if options.sink.startswith((KAFKA, RATE)):
        return (
            f"rows go to a folder of Parquet files, or to - for standard output, not {options.sink}"
        )
    for source in sources:
        if wrong := _wrong_source(source, options):
            return wrong
    if compiled is not None and compiled.plan.emits_early and options.sink != STANDARD_OUTPUT:
        message = (
            "rows of `EMIT EARLY` change until their window closes, but files cannot be updated: "
        )
        return message + "use --sink -"
    return ""


def _without_effect(sources: list[str], options: Options) -> str:
    """Find an option that no source uses; empty if there is none."""
    if options.columns is not None and not any(one.startswith(KAFKA) for one in sources):
        return "--columns has no effect here: it names the fields of Kafka's JSON"
    if all(one.startswith((KAFKA, RATE)) for one in sources):
        for name, value in (("format", options.format), ("files", options.files)):
            if value is not None:
                return f"--{name} has no effect here: no source is a folder"
    return ""


def _wrong_source(source: str, options: Options) -> str:
    if source.startswith(RATE) and not source.removeprefix(RATE).isdigit():
        return f"the source is rate: and a number of events a second, not {source}"
    if source.startswith(KAFKA):
        if not all(kafka_place(source)):
            return "a source of Kafka is kafka://host:9092/topic"
        if options.columns is None:
            return "Kafka's values are JSON: name their fields, --columns 'ts timestamp, ...'"
    elif not source.startswith(RATE) and "://" not in source and not Path(source).is_dir():
        return f"could not read {source}: no such folder"
    return ""


def stream_query(compiled: CompiledQuery, options: Options) -> None:
    """Run a live query until it is stopped or, with ``once``, until its source is empty.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    with live_session(options) as spark:
        stream_in(spark, compiled, options)


@contextmanager
def live_session(options: Options) -> Iterator[SparkSession]:
    """Start a session with as many tasks per micro-batch as there are cores."""
    with (
        warnings.catch_warnings(record=True),
        spark_session.session(options.master, packages=options.packages) as spark,
    ):
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        spark_session.keep_checkpoints_local(spark, str(options.checkpoint))
        yield spark


def stream_in(spark: SparkSession, compiled: CompiledQuery, options: Options) -> None:
    """Run a live query in a session."""
    with clear_failures():
        rows = compiled.stream(sources_of(spark, options), watermark=options.watermark)
        mode = "update" if compiled.plan.emits_early else "append"
        _watch(start(rows, options, mode), Console(stderr=True))


def sources_of(spark: SparkSession, options: Options) -> DataFrame | dict[str, DataFrame]:
    """Open all sources as streaming DataFrames."""
    if isinstance(options.source, str):
        return source_of(spark, options.source, options)
    return {name: source_of(spark, one, options) for name, one in options.source.items()}


def source_of(spark: SparkSession, source: str, options: Options) -> DataFrame:
    """Open a source as a streaming DataFrame."""
    if source.startswith(RATE):
        return spark.readStream.format("rate").option(
            "rowsPerSecond", source.removeprefix(RATE)
        ).load()  # fmt: skip
    if source.startswith(KAFKA):
        return _kafka(spark, source, options)
    # A stream has to know its columns: those of the files that are there already.
    form = options.format or FILE_FORMATS[0]
    known = spark.read.format(form).option("header", "true")
    if form == "csv":
        known = known.option("inferSchema", "true")
    reader = spark.readStream.format(form).option("header", "true")
    if options.files is not None:
        reader = reader.option("maxFilesPerTrigger", options.files)
    return reader.schema(known.load(source).schema).load(source)


def kafka_place(source: str) -> tuple[str, str]:
    """Parse the servers and the topic of ``kafka://host:port,.../topic``, empty if missing."""
    servers, _, topic = source.removeprefix(KAFKA).partition("/")
    return servers, topic


def _kafka(spark: SparkSession, source: str, options: Options) -> DataFrame:
    """Read JSON values from Kafka, including those from before the first start."""
    servers, topic = kafka_place(source)
    assert options.columns is not None, "the command checks it"
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    try:
        raw = reader.load()
    except AnalysisException as error:
        message = "Spark lacks the connector for Kafka"
        helps = (f"add `--packages {CONNECTOR}:{spark.version}`",)
        raise DataError([Diagnostic("E525", message, helps=helps)]) from error
    event = sf.from_json(sf.col("value").cast("string"), options.columns)
    return raw.select(event.alias("event")).select("event.*")


def start(rows: DataFrame, options: Options, mode: str) -> Any:
    """Start a live query that writes rows to the sink."""
    clear_unplanned(options.checkpoint)
    writer = rows.writeStream.outputMode(mode)
    writer = writer.option("checkpointLocation", str(options.checkpoint))
    if options.once:
        writer = writer.trigger(availableNow=True)
    else:
        every = options.every or EVERY
        delay_of(rows.sparkSession, every, name="every")  # Says what is wrong with it.
        writer = writer.trigger(processingTime=every)
    if options.sink == STANDARD_OUTPUT:
        return writer.foreachBatch(_print_rows).start()
    return writer.format("parquet").option("path", options.sink).start()


def _print_rows(batch: DataFrame, _number: int) -> None:
    lines = [msgspec.json.encode(row, enc_hook=str) for row in batch.toArrow().to_pylist()]
    say_data(b"".join(line + b"\n" for line in lines))
    sys.stdout.flush()


def _watch(live: Any, console: Console) -> None:
    """Wait for the end, and show the progress of the query on a terminal."""
    with showing(console) as show:

        def look() -> None:
            while not live.awaitTermination(1):
                show(live)

        _wait(live, look)


@contextmanager
def showing(console: Console) -> Iterator[Callable[[Any], None]]:
    """Create the progress display of a live query; it shows nothing without a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as view:
        yield lambda live: view.update(progress_table(live.lastProgress), refresh=True)


def _wait(live: Any, wait: Callable[[], object]) -> None:
    try:
        wait()
    except KeyboardInterrupt:
        live.stop()


def progress_table(progress: Any) -> Table:
    """Format the numbers of the latest micro-batch: rates, lateness, state."""
    table = Table(show_header=False)
    if progress is None:
        table.add_row("waiting for the first micro-batch", "")
        return table
    counts = progress["observedMetrics"].get(METRICS)
    table.add_row("micro-batch", f"{progress['batchId']:,}")
    table.add_row("events a second", f"{progress['processedRowsPerSecond']:,.0f}")
    table.add_row("watermark", cell(progress["eventTime"].get("watermark", "")))
    for name in COUNTS:
        table.add_row(name.replace("_", " "), f"{(counts[name] if counts else 0) or 0:,}")
    return table
