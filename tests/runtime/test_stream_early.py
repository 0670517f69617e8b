"""EMIT EARLY on Spark: rows of open windows in every micro-batch, the last one of each is final."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.runtime.cases import plain
from tests.runtime.test_stream import (
    cut,
    events_of,
    out_of_order,
    read_stream,
    sentinel,
    write_files,
)

from cepheid.api import query

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TEXT = "RETURN sector, COUNT(*) PATTERN SEQ(A, B) GROUP-BY sector {} WITHIN 20 s SLIDE 10 s {}"
Known = dict[tuple[Any, ...], float]


def known(rows: list[dict[str, Any]]) -> Known:
    return {(row["sector"], row["window_start"]): row["count"] for row in plain(rows)}


def run_live(spark: SparkSession, folder: Path, text: str, place: Path) -> list[list[Any]]:
    """Return the rows of every micro-batch, of one file each."""
    batches: list[list[Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        assert number == len(batches)
        batches.append(batch.toArrow().to_pylist())

    rows = query(text).stream(read_stream(spark, folder, 1), watermark="5 seconds")
    writer = rows.writeStream.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", str(place)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return batches


@pytest.mark.parametrize("having", ["", "HAVING COUNT(*) > 900"])
@pytest.mark.slow
def test_the_last_row_of_every_window_is_that_of_a_batch_run(
    spark: SparkSession, tmp_path: Path, having: str
) -> None:
    events = events_of()
    files = [*cut(out_of_order(events, 5_000_000), 3), sentinel(events, 60)]
    folder = write_files(tmp_path / "events", files)
    batches = run_live(spark, folder, TEXT.format(having, "EMIT EARLY"), tmp_path / "state")
    assert len(batches) == len(files)
    so_far: Known = {}
    repeated = 0
    for count, rows in enumerate(batches, 1):
        repeated += sum(place in so_far for place in known(rows))
        so_far |= known(rows)
        # A row is told once it is over the threshold, and stays true: counts only grow.
        q = query(TEXT.format(having, ""))
        came = pa.concat_tables(files[:count]).sort_by("ts")
        assert so_far == known(q.run(came).to_pylist())
    assert repeated > 0, "no row took the place of another"
    unfiltered = query(TEXT.format("", "")).run(events)
    assert len(so_far) < len(unfiltered) if having else len(so_far) == len(unfiltered)
