"""Find the files of a rules log that no micro-batch can read again.

Spark keeps the offsets of its last micro-batches (``spark.sql.streaming.minBatchesToRetain``), and
may repeat those after the oldest of them. Its log of a source says with which offset it read a
file:

    offsets/N     "v1", metadata, then the offset of every source: {"logOffset": 7}
    sources/I/    "v1", then a line for every file: {"path": ..., "batchId": 7}

Whatever looks different is left alone: then all files stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cepheid.decoding import from_json

_ENTRY = re.compile(rb'"path":"[^"]*/([^"/]+)/([^"/]+)".*"batchId":(\d+)')
_VERSION = b"v1"
_FIRST = 2
"""Lines of a file of offsets before those of sources."""


class _Offset(msgspec.Struct, rename="camel"):
    log_offset: int


def files_behind(checkpoint: Path, folder: str) -> set[str]:
    """Return the names of files in a folder that only micro-batches before the oldest one read."""
    oldest = oldest_kept(checkpoint)
    if oldest is None:
        return set()
    try:
        lines = (checkpoint / "offsets" / str(oldest)).read_bytes().splitlines()
        if lines[:1] != [_VERSION]:
            return set()
        # The log is the last source, and others may have read many files.
        for place, line in reversed(list(enumerate(lines[_FIRST:]))):
            read = _read_files(checkpoint / "sources" / str(place), folder.encode())
            if read and line != b"-":
                until = from_json(line, _Offset).log_offset
                return {name for name, offset in read.items() if offset <= until}
    except (OSError, msgspec.MsgspecError):
        pass  # Spark writes and removes these files meanwhile, or writes them in another way.
    return set()


def oldest_kept(checkpoint: Path) -> int | None:
    """Find the oldest micro-batch whose offsets Spark keeps; None if it may be repeated itself."""
    numbers = _numbers(checkpoint / "offsets")
    committed = _numbers(checkpoint / "commits")
    oldest = min(numbers, default=None)
    return oldest if oldest in committed else None


def _numbers(folder: Path) -> set[int]:
    names: Iterable[Path] = folder.iterdir() if folder.is_dir() else ()
    return {int(path.name) for path in names if path.name.isdigit()}


def _read_files(log: Path, folder: bytes) -> dict[str, int]:
    """Read with which offset each file of a folder was read."""
    found: dict[str, int] = {}
    for path in sorted(log.iterdir()) if log.is_dir() else ():
        first, *lines = path.read_bytes().splitlines() or [b""]
        if path.name.startswith(".") or first != _VERSION:
            continue
        for line in lines:
            entry = _ENTRY.search(line)
            if entry is not None and entry[1] == folder:
                found[entry[2].decode()] = int(entry[3])
    return found
