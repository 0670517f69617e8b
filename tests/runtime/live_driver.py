"""A driver to be killed: ``python live_driver.py FOLDER QUERY``; it waits for the file FOLDER/go.

Two live queries read one file of FOLDER/events in each micro-batch, go on from their checkpoints,
and end when there are no more. One writes with Spark's file sink, the other with a sink of its own
that puts the rows of a micro-batch in the place of those that a killed driver left.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from tests.spark_options import options

from cepheid.api import query
from cepheid.runtimes.checkpoints import clear_unplanned
from cepheid.spark.session import keep_checkpoints_local

WATERMARK = "5 seconds"


def start_queries(spark: SparkSession, folder: Path, text: str) -> list[Any]:
    """Start both queries, or let them go on."""
    events = folder / "events"
    schema = spark.read.parquet(str(next(events.glob("*.parquet")))).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = query(text).stream(reader.parquet(str(events)), watermark=WATERMARK)

    def overwrite(batch: DataFrame, number: int) -> None:
        table = batch.toArrow()
        if len(table):
            place = folder / "batches" / f"{number:04}"
            parquet.write_table(table, place.with_suffix(".part"))
            place.with_suffix(".part").rename(place.with_suffix(".parquet"))

    (folder / "batches").mkdir(exist_ok=True)
    for place in ("checkpoint", "checkpoint-batches"):
        clear_unplanned(folder / place)
    to_files = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
    to_files = to_files.option("checkpointLocation", str(folder / "checkpoint"))
    to_batches = rows.writeStream.foreachBatch(overwrite)
    to_batches = to_batches.option("checkpointLocation", str(folder / "checkpoint-batches"))
    return [writer.trigger(availableNow=True).start() for writer in (to_files, to_batches)]


def warm_up(spark: SparkSession) -> None:
    """Let the workers import what they need, as long as nobody waits for them."""

    def load(batches: Any) -> Any:
        import cepheid.runtimes.spark.stream_tasks  # noqa: F401 - that it is loaded is the point

        yield from batches

    spark.range(2, numPartitions=2).mapInArrow(load, "id long").toArrow()


def main(place: str, text: str) -> None:
    """Run the queries to their ends."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in options().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    keep_checkpoints_local(spark, place)
    warm_up(spark)
    while not (Path(place) / "go").exists():
        time.sleep(0.02)
    for live in start_queries(spark, Path(place), text):
        live.awaitTermination()
    spark.stop()


def rows_of_batches(folder: Path) -> pa.Table:
    """Return what the sink of its own holds."""
    files = sorted((folder / "batches").glob("*.parquet"))
    return pa.concat_tables([parquet.read_table(file) for file in files])


if __name__ == "__main__":
    main(*sys.argv[1:])
