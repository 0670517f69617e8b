"""The time zone of a session plays no part, whatever a query is and wherever it runs."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.amount import share
from tests.runtime.test_stream import cut, drain, read_stream, write_files

import cepheid

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ZONE = "spark.sql.session.timeZone"
ZONES = (
    "America/New_York",
    pytest.param("UTC", marks=pytest.mark.slow),
    pytest.param("Asia/Kolkata", marks=pytest.mark.slow),
)
KINDS: dict[str, pa.DataType] = {
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}

# From an hour before New York's clocks go back to the evening.
BEGIN = dt.datetime(2026, 11, 1, 5, 0)
COUNT = 40

QUERIES = {
    "trends": "RETURN g, COUNT(*), MIN(A.seen), MAX(A.seen) PATTERN A+ GROUP-BY g "
    "WITHIN 2 hours SLIDE 2 hours",
    "trends by time": "RETURN seen, COUNT(*) PATTERN SEQ(A, B) GROUP-BY seen "
    "WITHIN 3 hours SLIDE 1 hour",
    "trends in one task": "RETURN COUNT(*), MAX(B.seen) PATTERN SEQ(A, B) WHERE A.n < B.n "
    "WITHIN 2 hours SLIDE 2 hours",
    "matches": "RETURN MATCHES PATTERN SEQ(A, B) WHERE [g] AND A.seen < B.seen WITHIN 1 hour",
    "attributes": "RETURN A.seen, B.ts PATTERN SEQ(A, B) WHERE [g] WITHIN 30 minutes",
    "situations": "PARTITION BY g DEFINE X AS n > 1, Y AS n > 2 SITUATIONS X",
    "situations by time": "PARTITION BY seen DEFINE X AS n > 1 SITUATIONS X",
    "relations": "PARTITION BY g DEFINE X AS n > 1, Y AS n > 2 PATTERN Y during;equals;starts;"
    "finishes X WITHIN 10 hours",
    "select": "SELECT g, COUNT(*), MIN(seen), MAX(ts) FROM s GROUP BY g WINDOW 2 hours",
    "select events": "SELECT g, COUNT(*), MIN(seen) FROM s GROUP BY g WINDOW 3 EVENTS",
    "select rows": "SELECT ts, seen, n FROM s WHERE seen > '2026-11-01 05:30:00'",
    "join": "SELECT a.ts, b.ts AS t, a.seen FROM s a JOIN s b ON a.n < b.n WINDOW 20 minutes",
}

CLAUSE = """SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts
    MEASURES A.seen AS seen, LAST(B.ts) AS ends, MAX(B.seen) AS latest
    PATTERN (A B+) DEFINE A AS n < 2, B AS n > PREV(n) AND seen > TIMESTAMP '2026-11-01 05:20:00')
    """


def events_of(kind: pa.DataType) -> pa.Table:
    times = [BEGIN + dt.timedelta(minutes=7 * n) for n in range(COUNT)]
    seen = [BEGIN + dt.timedelta(minutes=10 * (n // 4)) for n in range(COUNT)]
    return pa.table(
        {
            "ts": pa.array(times, kind),
            "type": ["A" if n % 3 else "B" for n in range(COUNT)],
            "g": ["p" if n % 2 else "q" for n in range(COUNT)],
            "n": [n % 5 for n in range(COUNT)],
            "seen": pa.array(seen, kind),
        }
    )


def plain(value: Any) -> Any:
    """Return a value with moments as they are in UTC, and no number of a match."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value) if name != "match_id"}
    return [plain(one) for one in value] if isinstance(value, list) else value


def unordered(table: pa.Table) -> list[str]:
    return sorted(str(plain(row)) for row in table.to_pylist())


@pytest.fixture(params=ZONES)
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    spark.conf.set(ZONE, request.param)
    yield spark
    spark.conf.set(ZONE, "UTC")


@pytest.fixture(params=KINDS)
def events(request: pytest.FixtureRequest) -> pa.Table:
    return events_of(KINDS[request.param])


def frame_of(spark: SparkSession, events: pa.Table, folder: Path) -> Any:
    """Return events by way of a file, in which moments are the same in every zone."""
    return spark.read.parquet(str(write_files(folder / "events", [events])))


@share(8)
@pytest.mark.parametrize("name", QUERIES)
def test_batches(zoned: SparkSession, events: pa.Table, name: str, tmp_path: Path) -> None:
    q = cepheid.query(QUERIES[name])
    frame = frame_of(zoned, events, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = q.run(frame).toArrow()
    expected = q.run(events)
    assert len(expected)
    assert unordered(found) == unordered(expected)


STRATEGIES = [
    ("trends", "combine"),
    ("trends", "key shuffle"),
    ("trends", "time shuffle"),
    ("matches", "key shuffle"),
    ("matches", "time shuffle"),
    ("situations", "combine"),
    ("situations", "key shuffle"),
    ("relations", "key shuffle"),
]


@share(8)
@pytest.mark.parametrize(("name", "strategy"), STRATEGIES)
def test_strategies(
    zoned: SparkSession, events: pa.Table, name: str, strategy: str, tmp_path: Path
) -> None:
    q = cepheid.query(QUERIES[name])
    found = q.run(frame_of(zoned, events, tmp_path), strategy=strategy).toArrow()
    assert unordered(found) == unordered(q.run(events))


@share(2)
def test_files_stores_and_workloads(zoned: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(events)
    path = write_files(tmp_path / "files", [events])
    for name in ("trends", "matches", "situations", "select"):
        q = cepheid.query(QUERIES[name])
        for held in (path, store):
            found = q.run(held, spark=zoned).toArrow()
            assert unordered(found) == unordered(q.run(events)), (name, held)
    rules = cepheid.workload({"a": QUERIES["trends"], "b": QUERIES["trends"].replace("2", "3")})
    found = rules.run(frame_of(zoned, events, tmp_path)).toArrow()
    assert unordered(found) == unordered(rules.run(events))


@share(2)
def test_match_recognize(zoned: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    expected = cepheid.sql(CLAUSE, tables={"events": events})
    frame = frame_of(zoned, events, tmp_path)
    if zoned.conf.get(ZONE) != "UTC" and events.schema.field("ts").type.tz:
        # The text of a moment is one of the session's zone, as everywhere in Spark's SQL.
        clause = CLAUSE.replace("TIMESTAMP '2026-11-01 05:20:00'", "TIMESTAMP '1970-01-01'")
        expected = cepheid.sql(clause, tables={"events": events})
        assert unordered(cepheid.sql(zoned, clause, tables={"events": frame}).toArrow()) == (
            unordered(expected)
        )
        return
    assert len(expected)
    found = cepheid.sql(zoned, CLAUSE, tables={"events": frame}).toArrow()
    assert unordered(found) == unordered(expected)


LIVE = ("trends", "matches", "attributes", "situations", "select", "select events", "join")


@share(14)
@pytest.mark.parametrize("name", LIVE)
def test_streams(zoned: SparkSession, events: pa.Table, name: str, tmp_path: Path) -> None:
    q = cepheid.query(QUERIES[name])
    folder = write_files(tmp_path / "events", cut(events, 2))
    live = q.stream(read_stream(zoned, folder, 1), watermark="1 second")
    found, _ = drain(live, tmp_path, "rows")
    # Windows that are open at the end have no row yet.
    assert len(found)
    assert set(unordered(found)) <= set(unordered(q.run(events)))
    assert len(found) >= len(q.run(events)) // 2


@share(2)
def test_late_events_and_rules(zoned: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "events", [events.slice(20), events.slice(0, 20)])
    stream = read_stream(zoned, folder, 1)
    q = cepheid.query(QUERIES["trends"])
    _, late = q.stream(stream, watermark="1 second", late="side")
    found, _ = drain(late, tmp_path, "late")
    assert unordered(found) == unordered(events.slice(0, 20))
    rules = cepheid.workload({"a": QUERIES["trends"], "b": QUERIES["trends"].replace("2", "1")})
    rows, _ = drain(rules.stream(stream, watermark="10 hours"), tmp_path, "rules")
    assert set(unordered(rows)) <= set(unordered(rules.run(events)))


@share(2)
def test_functions_of_sql(zoned: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    cepheid.register(zoned)
    frame_of(zoned, events, tmp_path).createOrReplaceTempView("zoned_events")
    for name in ("trends", "situations"):
        call = f"SELECT * FROM cepheid(TABLE(zoned_events), '{QUERIES[name]}')"
        expected = cepheid.query(QUERIES[name]).run(events)
        assert unordered(zoned.sql(call).toArrow()) == unordered(expected), name


@share(2)
def test_stores_take_frames(zoned: SparkSession, events: pa.Table, tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(frame_of(zoned, events, tmp_path))
    assert unordered(store.scan().read_all()) == unordered(events)
