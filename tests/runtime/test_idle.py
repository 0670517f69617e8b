"""A source that falls silent: with `idle`, time goes on and the last windows leave."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.amount import some
from tests.runtime.cases import same
from tests.runtime.test_stream import read_stream, write_files

from cepheid.api import query
from cepheid.errors import UnsupportedError
from cepheid.jobs.work import Work
from cepheid.runtimes.spark.stream_tasks import NOT_TOLD, time_goes_on

KEYED = query("RETURN key, COUNT(*) PATTERN SEQ(A, NOT B) GROUP-BY key WITHIN 4 s SLIDE 4 s")
PANES = query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s")
WINDOWS = query("SELECT key, COUNT(*) AS n FROM s WHERE type = 'A' GROUP BY key WINDOW 4 seconds")


class FakeState:
    """The state of a bucket, and the clock."""

    def __init__(self, now: int, held: tuple[Any, ...] | None = None) -> None:
        self.now, self.held = now, held

    @property
    def exists(self) -> bool:
        return self.held is not None

    @property
    def get(self) -> Any:
        return self.held

    def getCurrentProcessingTimeMs(self) -> int:  # noqa: N802  # the name is Spark's
        return self.now


def test_time_goes_on_by_the_clock_of_micro_batches() -> None:
    schema = pa.table(
        {"ts": pa.array([], pa.timestamp("us")), "type": pa.array([], pa.string())}
    ).schema
    work = Work.of(PANES.plan, schema, schema, 1, idle=30_000_000)

    def told(now: int, held: Any, latest: int | None) -> Any:
        state: Any = FakeState(now, held)
        return time_goes_on(work, state, latest)

    assert told(100_000, None, 7_000_000) == (7_000_000, (7_000_000, 100_000))
    held = (b"", 7_000_000, 100_000)
    # An earlier event is an event too: it is not silent, and the latest time stays.
    assert told(110_000, held, 5_000_000) == (5_000_000, (7_000_000, 110_000))
    assert told(130_000, held, None) == (None, (7_000_000, 100_000))
    assert told(130_001, held, None) == (37_001_000, (7_000_000, 100_000))
    # The same micro-batch again gives the same time, and a later one goes on.
    assert told(130_001, held, None)[0] == 37_001_000
    assert told(190_000, held, None)[0] == 97_000_000
    assert told(190_000, (b"", NOT_TOLD, 100_000), None) == (None, (NOT_TOLD, 100_000))


def until(rows: DataFrame, folder: Path, name: str, enough: int) -> pa.Table:
    """Run a live query until it has written so many rows."""
    output = folder / f"{name}-rows"
    writer = rows.writeStream.format("parquet").option("path", str(output))
    writer = writer.option("checkpointLocation", str(folder / f"{name}-state"))
    live = writer.trigger(processingTime="200 milliseconds").start()
    spark = rows.sparkSession
    schema = rows.schema
    try:
        end = time.monotonic() + 240
        while time.monotonic() < end:
            assert not live.awaitTermination(1)
            found = spark.read.schema(schema).parquet(str(output)) if output.exists() else None
            if found is not None and found.count() >= enough:
                return found.toArrow()
    finally:
        live.stop()
    raise AssertionError(live.lastProgress)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_last_windows_leave(spark: SparkSession, tmp_path: Path) -> None:
    events = pa.table(
        {
            "ts": pa.array([n * 500_000 for n in range(30)], pa.timestamp("us")),
            "type": ["A", "B", "A", "C", "C"] * 6,
            "key": [n % 3 for n in range(30)],
        }
    )
    folder = write_files(tmp_path / "events", [events])
    for name, q in some((("keys", KEYED), ("panes", PANES), ("select", WINDOWS)), 3):
        rows = q.stream(read_stream(spark, folder, 1), watermark="1 second", idle="2 seconds")
        expected = q.run(events).to_pylist()
        assert len(expected) > 3
        assert same(until(rows, tmp_path, name, len(expected)), expected)


@pytest.mark.spark
@pytest.mark.parametrize(
    "text", ["SELECT ts FROM s", "SELECT a.ts FROM s a JOIN s b ON a.ts = b.ts WINDOW 4 seconds"]
)
def test_what_waits_for_no_time_or_for_two_streams(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    events = pa.table({"ts": [1], "type": ["A"]})
    source = read_stream(spark, write_files(tmp_path / "events", [events]), 1)
    with pytest.raises(UnsupportedError) as caught:
        query(text).stream(source, watermark="1 second", idle="1 second")
    assert caught.value.diagnostics[0].code == "E406"
