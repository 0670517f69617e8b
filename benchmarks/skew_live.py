"""Measure how even the buckets of a live query are: ``python -m benchmarks.skew_live``.

The streams of ``benchmarks.skew`` come in micro-batches. The turns of all eight buckets run one
after the other, without Spark, and the processor time of each counts; so do the task that makes
rows of panes, and what tasks take that send events to buckets. Keys are split while the query runs,
or not. The first micro-batches, in which hot keys are found and their last windows at home end, do
not count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.skew import KEYS, QUERIES, SPAN_S, TASKS, keys_of

import cepheid
from cepheid.arrays.columns import Columns, read_times
from cepheid.jobs.bucket import COUNTED
from cepheid.jobs.hot_keys import Split
from cepheid.jobs.kind import needs_of
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.split_turn import SplitArrived, rows_of_split, split_turn
from cepheid.jobs.work import Work
from cepheid.spark.schema import result_schema_of

EVENTS, BATCHES, COLD = 4_000_000, 40, 8
DELAY = 1_000_000


def events_of(kind: str) -> pa.Table:
    """Make the events of a stream, in the order of time."""
    random = np.random.default_rng(29)
    times = np.sort(random.integers(0, SPAN_S * 1_000_000, EVENTS))
    return pa.table(
        {
            "ts": pa.array(times),
            "type": np.array(["A", "B"])[random.integers(0, 2, EVENTS)],
            "key": keys_of(kind, random),
            "x": random.random(EVENTS),
        }
    )


class Spent(NamedTuple):
    """Processor seconds of buckets, of senders, and of the task that multiplies panes; rows."""

    buckets: np.ndarray
    sending: float
    last: float
    rows: int
    keys: int


def hashes_of(keys: np.ndarray) -> np.ndarray:
    """Mix the bits of keys, as the hash of Spark does."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)


def run(text: str, events: pa.Table, folder: str, *, split: bool) -> Spent:
    """Run all micro-batches."""
    plan = cepheid.query(text).with_schema(events.schema).plan
    needs, results = needs_of(plan), result_schema_of(plan, events.schema)
    work = Work.of(plan, events.schema, results, TASKS, delay=DELAY)
    by = Split(folder, needs.buckets, needs.pane, needs.within, TASKS)
    data: list[bytes | None] = [None] * TASKS
    taken, sending, last, rows = np.zeros(TASKS), 0.0, 0.0, 0
    each = EVENTS // BATCHES
    for number, begin in enumerate(range(0, len(events), each)):
        batch = events.slice(begin, each)
        latest = int(read_times(Columns(batch), "ts").max())
        begun = time.process_time()
        came = sent(by, batch) if split else plain(batch)
        counts = number >= COLD
        sending += (time.process_time() - begun) * counts
        closed = []
        for bucket, own in enumerate(came):
            begun = time.process_time()
            if split:
                data[bucket], outcome = split_turn(work, by, data[bucket], own, latest)
            else:
                data[bucket], outcome = turn(live_job(work), work, data[bucket], own.home, latest)
            taken[bucket] += (time.process_time() - begun) * counts
            rows += len(outcome.results)
            closed += [outcome.panes] if outcome.panes is not None and len(outcome.panes) else []
        begun = time.process_time()
        if closed:
            rows += len(rows_of_split(work, by, closed))
        last += (time.process_time() - begun) * counts
    return Spent(taken, sending, last, rows, len(by.read()))


def sent(by: Split, batch: pa.Table) -> list[SplitArrived]:
    """Send the events of a micro-batch to their buckets."""
    hot, hashes = by.read(), hashes_of(batch["key"].to_numpy())
    placed = by.place(hot, batch, hashes, read_times(Columns(batch), "ts"))
    home = batch.append_column(COUNTED, pa.array(placed.counted))
    heat: Any = by.heat(hot, batch, hashes)
    heat_of = None if heat is None else heat["__hash"].to_numpy() % TASKS
    return [
        SplitArrived(
            [home.take(np.flatnonzero(placed.home == bucket))],
            [batch.take(np.flatnonzero(placed.pane == bucket))],
            [] if heat is None else [heat.take(np.flatnonzero(heat_of == bucket))],
        )
        for bucket in range(TASKS)
    ]


def plain(batch: pa.Table) -> list[SplitArrived]:
    """Send events to the buckets of their keys."""
    place = hashes_of(batch["key"].to_numpy()) % TASKS
    return [SplitArrived([batch.take(np.flatnonzero(place == n))], [], []) for n in range(TASKS)]


def main() -> None:
    """Print a line for each stream."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    tell = sys.stdout.write
    tell(f"{EVENTS:,} events, {KEYS:,} keys, {BATCHES} micro-batches, {TASKS} buckets\n")
    tell("| keys | largest : mean | not split | keys split | buckets CPU s | last task CPU s |\n")
    for kind in ("Zipf 1.2", "half in one key"):
        events = events_of(kind)
        with tempfile.TemporaryDirectory(prefix="skew-") as folder:
            run(QUERIES["composes"], events, folder + "/warm", split=True)
            found = run(QUERIES["composes"], events, folder + "/hot", split=True)
            before = run(QUERIES["composes"], events, folder, split=False)
        assert found.rows == before.rows
        ratio, plainly = (one.buckets.max() / one.buckets.mean() for one in (found, before))
        tell(f"| {kind} | {ratio:.2f} | {plainly:.2f} | {found.keys} |")
        tell(f" {found.buckets.sum():.2f} ({before.buckets.sum():.2f}) | {found.last:.2f} |")
        tell(f" sending {found.sending:.2f} ({before.sending:.2f})\n")


if __name__ == "__main__":
    main()
