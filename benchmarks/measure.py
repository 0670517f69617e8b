"""Run tasks in processes of their own, with a time limit: tasks in, measurements out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
from benchmarks.tasks import Measurement, Task

ROOT = Path(__file__).resolve().parents[1]
SETUP_LIMIT_S = 300.0
"""The time to compile, and to make the largest input."""

KB_PER_MB = 1024


def measure(task: Task) -> Measurement:
    """Measure a task; a process that exceeds the limit is stopped."""
    command = [sys.executable, "-m", "benchmarks.child", msgspec.json.encode(task).decode()]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None, "the process writes into a pipe"
    # A method that watches the clock itself gets a moment to say so.
    limits_s = (SETUP_LIMIT_S, task.limit_s + 0.5)
    lines: list[str] = []
    stopped = threading.Event()
    for limit_s in limits_s:
        timer = threading.Timer(limit_s, _stop, (child, stopped))
        timer.start()
        lines.append(child.stdout.readline())
        timer.cancel()
        if lines[-1].startswith("{"):
            break
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    peak_mb = usage.ru_maxrss / KB_PER_MB
    if lines[-1].startswith("{"):
        found = msgspec.json.decode(lines[-1], type=Measurement)
        return msgspec.structs.replace(found, peak_mb=found.peak_mb or peak_mb)
    if stopped.is_set() and len(lines) == len(limits_s):
        return Measurement(task, "limit", peak_mb=peak_mb)
    reason = "did not become ready" if stopped.is_set() else f"exit status {child.returncode}"
    return Measurement(task, "failed", peak_mb=peak_mb, message=reason)


def _stop(child: subprocess.Popen[str], stopped: threading.Event) -> None:
    stopped.set()
    child.kill()
