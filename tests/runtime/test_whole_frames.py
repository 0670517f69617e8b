"""Every call that takes a DataFrame refuses one that is a stream, unless it runs live queries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.runtime.test_stream import write_files

import cepheid
from cepheid.errors import UnsupportedError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNT = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 second SLIDE 1 second"
FALLS = "SELECT n FROM events MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
FALLS += "PATTERN (A B+) DEFINE B AS x < PREV(x))"


def events_of() -> pa.Table:
    times = pa.array([1_000_000, 2_000_000, 3_000_000, 4_000_000], pa.timestamp("us"))
    return pa.table({"ts": times, "type": ["A", "B", "A", "B"], "x": [4.0, 3.0, 2.0, 1.0]})


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    events = events_of()
    folder = write_files(tmp_path / "in", [events.slice(0, 2), events.slice(2)])
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def joined(stream: DataFrame) -> Any:
    text = "SELECT a.x FROM one a JOIN two b ON a.x > b.x WINDOW 1 minute"
    still = stream.sparkSession.createDataFrame(events_of())
    return cepheid.query(text).run({"one": still, "two": stream})


CALLS: dict[str, Callable[[DataFrame, Path], Any]] = {
    "run": lambda s, _: cepheid.query(COUNT).run(s),
    "run a listing": lambda s, _: cepheid.query("RETURN MATCHES PATTERN SEQ(A, B)").run(s),
    "run rows of SELECT": lambda s, _: cepheid.query("SELECT x FROM events").run(s),
    "run windows of SELECT": lambda s, _: cepheid.query(
        "SELECT COUNT(*) FROM events WINDOW 1 minute"
    ).run(s),
    "run a join": lambda s, _: joined(s),
    "workload": lambda s, _: cepheid.workload([COUNT]).run(s),
    "workload, separate": lambda s, _: cepheid.workload([COUNT]).run(s, separate=True),
    "append": lambda s, path: cepheid.EventStore(path / "store").append(s),
    "sql, tables": lambda s, _: cepheid.sql(s.sparkSession, FALLS, tables={"events": s}),
}
IN_PROCESS: dict[str, Callable[[DataFrame], Any]] = {
    "matches": lambda s: cepheid.query("RETURN MATCHES PATTERN SEQ(A, B)").matches(s),
    "sql": lambda s: cepheid.sql(FALLS, tables={"events": s}),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_stream_is_refused_where_all_events_are_read(
    call: str, stream: DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="this DataFrame is a stream") as caught:
        CALLS[call](stream, tmp_path)
    assert caught.value.diagnostics[0].code == "E405"
    assert caught.value.diagnostics[0].helps


@pytest.mark.parametrize("call", IN_PROCESS)
def test_what_runs_in_process_takes_no_frame_at_all(call: str, stream: DataFrame) -> None:
    with pytest.raises(cepheid.CepheidError, match=r"E592.*Spark"):
        IN_PROCESS[call](stream)


@pytest.mark.parametrize("source", ["events", "(SELECT * FROM events WHERE x > 0)"])
def test_sql_over_a_view_of_a_stream(stream: DataFrame, source: str) -> None:
    stream.createOrReplaceTempView("events")
    text = FALLS.replace("events", source)
    with pytest.raises(UnsupportedError, match="without a watermark") as caught:
        cepheid.sql(stream.sparkSession, text)
    found = caught.value.diagnostics[0]
    assert found.code == "E405"
    assert found.span is not None
    assert text[found.span.start : found.span.end] == source
    stream.sparkSession.catalog.dropTempView("events")


@pytest.mark.slow
def test_the_table_function_over_a_stream(stream: DataFrame) -> None:
    spark = stream.sparkSession
    cepheid.register(spark)
    stream.createOrReplaceTempView("events")
    rows = spark.sql(f"SELECT * FROM cepheid(TABLE(events), '{COUNT}')")
    started = rows.writeStream.format("memory").queryName("function").start()
    with pytest.raises(StreamingQueryException, match=r"error\[E405\]"):
        started.processAllAvailable()
    spark.catalog.dropTempView("events")


def test_a_clause_over_a_table_beside_a_stream(spark: SparkSession, stream: DataFrame) -> None:
    """A clause over a table has all its rows in every micro-batch, so that the join is live."""
    clause = FALLS.replace("events", "still").replace("n FROM", "live.x, n FROM live JOIN")
    tables = {"live": stream, "still": spark.createDataFrame(events_of())}
    rows = cepheid.sql(spark, clause, tables=tables)
    assert rows.isStreaming
    started = rows.writeStream.format("memory").queryName("beside").start()
    started.processAllAvailable()
    started.stop()
    found = spark.table("beside").toArrow().to_pylist()
    assert sorted(row["x"] for row in found) == [1.0, 2.0, 3.0, 4.0]
    assert {row["n"] for row in found} == {4}


def test_calls_for_streams_refuse_everything_else() -> None:
    with pytest.raises(ValueError, match="events are a streaming DataFrame"):
        cepheid.query(COUNT).stream(events_of(), watermark="1 second")
    with pytest.raises(ValueError, match="events are a streaming DataFrame"):
        cepheid.workload([COUNT]).stream(events_of(), watermark="1 second")
