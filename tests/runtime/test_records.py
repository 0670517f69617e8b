"""Text of live sources: columns where it can be read, and a reason where it cannot."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from cepheid.spark.records import ORIGIN, RAW, REASON, event_columns, parse_csv, parse_json

pytestmark = pytest.mark.spark

COLUMNS = StructType().add("ts", "timestamp").add("type", "string").add("x", "double")
COLUMNS = COLUMNS.add("a.b", "long")
OF_JSON: list[tuple[bytes | None, str | None]] = [
    (b'{"ts":"2026-01-01T00:00:00Z","type":"A","x":1.5}', None),
    (b'{"ts":"0001-01-01T00:00:00Z","type":"A","x":null}', None),
    (b'{"ts":"9999-12-31T23:59:59Z"}', None),
    (b"{}", None),
    (b"nonsense", "the text is not JSON"),
    (b'{"ts":"2026-01-01T00:00:00Z",', "the text is not JSON"),
    (b'{"type":"A","x":"abc"}', "the value of `x` is not of type double"),
    (b'{"ts":"yesterday","type":"A"}', "the value of `ts` is not of type timestamp"),
    (b'{"a.b":"x"}', "the value of `a.b` is not of type bigint"),
    (b"[1, 2]", "the record does not fit the columns"),
    (b'{"type":"\xff\xfe"}', "the text is not UTF-8"),
    (None, "the record is empty"),
]


def test_json_is_parsed_or_gets_a_reason(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(n, text) for n, (text, _) in enumerate(OF_JSON)], "n int, v binary"
    )
    parsed = parse_json(frame, sf.col("v"), sf.col("n").cast("string"), COLUMNS)
    assert event_columns(parsed) == COLUMNS.fieldNames()
    rows = sorted(parsed.drop("ts").collect(), key=lambda row: int(row[ORIGIN]))
    assert [row[REASON] for row in rows] == [reason for _, reason in OF_JSON]
    times = parsed.orderBy(ORIGIN).select(sf.date_format("ts", "yyyy")).collect()
    assert {"0001", "2026", "9999"} <= {row[0] for row in times}
    assert (rows[0]["type"], rows[0]["x"]) == ("A", 1.5)
    assert rows[4][RAW] == "nonsense"
    # The columns that fit are there, which helps to find the record.
    assert rows[6]["type"] == "A"
    assert len(COLUMNS.fields) == 4, "the caller's schema stays as it is"


def test_csv_is_parsed_or_gets_a_reason(spark: SparkSession) -> None:
    columns = StructType(COLUMNS.fields[:3])
    lines = ['2026-01-01,"A, B",1', "2026-01-01,A", "2026-01-01,A,1,2", "2026-01-01,A,one"]
    frame = spark.createDataFrame([(line,) for line in lines], "v string")
    rows = parse_csv(frame, sf.col("v"), sf.col("v"), columns).collect()
    assert [row[REASON] is None for row in rows] == [True, False, False, False]
    assert rows[0]["type"] == "A, B"
    assert [row[RAW] for row in rows] == lines
