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
from tests.runtime.test_stream import QUERIES, cut, events_of, out_of_order, sentinel, write_files

from cepheid.api import query

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

FILES = 10
ROOT = Path(__file__).parents[2]


def start(folder: Path, text: str) -> subprocess.Popen[bytes]:
    places = [str(folder / name) for name in ("events", "rows", "checkpoint")]
    command = [sys.executable, "-m", "tests.runtime.live_driver", *places, text, "5 seconds"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def commits(folder: Path) -> int:
    """Return how many micro-batches are complete."""
    found = folder.glob("checkpoint/commits/*")
    return sum(path.name.isdigit() for path in found)


def kill_at_random(folder: Path, text: str, chance: random.Random) -> bool:
    """Start a driver and kill it, JVM and all, after it got on; False if too late."""
    target = commits(folder) + chance.randint(0, 2)
    driver = start(folder, text)
    try:
        while driver.poll() is None and commits(folder) < target:
            time.sleep(0.02)
        begun = folder / "checkpoint" / "offsets"
        while driver.poll() is None and not (begun.exists() and any(begun.iterdir())):
            time.sleep(0.02)
        time.sleep(chance.random() * 3)
        return driver.poll() is None
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_killed_drivers_lose_nothing_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = int(request.config.getoption("--kills"))
    events = events_of(2000)
    mixed = out_of_order(events, 5_000_000)
    # More kills need more micro-batches.
    files = FILES * max(1, kills // 5)
    write_files(tmp_path / "events", [*cut(mixed, files), sentinel(events, 60)])
    chance = random.Random(kills)
    killed = sum(kill_at_random(tmp_path, QUERIES[2], chance) for _ in range(kills))
    assert killed >= min(kills, 2), (tmp_path / "log").read_text()
    assert start(tmp_path, QUERIES[2]).wait() == 0, (tmp_path / "log").read_text()
    rows = spark.read.parquet(str(tmp_path / "rows")).toArrow()
    assert same(rows, query(QUERIES[2]).run(events).to_pylist())
