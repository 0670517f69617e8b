"""Live queries on Spark: files as micro-batches, out of order, late events, and refusals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.amount import share
from tests.runtime.cases import same

from cepheid.api import query
from cepheid.errors import UnsupportedError
from cepheid.spark.failures import clear_error

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def events_of(count: int = 1200, *, seed: int = 5) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array(np.sort(random.integers(10**6, 6 * 10**7, count)), pa.timestamp("us")),
            "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, count)]),
            "key": pa.array(random.integers(0, 5, count)),
            "sector": pa.array(random.integers(0, 3, count)),
            "x": pa.array(random.random(count)),
        }
    )


def sentinel(events: pa.Table, minutes: int) -> pa.Table:
    """Return one event that fits no query, so that the watermark passes all others."""
    row: dict[str, Any] = {"ts": minutes * 60_000_000, "type": "Z", "key": 0, "sector": 0, "x": 0.0}
    columns = [pa.array([row[field.name]]).cast(field.type) for field in events.schema]
    return pa.Table.from_arrays(columns, schema=events.schema)


def out_of_order(events: pa.Table, delay: int) -> pa.Table:
    times = np.asarray(events["ts"].cast(pa.int64()))
    noise = np.random.default_rng(1).integers(0, delay, len(events))
    # Three of ten come late.
    noise[np.random.default_rng(2).random(len(events)) > 0.3] = 0
    return events.take(np.argsort(times + noise, kind="stable"))


def write_files(folder: Path, tables: list[pa.Table]) -> Path:
    """Write files that a stream reads in this order, which is that of their times."""
    folder.mkdir(exist_ok=True)
    already = len(list(folder.iterdir()))
    for number, table in enumerate(tables, already):
        path = folder / f"{number:03}.parquet"
        parquet.write_table(table, path)
        os.utime(path, (1000 + number, 1000 + number))
    return folder


def cut(events: pa.Table, count: int) -> list[pa.Table]:
    size = -(-len(events) // count)
    return [events.slice(offset, size) for offset in range(0, len(events), size)]


def read_stream(spark: SparkSession, folder: Path, files: int) -> DataFrame:
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def drain(result: DataFrame, folder: Path, name: str) -> tuple[pa.Table, list[Any]]:
    """Run a live query until its source is empty; return all rows so far, and the progress."""
    output = folder / f"{name}-rows"
    writer = result.writeStream.format("parquet").option("path", str(output))
    writer = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
    live = writer.trigger(availableNow=True).start()
    live.awaitTermination()
    return result.sparkSession.read.parquet(str(output)).toArrow(), live.recentProgress


QUERIES = {
    1: "RETURN key, COUNT(*), AVG(A.x) PATTERN SEQ(A+, B) GROUP-BY key WITHIN 9 s SLIDE 9 s",
    2: "RETURN sector, COUNT(*) PATTERN SEQ(A+, B) WHERE [key, sector] AND A.x < NEXT(A).x "
    "GROUP-BY sector WITHIN 4 s SLIDE 2 s",
    100: "RETURN COUNT(*) PATTERN SEQ(A, NOT C, B) WITHIN 2 s",
    50: "RETURN MATCHES PATTERN SEQ(A, B+) SEMANTICS next WHERE [key] WITHIN 4 s SLIDE 2 s",
}


@share(2)
@pytest.mark.parametrize("files", QUERIES)
def test_batch_equals_stream(spark: SparkSession, tmp_path: Path, files: int) -> None:
    events = events_of()
    mixed = out_of_order(events, 5_000_000)
    folder = write_files(tmp_path / "events", [*cut(mixed, 3), sentinel(events, 60)])
    q = query(QUERIES[files])
    result = q.stream(read_stream(spark, folder, files), watermark="5 seconds")
    rows, progress = drain(result, tmp_path, "a")
    expected = q.run(events).to_pylist()
    assert expected
    assert same(rows, expected)
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 0
    assert counts[-1]["buffered"] == 0
    # RocksDB writes changes; the other state store would write deltas.
    assert list((tmp_path / "a-checkpoint" / "state").rglob("*.changelog"))


def test_late_events_are_counted_returned_and_change_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = events_of(400)
    late = events.filter(pa.array(np.asarray(events["type"]) == "A")).slice(0, 7)
    files = [events.slice(0, 300), events.slice(300), late, sentinel(events, 60)]
    folder = write_files(tmp_path / "events", files)
    q = query(QUERIES[1])
    source = read_stream(spark, folder, 1)
    result, side = q.stream(source, watermark="1 second", late="side")
    rows, progress = drain(result, tmp_path, "rows")
    assert same(rows, q.run(events).to_pylist())
    counts = [p["observedMetrics"]["cepheid"] for p in progress if p["observedMetrics"]]
    assert sum(c["late"] or 0 for c in counts) == 7
    returned, _ = drain(side, tmp_path, "late")
    assert same(returned, late.to_pylist())


@pytest.mark.slow
def test_a_changed_query_does_not_go_on_with_an_old_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = events_of(100)
    folder = write_files(tmp_path / "events", [events])
    first = query(QUERIES[1]).stream(read_stream(spark, folder, 1), watermark="1 second")
    drain(first, tmp_path, "a")
    write_files(folder, [sentinel(events, 60)])
    changed = query(QUERIES[1].replace("B)", "C)"))
    with pytest.raises(StreamingQueryException) as caught:
        drain(changed.stream(read_stream(spark, folder, 1), watermark="1 second"), tmp_path, "a")
    assert clear_error(caught.value).diagnostics[0].code == "E524"


def test_what_cannot_be_a_live_query_is_said_at_once(spark: SparkSession, tmp_path: Path) -> None:
    source = read_stream(spark, write_files(tmp_path / "events", [events_of(10)]), 1)
    for text in (
        "RETURN COUNT(*) PATTERN A+",
        "RETURN sector, COUNT(*) PATTERN A+ WHERE [key, sector] GROUP-BY sector "
        "WITHIN 3 EVENTS SLIDE 3 EVENTS",
    ):
        with pytest.raises(UnsupportedError) as caught:
            query(text).stream(source, watermark="1 second")
        assert caught.value.diagnostics[0].code == "E405"
    with pytest.raises(ValueError, match="late is one of"):
        query(QUERIES[1]).stream(source, watermark="1 second", late="keep")
    with pytest.raises(ValueError, match="not a stream"):
        query(QUERIES[1]).stream(spark.range(3), watermark="1 second")
