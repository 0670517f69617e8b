"""Schemas of Arrow, Spark and plain mappings read alike."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark

from cepheid.events.schema import EventSchema, ValueKind, read_schema

KINDS = {
    "ts": ValueKind.TIMESTAMP,
    "type": ValueKind.TEXT,
    "price": ValueKind.DOUBLE,
    "amount": ValueKind.DECIMAL,
    "n": ValueKind.INTEGER,
    "ok": ValueKind.BOOLEAN,
    "day": ValueKind.DATE,
    "took": ValueKind.DURATION,
    "tags": ValueKind.OTHER,
    "address": ValueKind.OTHER,
    "address.city": ValueKind.TEXT,
    "address.geo": ValueKind.OTHER,
    "address.geo.lat": ValueKind.DOUBLE,
}


def kinds(schema: EventSchema | None) -> dict[str, ValueKind]:
    assert schema is not None
    return {column.name: column.kind for column in schema.columns}


def test_arrow() -> None:
    geo = pa.struct([("lat", pa.float64())])
    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", "UTC")),
            ("type", pa.dictionary(pa.int32(), pa.string())),
            ("price", pa.float64()),
            ("amount", pa.decimal128(10, 2)),
            ("n", pa.uint8()),
            ("ok", pa.bool_()),
            ("day", pa.date32()),
            ("took", pa.duration("us")),
            ("tags", pa.list_(pa.string())),
            ("address", pa.struct([("city", pa.large_string()), ("geo", geo)])),
        ]
    )
    assert kinds(read_schema(schema)) == KINDS
    assert kinds(read_schema(schema.empty_table())) == KINDS


def test_spark() -> None:
    geo = spark.StructType([spark.StructField("lat", spark.DoubleType())])
    address = [spark.StructField("city", spark.StringType()), spark.StructField("geo", geo)]
    schema = spark.StructType(
        [
            spark.StructField("ts", spark.TimestampNTZType()),
            spark.StructField("type", spark.StringType()),
            spark.StructField("price", spark.FloatType()),
            spark.StructField("amount", spark.DecimalType(10, 2)),
            spark.StructField("n", spark.LongType()),
            spark.StructField("ok", spark.BooleanType()),
            spark.StructField("day", spark.DateType()),
            spark.StructField("took", spark.DayTimeIntervalType()),
            spark.StructField("tags", spark.ArrayType(spark.StringType())),
            spark.StructField("address", spark.StructType(address)),
        ]
    )
    assert kinds(read_schema(schema)) == KINDS


def test_mapping() -> None:
    assert kinds(
        read_schema({"a": "bigint", "b": "varchar(10)", "c": "interval year to month"})
    ) == {
        "a": ValueKind.INTEGER,
        "b": ValueKind.TEXT,
        "c": ValueKind.OTHER,
    }
    assert read_schema(None) is None
