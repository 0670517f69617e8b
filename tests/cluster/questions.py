"""What clusters are asked: a query for each way to cut the work, and the oracle's rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.runtime.cases import same
from tests.runtime.test_stream import cut, out_of_order, sentinel, write_files

import cepheid
from cepheid.testing.oracle import evaluate

COUNT = 160
SECONDS = 80
DELAY = 3_000_000
WATERMARK = "3 seconds"


class Question(NamedTuple):
    """A query, where its events are, and the strategy that must answer it."""

    text: str
    place: str
    strategy: str | None


TRENDS = "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 6 s SLIDE 3 s"  # fmt: skip  # noqa: E501
PAIRS = "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B)"
EDGES = "RETURN sector, COUNT(*) PATTERN SEQ(A+, B) WHERE [key, sector] AND A.x < NEXT(A).x GROUP-BY sector WITHIN 8 s SLIDE 4 s"  # fmt: skip  # noqa: E501
WHOLE = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 4 s SLIDE 2 s"
LISTED = "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE {}A.x < B.x WITHIN 3 s"
SITUATIONS = "FROM s PARTITION BY key DEFINE HIGH AS x > 4, LOW AS x <= 4 PATTERN HIGH meets LOW WITHIN 30 s RETURN COUNT(HIGH) AS n"  # fmt: skip  # noqa: E501

QUESTIONS = {
    "windows over files": Question(TRENDS, "files", "scan slices"),
    "summaries of files": Question(PAIRS, "files", "scan slices"),
    "matches in files": Question(LISTED.format(""), "files", "scan slices"),
    "partitions that are ranges": Question(TRENDS, "ranges", "combine"),
    "partitions that overlap": Question(PAIRS, "mixed", "combine"),
    "keys": Question(TRENDS, "mixed", "key shuffle"),
    "groups of keys": Question(EDGES, "mixed", "key shuffle"),
    "matches of keys": Question(LISTED.format("[key] AND "), "mixed", "key shuffle"),
    "windows by time": Question(WHOLE, "mixed", "time shuffle"),
    "matches by time": Question(LISTED.format(""), "mixed", "time shuffle"),
    "situations": Question(SITUATIONS, "mixed", None),
}
LIVE = {
    "edges": EDGES,
    "panes": "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WITHIN 6 s SLIDE 3 s",
}


@functools.cache
def events() -> pa.Table:
    """Return the events, sorted by time."""
    random = np.random.default_rng(29)
    times = np.sort(random.choice(SECONDS * 1000, COUNT, replace=False)) * 1000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, COUNT)]),
            "key": pa.array(random.integers(0, 5, COUNT)),
            "sector": pa.array(random.integers(0, 2, COUNT)),
            "x": pa.array(random.integers(0, 9, COUNT).astype(float)),
        }
    )


def write_events(folder: Path, micro_batches: int) -> None:
    """Write the events in order, in four files, and as a stream that is out of order."""
    write_files(folder / "files", cut(events(), 4))
    mixed = cut(out_of_order(events(), DELAY), micro_batches)
    write_files(folder / "stream", [*mixed, sentinel(events(), 60)])


def whole_times(table: pa.Table) -> pa.Table:
    """Return a table whose times are whole microseconds, as the oracle's are."""
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(number).cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            table = table.set_column(number, field.name, column)
    return table


@functools.cache
def oracle_rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a query by definition."""
    found = evaluate(cepheid.query(text).tree, whole_times(events()).to_pylist())
    assert found, text
    return found


def is_right(found: pa.Table, text: str) -> bool:
    """Check whether rows are those of the oracle, in any order."""
    return same(whole_times(found), oracle_rows(text))


def ask(spark: SparkSession, question: Question, folder: Path) -> pa.Table:
    """Run a query over events that lie in a folder."""
    query, files = cepheid.query(question.text), str(folder / "files")
    if question.place == "files":
        rows = query.run(files, spark=spark, strategy=question.strategy)
    else:
        frame = spark.read.parquet(files)
        frame = frame.repartition(3) if question.place == "mixed" else frame
        rows = query.run(frame, strategy=question.strategy)
    return rows.toArrow()


def start_live(spark: SparkSession, name: str, folder: Path, trigger: Mapping[str, Any]) -> Any:
    """Start a live query over the stream of a folder, or let it go on from its checkpoint."""
    schema = spark.read.parquet(str(folder / "files")).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream: DataFrame = reader.parquet(str(folder / "stream"))
    rows = cepheid.query(LIVE[name]).stream(stream, watermark=WATERMARK)
    writer = rows.writeStream.format("parquet").option("path", str(folder / f"live-{name}"))
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{name}"))
    return writer.trigger(**trigger).start()


def live_rows(spark: SparkSession, name: str, folder: Path) -> pa.Table:
    """Return what a live query has written."""
    return spark.read.parquet(str(folder / f"live-{name}")).toArrow()
