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


def edges(scale: float) -> Pairs:
    """Measure predicates between neighbours: aggregates beside COUNT(*), and GRETA's queries."""
    found: Pairs = []
    table = edge_streams.prices(int(1_000_000 * scale)).table()
    for events in (10_000, len(table)):
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
            continue
        size = int(edge_tables.QUERY_EVENTS[key] * min(1, 3 * scale))
        case = PREPARATIONS[key](Task(key, "ours", size, 100, 10))[0]
        assert GRETA_QUERIES[key]
        cpu, clock = best(case.run, 1)
        rate = Figure(size / cpu / 1e6, size / clock / 1e6)
        found.append((Bar(4, f"GRETA {key.upper()}", bar), rate))
    return found


def live(scale: float) -> Pairs:
    """Measure a live query in this process: batches, single events, steps that close a window."""
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
    rest, rows, waits = batches[len(batches) // 4 :], 0, []
    cpu, clock = time.process_time(), time.perf_counter()
    for batch in rest:
        begun = time.process_time()
        came = len(engine.feed(batch))
        if came:
            rows += came
            waits.append(time.process_time() - begun)
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    events = 1_000 * len(rest) / 1e6
    closing = 1e6 * float(np.median(waits))
    single = [table.slice(0, 20_000).to_pylist(), table.slice(20_000, 20_000).to_pylist()]
    engine = query.live(table.schema, watermark="0 seconds")
    for event in single[0]:
        engine.feed(event)
    one = timed(lambda: [engine.feed(event) for event in single[1]])
    where = f"{rows:,} rows, {len(waits)} steps that close windows take {sum(waits) / cpu:.0%}"
    return [
        (Bar(2, "q.live, batches of 1,000", 10, cores=1),
         Figure(events / cpu, events / clock, where)),
        (Bar(2, "q.live, single events", 0.2, cores=1), Figure(0.02 / one[0], 0.02 / one[1])),
        (Bar(2, "q.live, a step that closes 1,000 windows", 150, "us", most=True),
         Figure(closing, closing)),
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


def spark(scale: float) -> Pairs:
    """Measure Spark: files, the key shuffle, matches, and a live stream, in one session."""
    count = int(10_000_000 * scale)
    folder = event_files(count, 1_000)
    found: Pairs = []
    with (
        warnings.catch_warnings(),
        spark_session.session("local[2]") as session,
        tempfile.TemporaryDirectory() as place,
    ):
        warnings.simplefilter("ignore")
        session.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(session, place)
        session.read.parquet(str(folder)).createOrReplaceTempView("ticks")
        listing = cepheid.query(NEXT + TEN_SECONDS)
        falling = RUNS_SQL.replace("FROM events", "FROM ticks")
        runs: dict[str, tuple[float, Callable[[], Any]]] = {
            "files, windows of 10 minutes": (60, lambda: CASES["windowed"](session, folder)),
            "key shuffle": (8, lambda: CASES[SHUFFLE](session, folder)),
            "MATCH_RECOGNIZE": (15, lambda: cepheid.sql(session, falling)),
            "matches": (15, lambda: listing.run(str(folder), spark=session)),
        }  # fmt: skip
        for name, (bar, run) in runs.items():
            times = []
            for _ in range(3):
                cpu, clock = cpu_seconds(), time.perf_counter()
                run().write.format("noop").mode("overwrite").save()
                times.append((cpu_seconds() - cpu, time.perf_counter() - clock))
            cpu, clock = min(times)
            figure = Figure(count / cpu / 1e6, count / clock / 1e6)
            found.append((Bar(6, f"Spark, {name}", bar), figure))
        files = Path(place) / "files"
        files.mkdir()
        table = streaming.make_files(files, 1_000, max(count, 5_000_000))
        for name, bar in (("linear", 2.0), ("edge", 1.2)):
            done = streaming.measure(session, streaming.QUERIES[name], files, table)
            figure = Figure(1 / max(done.cpu, 1e-9), done.rate / 1e6)
            found.append((Bar(7, f"Spark, live, {name}, 1,000 keys", bar), figure))
    return found


PARTS: dict[str, Callable[[float], Pairs]] = {
    "edges": edges,
    "live": live,
    "store": store,
    "spark": spark,
}

if __name__ == "__main__":
    print(json.dumps(PARTS[sys.argv[1]](float(sys.argv[2]))))
