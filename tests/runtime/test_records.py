"""Text of live sources: columns where it can be read, and a reason where it cannot."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from cepheid.spark.records import ORIGIN, RAW, REASON, event_columns, parse_json

pytestmark = pytest.mark.spark

COLUMNS = StructType().add("ts", "timestamp").add("type", "string").add("x", "double")
COLUMNS = COLUMNS.add("a.b", "long")
MORE = "the text is not one JSON object"
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
    (b"[1, 2]", MORE),
    (b'{"type":"A","x":1.5} {"type":"B"}', MORE),
    (b'{"type":"A"},{"type":"B"}', MORE),
    (b'{"type":"A"} and so on', MORE),
    (b'{"type":"A"}}', MORE),
    (b"null", MORE),
    (b"5", MORE),
    (b"", "the text is not JSON"),
    (b' {"type":"A"} ', None),
    (b'{"type":"A","more":[{"x":1}]}', None),
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
