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
from cepheid.jobs.hot_keys import HotKey, Split
from cepheid.jobs.kind import needs_of
from cepheid.jobs.shedding import Level, Shed
from cepheid.jobs.tables import table_to_bytes
from cepheid.runtimes.spark.splitting import HASHES
from cepheid.spark.hashes import buckets_of_keys
from cepheid.testing.oracle import evaluate

BUCKETS = 3
SECOND = 1_000_000
COUNT = 160
SECONDS = 80
DELAY = 3_000_000
WATERMARK = "3 seconds"


class Question(NamedTuple):
    """A query, where its events are, and the strategy that must answer it."""

    text: str
    place: str
    strategy: str | None


class Live(NamedTuple):
    """A live query, and what is noted before it starts: keys that are split, or a level."""

    text: str
    hot: tuple[int, ...] = ()
    keep: int = 0


TRENDS = "RETURN key, COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key WITHIN 6 s SLIDE 3 s"  # fmt: skip  # noqa: E501
PAIRS = "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B)"
EDGES = "RETURN sector, COUNT(*) PATTERN SEQ(A+, B) WHERE [key, sector] AND A.x < NEXT(A).x GROUP-BY sector WITHIN 8 s SLIDE 4 s"  # fmt: skip  # noqa: E501
WHOLE = "RETURN COUNT(*) PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 4 s SLIDE 2 s"
LISTED = "RETURN A.x, B.x PATTERN SEQ(A, B) WHERE {}A.x < B.x WITHIN 3 s"
FUNNEL = "RETURN FUNNEL(key) PATTERN SEQ(A a, B b, C c) GROUP-BY sector WITHIN 20 s"
SELECT = "SELECT key, COUNT(*) AS n, SUM(x) AS total FROM s GROUP BY key WINDOW 8 s SLIDE 4 s"
FALLS = "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES FIRST(A.x) AS top, COUNT(*) AS length PATTERN (A B+) DEFINE B AS x < PREV(x))"  # fmt: skip  # noqa: E501
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
    "funnels": Question(FUNNEL, "mixed", None),
    "windows of a SELECT": Question(SELECT, "mixed", None),
    "rows in order": Question(FALLS, "sql", None),
    "several at once": Question(TRENDS, "workload", None),
}
LIVE = {
    "edges": Live(EDGES),
    "panes": Live("RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A, B) WITHIN 6 s SLIDE 3 s"),
    "situations": Live(SITUATIONS),
    "hot keys": Live(TRENDS, hot=(1, 3)),
    "shed": Live(SELECT, keep=2),
}
SPLIT_S = 30
"""From this time on keys are split, or events dropped."""


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
    """Return the rows of a query by definition or, of other kinds, those of a run in process."""
    found: list[dict[str, Any]]
    if text == FALLS:
        found = cepheid.sql(text, tables={"events": events()}).to_pylist()
    elif text in (FUNNEL, SELECT):
        found = whole_times(cepheid.query(text).run(events())).to_pylist()
    else:
        found = evaluate(cepheid.query(text).tree, whole_times(events()).to_pylist())
    assert found, text
    return found


def is_right(found: pa.Table, text: str) -> bool:
    """Check whether rows are those of the oracle, in any order."""
    return same(whole_times(found), oracle_rows(text))


def is_right_live(found: pa.Table, name: str) -> bool:
    """Check whether a live query has written the rows of the oracle, each once.

    Of one that sheds, rows tell how many of their events are missing, and no other may be.
    """
    text = LIVE[name].text
    if not LIVE[name].keep:
        return is_right(found, text)
    rows = whole_times(found).to_pylist()
    places = [(row["key"], row["window_start"]) for row in rows]
    whole = {(row["key"], row["window_start"]): row["n"] for row in oracle_rows(text)}
    complete = all(row["n"] + row["shed"] == whole[p] for row, p in zip(rows, places, strict=True))
    begun_before = {place for place in whole if place[1] < (SPLIT_S - 8) * SECOND}
    once = len(set(places)) == len(places) and begun_before <= set(places)
    return complete and once and any(row["shed"] for row in rows)


def ask(spark: SparkSession, question: Question, folder: Path, place: str = "") -> pa.Table:
    """Run a query over events that lie in a folder, or in another place."""
    files = place or str(folder / "files")
    if question.place == "sql":
        spark.read.parquet(files).createOrReplaceTempView("events")
        falls: DataFrame = cepheid.sql(spark, question.text)
        return falls.toArrow()
    if question.place == "workload":
        asked = {"asked": question.text, "edges": EDGES}
        several = cepheid.workload(asked).run(spark.read.parquet(files), separate=True)
        answer: DataFrame = several["asked"]
        return answer.toArrow()
    query = cepheid.query(question.text)
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
    query = cepheid.query(LIVE[name].text)
    rows = query.stream(stream, watermark=WATERMARK, **noted(name, query, folder))
    writer = rows.writeStream.format("parquet").option("path", str(folder / f"live-{name}"))
    writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{name}"))
    return writer.trigger(**trigger).start()


def noted(name: str, query: cepheid.CompiledQuery, folder: Path) -> dict[str, Any]:
    """Note keys that are split, or a level of shedding; return the options of the live query."""
    notes = str(folder / f"notes-{name}")
    if LIVE[name].hot:
        needs = needs_of(query.with_schema(events().schema).plan)
        split = Split(notes, needs.buckets, needs.pane, needs.within, BUCKETS)
        keys = pa.array(LIVE[name].hot, events().schema.field("key").type)
        hashes = buckets_of_keys([keys], BUCKETS * HASHES).tolist()
        values = [table_to_bytes(pa.table({"key": keys.slice(n, 1)})) for n in range(len(keys))]
        since = SPLIT_S * SECOND
        split.note([HotKey(code, since, one) for code, one in zip(hashes, values, strict=True)])
        return {"hot_keys": notes}
    if LIVE[name].keep:
        Shed(notes, 1, (), (), 1, 1, 1).note_level(Level(SPLIT_S * SECOND, LIVE[name].keep))
        return {"shed": "1 hour", "shed_notes": notes}
    return {}


def live_rows(spark: SparkSession, name: str, folder: Path) -> pa.Table:
    """Return what a live query has written."""
    return spark.read.parquet(str(folder / f"live-{name}")).toArrow()
