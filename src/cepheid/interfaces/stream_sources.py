"""The sources of ``cepheid stream``: folders of files, Kafka, and Spark's rate source."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from cepheid import kafka
from cepheid.interfaces.logs import COLUMN
from cepheid.interfaces.stream_options import FILE_FORMATS, KAFKA, RATE, Options, kafka_place
from cepheid.options import refuse
from cepheid.spark.file_records import infer_columns, read_folder
from cepheid.spark.text_times import with_text_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUES = ("json", "avro", "protobuf")


def wrong_sources(options: Options) -> str:
    """Describe the first mistake in the sources and their options; empty if there is none."""
    if options.format is not None and options.format not in FILE_FORMATS:
        return f"--format is one of {', '.join(FILE_FORMATS)}, not {options.format}"
    if options.files is not None and options.files < 1:
        return f"--files is 1 or more, not {options.files}"
    if wrong := _without_effect(options):
        return wrong
    for source in options.sources:
        if wrong := _wrong_source(source, options):
            return wrong
    return ""


def _without_effect(options: Options) -> str:
    """Find an option that no source uses; empty if there is none."""
    if options.columns is not None and all(one.startswith(RATE) for one in options.sources):
        return "--columns has no effect here: it names the columns of files or Kafka's JSON"
    kafka = any(one.startswith(KAFKA) for one in options.sources)
    names = ("values", "schema", "registry", "message", "start", "rows", "keep")
    for name in (*names, "on_loss"):
        if not kafka and getattr(options, name) is not None:
            option = name.replace("_", "-")
            return f"--{option} has no effect here: no source is a topic of Kafka"
    if all(one.startswith((KAFKA, RATE)) for one in options.sources):
        for name, value in (("format", options.format), ("files", options.files)):
            if value is not None:
                return f"--{name} has no effect here: no source is a folder"
    return ""


def _wrong_source(source: str, options: Options) -> str:
    if source.startswith(RATE) and not source.removeprefix(RATE).isdigit():
        return f"the source is rate: and a number of events a second, not {source}"
    if source.startswith(KAFKA):
        return _wrong_topic(source, options)
    if not source.startswith(RATE) and "://" not in source and not Path(source).is_dir():
        return f"could not read {source}: no such folder"
    return ""


def _wrong_topic(source: str, options: Options) -> str:
    if not all(kafka_place(source)):
        return "a source of Kafka is kafka://host:9092/topic"
    values = options.values or "json"
    if values not in VALUES:
        return f"--values is one of {', '.join(VALUES)}, not {values}"
    if values == "json" and options.columns is None:
        return "Kafka's values are JSON: name their fields, --columns 'ts timestamp, ...'"
    if values != "json" and not (options.schema or options.registry):
        return f"values of {values} need --schema or --registry"
    if wrong := next((one for one in options.kafka if "=" not in one), None):
        return f"--kafka is name=value, not {wrong}"
    try:
        start_of(options.start)
    except ValueError:
        forms = "earliest, latest, a time such as 2026-01-31T00:00:00Z, or topic:partition:offset"
        return f"--start is {forms}, not {options.start}"
    return ""


def start_of(text: str | None) -> str | datetime | dict[str, dict[int | str, int]]:
    """Parse where topics are read from; a time without a zone is in UTC.

    Raises
    ------
    ValueError
        If it is no word, time or list of offsets.

    Examples
    --------
    >>> start_of("trades:0:1200,trades:1:900")
    {'trades': {0: 1200, 1: 900}}
    """
    if text is None or text in ("earliest", "latest"):
        return text or "earliest"
    offsets: dict[str, dict[int | str, int]] = {}
    for one in text.split(","):
        topic, _, place = one.partition(":")
        partition, _, offset = place.partition(":")
        if not (partition.isdigit() and offset.isdigit()) or "T" in partition + offset:
            break
        offsets.setdefault(topic, {})[int(partition)] = int(offset)
    else:
        return offsets
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def sources_of(spark: SparkSession, options: Options) -> DataFrame | dict[str, DataFrame]:
    """Open all sources as streaming DataFrames."""
    if isinstance(options.source, str):
        return source_of(spark, options.source, options)
    return {name: source_of(spark, one, options) for name, one in options.source.items()}


def logs_together(events: DataFrame | dict[str, DataFrame]) -> DataFrame:
    """Put the events of all logs into one stream, with the name of their log."""
    if not isinstance(events, dict):
        return events
    named = [one.withColumn(COLUMN, sf.lit(log)) for log, one in events.items()]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), named)


def source_of(spark: SparkSession, source: str, options: Options) -> DataFrame:
    """Open a source as a streaming DataFrame."""
    if source.startswith(RATE):
        return spark.readStream.format("rate").option(
            "rowsPerSecond", source.removeprefix(RATE)
        ).load()  # fmt: skip
    if source.startswith(KAFKA):
        return _kafka(spark, source, options)
    # A stream has to know its columns: those of the files that are there already, if not named.
    form = options.format or FILE_FORMATS[0]
    columns = named_columns(options)
    if columns is None:
        columns = infer_columns(spark, source, form)
        if form == "csv" and options.times is not None:
            columns = with_text_time(columns, options.times)
    return read_folder(spark, source, form, columns, options.files)


def named_columns(options: Options) -> StructType | None:
    """Parse the columns that the user named; None if there are none.

    Raises
    ------
    OptionError
        E590 if they are not columns with their types.
    """
    if options.columns is None:
        return None
    try:
        found = StructType.fromDDL(options.columns)
    except PySparkException:
        found = None
    if not isinstance(found, StructType):
        message = f"--columns names columns and types, not {options.columns!r}"
        refuse("E590", message, "write 'ts timestamp, type string, x double'")
    return found


def _kafka(spark: SparkSession, source: str, options: Options) -> DataFrame:
    """Read topics of Kafka, from before the first start too."""
    servers, topics = kafka_place(source)
    return kafka.read(
        spark,
        servers,
        topics.split(","),
        columns=options.columns,
        format=options.values or "json",
        schema=options.schema,
        registry=options.registry,
        message=options.message or "",
        start=start_of(options.start),
        rows=options.rows,
        keep=options.keep.split(",") if options.keep else (),
        on_loss=options.on_loss or "fail",
        settings=options.settings,
    )
