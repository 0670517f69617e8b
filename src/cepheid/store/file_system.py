"""What a store asks of a file system: bytes in, files that survive a crash out.

Every change of a store goes through these few calls, so that a test can let each of them fail.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import pyarrow as pa

Data = bytes | memoryview | pa.Buffer


class Files(Protocol):
    """The calls that change files."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist."""

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; it is on disk when this returns."""

    def publish(self, source: Path, target: Path) -> bool:
        """Give a file a second name in one step; False if the name is taken."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def sync_folder(self, path: Path) -> None:
        """Make sure that new names in a folder survive a crash."""


class LocalFiles:
    """Files of this machine, or of a network drive with hard links."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; it is on disk when this returns."""
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, source: Path, target: Path) -> bool:
        """Give a file a second name in one step; False if the name is taken.

        A link, unlike a renaming, never takes the place of a file that another writer made.
        """
        try:
            target.hardlink_to(source)
        except FileExistsError:
            return False
        return True

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Make sure that new names in a folder survive a crash."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
