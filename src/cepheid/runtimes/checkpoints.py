"""Look into a checkpoint, and repair one whose driver was killed before its first micro-batch.

Spark plans a micro-batch by a file ``offsets/N``, which it writes under a temporary name and then
renames. If the driver is killed before the first rename, no micro-batch has started and no row was
emitted, but the temporary file keeps Spark from starting: it wants ``offsets`` to be empty.
"""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import msgspec

from cepheid.decoding import from_json

BUCKETS_SETTING = "spark.cepheid.buckets"
"""The setting of a Spark session for the number of buckets of live queries."""
BUCKETS_MAX = 1000

_NOTE = "_cepheid.json"
_TASKS = "spark.sql.shuffle.partitions"

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


class Move(msgspec.Struct, frozen=True):
    """Buckets that move to another number of tasks: Spark takes the number of a micro-batch."""

    number: int
    tasks: int


class Note(msgspec.Struct, frozen=True):
    """The notes that Cepheid writes into a checkpoint that it starts.

    Attributes
    ----------
    buckets
        The number of buckets of the query.
    first_batch
        What is added to the numbers of micro-batches for the sink, which has others of a query
        before this one.
    since, backfill
        The time from which on live events count, and the store that has those before it.
    move
        What was begun when the query was stopped for the last time.
    """

    buckets: int
    first_batch: int = 0
    since: str | None = None
    backfill: str | None = None
    move: Move | None = None


def read_note(checkpoint: Path) -> Note | None:
    """Read the note of a checkpoint; None if it is new.

    Earlier versions of Cepheid wrote none. They had as many buckets as tasks, and Spark notes the
    number of these with every plan.
    """
    note = checkpoint / _NOTE
    if note.is_file():
        return from_json(note.read_bytes(), Note)
    planned = last_planned(checkpoint)
    return None if planned < 0 else Note(tasks_of(checkpoint, planned))


def last_planned(checkpoint: Path) -> int:
    """Return the number of the last micro-batch that was planned, -1 if there is none."""
    return _last(checkpoint / "offsets")


def tasks_of(checkpoint: Path, number: int) -> int:
    """Return the number of tasks of a micro-batch, by its plan."""
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return int(msgspec.json.decode(lines[1])["conf"][_TASKS])


def write_note(checkpoint: Path, note: Note) -> None:
    """Write the note of a new checkpoint."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    waiting = checkpoint / f"{_NOTE}.tmp"
    waiting.write_bytes(msgspec.json.encode(note))
    waiting.replace(checkpoint / _NOTE)


def set_aside(checkpoint: Path) -> tuple[Path, int] | None:
    """Rename a checkpoint, so that another one can start; None if there is none.

    Returns its new name, and the number that follows its last micro-batch in the sink.
    """
    known = read_note(checkpoint)
    if known is None:
        return None
    following = known.first_batch + _last(checkpoint / "offsets") + 1
    number = next(n for n in count(1) if not _beside(checkpoint, n).exists())
    aside = _beside(checkpoint, number)
    checkpoint.rename(aside)
    return aside, following


def _beside(checkpoint: Path, number: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}-{number}")
