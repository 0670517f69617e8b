"""The file-system calls of a store: each write is durable or fails as a whole.

Every change of a store goes through these few calls, so that a test can let each of them fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic

Data = bytes | memoryview | pa.Buffer


class Files(Protocol):
    """The calls that change files."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist."""

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; it is on disk when this returns."""

    def publish(self, source: Path, target: Path) -> bool:
        """Link a file under a second name atomically; return False if the name is taken."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, so that new names in it survive a crash."""


def unusable(path: Path, why: str) -> DataError:
    """Build the error for a folder or file that the system does not let us use."""
    helps = ("name a folder that this process may read and write, on a disk with space",)
    return DataError([Diagnostic("E549", f"the store cannot use `{path}`: {why}", helps=helps)])


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Convert an OS error about a file to diagnostic E549."""
    try:
        yield
    except OSError as error:
        raise unusable(path, error.strerror or str(error)) from error
    except ValueError as error:  # A name with a NUL.
        raise unusable(path, str(error)) from error


class LocalFiles:
    """Files of this machine, or of a network drive with hard links.

    A call that the operating system refuses raises E549.
    """

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist."""
        with told(path):
            path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; it is on disk when this returns."""
        with told(path), path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def publish(self, source: Path, target: Path) -> bool:
        """Link a file under a second name atomically; return False if the name is taken.

        A link, unlike a rename, never replaces a file that another writer made.
        """
        with told(target):
            try:
                target.hardlink_to(source)
            except FileExistsError:
                return False
            return True

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        with told(path):
            path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, so that new names in it survive a crash."""
        with told(path):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
