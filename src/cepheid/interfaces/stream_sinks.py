"""The sinks of ``cepheid stream``: a function per sink takes the rows of each micro-batch.

Spark calls it with the rows and the number of the micro-batch, and again with the same rows and
number after a crash. A sink writes the rows of a number once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from cepheid.interfaces.console import say_data
from cepheid.interfaces.stream_options import KAFKA, RATE, STANDARD_OUTPUT, Options
from cepheid.runtimes.spark.sinks.calls import Write, sink
from cepheid.runtimes.spark.sinks.folder import folder_sink
from cepheid.runtimes.spark.sinks.parts import side_folder
from cepheid.runtimes.spark.stream_tasks import BAD, LATE, ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NO_FOLDERS = (KAFKA, "postgres", "webhook:")
"""Sinks beside which there is no folder."""


def wrong_sink(options: Options) -> str:
    """Describe the mistake in the sink; empty if there is none."""
    if options.sink.startswith((KAFKA, RATE)):
        return (
            f"rows go to a folder of Parquet files, or to - for standard output, not {options.sink}"
        )
    return ""


def sinks_of(options: Options) -> dict[str, Write]:
    """Choose the functions that write rows and, if they are kept, late events and bad records."""
    found = {ROWS: sink_of(options.sink)}
    if options.late == "side":
        found[LATE] = _side(options, LATE)
    if options.bad == "side":
        found[BAD] = _side(options, BAD)
    return found


def beside(options: Options, part: str) -> str:
    """Choose the folder of late events or bad records: beside the sink, or the checkpoint."""
    place = options.sink
    if place == STANDARD_OUTPUT or place.startswith(NO_FOLDERS):
        place = str(options.checkpoint)
    return f"{place.rstrip('/')}-{part}"


def _side(options: Options, part: str) -> Write:
    return side_folder(beside(options, part))


def sink_of(place: str) -> Write:
    """Choose the function that writes the rows of each micro-batch."""
    return print_rows if place == STANDARD_OUTPUT else folder_sink(place)


@sink
def print_rows(batch: DataFrame, _number: int) -> None:
    """Print rows as JSON lines, those of a repeated micro-batch again."""
    lines = [msgspec.json.encode(row, enc_hook=str) for row in _values(batch.toArrow())]
    say_data(b"".join(line + b"\n" for line in lines))
    sys.stdout.flush()


def _values(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert rows to Python; a time beyond the years of Python becomes text."""
    try:
        return rows.to_pylist()
    except (ValueError, OverflowError):
        fields = [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in rows.schema
        ]
        return rows.cast(pa.schema(fields)).to_pylist()
