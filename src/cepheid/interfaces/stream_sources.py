"""The sources of ``cepheid stream``: folders of files, Kafka, and Spark's rate source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from cepheid.errors import DataError, Diagnostic
from cepheid.interfaces.stream_options import FILE_FORMATS, KAFKA, RATE, Options
from cepheid.options import refuse
from cepheid.spark.file_records import infer_columns, read_folder
from cepheid.spark.records import parse_json
from cepheid.spark.text_times import with_text_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


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
    if all(one.startswith((KAFKA, RATE)) for one in options.sources):
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


def kafka_place(source: str) -> tuple[str, str]:
    """Parse the servers and the topic of ``kafka://host:port,.../topic``, empty if missing."""
    servers, _, topic = source.removeprefix(KAFKA).partition("/")
    return servers, topic


def _kafka(spark: SparkSession, source: str, options: Options) -> DataFrame:
    """Read JSON values from Kafka, including those from before the first start."""
    servers, topic = kafka_place(source)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    try:
        raw = reader.load()
    except AnalysisException as error:
        message = "Spark lacks the connector for Kafka"
        helps = (f"add `--packages {CONNECTOR}:{spark.version}`",)
        raise DataError([Diagnostic("E525", message, helps=helps)]) from error
    columns = named_columns(options)
    assert columns is not None, "the command checks it"
    origin = sf.concat_ws("/", "topic", "partition", "offset")
    return parse_json(raw, sf.col("value"), origin, columns)
