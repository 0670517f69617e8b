"""Situations on Spark: DataFrames, files and live streams give the rows of a local run."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.amount import share
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid
from cepheid.jobs.kind import needs_of
from cepheid.runtimes import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TEXT = """
    FROM cars {partition} DEFINE A AS accel > 1 AT LEAST 3 EVENTS, B AS speed > 60 AT LEAST 2 s
    PATTERN A overlaps;during;starts;before B {window}
    RETURN FIRST(B.name) AS first, AVG(B.speed) AS speed, COUNT(A) AS n, MAX(A.accel) AS top
"""


def cars(count: int = 4000) -> pa.Table:
    random = np.random.default_rng(8)
    return pa.table(
        {
            "ts": pa.array(np.arange(count) * 250_000, pa.timestamp("us")),
            "car": pa.array(random.integers(0, 7, count)),
            "accel": pa.array(np.cumsum(random.normal(size=count)) % 3),
            "speed": pa.array(40 + np.cumsum(random.normal(size=count)) % 40),
            "name": pa.array(random.choice(["red", "blue"], count)),
        }
    )


def in_order(table: pa.Table) -> list[dict[str, object]]:
    """Return rows in an order; doubles without their last digits, as sums are put together."""
    rows = [
        {name: round(v, 9) if isinstance(v, float) else v for name, v in row.items()}
        for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


@share(2)
@pytest.mark.parametrize(
    ("partition", "window"),
    [
        ("PARTITION BY car", "WITHIN 1 minute"),
        ("PARTITION BY name, car", "DETECTED WITHIN 20 s"),
        ("", "DETECTED WITHIN 20 s"),
    ],
)
def test_dataframes_and_files_give_the_rows_of_a_local_run(
    spark: SparkSession,
    tmp_path: Path,
    partition: str,
    window: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 100)
    query = cepheid.query(TEXT.format(partition=partition, window=window))
    table = cars()
    expected = in_order(query.run(table))
    assert expected
    parquet.write_table(table, tmp_path / "cars.parquet", row_group_size=500)
    events = spark.read.parquet(str(tmp_path))
    files = str(tmp_path / "*.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # No way is left in which one task does everything.
        assert in_order(query.run(events.repartition(3)).toArrow()) == expected
        assert in_order(query.run(files, spark=spark).toArrow()) == expected
        assert in_order(query.run(events, strategy="combine").toArrow()) == expected
    assert in_order(query.run(events, strategy="key shuffle").toArrow()) == expected


@pytest.mark.parametrize("partition", ["PARTITION BY car", ""])
def test_conditions_that_look_at_more_than_one_event(
    spark: SparkSession, tmp_path: Path, partition: str
) -> None:
    query = cepheid.query(
        f"{partition} DEFINE A AS speed > PREV(speed), B AS AVG(accel) > 0 UNTIL COUNT(*) > 9 "
        "SITUATIONS A, B RETURN COUNT(A) AS n, MAX(B.accel) AS most"
    )
    parquet.write_table(cars(), tmp_path / "cars.parquet", row_group_size=300)
    expected = in_order(query.run(cars()))
    assert expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Without keys one task does everything.
        assert in_order(query.run(str(tmp_path), spark=spark).toArrow()) == expected
        assert in_order(query.run(spark.read.parquet(str(tmp_path))).toArrow()) == expected


def test_situations_themselves_and_where(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "SLICE_ROWS_MIN", 100)
    query = cepheid.query(
        "WHERE accel < 2.5 DEFINE A AS accel > 1, B AS name <> 'red' AND speed > 60 "
        "SITUATIONS A, B RETURN COUNT(A) AS n, LAST(B.name) AS name, MIN(B.ts) AS first"
    )
    parquet.write_table(cars(), tmp_path / "cars.parquet", row_group_size=300)
    expected = in_order(query.run(cars()))
    assert in_order(query.run(str(tmp_path), spark=spark).toArrow()) == expected
    assert in_order(query.run(spark.read.parquet(str(tmp_path))).toArrow()) == expected


@pytest.mark.slow  # tests/runtime/test_sql.py calls the same function
def test_sql_knows_situations(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(cars(1000), tmp_path / "cars.parquet", row_group_size=300)
    text = "DEFINE A AS accel > 1, B AS speed > 60 PATTERN A overlaps B WITHIN 1 minute"
    expected = in_order(cepheid.query(text).run(cars(1000)))
    assert expected
    cepheid.register(spark)
    read = spark.read.format("cepheid").option("query", text)
    assert in_order(read.load(str(tmp_path)).toArrow()) == expected
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("cars")
    called = spark.sql(f"SELECT * FROM cepheid(TABLE(cars), '{text}')")
    assert in_order(called.toArrow()) == expected


@pytest.mark.parametrize("partition", ["PARTITION BY car", ""])
def test_a_live_stream_gives_the_rows_of_a_local_run(
    spark: SparkSession, tmp_path: Path, partition: str
) -> None:
    query = cepheid.query(TEXT.format(partition=partition, window="DETECTED WITHIN 20 s"))
    assert (not needs_of(query.plan).no_panes) == (not partition)
    table = cars(1500)
    end = table.slice(0, 1).set_column(0, "ts", pa.array([10**10], pa.timestamp("us")))
    end = end.set_column(1, "car", pa.array([99]))
    folder = write_files(tmp_path / "events", [*cut(table, 3), end])
    result = query.stream(read_stream(spark, folder, 1), watermark="1 second")
    rows, progress = drain(result, tmp_path, "a")
    expected = query.run(table)
    assert in_order(rows.cast(expected.schema)) == in_order(expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert partition or {count["partitions"] for count in counts} == {1}
