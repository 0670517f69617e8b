"""The sinks of ``cepheid stream``: a function per sink takes the rows of each micro-batch.

Spark calls it with the rows and the number of the micro-batch, and again with the same rows and
number after a crash. A sink writes the rows of a number once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from cepheid.interfaces.console import say_data
from cepheid.interfaces.stream_options import KAFKA, RATE, STANDARD_OUTPUT, Options
from cepheid.runtimes.spark.sinks.calls import Write, sink
from cepheid.runtimes.spark.sinks.folder import folder_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def wrong_sink(options: Options) -> str:
    """Describe the mistake in the sink; empty if there is none."""
    if options.sink.startswith((KAFKA, RATE)):
        return (
            f"rows go to a folder of Parquet files, or to - for standard output, not {options.sink}"
        )
    return ""


def sink_of(place: str) -> Write:
    """Choose the function that writes the rows of each micro-batch."""
    return print_rows if place == STANDARD_OUTPUT else folder_sink(place)


@sink
def print_rows(batch: DataFrame, _number: int) -> None:
    """Print rows as JSON lines, those of a repeated micro-batch again."""
    lines = [msgspec.json.encode(row, enc_hook=str) for row in batch.toArrow().to_pylist()]
    say_data(b"".join(line + b"\n" for line in lines))
    sys.stdout.flush()
