"""Lists of sets of matches (§2.10) on Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return windows and events of all rows, in an order."""
    return sorted(
        (
            row["window_start"].timestamp(),
            *((e["match"], e["variable"], e["ts"].timestamp(), e["k"]) for e in row["events"]),
        )
        for row in table.to_pylist()
    )


PATTERN = "RETURN MATCHES PATTERN SEQ(A, B) AND A AND SEQ(A, C)"


def stream(count: int = 60) -> pa.Table:
    """Return an event for each second."""
    return pa.table(
        {
            "ts": pa.array([n * 1_000_000 for n in range(count)], pa.timestamp("us", "UTC")),
            "type": [("A", "B", "A", "C")[n % 4] for n in range(count)],
            "k": [n * n % 3 for n in range(count)],
        }
    )


@pytest.mark.parametrize("rest", ["WHERE [k] WITHIN 9 s", "WITHIN 6 s SLIDE 3 s"])
def test_dataframes_and_files_give_the_sets_of_a_local_run(
    spark: SparkSession, tmp_path: Path, rest: str
) -> None:
    table = stream()
    query = cepheid.query(f"{PATTERN} {rest}")
    expected = rows_of(query.run(table))
    assert len(expected) > 10
    assert rows_of(query.run(spark.createDataFrame(table)).toArrow()) == expected
    for part in range(3):
        pq.write_table(table.slice(part * 20, 20), tmp_path / f"{part}.parquet")
    assert rows_of(query.run(f"{tmp_path}/*.parquet", spark=spark).toArrow()) == expected


def test_a_live_query_gives_the_sets_of_a_local_run(spark: SparkSession, tmp_path: Path) -> None:
    """The last event lets the watermark pass all others, and ends no set itself."""
    query = cepheid.query(f"{PATTERN} WHERE [k] WITHIN 9 s")
    table = stream()
    last = pa.Table.from_pylist(
        [{"ts": table["ts"][-1].as_py() + timedelta(days=1), "type": "D", "k": 0}], table.schema
    )
    folder = write_files(tmp_path / "events", [*cut(table, 4), last])
    result = query.stream(read_stream(spark, folder, 1), watermark="3 seconds")
    rows, _ = drain(result, tmp_path, "sets")
    assert rows_of(rows) == rows_of(query.run(table))
