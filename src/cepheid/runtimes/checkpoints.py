"""Look into a checkpoint, and repair one whose driver was killed before its first micro-batch.

Spark plans a micro-batch by a file ``offsets/N``, which it writes under a temporary name and then
renames. If the driver is killed before the first rename, no micro-batch has started and no row was
emitted, but the temporary file keeps Spark from starting: it wants ``offsets`` to be empty.
"""

from __future__ import annotations

import re
from pathlib import Path

_LEFTOVER = re.compile(r"\.{1,2}0\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(\.crc)?")
"""Names that Spark and Hadoop give to a file that is being written, and to its checksum."""


def is_unfinished(checkpoint: Path) -> bool:
    """Check whether a micro-batch was planned and not finished: Spark runs it again."""
    planned, finished = (_last(checkpoint / name) for name in ("offsets", "commits"))
    return planned > finished


def _last(log: Path) -> int:
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


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
