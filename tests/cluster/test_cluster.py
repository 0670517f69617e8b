"""Every strategy and live queries on a cluster whose executors and workers die and come."""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.chaos.processes import kill
from tests.cluster.driver import Driver
from tests.cluster.questions import LIVE, QUESTIONS
from tests.cluster.standalone import Cluster

from cepheid.spark.failures import FULL_RETRY

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.xdist_group("servers")]

MANY = {
    "spark.task.maxFailures": "100",
    "spark.stage.maxConsecutiveAttempts": "100",
    FULL_RETRY: "false",
}
"""Spark gives a job up after four failures of a task, which is fewer than are killed here, and if
what comes out of a shuffle has another order when its tasks are repeated."""
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.3",
}
"""Spark runs a second copy of a task that takes half as long again as others."""
GIVEN_BACK = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
}
"""Executors come when tasks wait, and go after two seconds without any."""


ROUNDS, ROUND_KILLS = 8, 25
"""The long version kills 200 executors, in rounds that may run on different days."""


def kill_executors(cluster: Cluster, driver: Driver, kills: int, chance: random.Random) -> int:
    """Kill executors at random moments, each after an answer; return how many were killed."""
    killed = 0
    while driver.running and killed < kills:
        before = driver.asked()
        if cluster.kill_executor(chance):
            killed += 1
            cluster.wait_until(functools.partial(driver.has_got_beyond, before))
        time.sleep(chance.uniform(0.0, 1.0))
    return killed


def write_whole(place: Path, text: str) -> None:
    """Write a file that nobody sees before it is complete."""
    place.with_suffix(".part").write_text(text)
    place.with_suffix(".part").rename(place)


def pause(pid: int, seconds: float) -> None:
    """Let a process stand still, as on a machine that is overloaded."""
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


@pytest.mark.parametrize(
    ("kills", "micro_batches", "seed"),
    [
        (10, 3, 0),
        *(
            pytest.param(ROUND_KILLS, 10, seed, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
            for seed in range(1, ROUNDS + 1)
        ),
    ],
)
def test_killed_executors_change_nothing(
    cluster: Cluster, tmp_path: Path, kills: int, micro_batches: int, seed: int
) -> None:
    chance = random.Random(seed)
    with Driver(
        cluster, tmp_path, "until told", settings=MANY, micro_batches=micro_batches
    ) as driver:
        killed = kill_executors(cluster, driver, kills // 2, chance)
        # A machine joins, and another one is lost with its executor and its shuffle files.
        cluster.add_worker()
        cluster.kill_worker()
        killed += kill_executors(cluster, driver, kills - killed, chance)
        write_whole(tmp_path / "enough", str(killed))
        found = driver.found()
    assert "error" not in found, found
    assert killed == kills
    assert found["lost"] >= kills
    assert found["asked"] >= len(QUESTIONS)
    assert (found["wrong"], found["wrong live"]) == ([], [])
    for name in LIVE:
        # Spark's other state store writes .delta and .snapshot.
        state = tmp_path / f"checkpoint-{name}" / "state" / "0"
        kinds = {path.suffix for path in state.rglob("*") if path.is_file() and path.name[0] != "."}
        assert kinds & {".changelog", ".zip"}, (name, kinds)
        assert not kinds & {".delta", ".snapshot"}


@pytest.mark.slow
def test_slow_and_killed_python_workers_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(29)
    with Driver(cluster, tmp_path, "until told", settings=MANY | EAGER) as driver:
        for turn in range(20):
            cluster.wait_until(lambda: bool(cluster.python_workers()) or not driver.running)
            assert driver.running
            victims = cluster.python_workers()
            if turn % 2 and victims:
                pause(chance.choice(victims), 4.0)
            elif victims:
                kill(chance.choice(victims))
            time.sleep(chance.uniform(0.2, 1.0))
        cluster.wait_until(lambda: driver.asked() >= len(QUESTIONS) or not driver.running)
        write_whole(tmp_path / "enough", "0")
        found = driver.found()
    assert (found["wrong"], found["wrong live"]) == ([], [])
    assert found["failed tasks"] > 0
    assert found["speculated"] > 0


@pytest.mark.slow
def test_executors_that_come_and_go_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with Driver(cluster, tmp_path, "with pauses", settings=GIVEN_BACK) as driver:
        found = driver.found()
    assert found["wrong"] == []
    assert found["left"] == 0
    assert found["lost"] > 0
