"""A live query under a steady rate: memory, lag, and how long the rows of a window take to leave.

Events carry the time at which they are written. A window is closable once an event is there that
moves the watermark past its end; from then until its rows are in the sink is what a user waits.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
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
MADE = 8
KEPT = 480
STOOD_STILL = 5.0
AFTER_PAUSE = 10.0
REPORT = 5.0
WARM_BATCHES = 25
WARM_UP = 40.0
"""Seconds before waiting times count: workers start, and kernels are loaded."""


class Writer(threading.Thread):
    """Writes files of events at a rate, and remembers when each was there.

    With ``fresh``, so many keys a second come and as many go: those of an event are drawn from a
    range that moves. ``most`` is the highest rate that is set later.
    """

    def __init__(
        self, folder: Path, keys: int, rate: int, *, fresh: int = 0, most: int = 0
    ) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.keys = keys
        self.fresh = fresh
        self.rate = rate
        self.rows = max(rate, most) // FILES_A_SECOND
        self.written = 0
        self.stop = threading.Event()
        self.there: list[tuple[int, float]] = []
        self.files: list[Path] = []
        self.pauses: list[tuple[float, float]] = []
        self.random = np.random.default_rng(3)
        # Made once: the machine is to work for the query, and not for its events.
        self.made = [self.make_columns() for _ in range(MADE)]
        self.write_file()

    def make_columns(self) -> dict[str, Any]:
        """Return all columns of a file but the times."""
        return {
            "type": pa.array(np.array(["A", "B", "C"])[self.random.integers(0, 3, self.rows)]),
            "key": pa.array(self.random.integers(0, self.keys, self.rows)),
            "x": pa.array(self.random.random(self.rows)),
        }

    def write_file(self) -> None:
        """Write the events of a part of a second, which ends now."""
        now, count = int(time.time() * SECOND), self.rate // FILES_A_SECOND
        times = np.linspace(now - SECOND // FILES_A_SECOND, now, count, dtype=np.int64)
        made = self.made[len(self.there) % MADE]
        columns = {name: values[:count] for name, values in made.items()}
        if self.fresh:
            gone = self.fresh * len(self.there) // FILES_A_SECOND
            columns["key"] = pa.array(np.asarray(columns["key"]) + gone)
        table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})
        self.written += count
        # Spark passes over files that begin with a dot.
        hidden = self.folder / f".{now}.parquet"
        parquet.write_table(table, hidden, use_dictionary=["type"], compression="none")
        shown = self.folder / f"{now}.parquet"
        hidden.rename(shown)
        # Long since read; Spark lists the whole folder for every micro-batch.
        self.files.append(shown)
        if len(self.files) > KEPT:
            self.files.pop(0).unlink()
        self.there.append((int(times[-1]), time.time()))

    def run(self) -> None:
        """Write on until told to stop."""
        due = time.time()
        while not self.stop.is_set():
            self.write_file()
            due += 1 / FILES_A_SECOND
            if time.time() - due > STOOD_STILL:
                # Somebody stopped all processes: nobody sends what was not sent meanwhile.
                self.pauses.append((due, time.time()))
                due = time.time()
            self.stop.wait(max(0.0, due - time.time()))

    def undisturbed(self, begin: float, end: float) -> bool:
        """Return whether the processes were not stopped, or just going on, in a time."""
        return all(end < first or begin > last + AFTER_PAUSE for first, last in self.pauses)


def soak(
    opened: Callable[[Path], Any], text: str, keys: int, rate: int, seconds: int, trigger: str
) -> None:
    """Run a query over an opened folder for a while, and print what it takes every few seconds."""
    folder, output = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    writer = Writer(folder, keys, rate)
    left: list[tuple[int, float]] = []

    def take(batch: Any, _number: int) -> None:
        ends = set(batch.select("window_end").toArrow()["window_end"].cast(pa.int64()).to_pylist())
        left.extend((end, time.time()) for end in ends)

    rows = cepheid.query(text).stream(opened(folder), watermark=f"{DELAY} second")
    live = (
        rows.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(output))
        .trigger(processingTime=trigger)
        .start()
    )
    writer.start()
    begin = time.time()
    memory = f"{'JVM GB':>9}{'Python GB':>11}"
    print(f"{'s':>5}{memory}{'events/s':>12}{'batch s':>9}{'behind s':>10}{'state MB':>10}")
    while time.time() - begin < seconds:
        live.awaitTermination(REPORT)
        report(live, writer, time.time() - begin)
    writer.stop.set()
    writer.join()
    live.stop()
    ready = [(closable(writer, end), done) for end, done in left if done > begin + WARM_UP]
    waits = [done - could for could, done in ready if writer.undisturbed(could, done)]
    still = sum(last - first for first, last in writer.pauses)
    print(f"{len(waits)} windows; stopped from outside {len(writer.pauses)} times, {still:.0f} s")
    if waits:
        worst, middle = np.percentile(waits, 99), np.median(waits)
        print(f"rows leave {middle:.2f} s (median), {worst:.2f} s (p99) after they can")
    tell_parts(live)


def tell_parts(live: Any) -> None:
    """Print where the time of a micro-batch goes."""
    taken = [p["durationMs"] for p in live.recentProgress if p["numInputRows"]][WARM_BATCHES:]
    for name in taken[-1] if taken else ():
        times = [one.get(name, 0) for one in taken]
        print(f"{name:20}{np.median(times):8.0f} ms {np.percentile(times, 99):8.0f} ms (p99)")


def report(live: Any, writer: Writer, passed: float) -> None:
    """Print one line of the latest micro-batch."""
    progress = live.lastProgress
    counts = progress and progress["observedMetrics"].get("cepheid")
    records = progress and progress["observedMetrics"].get("cepheid_records")
    if not counts or not records:
        return
    batch = progress["durationMs"]["triggerExecution"] / 1000
    latest = progress["eventTime"].get("max")
    # A source of files does not tell the times of events.
    behind = np.nan
    if latest:
        seen = np.datetime64(latest.rstrip("Z"), "us").astype(int)
        behind = (writer.there[-1][0] - seen) / SECOND
    java, python = resident_bytes("java") / 2**30, resident_bytes("python") / 2**30
    print(
        f"{passed:5.0f}{java:9.2f}{python:11.2f}{records['records'] / batch:12,.0f}"
        f"{batch:9.2f}{behind:10.2f}{counts['state_bytes'] / 2**20:10.1f}"
    )


def closable(writer: Writer, end: int) -> float:
    """Return when the first event was there that let a window close."""
    return next(there for latest, there in writer.there if latest - DELAY * SECOND >= end)
