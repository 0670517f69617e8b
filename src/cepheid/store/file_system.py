"""The file-system calls of a store: each write is durable or fails as a whole.

Every change of a store goes through these few calls, so that a test can let each of them fail, or
cut the power between two of them.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cepheid.errors import DataError, Diagnostic

Data = bytes | memoryview | pa.Buffer

_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class Writes(Protocol):
    """The call that writes files."""

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; its bytes are on disk when this returns, its name is not yet."""


class Files(Writes, Protocol):
    """The calls that change files."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist; their names are on disk."""

    def publish(self, source: Path, target: Path) -> bool:
        """Link a file under a second name atomically; return False if the name is taken."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file atomically; a file that had the name is gone."""

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, so that new names in it survive a crash."""

    def mark(self, path: Path, data: bytes) -> None:
        """Make or refresh a file that need not survive a crash: its time is now."""


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


@contextmanager
def told_of_write(path: Path) -> Iterator[None]:
    """Convert an OS error about a write: E556 if the disk is full, E557 if it is read-only."""
    with told(path):
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                message = f"the disk is full: `{path}` could not be written"
                helps = ("free some space, for example with `cepheid store clean`, and try again",)
                raise DataError([Diagnostic("E556", message, helps=helps)]) from error
            if error.errno in _READ_ONLY:
                why = error.strerror or str(error)
                message = f"the store can be read but not changed, because of `{path}`: {why}"
                helps = ("let this process write to the folder of the store, or copy the store",)
                raise DataError([Diagnostic("E557", message, helps=helps)]) from error
            raise


class LocalFiles:
    """Files of this machine, or of a network drive with hard links.

    A call that the operating system refuses raises E549, E556 or E557.
    """

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, if they do not exist; their names are on disk."""
        with told_of_write(path):
            made = [place for place in (path, *path.parents) if not place.exists()]
            for place in reversed(made):
                self.enter_folder(place)
                self.sync_folder(place.parent)
            if not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def enter_folder(self, path: Path) -> None:
        """Make one folder; another process may make it too."""
        path.mkdir(exist_ok=True)

    def write(self, path: Path, data: Data) -> None:
        """Write a new file; its bytes are on disk when this returns, its name is not yet.

        A file that could not be written whole is removed: it may be what fills the disk.
        """
        with told_of_write(path):
            try:
                self.create(path, data)
                self.sync_file(path)
            except FileExistsError:
                raise
            except OSError:
                path.unlink(missing_ok=True)
                raise

    def create(self, path: Path, data: Data) -> None:
        """Write a new file, which may still be in memory only."""
        with path.open("xb") as file:
            file.write(data)

    def sync_file(self, path: Path) -> None:
        """Wait until the bytes of a file are on disk."""
        _sync(path)

    def publish(self, source: Path, target: Path) -> bool:
        """Link a file under a second name atomically; return False if the name is taken.

        A link, unlike a rename, never replaces a file that another writer made.
        """
        with told_of_write(target):
            try:
                target.hardlink_to(source)
            except FileExistsError:
                return False
            return True

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file atomically; a file that had the name is gone."""
        with told_of_write(target):
            source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        with told_of_write(path):
            path.unlink(missing_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder, so that new names in it survive a crash."""
        with told(path):
            _sync(path)

    def mark(self, path: Path, data: bytes) -> None:
        """Make or refresh a file that need not survive a crash: its time is now."""
        with told_of_write(path):
            try:
                os.utime(path)
            except FileNotFoundError:
                path.write_bytes(data)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def waiting_name(folder: Path, name: str) -> Path:
    """Build a name for a file that is about to get its own name; crashes may leave it behind."""
    return folder / f".{name}-{uuid.uuid4().hex}.tmp"
