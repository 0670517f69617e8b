"""Look into a checkpoint: what it was started with, and whether its first micro-batch was planned.

Spark plans a micro-batch by a file ``offsets/N``, which it writes under a temporary name and then
renames. If the driver is killed before the first rename, no micro-batch has started and no row was
emitted, but the temporary file keeps Spark from starting: it wants ``offsets`` to be empty.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

BUCKETS_SETTING = "spark.cepheid.buckets"
"""The setting of a Spark session for the number of buckets of live queries."""

_NOTE = "_cepheid.json"
_TASKS = "spark.sql.shuffle.partitions"

_LEFTOVER = re.compile(r"\.{1,2}0\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(\.crc)?")
"""Names that Spark and Hadoop give to a file that is being written, and to its checksum."""


def clear_unplanned(checkpoint: Path) -> bool:
    """Remove the temporary files of an incomplete first plan; return True if there were any.

    No other file is touched, and none at all once there is a plan.
    """
    offsets = checkpoint / "offsets"
    names = {path.name for path in offsets.iterdir()} if offsets.is_dir() else set()
    left = {name for name in names if _LEFTOVER.fullmatch(name)}
    if not left or left != names:
        return False
    for name in left:
        (offsets / name).unlink(missing_ok=True)
    return True


def buckets_in(checkpoint: Path) -> int | None:
    """Read the number of buckets that a checkpoint was started with; None if it is new.

    Earlier versions of Cepheid had as many buckets as tasks, which Spark notes with every plan.
    """
    note = checkpoint / _NOTE
    if note.is_file():
        return int(json.loads(note.read_text(encoding="utf-8"))["buckets"])
    offsets = checkpoint / "offsets"
    names = [path.name for path in offsets.iterdir()] if offsets.is_dir() else []
    numbers = [int(name) for name in names if name.isdecimal()]
    if not numbers:
        return None
    lines = (offsets / str(max(numbers))).read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[1])["conf"][_TASKS])


def note_buckets(checkpoint: Path, buckets: int) -> None:
    """Note the number of buckets of a new checkpoint."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    note = checkpoint / _NOTE
    waiting = note.with_suffix(".tmp")
    waiting.write_text(json.dumps({"buckets": buckets}), encoding="utf-8")
    waiting.replace(note)
