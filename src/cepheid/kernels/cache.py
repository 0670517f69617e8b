"""Keep compiled kernels in one folder for each user, version and kind of processor.

A file holds one kernel for one tuple of argument types. The folder's name is a digest of the
sources of all kernels, the versions of Python, numpy, numba and LLVM, and the processor: a kernel
contains the code of those that it calls, so a change of any kernel invalidates all of them. Files
are renamed into place, so that any number of processes can share the folder.

The files hold executable code. A folder is used only if nobody but its owner, who runs the process,
can write to it or to a parent folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from cepheid.framing import FrameError, frame, unframe
from cepheid.kernels.signature import of_values

try:
    import fcntl
except ImportError:  # Windows has none, and may compile a kernel twice.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from cepheid.kernels.tiers import Kernel

VARIABLE = "CEPHEID_CACHE"
"""The environment variable that names another folder than the user's."""
_NAME, _VERSION = "kernel", 3
_NO_CODE = {
    "build_signatures.py", "cache.py", "costs.py", "linear_arrays.py", "linking.py",
    "next_match_arrays.py", "pane_arrays.py", "prefix_arrays.py", "signature.py", "tiers.py",
    "warm.py", "watch.py",
}  # fmt: skip
"""Sources that affect when kernels are compiled, but not the result."""
_BROKEN = (
    zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError
)  # fmt: skip
"""Exceptions of reading a damaged archive, including an unknown compression method."""
_DAY_S = 86_400.0
_UNUSED_DAYS = 60


def _nothing() -> Path | None:
    return None


shipped: Callable[[], Path | None] = _nothing
"""Finds the archive of kernels that was shipped with a job, if there is one."""


def root() -> Path:
    """Return the folder that holds the folders of all versions."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    import platformdirs  # Takes a moment, and most small runs never look into the cache.

    return platformdirs.user_cache_path("cepheid") / "kernels"


@functools.cache
def key() -> str:
    """Compute the folder name for these sources, libraries and this processor."""
    digest = hashlib.sha256()
    # Spark ships the package as an archive, which has no folder to look into.
    sources = resources.files("cepheid.kernels").iterdir()
    for source in sorted(sources, key=lambda source: source.name):
        if source.name.endswith(".py") and source.name not in _NO_CODE:
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for name in ("numba", "llvmlite", "numpy"):
        digest.update(f"{name} {_version(name)}\n".encode())
    digest.update(f"{_NAME} {_VERSION}\n".encode())
    digest.update(f"{sys.implementation.cache_tag} {_processor()}".encode())
    return digest.hexdigest()[:32]


def _version(library: str) -> str:
    """Look up the version of a library in its own folder.

    Spark puts archives of thousands of files on the path of its workers; searching them for three
    versions takes longer than a small task.
    """
    spec = importlib.util.find_spec(library)
    if spec is not None and spec.origin is not None:
        place = str(Path(spec.origin).parents[1])
        for found in importlib.metadata.distributions(name=library, path=[place]):
            return found.version
    return importlib.metadata.version(library)


def _processor() -> str:
    """Describe the processor by a text that differs whenever machine code does."""
    lines = []
    try:
        with Path("/proc/cpuinfo").open() as file:
            for line in file:
                if line.startswith(("model name", "flags", "Features", "CPU part")):
                    lines.append(" ".join(line.split()))
                elif not line.strip():
                    break
    except OSError:
        lines.append(platform.processor())
    return f"{platform.system()} {platform.machine()} {'; '.join(lines)}"


def why_unsafe(folder: Path) -> str:
    """Explain why others could write code into a folder; empty if they cannot."""
    if not hasattr(os, "geteuid"):
        return ""  # Windows keeps the folders of users apart.
    user = os.geteuid()
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        try:
            status = place.stat()
        except FileNotFoundError:
            continue  # It will be created with the rights of this process.
        except OSError as error:
            return f"{place} cannot be looked at: {error.strerror}"
        if status.st_uid not in {user, 0} or (place == folder and status.st_uid != user):
            return f"{place} belongs to another user"
        # In a folder with the sticky bit, such as /tmp, others cannot replace our files.
        loose = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if loose and (place == folder or not status.st_mode & stat.S_ISVTX):
            return f"others can write to {place}"
    return ""


@functools.cache
def _checked(folder: Path) -> Path | None:
    if why_unsafe(folder):
        return None
    if folder.is_dir() and time.time() - folder.stat().st_mtime > _DAY_S:
        try:
            os.utime(folder)  # Says that this version is still in use.
        except OSError:
            return folder
    return folder


def folder() -> Path | None:
    """Return the folder of this version; None if it is not safe."""
    return _checked(root() / key())


def name_of(kernel_name: str, signature: str, *, entry: bool) -> str:
    """Build the file name of a kernel for some types."""
    digest = hashlib.sha256(signature.encode()).hexdigest()[:24]
    return f"{kernel_name}-{'entry' if entry else 'inner'}-{digest}"


def has(kernel: Kernel, arguments: tuple[Any, ...]) -> bool:
    """Check whether the cache holds a kernel for the types of some arguments."""
    name = name_of(kernel.name, of_values(arguments), entry=True)
    own, archive = folder(), _archive()
    if own is not None and (own / name).exists():
        return True
    return archive is not None and name in archive.NameToInfo


@functools.cache
def _open_archive(path: Path) -> zipfile.ZipFile | None:
    try:
        if why_unsafe(path):
            return None
        return zipfile.ZipFile(path)
    except _BROKEN:
        return None


def _archive() -> zipfile.ZipFile | None:
    path = shipped()
    return None if path is None else _open_archive(path)


class Entry(NamedTuple):
    """The content of a file: a kernel, its types, its compile time, and the code.

    ``linkable`` is for ``linking.py``, empty if only numba can load the kernel; numba reads
    ``body``.
    """

    kernel: str
    signature: str
    seconds: float
    linkable: bytes
    body: bytes


def load(name: str) -> Entry | None:
    """Load a kernel; None if it is missing, truncated or changed."""
    own, archive = folder(), _archive()
    entry = read(own / name) if own is not None else None
    if entry is None and archive is not None and name in archive.NameToInfo:
        try:
            return _parse(archive.read(name), name)
        except _BROKEN:
            return None
    return entry


def read(place: Path) -> Entry | None:
    """Read a file that only this user can write; None otherwise."""
    try:
        with place.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read()
    except OSError:
        return None
    if hasattr(os, "geteuid") and (
        status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        return None
    return _parse(text, place.name)


def _parse(text: bytes, name: str) -> Entry | None:
    """Decode the content of a file, if it is intact and was written under its name."""
    try:
        rest = bytes(unframe(text, _NAME, _VERSION))
    except FrameError:
        return None
    owner, kernel, signature, numbers, body = rest.split(b"\n", 4)
    if owner.decode() != name:
        return None
    seconds, length = numbers.split()
    linkable, body = body[: int(length)], body[int(length) :]
    return Entry(kernel.decode(), signature.decode(), float(seconds), linkable, body)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait while another process of this user compiles the same kernel."""
    file = _lock_file(name)
    if file is None:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_file(name: str) -> IO[str] | None:
    place = folder()
    if place is None or fcntl is None:
        return None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return (place / f".{name}.lock").open("w")
    except OSError:
        return None


def save(name: str, entry: Entry) -> None:
    """Write a file atomically; a read-only folder is not an error."""
    place = folder()
    if place is None:
        return
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(place.iterdir()):
            _forget_unused(place)
        handle, temporary = tempfile.mkstemp(prefix=".", dir=place)
        numbers = f"{entry.seconds:.3f} {len(entry.linkable)}"
        head = f"{name}\n{entry.kernel}\n{entry.signature}\n{numbers}\n"
        rest = head.encode() + entry.linkable + entry.body
        with os.fdopen(handle, "wb") as file:
            file.write(frame(_NAME, _VERSION, rest))
        Path(temporary).replace(place / name)
    except OSError:
        return


def _forget_unused(place: Path) -> None:
    """Remove the folders of versions that have not been used for long."""
    for other in place.parent.iterdir():
        if other != place and time.time() - other.stat().st_mtime > _UNUSED_DAYS * _DAY_S:
            shutil.rmtree(other, ignore_errors=True)
