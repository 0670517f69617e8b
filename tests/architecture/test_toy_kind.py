"""A new kind of query is one module: it runs everywhere, and no file of Cepheid knows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tests.architecture.toy_kind import ToyKind, toy_query
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid import runtimes
from cepheid.jobs import kind
from cepheid.jobs.explain import explain_mermaid, explain_plan
from cepheid.options import LiveOptions

QUERY = toy_query("k")
SECOND = 1_000_000
EVENTS = pa.table(
    {
        "ts": pa.array([n * SECOND for n in range(1, 41)], pa.timestamp("us", "UTC")),
        "k": [("a", "b", "c")[n * n % 7 % 3] for n in range(40)],
        "x": list(range(40)),
    }
)


def expected(events: pa.Table) -> list[tuple[str, int]]:
    keys = [str(key) for key in events["k"].to_pylist()]
    return sorted((key, keys[: n + 1].count(key)) for n, key in enumerate(keys))


def rows_of(table: pa.Table) -> list[tuple[str, int]]:
    return sorted((row["key"], row["number"]) for row in table.to_pylist())


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    known = dict(kind._KINDS)
    kind.register(ToyKind())
    yield
    kind._KINDS.clear()
    kind._KINDS.update(known)


def run(events: Any, **options: Any) -> Any:
    return runtimes.run(runtimes.Request(QUERY, events, **options))


def test_in_process() -> None:
    assert rows_of(run(EVENTS)) == expected(EVENTS)
    assert rows_of(run(EVENTS.to_reader(7))) == expected(EVENTS)
    assert len(run(EVENTS.to_pandas())) == len(EVENTS)


def test_over_files(tmp_path: Path) -> None:
    parquet.write_table(EVENTS, tmp_path / "events.parquet")
    assert rows_of(run(str(tmp_path))) == expected(EVENTS)


def test_over_a_store(tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(EVENTS)
    assert rows_of(run(store)) == expected(EVENTS)


def test_in_words() -> None:
    assert explain_plan(QUERY.plan, spark=True).startswith("plan  a toy")
    assert "key shuffle" in explain_plan(QUERY.plan, spark=True)
    assert "a toy" in explain_mermaid(QUERY.plan)


@pytest.mark.spark
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert rows_of(run(spark.createDataFrame(EVENTS)).toArrow()) == expected(EVENTS)
    folder = tmp_path / "events"
    write_files(folder, [EVENTS.slice(0, 20), EVENTS.slice(20)])
    assert rows_of(run(str(folder), spark=spark).toArrow()) == expected(EVENTS)
    store = cepheid.EventStore(tmp_path / "store", time="ts")
    store.append(EVENTS)
    assert rows_of(run(store, spark=spark).toArrow()) == expected(EVENTS)


@pytest.mark.spark
@pytest.mark.slow
def test_live(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "live", [EVENTS.slice(n, 10) for n in range(0, 40, 10)])
    frame = read_stream(spark, folder, 1)
    query: Any = QUERY
    rows, _ = drain(runtimes.stream(query, frame, LiveOptions("0 seconds")), tmp_path, "rows")
    # The watermark does not pass the last event.
    assert rows_of(rows) == expected(EVENTS.slice(0, 39))
