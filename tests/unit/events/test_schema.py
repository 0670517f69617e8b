"""Schemas of Arrow, Spark and plain mappings read alike."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import cepheid
from cepheid.events.schema import EventSchema, ValueKind, kind_of, read_schema

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


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ValueKind.DURATION, "interval day to second|interval hour to second|interval minute"),
        (ValueKind.DURATION, "interval second|duration[ns]|timedelta64[us]|INTERVAL DAY"),
        (ValueKind.OTHER, "interval|interval year|interval month|interval year to month"),
        (ValueKind.OTHER, "month_day_nano_interval|time64[us]|time(6)|binary|variant|object"),
        (ValueKind.OTHER, "list<int>|array<int>|map<string,int>|int[]|varchar[3]|fixed_size_list<"),
        (ValueKind.OTHER, "integers|internal|datum|booleans||[]|extension<arrow.json>"),
        (ValueKind.TIMESTAMP, "timestamp[us, tz=UTC]|timestamp_ntz|timestamp_ltz|datetime"),
        (ValueKind.TIMESTAMP, "datetime64[us]|datetime64[ns, UTC]|timestamp with time zone"),
        (ValueKind.DATE, "date|date32[day]|date64[ms]"),
        (
            ValueKind.INTEGER,
            "int|integer|bigint|smallint|tinyint|long|short|byte|int8|uint64|Int64",
        ),
        (ValueKind.INTEGER, "int64[pyarrow]|bigint unsigned"),
        (ValueKind.DOUBLE, "double|float|float64|halffloat|real|double precision"),
        (ValueKind.DECIMAL, "decimal|decimal(10,2)|decimal128(10, 2)|numeric(5,1)"),
        (ValueKind.INTEGER, "decimal(18,0)|decimal128(38, 0)|decimal256(50, 0)|numeric(5)"),
        (ValueKind.INTEGER, "dictionary<values=decimal128(9, 0), indices=int32, ordered=0>"),
        (ValueKind.TEXT, "string|large_string|string_view|text|char(3)|varchar(10)|str|utf8"),
        (ValueKind.TEXT, "string collate UTF8_LCASE|character varying(10)|string[python]"),
        (ValueKind.TEXT, "dictionary<values=string, indices=int32, ordered=0>"),
        (ValueKind.TEXT, "run_end_encoded<run_ends: int32, values: string>"),
        (ValueKind.BOOLEAN, "bool|boolean"),
        (ValueKind.UNKNOWN, "null|void"),
    ],
)
def test_the_first_word_of_a_type_decides(kind: ValueKind, names: str) -> None:
    for name in names.split("|"):
        assert kind_of(name) is kind, name


def test_a_column_of_nulls_fits_everywhere() -> None:
    schema = pa.table({"ts": [0], "type": ["A"], "x": [None]}).schema
    text = "RETURN COUNT(*) PATTERN A WHERE A.x > 5 AND A.x LIKE 'a%' WITHIN 5 s"
    assert cepheid.query(text, schema=schema).plan is not None
