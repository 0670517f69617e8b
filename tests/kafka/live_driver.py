"""A driver to be killed: ``python -m tests.kafka.live_driver QUERY OPTIONS``, options as JSON."""

from __future__ import annotations

import sys

import msgspec
from pyspark.sql import SparkSession
from tests.spark_options import options

from cepheid.api import query
from cepheid.interfaces.stream_command import stream_in
from cepheid.interfaces.stream_options import Options


def main(text: str, given: str) -> None:
    """Run the query until its source is empty."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in options().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    wanted = msgspec.json.decode(given, type=Options, dec_hook=lambda kind, value: kind(value))
    stream_in(spark, query(text), wanted)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
