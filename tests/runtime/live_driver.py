"""A driver to be killed: ``python live_driver.py EVENTS ROWS CHECKPOINT QUERY WATERMARK``.

Reads one file in each micro-batch, goes on from its checkpoint, and ends when there are no more.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark_options import options

from cepheid.api import query


def main(events: str, rows: str, checkpoint: str, text: str, watermark: str) -> None:
    """Run the query to its end."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in options().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    schema = spark.read.parquet(str(next(Path(events).glob("*.parquet")))).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(events)
    writer = query(text).stream(source, watermark=watermark).writeStream.format("parquet")
    writer = writer.option("path", rows).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
