"""Time and memory of this process and all that it started, from Linux's own books."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants() -> list[int]:
    """Return this process and those below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields:
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        found += parents.get(pid, [])
    return found


def cpu_seconds() -> float:
    """Return the time that all of them have worked; those that ended count with their parents."""
    times = [_fields(pid)[11:15] for pid in descendants()]
    return sum(float(value) for four in times for value in four) / _TICK


def resident_bytes(command: str = "") -> int:
    """Return the memory that all of them hold, or those of a command.

    What several share counts several times.
    """
    pids = [pid for pid in descendants() if command in _command(pid)]
    return sum(int((_fields(pid) or ["0"] * 22)[21]) * _PAGE for pid in pids)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _fields(pid: int) -> list[str]:
    """Return what follows the name of a process in its line of numbers, or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
