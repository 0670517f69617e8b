"""Start the driver of a cluster, and read what it found."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster.parts import FOLDER
from tests.cluster.questions import BUCKETS, write_events
from tests.cluster.standalone import MEMORY, Cluster
from tests.jvm import FLAGS
from tests.runtime.cluster import ROOT

END_S = 400
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


class Driver:
    """A driver in a process of its own, because a process has one session."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        job: str,
        *,
        settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        micro_batches: int = 3,
        remote: str | None = None,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        write_events(folder, micro_batches)
        asked = {
            "spark.master": cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": MEMORY,
            "spark.executorEnv.CEPHEID_KERNELS": "interpret",
            "spark.executorEnv.PYTHONPATH": PATHS,
            "spark.executor.extraJavaOptions": FLAGS,
            "spark.sql.shuffle.partitions": "3",
            "spark.cepheid.buckets": str(BUCKETS),
            **(settings or {}),
        }
        paths = PATHS
        if remote is not None:
            # A client of Spark Connect: the server has chosen everything else.
            shown = ("spark.sql.shuffle.partitions", "spark.cepheid.buckets")
            asked = {"spark.remote": remote} | {name: asked[name] for name in shown}
            paths = os.pathsep.join([PATHS, str(FOLDER)])
        (folder / "settings.json").write_bytes(msgspec.json.encode(asked))
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "PYSPARK_PYTHON": sys.executable,
            "CEPHEID_KERNELS": "interpret",
            **(variables or {}),
        }
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.program", job, str(folder)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def running(self) -> bool:
        """Check whether it has not ended."""
        return self._process.poll() is None

    def asked(self) -> int:
        """Return how many questions have been answered so far."""
        place = self.folder / "asked"
        return int(place.read_text() or 0) if place.exists() else 0

    def has_got_beyond(self, answers: int) -> bool:
        """Check whether there are more answers than these, or there will be no more."""
        return self.asked() > answers or not self.running

    def found(self) -> dict[str, Any]:
        """Wait for its end, and return what it found."""
        self._process.wait(END_S)
        place = self.folder / "found.json"
        assert place.exists(), (self.folder / "log").read_text("utf-8", "replace")[-4000:]
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Any])
