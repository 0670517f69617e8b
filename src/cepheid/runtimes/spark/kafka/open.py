"""Open topics as a streaming DataFrame of messages: by Spark's connector, or by our source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException

from cepheid.options import refuse
from cepheid.runtimes.kafka.clients import fail, library
from cepheid.runtimes.kafka.topics import TIME
from cepheid.runtimes.spark.batch import parallelism
from cepheid.runtimes.spark.kafka.source import LIMITS, NAME, KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTORS = ("auto", "spark", "python")
PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


class Reading(NamedTuple):
    """The topics to read, their first offsets, and the most records at once."""

    servers: str
    topics: tuple[str, ...]
    start: str
    rows: int | None
    headers: bool
    on_loss: str
    settings: dict[str, str]


def open_raw(spark: SparkSession, reading: Reading, connector: str) -> DataFrame:
    """Open topics; Spark's connector is used if it is there, unless another one is chosen.

    Raises
    ------
    DataError
        E525 if Spark's connector is missing, E560 if the library of our source is.
    """
    if connector != "python":
        try:
            return _by_spark(spark, reading)
        except AnalysisException:
            if connector == "spark":
                message = "Spark lacks the connector for Kafka"
                helps = (f"add the package {PACKAGE}:{spark.version}, or leave the connector out",)
                fail("E525", message, *helps)
    return _by_python(spark, reading)


def _by_spark(spark: SparkSession, reading: Reading) -> DataFrame:
    """Use Spark's connector; its options are the same but for their names."""
    reader = spark.readStream.format("kafka")
    options = {
        "kafka.bootstrap.servers": reading.servers,
        "subscribe": ",".join(reading.topics),
        "includeHeaders": str(reading.headers).lower(),
        "failOnDataLoss": str(reading.on_loss == "fail").lower(),
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in reading.settings.items()},
    }
    if reading.start.startswith(TIME):
        options["startingTimestamp"] = reading.start.removeprefix(TIME)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = reading.start
    if reading.rows is not None:
        options["maxOffsetsPerTrigger"] = str(reading.rows)
    frame = reader.options(**options).load()
    return frame.drop("timestampType")


def _by_python(spark: SparkSession, reading: Reading) -> DataFrame:
    library()
    if reading.rows is not None and not LIMITS:
        refuse("E591", f"rows has no effect in Spark {spark.version}: it needs 4.2")
    spark.dataSource.register(KafkaSource)
    options = {
        "servers": reading.servers,
        "topics": ",".join(reading.topics),
        "start": reading.start,
        "rows": str(reading.rows or 0),
        "tasks": str(parallelism(spark)),
        "headers": str(reading.headers).lower(),
        "loss": reading.on_loss,
        "settings": json.dumps(reading.settings),
    }
    return spark.readStream.format(NAME).options(**options).load()
