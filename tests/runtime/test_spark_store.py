"""Stores on Spark: the rows of one process, tasks that write, and batches that come twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_spark import events_of
from tests.store.small_store import small_parts

import cepheid
from cepheid.kinds.trend.replay import plan_replay
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.spark.store import slices_of

pytestmark = pytest.mark.spark

QUERIES = {
    "sliding": "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A, B) GROUP-BY key "
    "WITHIN 300 us SLIDE 100 us",
    "long": "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 9 s SLIDE 3 ms",
    "rare": "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE A.x > 8.9 WITHIN 30 us SLIDE 10 us",
    "trailing": "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] AND A.x > 8.5 "
    "WITHIN 50 us EMIT ON EXPIRY",
    "none": "RETURN COUNT(*), MIN(A.x) PATTERN (SEQ(A+, B))+",
    "counted": "RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] WITHIN 9 EVENTS SLIDE 3 EVENTS",
    "listed": "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE [key] AND A.x > 8.5 "
    "WITHIN 20 us SLIDE 20 us",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> cepheid.EventStore:
    made = cepheid.EventStore(tmp_path_factory.mktemp("store"))
    events = events_of(1000)
    with small_parts(segment=400, group=32, block=16):
        made.append(events.slice(0, 700))
        made.index("x")
        made.append(events.slice(700))
    return made


@pytest.mark.filterwarnings("ignore:one task runs")
@pytest.mark.parametrize("name", QUERIES)
def test_tasks_give_what_one_process_gives(
    spark: SparkSession, store: cepheid.EventStore, name: str
) -> None:
    query = cepheid.query(QUERIES[name])
    expected = query.run(events_of(1000)).to_pylist()
    assert same(query.run(store), expected)
    assert same(query.run(store, spark=spark).toArrow(), expected)


def test_slices_leave_out_what_the_index_rules_out(store: cepheid.EventStore) -> None:
    snapshot = store.snapshot()
    plan = cepheid.query(QUERIES["rare"], schema=store.schema).plan
    whole = slices_of(
        snapshot, TrendPlan.of(plan), plan_replay(snapshot, TrendPlan.of(plan), "replay"), 4
    )
    rare = plan_replay(snapshot, TrendPlan.of(plan), "index")
    slices = slices_of(snapshot, TrendPlan.of(plan), rare, 4)
    assert [piece.begin for piece in slices] == [None, *(piece.end for piece in slices[:-1])]
    assert len(whole) == 4
    assert rare.cover is not None
    held = pa.table({"ts": [10**15]})
    assert not any(piece.cover.holds(held["ts"].to_numpy()).any() for piece in slices)
    assert any(piece.cover.holds(held["ts"].to_numpy()).any() for piece in whole)


def test_data_frames_are_appended_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path)
    events = events_of(200).select(["ts", "type", "x"])
    frame = spark.createDataFrame(events.to_pandas())
    assert store.append(frame.limit(100)) == 100
    store.index("x")
    sink = store.sink("numbers")
    for batch in (0, 0, 1):
        sink(frame.filter(f"x % 2 = {batch}"), batch)
    even_odd = sum(float(x) % 2 in (0, 1) for x in events["x"].to_pylist() if x is not None)
    assert len(store) == 100 + even_odd
    assert all(s.indexes for s in store.snapshot().manifest.segments)
    assert store.verify().sound
    found = store.scan().read_all()
    times = found["ts"].to_numpy()
    assert (times[1:] >= times[:-1]).all()
    assert found.schema.names == ["ts", "type", "x"]
    assert isinstance(found, pa.Table)


def test_a_live_query_stores_every_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    source, state = tmp_path / "in", tmp_path / "state"
    source.mkdir()
    events = events_of(90).select(["ts", "type", "x"])
    store = cepheid.EventStore(tmp_path / "store")
    for number in range(3):
        parquet.write_table(events.slice(30 * number, 30), source / f"{number}.parquet")
        reader = spark.readStream.schema("ts timestamp_ntz, type string, x double")
        frame = reader.parquet(str(source))
        live = frame.writeStream.foreachBatch(store.sink("numbers"))
        live = live.option("checkpointLocation", str(state)).trigger(availableNow=True)
        live.start().awaitTermination()
        if number == 1:
            # The driver died after it had stored the batch, and before Spark knew: it comes again.
            for name in ("1", ".1.crc"):
                (state / "commits" / name).unlink(missing_ok=True)
    assert [len(store), store.verify().sound] == [90, True]
    assert store.scan().read_all().select(events.column_names).equals(events)


CLAUSES = {
    "stretches": "MEASURES A.x AS a, B.ts AS b PATTERN (A B{1,2} C) "
    "DEFINE A AS x > 0.99, C AS x < PREV(x)",
    "whole": "MEASURES A.x AS a, COUNT(*) AS n PATTERN (A B+) DEFINE B AS x < PREV(x)",
}


@pytest.mark.parametrize("name", CLAUSES)
def test_clauses_on_spark(spark: SparkSession, store: cepheid.EventStore, name: str) -> None:
    text = f"SELECT * FROM e MATCH_RECOGNIZE (ORDER BY ts {CLAUSES[name]})"
    expected = cepheid.sql(text, tables={"e": events_of(1000)})
    assert expected.num_rows
    found = cepheid.sql(spark, text, tables={"e": store}).toArrow()
    assert same(found, expected.to_pylist())
    source = "(SELECT * FROM e WHERE x > 0.5)"
    text = f"SELECT COUNT(*) AS n FROM {source} MATCH_RECOGNIZE (ORDER BY ts {CLAUSES[name]})"
    expected = cepheid.sql(text, tables={"e": store})
    assert same(cepheid.sql(spark, text, tables={"e": store}).toArrow(), expected.to_pylist())
