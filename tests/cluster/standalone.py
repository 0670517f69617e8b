"""A standalone cluster of Spark on this machine: a master, and workers that come and go.

Everything runs from the files of the package ``pyspark``, as a user's first cluster does. Each
worker has a host of its own, 127.0.0.2 and up, so that Spark sees different machines.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark
from tests.chaos.processes import children, command, kill
from tests.jvm import FLAGS
from tests.servers import free_port, wait_for

SPARK = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = b"CoarseGrainedExecutorBackend"
"""A part of the command of an executor."""
DAEMON = b"daemon"
"""A part of the command of the process that forks Python workers."""
WAIT_S = 180
"""How long a busy machine may take for anything."""
MEMORY = "512m"
"""Memory of an executor: Spark refuses less than 450 MB."""


class Cluster:
    """A master and its workers; every process ends with the block that made the cluster."""

    def __init__(
        self, folder: Path, variables: Callable[[int], Mapping[str, str]], workers: int = 3
    ) -> None:
        self.folder, self.port, self._variables = folder, free_port(), variables
        self.url = f"spark://127.0.0.1:{self.port}"
        self._workers: list[subprocess.Popen[bytes]] = []
        self._numbers = itertools.count()
        words = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self._master = self._start("master.Master", words, {"SPARK_LOCAL_IP": "127.0.0.1"})
        try:
            wait_for(self.port, self._master, folder / "log")
            for _ in range(workers):
                self.add_worker()
            self.wait_until(lambda: self._registered() == len(self._workers))
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_worker(self) -> None:
        """Start a worker with one core, with variables of its own in its environment."""
        number = next(self._numbers)
        host = f"127.0.0.{number + 2}"
        place = self.folder / f"worker-{number}"
        place.mkdir()
        size = ("--cores", "1", "--memory", MEMORY, "--work-dir", str(place))
        words = ("--host", host, "--webui-port", "0", *size, self.url)
        own = {"SPARK_LOCAL_IP": host, **self._variables(number)}
        self._workers.append(self._start("worker.Worker", words, own))

    def kill_worker(self) -> None:
        """Kill the eldest worker; its executor ends with it."""
        worker = self._workers.pop(0)
        gone = children(worker.pid)
        for pid in [worker.pid, *gone]:
            kill(pid)
        worker.wait()

    def executors(self) -> list[int]:
        """List the executors that run."""
        found = [pid for worker in self._workers for pid in children(worker.pid)]
        return [pid for pid in found if EXECUTOR in command(pid)]

    def kill_executor(self, chance: random.Random) -> bool:
        """Kill an executor that has run a Python task, if there is another one."""
        found = self.executors()
        busy = [pid for pid in found if daemons(pid)]
        if len(found) < 2 or not busy:
            return False
        chosen = chance.choice(busy)
        killed = kill(chosen)
        self.wait_until(lambda: chosen not in self.executors())
        return killed

    def python_workers(self) -> list[int]:
        """List the processes that run Python tasks; an executor starts one that forks them."""
        found = [daemon for pid in self.executors() for daemon in daemons(pid)]
        return [worker for daemon in found for worker in children(daemon)]

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        begun = time.monotonic()
        while time.monotonic() - begun < WAIT_S:
            if holds():
                return
            time.sleep(0.05)
        raise TimeoutError(self.log()[-2000:])

    def log(self) -> str:
        """Return what the daemons said."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def stop(self) -> None:
        """Kill all processes of the cluster."""
        processes = [*self._workers, self._master]
        for daemon in processes:
            # Each leads a session of its own, with its executors and their Python workers.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
        for daemon in processes:
            daemon.wait()

    def _registered(self) -> int:
        return self.log().count("Registering worker ")

    def _start(
        self, daemon: str, words: tuple[str, ...], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        # What workers can import must not depend on who runs the tests.
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = {
            **own,
            "SPARK_HOME": str(SPARK),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"{FLAGS} -Dspark.deploy.maxExecutorRetries=-1",
            **variables,
        }
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(SPARK / "bin" / "spark-class"), f"{DEPLOY}.{daemon}", *words],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def daemons(executor: int) -> list[int]:
    """List the processes that fork the Python workers of an executor; Hadoop has others."""
    return [pid for pid in children(executor) if DAEMON in command(pid)]
