"""The pointer to the newest version, so that a lost manifest is noticed.

A commit links its manifest, syncs, and then replaces the file ``newest``, which holds the number of
the version and the digest of its manifest. So the pointer is never ahead of the manifests: if it
is, a manifest was lost. It may be behind after a crash; then the newest manifest counts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cepheid.decoding import from_json
from cepheid.errors import DataError, Diagnostic
from cepheid.framing import FrameError, frame, unframe
from cepheid.store.file_system import Files, told, waiting_name

FILE = NAME = "newest"
FORMAT = 1


class Newest(msgspec.Struct, frozen=True):
    """The number of a version and the digest of its manifest; empty if it was not looked at."""

    version: int
    digest: str = ""


def read_newest(folder: Path) -> Newest | None:
    """Read the pointer; None if there is none.

    Raises
    ------
    DataError
        E542 if it is damaged.
    """
    path = folder / FILE
    with told(path):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return from_json(unframe(data, NAME, FORMAT), Newest)
    except (FrameError, msgspec.MsgspecError) as error:
        message = f"`{path}` is damaged: {error}"
        raise DataError([Diagnostic("E542", message, helps=(_recover(folder),))]) from error


def pack_newest(newest: Newest) -> bytes:
    """Serialise the pointer."""
    return frame(NAME, FORMAT, msgspec.json.encode(newest))


def ensure_newest(files: Files, folder: Path, version: int) -> None:
    """Make the pointer of a store that has none: a new one, or one of an older Cepheid."""
    if (folder / FILE).exists():
        return
    waiting = waiting_name(folder, NAME)
    try:
        files.write(waiting, pack_newest(Newest(version)))
        files.publish(waiting, folder / FILE)
    finally:
        files.remove(waiting)
    files.sync_folder(folder)


def _recover(folder: Path) -> str:
    return (
        f"restore it from a copy, or go back to a whole version: `cepheid store recover {folder}`"
    )


def lost(folder: Path, wanted: str, found: str) -> DataError:
    """Build the error for a manifest or a pointer that is missing."""
    message = f"{wanted} of the store `{folder}` is missing, {found}"
    return DataError([Diagnostic("E548", message, helps=(_recover(folder),))])
