"""Send the parts of a live query to their own sinks: rows, late events, bad records.

All parts of a micro-batch are one DataFrame, so every record is in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from cepheid.runtimes.spark.live_output import PART, PAYLOAD, LiveOutput
from cepheid.runtimes.spark.sinks.calls import Write, sink
from cepheid.runtimes.spark.stream_tasks import PANES, ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def parts_sink(output: LiveOutput, sinks: Mapping[str, Write]) -> Write:
    """Build the function that writes each part of a micro-batch to its sink."""

    @sink
    def write(batch: DataFrame, number: int) -> None:
        if len(sinks) == 1:
            sinks[ROWS](output.select(ROWS, batch), number)
            return
        # Each sink would run the query again.
        kept = batch.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = _parts_in(kept)
            # Rows come last: a sink that counts them has the rest already.
            for part, one in reversed(list(sinks.items())):
                if part in found:
                    one(output.select(part, kept), number)
                elif part == ROWS:
                    # The sink learns the number. Spark reads nothing for no rows.
                    one(output.select(part, kept).limit(0), number)
        finally:
            kept.unpersist()

    return write


def _parts_in(kept: DataFrame) -> set[str]:
    """List the parts of which a micro-batch has something."""
    parts = kept.select(PART)
    # Blobs are few, and comparing them in Spark would take another shuffle.
    rows = (parts if PAYLOAD in kept.columns else parts.distinct()).collect()
    found = {str(row[0]) for row in rows}
    return found | {ROWS} if PANES in found else found


def side_folder(path: str) -> Write:
    """Build the function that writes a part to a folder, in a folder for each micro-batch.

    Most micro-batches have nothing to write. One that is repeated replaces what it wrote before.
    """

    @sink
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{path}/batch={number}")

    return write
