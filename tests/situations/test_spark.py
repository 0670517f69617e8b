"""Situations on Spark: DataFrames, files and live streams give the rows of a local run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TEXT = """
    FROM cars {partition} DEFINE A AS accel > 1, B AS speed > 60 AT LEAST 2 s
    PATTERN A overlaps;during;starts;before B {window}
    RETURN FIRST(B.name) AS name, AVG(B.speed) AS speed, COUNT(A) AS n, MAX(A.accel) AS top
"""


def cars(count: int = 4000) -> pa.Table:
    random = np.random.default_rng(8)
    return pa.table(
        {
            "ts": pa.array(np.arange(count) * 250_000, pa.timestamp("us")),
            "car": pa.array(random.integers(0, 7, count)),
            "accel": pa.array(np.cumsum(random.normal(size=count)) % 3),
            "speed": pa.array(40 + np.cumsum(random.normal(size=count)) % 40),
            "name": pa.array([f"car {n}" for n in range(count)]),
        }
    )


def in_order(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("window", ["WITHIN 1 minute", "DETECTED WITHIN 20 s"])
@pytest.mark.parametrize("partition", ["PARTITION BY car", ""])
def test_dataframes_and_files_give_the_rows_of_a_local_run(
    spark: SparkSession, tmp_path: Path, partition: str, window: str
) -> None:
    query = cepheid.query(TEXT.format(partition=partition, window=window))
    table = cars()
    expected = in_order(query.run(table))
    assert expected
    parquet.write_table(table, tmp_path / "cars.parquet", row_group_size=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Without partitions, one task does everything.
        frame = query.run(spark.read.parquet(str(tmp_path)).repartition(3))
        scanned = query.run(str(tmp_path / "*.parquet"), spark=spark)
    assert in_order(frame.toArrow()) == expected
    assert in_order(scanned.toArrow()) == expected


def test_a_live_stream_gives_the_rows_of_a_local_run(spark: SparkSession, tmp_path: Path) -> None:
    query = cepheid.query(TEXT.format(partition="PARTITION BY car", window="DETECTED WITHIN 20 s"))
    table = cars(1500)
    end = table.slice(0, 1).set_column(0, "ts", pa.array([10**10], pa.timestamp("us")))
    end = end.set_column(1, "car", pa.array([99]))
    folder = write_files(tmp_path / "events", [*cut(table, 3), end])
    result = query.stream(read_stream(spark, folder, 1), watermark="1 second")
    rows, _ = drain(result, tmp_path, "a")
    expected = query.run(table)
    assert in_order(rows.cast(expected.schema)) == in_order(expected)
