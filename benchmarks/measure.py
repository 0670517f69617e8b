"""Run tasks in processes of their own, with a time limit: tasks in, measurements out."""

from __future__ import annotations

import contextlib
import re
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
    stopped: list[float] = []
    for limit_s in limits_s:
        timer = threading.Timer(limit_s, _stop, (child, stopped))
        timer.start()
        lines.append(child.stdout.readline())
        timer.cancel()
        if lines[-1].startswith("{"):
            break
    child.stdout.close()
    child.wait()
    if lines[-1].startswith("{"):
        return msgspec.json.decode(lines[-1], type=Measurement)
    if stopped and len(lines) == len(limits_s):
        return Measurement(task, "limit", peak_mb=stopped[0])
    reason = "did not become ready" if stopped else f"exit status {child.returncode}"
    return Measurement(task, "failed", message=reason)


def _stop(child: subprocess.Popen[str], peaks_mb: list[float]) -> None:
    peaks_mb.append(peak_mb(child.pid))
    child.kill()


def peak_mb(process: int | str = "self") -> float:
    """Return the peak memory of a process that lives, in MB; 0 if it has just ended.

    ``ru_maxrss`` does not tell: a child inherits it from its parent, over fork and exec.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return 0.0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) / KB_PER_MB if found else 0.0


def forget_peak() -> None:
    """Let the peak memory of this process start from now, where Linux permits it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
