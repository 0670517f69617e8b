"""A live query for half an hour: ``python -m benchmarks.soak --minutes 30``.

First the rate rises until micro-batches take longer than their trigger; then the query runs at 70 %
of the highest rate that held, over keys that come and go. In the end memory, state and lag of the
first, second and last third of the time are compared, every event is accounted for, and the time
that rows take to leave is held against two triggers. ``--rate`` leaves the first part out. The
numbers are kept in ``build/soak.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.processes import resident_bytes
from benchmarks.streaming import QUERIES
from benchmarks.streaming_live import DELAY, SECOND, WARM_UP, Writer, closable

import cepheid
from cepheid.spark import session as spark_session

SHARE = 0.7
STEP_S, STEP_UP, FIRST_RATE, MOST = 20.0, 1.25, 100_000, 2_000_000
EVERY_S = 5.0
FLAT = 1.1
"""What is at most a tenth larger in the last third than in the first does not grow."""
COUNTS = (("records", "cepheid_records"), ("bad", "cepheid_records"), ("seen", "cepheid"),
          ("late", "cepheid"))  # fmt: skip
"""The numbers of micro-batches that are added up, and the metrics that have them."""
FOUND = Path(__file__).parents[1] / "build" / "soak.json"


class Sample(NamedTuple):
    """The numbers of a moment: seconds, and bytes in MiB."""

    passed: float
    java: float
    heap: float
    python: float
    state: float
    keys: float
    behind: float
    batch: float


class Batch(NamedTuple):
    """What a micro-batch told: when it began, its seconds, and its counts."""

    at: float
    seconds: float
    events: int
    counts: dict[str, int]


class Soak:
    """A live query, what writes its events, and what is noted about both."""

    def __init__(self, spark: Any, asked: argparse.Namespace, rate: int, most: int = 0) -> None:
        folder, state = Path(tempfile.mkdtemp()), tempfile.mkdtemp()
        self.spark = spark
        self.writer = Writer(folder, asked.keys, rate, fresh=asked.fresh, most=most)
        self.left: list[tuple[int, float]] = []
        self.samples: list[Sample] = []
        self.batches: dict[int, Batch] = {}
        schema = spark.read.parquet(str(folder)).schema
        source = spark.readStream.schema(schema).parquet(str(folder))
        rows = cepheid.query(QUERIES[asked.query]).stream(source, watermark=f"{DELAY} second")
        writer = rows.writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", state)
        self.live = writer.trigger(processingTime=f"{asked.trigger} seconds").start()
        self.writer.start()
        self.begun = time.time()

    def _take(self, batch: Any, _number: int) -> None:
        ends = batch.select("window_end").toArrow()["window_end"].cast(pa.int64())
        self.left.extend((end, time.time()) for end in set(ends.to_pylist()))

    def wait(self, seconds: float) -> None:
        """Let it run, and note its numbers every few seconds."""
        end = time.time() + seconds
        while (rest := end - time.time()) > 0:
            assert not self.live.awaitTermination(min(EVERY_S, rest)), "it goes on for ever"
            self._note()

    def _note_batches(self) -> None:
        """Add the new micro-batches; Spark keeps the last hundred only, as it does for users."""
        for one in self.live.recentProgress:
            at = np.datetime64(one["timestamp"].rstrip("Z"), "ms").astype(int) / 1000
            observed = one["observedMetrics"]
            counts = {
                name: int(observed[part][name] or 0) for name, part in COUNTS if observed.get(part)
            }
            seconds = one["durationMs"]["triggerExecution"] / 1000
            self.batches[one["batchId"]] = Batch(at, seconds, one["numInputRows"], counts)

    def _note(self) -> None:
        self._note_batches()
        progress = self.live.lastProgress
        counts = progress and progress["observedMetrics"].get("cepheid")
        if not counts or not progress["eventTime"].get("max"):
            return
        latest = np.datetime64(progress["eventTime"]["max"].rstrip("Z"), "us").astype(int)
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
        sample = Sample(
            time.time() - self.begun,
            resident_bytes("java") / 2**20,
            (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
            resident_bytes("python") / 2**20,
            counts["state_bytes"] / 2**20,
            counts["partitions"],
            (self.writer.there[-1][0] - int(latest)) / SECOND,
            progress["durationMs"]["triggerExecution"] / 1000,
        )
        self.samples.append(sample)
        print(" ".join(f"{name} {value:,.1f}" for name, value in sample._asdict().items()))

    def stop(self) -> None:
        """End both."""
        self.writer.stop.set()
        self.writer.join()
        self._note_batches()
        self.live.stop()

    def seconds_of_batches(self, since: float) -> list[float]:
        """Return how long the micro-batches took that ended after a time."""
        return [b.seconds for b in self.batches.values() if b.at >= since and b.events]


def highest_rate(spark: Any, asked: argparse.Namespace) -> int:
    """Raise the rate until micro-batches take longer than their trigger."""
    soak = Soak(spark, asked, FIRST_RATE, MOST)
    soak.wait(WARM_UP)
    held = rate = FIRST_RATE
    while rate <= MOST:
        soak.writer.rate = rate
        soak.wait(STEP_S / 2)
        begun = time.time()
        soak.wait(STEP_S)
        took = soak.seconds_of_batches(begun)
        behind = soak.samples[-1].behind
        print(f"{rate:,} events/s: micro-batches of {np.mean(took):.2f} s, {behind:.1f} s behind")
        # On the average, so that windows, which close every now and then, count too.
        if not took or np.mean(took) > asked.trigger or behind > 4 * asked.trigger:
            break
        held, rate = rate, int(rate * STEP_UP)
    soak.stop()
    return held


def thirds(samples: list[Sample], name: str) -> list[float]:
    """Return the median of a number in each third of the time; of a heap what is left of it."""
    parts = np.array_split([getattr(one, name) for one in samples], 3)
    middle = np.min if name == "heap" else np.median
    return [float(middle(part)) for part in parts]


def judge(soak: Soak, asked: argparse.Namespace, rate: int) -> dict[str, Any]:
    """Compare the thirds, account for events, and hold waiting times against the bar."""
    end = soak.begun + asked.minutes * 60
    calm = [s for s in soak.samples if s.passed > min(120.0, asked.minutes * 15)]
    found: dict[str, Any] = {"rate": rate, "minutes": asked.minutes, "trigger": asked.trigger}
    for name in Sample._fields[1:]:
        first, middle, last = thirds(calm, name)
        found[name] = [first, middle, last]
        # Times of a moment may double and still be far below a trigger.
        bound = max(FLAT * first, asked.trigger if name in ("behind", "batch") else 0.0)
        print(f"{name:8} {first:12,.2f} {middle:12,.2f} {last:12,.2f}  {verdict(last <= bound)}")
    ready = [
        (closable(soak.writer, edge), left)
        for edge, left in soak.left
        if soak.begun + WARM_UP < left < end
    ]
    waits = [left - could for could, left in ready if soak.writer.undisturbed(could, left)]
    found["p50"], found["p99"] = (float(np.percentile(waits, p)) for p in (50, 99))
    found["windows"], found["stopped"] = len(waits), len(soak.writer.pauses)
    holds = verdict(found["p99"] <= 2 * asked.trigger)
    print(f"rows of {len(waits)} windows leave {found['p50']:.2f} s (median), ", end="")
    print(f"{found['p99']:.2f} s (p99) after they can: {holds}")
    for name, _ in COUNTS:
        found[name] = sum(batch.counts.get(name, 0) for batch in soak.batches.values())
    exact = found["records"] == found["seen"] + found["bad"] and not found["late"]
    print(
        f"{soak.writer.written:,} written, {found['records']:,} records, {found['seen']:,} seen, "
    )
    print(f"{found['bad']:,} bad, {found['late']:,} late: {verdict(exact)}")
    return found


def verdict(holds: Any) -> str:
    """Say whether a bar holds."""
    return "holds" if holds else "MISSES"


def main() -> None:
    """Find the highest rate, and run at 70 % of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=0, help="events/s; else 70 %% of the highest")
    parser.add_argument("--keys", type=int, default=100_000, help="keys that are alive")
    parser.add_argument("--fresh", type=int, default=1000, help="keys that come a second")
    parser.add_argument("--trigger", type=float, default=2.0, help="seconds")
    parser.add_argument("--query", choices=list(QUERIES), default="linear")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    with warnings.catch_warnings(), spark_session.session("local[2]") as spark:
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark_session.keep_checkpoints_local(spark, tempfile.gettempdir())
        highest = 0 if asked.rate else highest_rate(spark, asked)
        rate = asked.rate or int(SHARE * highest)
        print(f"{rate:,} events/s for {asked.minutes:g} minutes, {asked.keys:,} keys alive")
        soak = Soak(spark, asked, rate)
        soak.wait(asked.minutes * 60)
        soak.stop()
        found = {"highest": highest, "load": load} | judge(soak, asked, rate)
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
