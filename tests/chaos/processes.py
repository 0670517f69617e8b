"""Drivers as processes: start them, find their JVM and their workers, and kill what is drawn."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.driver import GO

ROOT = Path(__file__).parents[2]
DAEMON = b"spark_daemon"
"""A part of the command of the process that forks the workers."""
END_S = 60
FULL_BYTES = 0
"""How large a file may be while the disk is full."""


class Driver:
    """A process that gets ready, and begins when it is told to."""

    def __init__(self, folder: Path, module: str = "tests.chaos.driver", **settings: str) -> None:
        self.folder = folder
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(folder)],
                env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable} | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Check whether it has not ended."""
        return self.process.poll() is None

    def begin(self) -> None:
        """Let it work."""
        (self.folder / GO).touch()

    def jvm(self) -> int | None:
        """Find its JVM."""
        found = [pid for pid in children(self.process.pid) if b"java" in command(pid)]
        return found[0] if found else None

    def workers(self) -> list[int]:
        """Find the processes that run its tasks."""
        jvm = self.jvm()
        daemons = [] if jvm is None else [one for one in children(jvm) if DAEMON in command(one)]
        return [worker for daemon in daemons for worker in children(daemon)]

    def kill_worker(self, chance: random.Random) -> bool:
        """Kill one worker, if there are any: one that works, rather than one that waits."""
        found = self.workers()
        working = [pid for pid in found if is_working(pid)]
        return bool(found) and kill(chance.choice(working or found))

    def kill(self, what: str) -> None:
        """Kill the program, its JVM, or both; wait until nothing of it writes any more."""
        jvm = self.jvm()
        if what != "driver" and jvm is not None:
            kill(jvm)
        if what != "JVM":
            kill(self.process.pid)
        self.end()

    def kill_all(self) -> None:
        """Kill the program, its JVM and its workers at once."""
        for pid in [self.process.pid, *group(self.process.pid)]:
            kill(pid)
        self.process.wait()
        (self.folder / GO).unlink(missing_ok=True)

    def end(self) -> None:
        """Wait for its end, and enforce it after a minute."""
        begun = time.monotonic()
        while time.monotonic() - begun < END_S and (self.running or group(self.process.pid)):
            time.sleep(0.05)
        for pid in group(self.process.pid):
            kill(pid)
        self.process.wait()
        (self.folder / GO).unlink(missing_ok=True)

    def fill_disk(self, *, full: bool) -> None:
        """Let no file grow in the whole driver as if the disk were full; or end that."""
        limit = FULL_BYTES if full else resource.RLIM_INFINITY
        jvm = self.jvm()
        for pid in [self.process.pid, *([] if jvm is None else [jvm]), *self.workers()]:
            try:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            except ProcessLookupError:
                continue


def kill(pid: int) -> bool:
    """Kill a process; return whether it was there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def group(leader: int) -> list[int]:
    """List the processes that live in the group of a process."""
    return [pid for pid, fields in _all() if int(fields[2]) == leader and fields[0] != b"Z"]


def children(parent: int) -> list[int]:
    """List the children of a process."""
    return [pid for pid, fields in _all() if int(fields[1]) == parent and fields[0] != b"Z"]


def is_working(pid: int) -> bool:
    """Check whether a process computes at this moment."""
    return any(one == pid and fields[0] == b"R" for one, fields in _all())


def command(pid: int) -> bytes:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _all() -> list[tuple[int, list[bytes]]]:
    """List all processes with their state, parent and group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue
            # The name of the program may hold spaces and brackets.
            found.append((int(entry.name), stat[stat.rindex(b")") + 2 :].split()[:3]))
    return found
