"""Bars of speed that need a process of their own: ``python -m benchmarks.speed_bars_runs PART``.

Prints one line of JSON: pairs of a bar and a figure, as ``benchmarks.speed_bars`` names them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks import edge_streams, edge_tables, streaming
from benchmarks.edge_methods import GRETA_QUERIES, PREPARATIONS, VARIETIES
from benchmarks.processes import cpu_seconds
from benchmarks.spark_cases import CASES
from benchmarks.spark_data import event_files
from benchmarks.speed import NEXT, RUNS_SQL, TEN_SECONDS, timed
from benchmarks.speed_bars import Bar, Figure
from benchmarks.store import WANTED, append_all, made_store, week
from benchmarks.tasks import Task
from pyspark.sql import SparkSession

import cepheid
from cepheid.spark import session as spark_session

Pairs = list[tuple[Bar, Figure]]
SHUFFLE = "key-shuffle"
FALLS = "RETURN {} PATTERN A+ WHERE A.price > NEXT(A).price WITHIN {} ms SLIDE {} ms"
AGGREGATES = ("COUNT(*)", "SUM(A.price)", "AVG(A.price)", "MIN(A.price)")


def best(run: Callable[[], object], rounds: int = 3) -> tuple[float, float]:
    """Run once to load everything, and then with the clock; return the least times."""
    run()
    return min(timed(run) for _ in range(rounds))


EDGE_EVENTS = 1_000_000
"""Always so many: a window holds them all, and sums of a million are other work than of a few."""


def edges(_scale: float) -> Pairs:
    """Measure predicates between neighbours: aggregates beside COUNT(*), and GRETA's queries."""
    found: Pairs = []
    table = edge_streams.prices(EDGE_EVENTS).table()
    for events in (10_000, 100_000, EDGE_EVENTS):
        length = events * 600 // 1_000
        times = {}
        for item in AGGREGATES:
            compiled = cepheid.query(FALLS.format(item, length, length))
            times[item] = best(lambda compiled=compiled: compiled.run(table))  # type: ignore[misc]  # bound
        cpu, clock = times["COUNT(*)"]
        for item in AGGREGATES[1:]:
            what = f"{item} of falling A+, windows of {events:,} events, against COUNT(*), time"
            ratio = Figure(times[item][0] / cpu, times[item][1] / clock)
            found.append((Bar(4, what, 2, "x", most=True), ratio))
    text = next(text for name, text in VARIETIES.items() if "next" in name.lower())
    compiled = cepheid.query(text)
    cpu, clock = best(lambda: compiled.run(table))
    rate = Figure(len(table) / cpu / 1e6, len(table) / clock / 1e6)
    found.append((Bar(4, "falling A+, next-match, one window", 8), rate))
    for key, bar in (("q1", 5), ("q2", 5), ("q3", 2)):
        if key != "q2" and edge_streams.data_folder() is None:
            print(f"{key}: {edge_streams.MISSING}", file=sys.stderr)
            continue
        size = edge_tables.QUERY_EVENTS[key]
        case = PREPARATIONS[key](Task(key, "ours", size, 100, 10))[0]
        assert GRETA_QUERIES[key]
        cpu, clock = best(case.run)
        rate = Figure(size / cpu / 1e6, size / clock / 1e6)
        found.append((Bar(4, f"GRETA {key.upper()}", bar), rate))
    return found


def live(scale: float) -> Pairs:
    """Measure a live query in this process: batches, single events, and how soon rows leave.

    The watermark follows the events, so the call that brings the event which closes a window
    returns the rows of that window: it is the time from feed to row.
    """
    count = int(4_000_000 * scale)
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "ts": pa.array(np.arange(count) * 600).view(pa.timestamp("us")),
            "type": pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, count)]),
            "key": pa.array(random.integers(0, 1_000, count)),
        }
    )
    query = cepheid.query(
        f"RETURN key, COUNT(*) PATTERN SEQ(A+, B) WHERE [key] GROUP-BY key {TEN_SECONDS}"
    )
    batches = [table.slice(begin, 1_000) for begin in range(0, count, 1_000)]
    engine = query.live(table.schema, watermark="0 seconds")
    for batch in batches[: len(batches) // 4]:
        engine.feed(batch)
    rest, rows, waits, works = batches[len(batches) // 4 :], 0, [], []
    cpu, clock = time.process_time(), time.perf_counter()
    for batch in rest:
        begun, worked = time.perf_counter(), time.process_time()
        came = len(engine.feed(batch))
        if came:
            rows += came
            waits.append(time.perf_counter() - begun)
            works.append(time.process_time() - worked)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    events = 1_000 * len(rest) / 1e6
    shares = f"{rows:,} rows, {len(waits)} steps that close windows take {sum(waits) / clock:.0%}"
    # Only the clock tells how long somebody waits; beside other work it measures that, too.
    slow, usual = (1e3 * float(np.percentile(waits, share)) for share in (99, 50))
    slow_cpu, usual_cpu = (1e3 * float(np.percentile(works, share)) for share in (99, 50))
    where = f"{len(waits)} windows of 1,000 rows, median {usual:.2f} ms, CPU {usual_cpu:.2f} ms"
    single = [table.slice(0, 20_000).to_pylist(), table.slice(20_000, 20_000).to_pylist()]
    engine = query.live(table.schema, watermark="0 seconds")
    for event in single[0]:
        engine.feed(event)
    one = timed(lambda: [engine.feed(event) for event in single[1]])
    return [
        (Bar(2, "q.live, batches of 1,000", 10, cores=1),
         Figure(events / cpu, events / clock, shares)),
        (Bar(2, "q.live, single events", 0.2, cores=1), Figure(0.02 / one[0], 0.02 / one[1])),
        (Bar(2, "q.live, from feed to row, p99", 3, "ms", most=True),
         Figure(slow_cpu, slow, where)),
    ]  # fmt: skip


def store(scale: float) -> Pairs:
    """Measure slides over a day in a store."""
    with made_store() as made:
        append_all(made, week(max(1, round(1 / scale))))
        times = {}
        for slide in ("1 minute", "10 s"):

            def run(slide: str = slide) -> object:
                return made.aggregate(WANTED, within="1 day", slide=slide, method="index")

            times[slide] = best(run)
    slow, fast = times["10 s"], times["1 minute"]
    figure = Figure(slow[0] / fast[0], slow[1] / fast[1], f"{fast[0]:.3f} s by a minute")
    return [(Bar(8, "slides of 10 s over a day against a minute, time", 2, "x", most=True), figure)]


SPARK_FILES, SPARK_EVENTS = 100_000_000, 20_000_000
"""Events in files, and of the other queries: with fewer, Java's compilers would be most of it."""


Runs = dict[str, tuple[float, int, Callable[[], Any]]]
"""Queries on Spark by name: the bar, the events, and what runs it."""


def spark(scale: float) -> Pairs:
    """Measure files and the key shuffle on Spark, in a session as ``cepheid run`` starts it."""
    large, small = int(SPARK_FILES * scale), int(SPARK_EVENTS * scale)
    many, few = event_files(large, 1_000), event_files(small, 1_000)

    def runs(session: SparkSession) -> Runs:
        return {
            "files, windows of 10 minutes": (60, large, lambda: CASES["windowed"](session, many)),
            "key shuffle": (8, small, lambda: CASES[SHUFFLE](session, few)),
        }

    return _on_spark(runs, light=True)


def spark_rows(scale: float) -> Pairs:
    """Measure MATCH_RECOGNIZE and matches on Spark, which are rows on both sides."""
    small = int(SPARK_EVENTS * scale)
    few = event_files(small, 1_000)

    def runs(session: SparkSession) -> Runs:
        session.read.parquet(str(few)).createOrReplaceTempView("ticks")
        listing = cepheid.query(NEXT + TEN_SECONDS)
        falling = RUNS_SQL.replace("FROM events", "FROM ticks")
        return {
            "MATCH_RECOGNIZE": (15, small, lambda: cepheid.sql(session, falling)),
            "matches": (15, small, lambda: listing.run(str(few), spark=session)),
        }

    return _on_spark(runs, light=False)


def _on_spark(make: Callable[[SparkSession], Runs], *, light: bool) -> Pairs:
    found: Pairs = []
    with (
        warnings.catch_warnings(),
        spark_session.session("local[2]", light=light) as session,
    ):
        warnings.simplefilter("ignore")
        session.conf.set("spark.sql.shuffle.partitions", "2")
        for name, (bar, count, run) in make(session).items():
            times = []
            for _ in range(3):
                cpu, clock = cpu_seconds(), time.perf_counter()
                run().write.format("noop").mode("overwrite").save()
                times.append((cpu_seconds() - cpu, time.perf_counter() - clock))
            cpu, clock = min(times, key=lambda one: one[1])
            figure = Figure(count / cpu / 1e6, count / clock / 1e6, f"{count:,} events")
            found.append((Bar(6, f"Spark, {name}", bar), figure))
    return found


LIVE_EVENTS = 20_000_000
"""Sixteen micro-batches: the JVM compiles itself in the first ones."""


def spark_live(scale: float) -> Pairs:
    """Measure live streams from a folder, read by tasks, as ``cepheid stream`` does."""
    bars = {(1_000, "linear"): 2.0, (1_000, "edge"): 1.2, (100_000, "linear"): 2.0}
    return _live(scale, bars, own=True)


def spark_live_rows(scale: float) -> Pairs:
    """Measure live streams from a DataFrame, whose events are rows of Spark."""
    bars = {(1_000, "linear"): 1.3, (1_000, "edge"): 1.2, (100_000, "linear"): 1.3}
    return _live(scale, bars, own=False)


def _live(scale: float, bars: dict[tuple[int, str], float], *, own: bool) -> Pairs:
    """Measure live streams in one session; the first one warms the JVM and does not count."""
    found: Pairs = []
    named = "folder" if own else "DataFrame"
    first = next(iter(bars))
    with (
        warnings.catch_warnings(),
        spark_session.session("local[2]", live=True, light=own, blobs=own) as session,
        tempfile.TemporaryDirectory() as place,
    ):
        warnings.simplefilter("ignore")
        session.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(session, place)
        tables = {}
        for keys in {keys for keys, _ in bars}:
            files = Path(place) / str(keys)
            files.mkdir()
            events = max(int(LIVE_EVENTS * scale), 5_000_000)
            tables[keys] = files, streaming.make_files(files, keys, events)
        for keys, name in (first, *bars):
            files, table = tables[keys]
            stream = streaming.source(session, files, 2, own=own)
            done = streaming.measure(session, streaming.QUERIES[name], stream, table)
            figure = Figure(1 / max(done.cpu, 1e-9), done.rate / 1e6)
            what = f"Spark, live from a {named}, {name}, {keys:,} keys"
            found.append((Bar(7, what, bars[keys, name]), figure))
    return found[1:]


PARTS: dict[str, Callable[[float], Pairs]] = {
    "edges": edges,
    "live": live,
    "store": store,
    "spark": spark,
    "spark-rows": spark_rows,
    "spark-live": spark_live,
    "spark-live-rows": spark_live_rows,
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](float(sys.argv[2]))))
