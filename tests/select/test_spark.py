"""SELECT on Spark, over DataFrames and streams, against the definition."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyarrow import csv, parquet
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from tests.amount import share
from tests.select.cases import (
    aggregations,
    agree,
    joined_aggregations,
    joins,
    many_joins,
    plain,
    rows,
    sessions,
    table_of,
    unordered,
)

import cepheid
from cepheid.runtimes.spark.stream import late_in_joins
from cepheid.spark.failures import clear_error
from cepheid.testing.oracle_select import evaluate_select

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Events = list[dict[str, Any]]
#: A query takes about half a second.
few = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

EVENTS: Events = [
    {"ts": ts, "k": k, "g": g, "x": x, "y": y, "d": None}
    for ts, k, g, x, y in [
        (-6, "p", 1, 1, 1.0),
        (-2, None, 2, None, float("nan")),
        (-2, "q", None, 3, None),
        (0, "p", 1, 2, -0.0),
        (0, "pq", None, 2, 0.0),
        (5, "pq", 2, -4, 2.5),
        (6, "p", 1, 0, 0.0),
        (21, None, 2, 1, float("nan")),
    ]
]


def found(text: str, streams: Any) -> list[str]:
    return unordered(cepheid.query(text).run(streams).toArrow().to_pylist())


@few
@given(aggregations(), rows())
def test_aggregations_are_as_defined(spark: SparkSession, text: str, events: Events) -> None:
    frame = spark.createDataFrame(table_of(events))
    assert found(text, frame) == unordered(evaluate_select(text, {"s": events}))


def collected(text: str, streams: Any) -> Events:
    """Return the rows of a run; what Spark raises is what the process would."""
    try:
        return list(cepheid.query(text).run(streams).toArrow().to_pylist())
    except PySparkException as error:
        raise clear_error(error) from None


@few
@given(aggregations(), rows(8, wild=True))
def test_wild_values_are_right_or_refused(spark: SparkSession, text: str, events: Events) -> None:
    frame = spark.createDataFrame(table_of(events))
    agree(lambda: collected(text, frame), lambda: evaluate_select(text, {"s": events}))


@few
@given(joins(), rows(8), rows(8))
def test_joins_are_as_defined(
    spark: SparkSession, text: str, events: Events, others: Events
) -> None:
    frames = {"s": spark.createDataFrame(table_of(events)), "r": table_of(others)}
    assert found(text, frames) == unordered(evaluate_select(text, {"s": events, "r": others}))


@share(3)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT *, x * 2 AS twice FROM s WHERE x + g < 3 OR k LIKE 'p%'",
        "SELECT x / g AS a, x % 2 AS b, ABS(-x) AS c, ROUND(y) AS d, FLOOR(x / 2) AS e, "
        "COALESCE(g, x) AS f, NULLIF(x, 2) AS g, LENGTH(k) AS h, k IN ('p') AS i, "
        "GREATEST(x, g) AS j, CONCAT(k, 'z') AS k, NOT (x = 2) AS l, -y AS m FROM s",
        "SELECT k AS key, SUM(x), MIN(y), MAX(y), AVG(x) FROM s GROUP BY k WINDOW 5 us SLIDE 2 us",
        "SELECT COUNT(*), MIN(ts) FROM s WHERE x IS NOT NULL WINDOW 2 us SLIDE 5 us",
        "SELECT COUNT(*), SUM(x * g) AS z FROM s GROUP BY y",
        "SELECT k, APPROX_COUNT_DISTINCT(y), APPROX_COUNT_DISTINCT(d), APPROX_PERCENTILE(y, 0.6), "
        "APPROX_PERCENTILE(x + 1, 0) AS p FROM s GROUP BY k WINDOW 9 us SLIDE 3 us",
        "SELECT APPROX_COUNT_DISTINCT(k), APPROX_PERCENTILE(x, 0.5) FROM s WHERE x > 100",
        "SELECT k FROM s GROUP BY k",
        "SELECT k FROM s GROUP BY k WINDOW 5 us",
        "SELECT SUM(x), COUNT(*) FROM s WHERE x > 100",
        "SELECT COUNT(*) FROM s GROUP BY g WINDOW 1 EVENT SLIDE 2 EVENTS",
        "SELECT * FROM s a JOIN s b ON a.k = b.k WINDOW 5 us",
        "SELECT a.ts, b.ts AS t FROM s a JOIN s b ON a.x < b.x OR a.k = 'q' WINDOW 2 EVENTS",
    ],
)
def test_queries_by_hand(spark: SparkSession, text: str) -> None:
    frame = spark.createDataFrame(table_of(EVENTS))
    assert found(text, frame) == unordered(evaluate_select(text, {"s": EVENTS}))


def test_sketches_of_many_values_are_within_the_error(spark: SparkSession) -> None:
    count = 50_000
    text = "SELECT APPROX_COUNT_DISTINCT(x) AS n, APPROX_PERCENTILE(x, 0.9) AS p FROM s"
    frame = spark.range(count).selectExpr("id AS ts", "id * 2 AS x")
    row = cepheid.query(text).run(frame).collect()[0]
    assert abs(row["n"] - count) <= 0.0244 * count
    assert abs(row["p"] / 2 - 0.9 * count) <= 0.0001 * count + 1


@pytest.fixture
def far_zone(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


HOURS = [dt.datetime(2026, 3, 7, 20) + dt.timedelta(hours=n) for n in range(0, 40, 3)]


@share(3)
@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us")])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM s WHERE ts > '2026-03-08 03:00:00' WINDOW 1 day SLIDE 7 hours",
        "SELECT COUNT(*), MIN(ts) FROM s WINDOW 4 hours SLIDE 9 hours",
        "SELECT a.x, b.x AS y, b.ts - a.ts AS d FROM s a JOIN s b ON a.x < b.x "
        "WHERE a.ts + 1 hour < '2026-03-08 10:00:00' WINDOW 1 day",
    ],
)
def test_the_time_zone_of_the_session_plays_no_part(
    far_zone: SparkSession, tmp_path: Path, text: str, kind: pa.DataType
) -> None:
    table = pa.table({"ts": pa.array(HOURS, kind), "x": range(len(HOURS))})
    parquet.write_table(table, tmp_path / "e.parquet")
    q = cepheid.query(text)
    expected = [tuple(map(_micros, row.values())) for row in q.run(table).to_pylist()]
    rows_ = q.run(far_zone.read.parquet(str(tmp_path))).toArrow().to_pylist()
    assert sorted(tuple(map(_micros, row.values())) for row in rows_) == sorted(expected)


def _micros(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return round(utc.timestamp() * 1e6)
    return value


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_times_that_are_whole_numbers(spark: SparkSession, unit: str) -> None:
    scale = {"ns": 1_000_000_000, "ms": 1_000, "s": 1}[unit]
    table = pa.table({"ts": [n * scale for n in (-3, 0, 1, 4, 9)], "x": range(5)})
    for text in (
        "SELECT COUNT(*) FROM s WINDOW 1 s SLIDE 3 s",
        "SELECT COUNT(*), MAX(x) FROM s WINDOW SESSION 2 s",
        "SELECT COUNT(*) FROM s a WITHIN 2 s JOIN s b WITHIN 4 s ON a.x <> b.x WINDOW 3 s",
        "SELECT a.x, b.x AS y FROM s a JOIN s b ON a.x < b.x WINDOW 4 s",
    ):
        q = cepheid.query(text, time_unit=unit)
        expected = unordered(q.run(table).to_pylist())
        assert unordered(q.run(table, spark=spark).toArrow().to_pylist()) == expected


def test_files_and_stores_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(EVENTS)
    parquet.write_table(table, tmp_path / "e.parquet")
    csv.write_csv(table.select(["ts", "x"]), tmp_path / "e.csv")
    store = cepheid.EventStore(tmp_path / "store")
    store.append(table)
    for text, events in (
        ("SELECT SUM(x), COUNT(*) FROM s WHERE ts >= -2 GROUP BY k WINDOW 5 us", store),
        ("SELECT SUM(x), COUNT(*) FROM s WINDOW 5 us", store),
        ("SELECT ts, x FROM s WHERE x > 1", store),
        ("SELECT ts, x FROM s WHERE x > 1", str(tmp_path / "*.parquet")),
        ("SELECT ts, x FROM s WHERE x > 1", tmp_path / "e.csv"),
    ):
        rows_ = cepheid.query(text).run(events, spark=spark).toArrow().to_pylist()
        assert unordered(rows_) == unordered(evaluate_select(text, {"s": EVENTS}))


# ---------------------------------------------------------------------------------------
# Streams


LIVE: Events = [{**event, "ts": event["ts"] + 1_000} for event in EVENTS]
"""Spark's joins take what is before 1970 for late."""


LAST = {"ts": 10**9, "k": "last", "g": 1, "x": 100, "y": 1.0, "d": None}


def live(spark: SparkSession, folder: Path, events: Events, kind: pa.DataType | None = None) -> Any:
    """Return a stream of files, the last of which has an event that is later than all windows."""
    folder.mkdir()
    middle = len(events) // 2
    for number, part in enumerate([events[:middle], events[middle:], [LAST]]):
        path = folder / f"{number:03}.parquet"
        parquet.write_table(table_of(part, kind), path)
        os.utime(path, (1000 + number, 1000 + number))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def drained(result: Any) -> list[str]:
    folder = Path(tempfile.mkdtemp())
    writer = result.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    found_ = result.sparkSession.read.parquet(str(folder / "rows")).toArrow()
    return unordered(found_.to_pylist())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ts, x * 2 AS z FROM s WHERE x > 0 AND x < 50",
        "SELECT COUNT(*), SUM(x) FROM s WHERE x IS NOT NULL GROUP BY k WINDOW 5 us SLIDE 2 us",
        pytest.param(
            "SELECT COUNT(*), MAX(x) FROM s WINDOW 2 us SLIDE 5 us", marks=pytest.mark.slow
        ),
        pytest.param(
            "SELECT a.ts, b.ts AS t FROM s a JOIN r b ON a.k = b.k AND b.x < 50 WINDOW 5 us",
            marks=pytest.mark.slow,
        ),
        "SELECT a.ts, b.ts AS t FROM s a JOIN r b ON a.x < b.x AND b.x < 50 WINDOW 3 us",
        """SELECT MEDIAN(x), COUNT(DISTINCT y), SUM(x) - COUNT(*) AS z FROM s WHERE x < 50
        GROUP BY k HAVING COUNT(*) > 0 AND MAX(x) > -9 WINDOW SESSION 5 us""",
        """SELECT a.ts, b.ts AS t FROM s a WITHIN 2 us JOIN r b WITHIN 7 us
        ON a.x < b.x AND b.x < 50""",
    ],
)
def test_streams_give_the_rows_of_tables(spark: SparkSession, tmp_path: Path, text: str) -> None:
    # Spark watches times of one type, and takes others all the same.
    kind = pa.timestamp("us") if "GROUP" in text else pa.timestamp("us", "UTC")
    streams: Any = live(spark, tmp_path / "s", LIVE, kind)
    if "JOIN" in text:
        streams = {"s": streams, "r": live(spark, tmp_path / "r", LIVE[::-1], kind)}
    result = cepheid.query(text).stream(streams, watermark="1 minute")
    assert drained(result) == unordered(evaluate_select(text, {"s": LIVE, "r": LIVE}))


@share(3)
@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), None])
@pytest.mark.slow
def test_a_live_join_pairs_events_at_the_epoch(
    spark: SparkSession, tmp_path: Path, kind: pa.DataType | None
) -> None:
    events = [{**EVENTS[0], "ts": ts, "x": ts} for ts in (0, 0, 1, 2)]
    text = "SELECT a.x, b.x AS y FROM s a JOIN r b ON a.k = b.k AND b.x < 50 WINDOW 2 us"
    streams = {name: live(spark, tmp_path / name, events, kind) for name in ("s", "r")}
    result = cepheid.query(text).stream(streams, watermark="1 minute")
    assert drained(result) == unordered(evaluate_select(text, {"s": events, "r": events}))


def test_a_live_join_counts_late_events(spark: SparkSession, tmp_path: Path) -> None:
    text = "SELECT a.x, b.x AS y FROM s a JOIN r b ON a.k = b.k WINDOW 2 us"
    kind = pa.timestamp("us", "UTC")
    streams = {name: live(spark, tmp_path / name, LIVE, kind) for name in ("s", "r")}
    # Spark compares events with the watermark of the micro-batch before.
    late = [event for event in LIVE if event["k"] is not None][:3]
    for number, more in enumerate(([LAST], late), 3):
        path = tmp_path / "s" / f"{number:03}.parquet"
        parquet.write_table(table_of(more, kind), path)
        os.utime(path, (1000 + number, 1000 + number))
    result = cepheid.query(text).stream(streams, watermark="1 second")
    writer = result.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = [late_in_joins(one.stateOperators) for one in query.recentProgress]
    assert sum(found) == 3, found


@pytest.mark.slow
@settings(few, max_examples=2)
@given(joins(counted=False), rows(8), rows(8))
def test_live_joins_are_as_defined_from_the_epoch_on(
    spark: SparkSession, text: str, events: Events, others: Events
) -> None:
    # Spark takes what is before 1970 for late.
    kept = {
        name: [event for event in stream if event["ts"] >= 0]
        for name, stream in (("s", events), ("r", others))
    }
    folder = Path(tempfile.mkdtemp())
    kind = pa.timestamp("us", "UTC")
    streams = {
        "s": live(spark, folder / "s", events, kind),
        "r": live(spark, folder / "r", others, kind),
    }
    ended = {name: [*stream, dict(LAST)] for name, stream in kept.items()}
    result = cepheid.query(text).stream(streams, watermark="1 minute")
    assert drained(result) == unordered(evaluate_select(text, ended))


def test_what_cannot_be_live_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    stream = live(spark, tmp_path / "s", LIVE[:2])
    with pytest.raises(cepheid.UnsupportedError, match="E405"):
        cepheid.query("SELECT COUNT(*) FROM s").stream(stream, watermark="1 s")
    for text in (
        "SELECT x FROM s",
        "SELECT a.x FROM s a JOIN s b ON a.x = b.x WINDOW 5 EVENTS",
    ):
        with pytest.raises(cepheid.UnsupportedError, match="E405"):
            cepheid.query(text).stream(stream, watermark="1 s", late="side")


def test_a_checkpoint_of_sparks_own_windows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Earlier versions left live windows of time to Spark."""
    source = live(spark, tmp_path / "s", LIVE, pa.timestamp("us", "UTC"))
    watched = source.withWatermark("ts", "1 second")
    counts = watched.groupBy(sf.window("ts", "5 microseconds"), "k").count()
    windows = cepheid.query("SELECT COUNT(*) FROM s GROUP BY k WINDOW 5 us")

    def run(rows_: Any) -> None:
        writer = rows_.writeStream.foreachBatch(lambda batch, _: batch.collect())
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run(counts)
    more = table_of([LAST], pa.timestamp("us", "UTC"))
    parquet.write_table(more, tmp_path / "s" / "more.parquet")
    with pytest.raises(StreamingQueryException) as caught:
        run(windows.stream(source, watermark="1 second"))
    assert clear_error(caught.value).diagnostics[0].code == "E524"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT y, x FROM s ORDER BY y DESC, x NULLS LAST LIMIT 5",
        "SELECT x FROM s ORDER BY x + g, k DESC, x",
        "SELECT k, SUM(x) AS n FROM s GROUP BY k ORDER BY n DESC NULLS FIRST, k LIMIT 3",
        "SELECT g FROM s GROUP BY g WINDOW 5 us ORDER BY window_start DESC, MAX(y), g NULLS LAST",
    ],
)
def test_rows_in_an_order(spark: SparkSession, text: str) -> None:
    frame = spark.createDataFrame(table_of(EVENTS))
    rows_ = cepheid.query(text).run(frame).toArrow().to_pylist()
    assert plain(rows_) == plain(evaluate_select(text, {"s": EVENTS}))


@few
@given(sessions(), rows())
def test_sessions_are_as_defined(spark: SparkSession, text: str, events: Events) -> None:
    frame = spark.createDataFrame(table_of(events))
    assert found(text, frame) == unordered(evaluate_select(text, {"s": events}))


@few
@given(many_joins() | many_joins(aggregated=True), rows(6), rows(6))
def test_joins_of_more_streams_are_as_defined(
    spark: SparkSession, text: str, events: Events, others: Events
) -> None:
    frames = {"s": spark.createDataFrame(table_of(events)), "r": table_of(others)}
    assert found(text, frames) == unordered(evaluate_select(text, {"s": events, "r": others}))


@pytest.mark.parametrize(
    "text",
    [
        """SELECT a.ts, b.ts AS t, c.ts AS u FROM s a JOIN s b ON a.k = b.k
        JOIN s c ON c.x > b.x AND c.x < 50 WINDOW 7 us""",
        """SELECT a.k, COUNT(*) AS n, MAX(b.x) AS x FROM s a WITHIN 7 us JOIN s b WITHIN 5 us
        ON a.x < b.x AND b.x < 50 GROUP BY a.k WINDOW 4 us""",
    ],
)
def test_a_live_stream_joined_with_itself(spark: SparkSession, tmp_path: Path, text: str) -> None:
    stream = live(spark, tmp_path / "s", LIVE, pa.timestamp("us", "UTC"))
    result = cepheid.query(text).stream(stream, watermark="1 minute")
    assert drained(result) == unordered(evaluate_select(text, {"s": LIVE}))


@few
@given(joined_aggregations(), rows(8), rows(8))
def test_aggregates_of_pairs_are_as_defined(
    spark: SparkSession, text: str, events: Events, others: Events
) -> None:
    frames = {
        "s": spark.createDataFrame(table_of(events)),
        "r": spark.createDataFrame(table_of(others)),
    }
    expected = evaluate_select(text, {"s": events, "r": others})
    assert found(text, frames) == unordered(expected)
