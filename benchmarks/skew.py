"""Measure how even the tasks of a shuffle are: ``python -m benchmarks.skew``.

Two streams, one whose keys follow Zipf's law and one in which a single key has half of all events,
are counted by a query that composes and by one that compares neighbours. Each task of Spark's
workers notes its processor time, of several runs the least; the table has the largest of eight
tasks beside their mean, by the strategy that Cepheid chooses, and by a shuffle of keys that are
spread by their numbers of events.

The session has eight cores, as many as tasks, however many the machine has: on two cores, a task
with half of all work delays nobody, and the cost model lets it be.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

import cepheid
from cepheid.runtimes.spark import tasks
from cepheid.spark.session import session

EVENTS, KEYS, TASKS, FILES = 4_000_000, 1_000_000, 8, 4
ROUNDS = 3
SPAN_S = 1000
QUERIES = {
    "composes": "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key "
    "WITHIN 20 s SLIDE 20 s",
    "neighbours": "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key "
    "WITHIN 2 s SLIDE 2 s",
}


def keys_of(kind: str, random: np.random.Generator) -> Any:
    """Draw the keys of all events."""
    if kind == "Zipf 1.2":
        weights = np.arange(1, KEYS + 1) ** -1.2
        return np.searchsorted(np.cumsum(weights / weights.sum()), random.random(EVENTS))
    keys = random.integers(1, KEYS, EVENTS)
    return np.where(random.random(EVENTS) < 0.5, 0, keys)


def write_events(folder: Path, kind: str) -> None:
    """Write files that overlap in time, as those of several producers do."""
    random = np.random.default_rng(29)
    times = np.sort(random.integers(0, SPAN_S * 1_000_000, EVENTS))
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "type": np.array(["A", "B"])[random.integers(0, 2, EVENTS)],
            "key": keys_of(kind, random),
            "x": random.random(EVENTS),
        }
    )
    folder.mkdir()
    for number in range(FILES):
        parquet.write_table(
            table.take(np.arange(number, EVENTS, FILES)), folder / f"{number}.parquet"
        )


def timed_tasks(place: Path) -> Callable[[Any], Any]:
    """Return what wraps a task so that it notes its name, its partition and its CPU time."""
    folder = str(place)

    def wrap(task: Any) -> Any:
        name = task.__qualname__.partition(".")[0]

        def run(batches: Any) -> Iterator[Any]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            begun = time.process_time()
            yield from task(batches)
            spent = time.process_time() - begun
            where = Path(folder) / f"{name}-{context.partitionId()}-{context.taskAttemptId()}"
            where.write_text(str(spent))

        return run

    return wrap


def taken(place: Path) -> dict[str, dict[int, float]]:
    """Return the CPU time of the tasks of each stage by their partitions, and forget it."""
    spent: dict[str, dict[int, float]] = defaultdict(dict)
    for file in place.iterdir():
        name, partition, _ = file.name.split("-")
        spent[name][int(partition)] = float(file.read_text())
        file.unlink()
    return spent


SENDING = ("send_events",)


def measure(
    frame: DataFrame, text: str, place: Path, strategy: str | None = None
) -> tuple[str, float]:
    """Return the stage that takes most, and the largest : mean CPU time of its tasks.

    A query runs once to warm up. A task of a run has the same events in the next one.
    """
    least: dict[str, dict[int, float]] = defaultdict(dict)
    for number in range(ROUNDS + 1):
        with mock.patch.object(tasks, "in_task", timed_tasks(place)):
            rows = cepheid.query(text).run(frame, strategy=strategy)
        rows.agg({"count": "sum"}).collect()
        for name, spent in taken(place).items():
            for partition, seconds in spent.items() if number else ():
                least[name][partition] = min(seconds, least[name].get(partition, seconds))
    main = max(least, key=lambda name: (name not in SENDING, sum(least[name].values())))
    seconds = least[main].values()
    # A task without events leaves no file.
    return main, max(seconds) * TASKS / sum(seconds)


def main() -> None:
    """Print the table."""
    os.environ.setdefault("CEPHEID_KERNELS", "compile")
    tell = sys.stdout.write
    tell("| keys | query | stage | largest : mean | by key |\n|---|---|---|---|---|\n")
    with (
        tempfile.TemporaryDirectory(prefix="cepheid-skew-") as name,
        session(f"local[{TASKS}]") as spark,
    ):
        spark.conf.set("spark.sql.shuffle.partitions", str(TASKS))
        (Path(name) / "tasks").mkdir()
        for kind in ("Zipf 1.2", "half in one key"):
            write_events(Path(name) / kind, kind)
            frame = spark.read.parquet(str(Path(name) / kind))
            for query, text in QUERIES.items():
                tell(line(frame, kind, query, text, Path(name) / "tasks"))
                sys.stdout.flush()


def line(frame: DataFrame, kind: str, query: str, text: str, place: Path) -> str:
    """Return a line of the table."""
    stage, ratio = measure(frame, text, place)
    _, by_key = measure(frame, text, place, "key shuffle")
    return f"| {kind} | {query} | `{stage}` | {ratio:.2f} | {by_key:.2f} |\n"


if __name__ == "__main__":
    main()
