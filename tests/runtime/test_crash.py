"""A driver is killed at random moments; what it started again writes is each row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.live_driver import rows_of_batches, start_queries
from tests.runtime.test_stream import QUERIES, cut, events_of, out_of_order, sentinel, write_files

from cepheid.api import query

# The ten kills of tests/chaos are part of every run.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
KILLED = {
    "keys": QUERIES[1],
    "edges": QUERIES[2],
    "panes": "RETURN COUNT(*), SUM(A.x) PATTERN SEQ(A+, B) WITHIN 9 s SLIDE 3 s",
}
LONG = 10
"""So many kills are a long test, of a query that keeps events and not numbers."""


class Driver:
    """A process that gets ready while another one works, and begins when it is told to."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.turn = folder / "go"
        command = [sys.executable, "-m", "tests.runtime.live_driver", str(folder), text]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=os.environ | {"PYTHONPATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver, JVM, workers and all."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def work_and_die(self, chance: random.Random) -> bool:
        """Let it work, and kill it after it got on; False if it was at the end before."""
        target = commits(self.folder) + chance.randint(0, 2)
        begun = plans(self.folder)
        self.turn.touch()
        running = self.process.poll
        while running() is None and (commits(self.folder) < target or plans(self.folder) == begun):
            time.sleep(0.02)
        time.sleep(chance.random())
        alive = running() is None
        self.turn.unlink()
        self.kill()
        return alive


def commits(folder: Path) -> int:
    """Return how many micro-batches are complete."""
    return sum(path.name.isdigit() for path in folder.glob("checkpoint/commits/*"))


def plans(folder: Path) -> int:
    """Return when the latest micro-batch was planned, 0 as long as one of the queries has none.

    Spark does not go on from a checkpoint whose first plan was half written; nothing is lost then,
    but somebody has to remove it.
    """
    latest = []
    for place in ("checkpoint", "checkpoint-batches"):
        offsets = (folder / place / "offsets").glob("*")
        times = [path.stat().st_mtime_ns for path in offsets if path.name.isdigit()]
        latest.append(max(times, default=0))
    return max(latest) if all(latest) else 0


def kill_again_and_again(folder: Path, text: str, kills: int) -> int:
    """Kill drivers, each in its turn; return how many were at work when they died."""
    chance = random.Random(kills)
    ready = [Driver(folder, text)]
    killed = 0
    try:
        for number in range(kills):
            if number + 1 < kills:
                ready.append(Driver(folder, text))
            killed += ready[0].work_and_die(chance)
            ready.pop(0)
    finally:
        for driver in ready:
            driver.kill()
    return killed


def test_killed_drivers_lose_nothing_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = int(request.config.getoption("--kills"))
    name = request.config.getoption("--killed") or ("edges" if kills >= LONG else "keys")
    text = KILLED[name]
    # More kills need more micro-batches.
    files = max(6, 2 * kills)
    events = events_of(100 * files)
    mixed = out_of_order(events, 5_000_000)
    write_files(tmp_path / "events", [*cut(mixed, files), sentinel(events, 60)])
    killed = kill_again_and_again(tmp_path, text, kills)
    assert killed >= min(kills, 2), (tmp_path / "log").read_text()
    for live in start_queries(spark, tmp_path, text):
        live.awaitTermination()
    expected = query(text).run(events).to_pylist()
    assert expected
    assert same(spark.read.parquet(str(tmp_path / "rows")).toArrow(), expected)
    assert same(rows_of_batches(tmp_path), expected)
