"""Differences between versions of Spark do not show; CI runs this on the oldest and the newest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from cepheid.spark import versions
from cepheid.spark.murmur import hash_int, values_for_partitions
from cepheid.spark.versions import arrow_schema, in_zone, repartition_by_id, spark_schema

pytestmark = pytest.mark.spark
ZONE = "Europe/Berlin"
SOURCE = Path(versions.__file__).parents[1]
DIFFERENT = ("to_arrow_schema", "from_arrow_schema", "repartitionById", "pyspark.__version__")
"""What versions of PySpark differ in."""


def test_one_module_knows_the_differences() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(name in path.read_text("utf-8") for name in DIFFERENT)
    }
    assert found == {"spark/versions.py"}


def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    edges = sf.array(sf.lit(2**31 - 1), sf.lit(-(2**31)))
    numbers = sf.explode(sf.concat(sf.sequence(sf.lit(-50), sf.lit(50)), edges)).alias("n")
    rows = spark.range(1).select(numbers).select("n", sf.hash("n")).collect()
    assert len(rows) == 103
    assert [hash_int(row[0]) for row in rows] == [row[1] for row in rows]


@pytest.mark.parametrize("release", [(4, 0), versions.INSTALLED])
def test_rows_go_to_the_partition_of_their_number(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, release: tuple[int, int]
) -> None:
    monkeypatch.setattr(versions, "INSTALLED", release)
    numbers = spark.range(100).select((sf.col("id") % 7).cast("int").alias("bucket"))
    sent = repartition_by_id(numbers, 7, "bucket").select("bucket", sf.spark_partition_id())
    rows = sent.collect()
    assert len(rows) == 100
    assert all(row[0] == row[1] for row in rows)


def test_each_partition_has_a_value() -> None:
    assert [hash_int(value) % 40 for value in values_for_partitions(40)] == list(range(40))


@pytest.mark.usefixtures("spark")
def test_schemas_keep_their_zones() -> None:
    schema: Any = StructType.fromDDL(
        "a timestamp, b timestamp_ntz, c array<timestamp>, d struct<e: timestamp, f: int>, "
        "g map<string, timestamp>"
    )
    found = arrow_schema(schema, ZONE)
    there = pa.timestamp("us", ZONE)
    assert found.field("a").type == there
    assert found.field("b").type == pa.timestamp("us")
    assert found.field("c").type.value_type == there
    assert found.field("d").type.field("e").type == there
    assert found.field("g").type.item_type == there
    assert in_zone(found, "UTC") == arrow_schema(schema)


def test_times_without_a_zone_get_none() -> None:
    fields: list[tuple[str, pa.DataType]]
    fields = [("a", pa.timestamp("us", "UTC")), ("b", pa.timestamp("us"))]
    assert spark_schema(pa.schema(fields)).simpleString() == "struct<a:timestamp,b:timestamp_ntz>"
