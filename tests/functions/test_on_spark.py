"""Functions of one's own on Spark: in columns, in tasks, in streams, in workloads and in SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from tests.functions.cases import KINDS, QUERIES, SELECTS, TIMED, events, rows_of

import cepheid
from cepheid.expressions import own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:one task runs the whole query"),
]


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    # A closure, which Spark has to send by value.
    factor = 2
    cepheid.function("twice", lambda x: pc.multiply(x, factor), returns="double", types=["double"])
    cepheid.function("initial", lambda t: pc.utf8_slice_codeunits(t, 0, 1), returns="string")
    cepheid.function("half_known", _half_known, returns="boolean")
    yield
    for name in ("TWICE", "INITIAL", "HALF_KNOWN"):
        own.forget(name)


def _half_known(x: Any, t: Any) -> Any:
    """Take NULL for what it is: true where one of two values is missing."""
    return pc.xor(x.is_null(), t.is_null())


@pytest.mark.parametrize("text", [*QUERIES, *SELECTS, *TIMED])
def test_on_a_data_frame(spark: SparkSession, text: str) -> None:
    compiled = cepheid.query(text)
    frame = spark.createDataFrame(events())
    assert rows_of(compiled.run(frame).toArrow()) == rows_of(compiled.run(events()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_and_goes(spark: SparkSession, kind: str) -> None:
    def same(values: Any) -> Any:
        return values

    given = cepheid.function("same", same, returns=kind, types=[kind], register=False)
    table = pa.table({"ts": [1, 2], "v": KINDS[kind]})
    compiled = cepheid.query("SELECT same(v) AS w, same(NULL) AS n FROM s", functions=[given])
    here, there = compiled.run(table), compiled.run(spark.createDataFrame(table)).toArrow()
    assert here.to_pylist() == there.to_pylist() == [
        {"w": value, "n": None} for value in table["v"].to_pylist()
    ]  # fmt: skip


def test_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    texts = [
        "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x WITHIN 4 us SLIDE 4 us",
        "SELECT ts, twice(x) AS y FROM s WHERE initial(n) = 'a'",
        "SELECT COUNT(*) FROM s WHERE twice(x) > 2 WINDOW 2 us",
    ]
    # The last event closes all windows, and has no part in a row.
    end = pa.table({"ts": [10**9], "type": ["A"], "x": [0.0], "n": ["z"]}).cast(events().schema)
    for number, part in enumerate((events(), end)):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    schema = spark.createDataFrame(events()).schema
    for number, text in enumerate(texts):
        compiled = cepheid.query(text)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = compiled.stream(frame.parquet(f"{tmp_path}/*.parquet"), watermark="0 seconds")
        writer = rows.writeStream.format("memory").queryName(f"own_{number}").outputMode("append")
        writer = writer.option("checkpointLocation", str(tmp_path / f"state{number}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        found = spark.table(f"own_{number}").toArrow()
        assert rows_of(found) == rows_of(compiled.run(events())), text


def test_in_a_workload(spark: SparkSession) -> None:
    workload = cepheid.workload({f"q{n}": text for n, text in enumerate(QUERIES)})
    frame = spark.createDataFrame(events())
    found = workload.run(frame, separate=True)
    for name, table in workload.run(events(), separate=True).items():
        assert rows_of(found[name].toArrow()) == rows_of(table), name


def test_in_sql(spark: SparkSession) -> None:
    text = """
        SELECT y FROM s MATCH_RECOGNIZE (
            PARTITION BY type ORDER BY ts MEASURES twice(LAST(B.x)) AS y
            PATTERN (A B+) DEFINE B AS twice(x) > A.x
        )"""
    found = cepheid.sql(spark, text, tables={"s": events()}).toArrow()
    assert rows_of(found) == rows_of(cepheid.sql(text, tables={"s": events()}))


def test_what_a_function_does_wrong_is_told(spark: SparkSession) -> None:
    cepheid.function("short", lambda x: x[:0], returns="double")
    try:
        frame = spark.createDataFrame(events())
        for text in ("SELECT short(x) AS y FROM s", "PATTERN A a WHERE short(a.x) > 1"):
            with pytest.raises(PySparkException, match=r"E574.*`SHORT` gave 0 values for"):
                cepheid.query(text).run(frame).toArrow()
    finally:
        own.forget("SHORT")


def test_moments_are_those_of_utc(spark: SparkSession) -> None:
    moment = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
    table = pa.table({"ts": pa.array([moment], pa.timestamp("us", "UTC"))})
    hour = cepheid.function("hour_of", pc.hour, returns="bigint", register=False)
    compiled = cepheid.query("SELECT hour_of(ts) AS h FROM s", functions=[hour])
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = compiled.run(spark.createDataFrame(table)).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert found.to_pylist() == compiled.run(table).to_pylist() == [{"h": 1}]


def test_in_a_stream_of_rules(spark: SparkSession, tmp_path: Path) -> None:
    window = "WITHIN 4 us SLIDE 4 us"
    workload = cepheid.workload(
        {
            "first": f"RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x {window}",
            "second": f"RETURN COUNT(*) PATTERN B b WHERE initial(b.n) = 'a' {window}",
            "third": "SELECT COUNT(*) FROM s WHERE half_known(x, n) WINDOW 4 us",
        }
    )
    end = pa.table({"ts": [10**9], "type": ["A"], "x": [0.0], "n": ["z"]}).cast(events().schema)
    for number, part in enumerate((events(), end)):
        pq.write_table(part, tmp_path / f"{number}.parquet")
    schema = spark.createDataFrame(events()).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = workload.stream(frame.parquet(f"{tmp_path}/*.parquet"), watermark="0 seconds")
    writer = rows.writeStream.format("memory").queryName("own_rules").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "state"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found = spark.table("own_rules").toArrow()
    assert rows_of(found) == rows_of(workload.run(events()))


@pytest.mark.parametrize(
    "condition", ["twice(x) > 1", "REGEX_MATCH(CAST(CAST(x AS BIGINT) AS STRING), '1')"]
)
def test_workers_run_the_python_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    """Spark alone runs the rest of a SELECT, so nothing else has chosen the Python of workers."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3-of-nobody")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    frame = spark.createDataFrame(pa.table({"ts": [1, 2], "x": [0.5, 1.5]}))
    compiled = cepheid.query(f"SELECT x FROM s WHERE {condition}")
    expected = compiled.run(pa.table({"ts": [1, 2], "x": [0.5, 1.5]})).to_pylist()
    assert compiled.run(frame).toArrow().to_pylist() == expected
