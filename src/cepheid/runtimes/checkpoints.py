"""What a killed driver leaves of a checkpoint that has no micro-batch yet.

Spark plans a micro-batch by a file ``offsets/N``, written under another name and then renamed.
Killed before the first one is renamed, nothing has begun and nothing has left, but the leftover
keeps Spark from starting: it wants ``offsets`` to be empty.
"""

from __future__ import annotations

import re
from pathlib import Path

_LEFTOVER = re.compile(r"\.{1,2}0\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp(\.crc)?")
"""How Spark and Hadoop call a file that is being written, and its checksum."""


def clear_unplanned(checkpoint: Path) -> bool:
    """Remove the leftovers of a first plan that was never complete; return whether any were there.

    Nothing else is touched, and nothing at all once there is a plan.
    """
    offsets = checkpoint / "offsets"
    names = {path.name for path in offsets.iterdir()} if offsets.is_dir() else set()
    left = {name for name in names if _LEFTOVER.fullmatch(name)}
    if not left or left != names:
        return False
    for name in left:
        (offsets / name).unlink(missing_ok=True)
    return True
