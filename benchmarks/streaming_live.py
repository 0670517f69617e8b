"""A live query under a steady rate: memory, lag, and how long the rows of a window take to leave.

Events carry the time at which they are written. A window is closable once an event is there that
moves the watermark past its end; from then until its rows are in the sink is what a user waits.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.processes import resident_bytes
from pyarrow import parquet

import cepheid

SECOND = 1_000_000
DELAY = 1
FILES_A_SECOND = 4
TRIGGER = "1 second"
REPORT = 5.0
WARM_UP = 15.0
"""Seconds before waiting times count: workers start, and kernels are loaded."""


class Writer(threading.Thread):
    """Writes files of events at a rate, and remembers when each was there."""

    def __init__(self, folder: Path, keys: int, rate: int) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.keys = keys
        self.rows = rate // FILES_A_SECOND
        self.stop = threading.Event()
        self.there: list[tuple[int, float]] = []
        self.random = np.random.default_rng(3)
        self.write_file()

    def write_file(self) -> None:
        """Write the events of a part of a second, which ends now."""
        now = int(time.time() * SECOND)
        times = np.sort(self.random.integers(now - SECOND // FILES_A_SECOND, now, self.rows))
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "type": np.array(["A", "B", "C"])[self.random.integers(0, 3, self.rows)],
                "key": self.random.integers(0, self.keys, self.rows),
                "x": self.random.random(self.rows),
            }
        )
        # Spark passes over files that begin with a dot.
        hidden = self.folder / f".{now}.parquet"
        parquet.write_table(table, hidden)
        hidden.rename(self.folder / f"{now}.parquet")
        self.there.append((int(times[-1]), time.time()))

    def run(self) -> None:
        """Write on until told to stop."""
        due = time.time()
        while not self.stop.is_set():
            self.write_file()
            due += 1 / FILES_A_SECOND
            self.stop.wait(max(0.0, due - time.time()))


def soak(spark: Any, text: str, keys: int, rate: int, seconds: int) -> None:
    """Run a query for a while, and print what it takes every few seconds."""
    folder, output = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    writer = Writer(folder, keys, rate)
    left: list[tuple[int, float]] = []

    def take(batch: Any, _number: int) -> None:
        ends = set(batch.select("window_end").toArrow()["window_end"].cast(pa.int64()).to_pylist())
        left.extend((end, time.time()) for end in ends)

    schema = spark.read.parquet(str(folder)).schema
    source = spark.readStream.schema(schema).parquet(str(folder))
    rows = cepheid.query(text).stream(source, watermark=f"{DELAY} second")
    live = (
        rows.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(output))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    writer.start()
    begin = time.time()
    print(f"{'s':>5}{'RSS GB':>9}{'events/s':>12}{'batch s':>9}{'behind s':>10}{'state MB':>10}")
    while time.time() - begin < seconds:
        live.awaitTermination(REPORT)
        report(live, writer, time.time() - begin)
    writer.stop.set()
    writer.join()
    live.stop()
    waits = [done - closable(writer, end) for end, done in left if done > begin + WARM_UP]
    if waits:
        worst, middle = np.percentile(waits, 99), np.median(waits)
        print(f"rows leave {middle:.2f} s (median), {worst:.2f} s (p99) after they can")


def report(live: Any, writer: Writer, passed: float) -> None:
    """Print one line of the latest micro-batch."""
    progress = live.lastProgress
    counts = progress and progress["observedMetrics"].get("cepheid")
    if not counts:
        return
    batch = progress["durationMs"]["triggerExecution"] / 1000
    latest = progress["eventTime"].get("max")
    behind = writer.there[-1][0] / SECOND
    behind -= np.datetime64(latest.rstrip("Z"), "us").astype(int) / SECOND if latest else behind
    print(
        f"{passed:5.0f}{resident_bytes() / 2**30:9.2f}{progress['processedRowsPerSecond']:12,.0f}"
        f"{batch:9.2f}{behind:10.2f}{counts['state_bytes'] / 2**20:10.1f}"
    )


def closable(writer: Writer, end: int) -> float:
    """Return when the first event was there that let a window close."""
    return next(there for latest, there in writer.there if latest - DELAY * SECOND >= end)
