"""What was measured when: `docs/papers.json`, beside the page that shows it."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from benchmarks.measure import ROOT
from benchmarks.papers.entry import Entry, Found

FILE = ROOT / "docs" / "papers.json"


class Kept(msgspec.Struct, frozen=True):
    """A measurement with its day, the commit, the machine's load, and the seconds it took."""

    found: Found
    day: str
    commit: str
    load: float
    seconds: float


def load(file: Path = FILE) -> dict[str, Kept]:
    """Return the measurements so far, by the keys of entries."""
    if not file.exists():
        return {}
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Kept])


def known(key: str) -> Found | None:
    """Return the measurement of another entry, if there is one."""
    kept = load().get(key)
    return kept.found if kept else None


def measure(entry: Entry) -> Kept:
    """Measure an entry now."""
    assert entry.measure is not None, "only what can be measured is asked for"
    began = time.process_time()
    found = entry.measure()
    seconds = time.process_time() - began
    day = entry.day or datetime.now(UTC).date().isoformat()
    return Kept(found, day, commit(), round(os.getloadavg()[0], 1), round(seconds, 1))


def save(results: dict[str, Kept], file: Path = FILE) -> None:
    """Write all measurements, an entry a line, so that a diff shows what changed."""
    lines = [
        f"{msgspec.json.encode(key).decode()}: {msgspec.json.encode(_short(kept)).decode()}"
        for key, kept in results.items()
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _short(kept: Kept) -> Kept:
    """Round what was measured to four digits: more say nothing."""
    points = tuple(
        point if point.y is None else msgspec.structs.replace(point, y=float(f"{point.y:.4g}"))
        for point in kept.found.points
    )
    return msgspec.structs.replace(kept, found=msgspec.structs.replace(kept.found, points=points))


def commit(root: Path = ROOT) -> str:
    """Return the commit of the source, with a plus if the source differs; empty without one."""
    head = _git(root, "rev-parse", "--short", "HEAD")
    changed = _git(root, "status", "--porcelain", "--", "src", "benchmarks")
    return head and head + ("+" if changed else "")


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
