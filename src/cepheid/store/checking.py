"""Verify the checksums of a store's files, and remove files that no version uses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa

from cepheid.errors import DataError
from cepheid.store.manifest import Manifest, StoredFile, list_versions, load_manifest, path_of
from cepheid.store.segments import DATA_FOLDER, INDEX_FOLDER
from cepheid.store.snapshot import Snapshot
from cepheid.store.turns import is_gone, list_writers

MANIFESTS_KEPT = 10
"""The number of older manifests that are kept."""


class Report(msgspec.Struct, frozen=True):
    """The result of :meth:`EventStore.verify`: files and bytes read, and the damage found."""

    files: int
    size: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Check whether every file is intact."""
        return not self.problems


def check_files(snapshot: Snapshot) -> Report:
    """Compare all files of a version with their checksums."""
    manifest = snapshot.manifest
    wanted: list[tuple[StoredFile, Path]] = []
    for segment in manifest.segments:
        wanted.append((segment.data, snapshot.path(segment.data, data=True)))
        beside = (segment.blocks, *segment.indexes.values())
        wanted += [(file, snapshot.path(file)) for file in beside]
    found = [_problem(file, path) for file, path in wanted]
    size = sum(file.size for file, _ in wanted)
    return Report(len(wanted), size, tuple(problem for problem in found if problem))


def _problem(file: StoredFile, path: Path) -> str:
    if not path.is_file():
        return f"`{path}` is missing"
    size = path.stat().st_size
    if size != file.size:
        return f"`{path}` has {size:,} bytes, not {file.size:,}"
    with pa.memory_map(str(path)) as source:
        found = StoredFile.of(file.name, source.read_buffer())
    return "" if found == file else f"`{path}`: the checksum is wrong"


def find_leftovers(folder: Path, manifest: Manifest, now: float, age_s: float) -> list[Path]:
    """List the files of events and indexes of an age that no version in use names.

    Files of living writers are none of them, however old they are.
    """
    before = now - age_s
    needed = {file.name for file in manifest.files()}
    for version, later in pairwise(list_versions(folder)):
        # A version is read until the next one comes, and by some for a while after that.
        if _changed_at(path_of(folder, later)) > before:
            needed |= _names(folder, version)
    living = [writer.key for writer in list_writers(folder) if not is_gone(writer, now)]
    return [
        path
        for name in (DATA_FOLDER, INDEX_FOLDER)
        for path in sorted((folder / name).glob("*"))
        if f"{name}/{path.name}" not in needed
        and not any(key in path.name for key in living)
        and _changed_at(path) <= before
    ]


def find_old_notes(folder: Path, now: float, age_s: float) -> list[Path]:
    """List small files that nobody needs: old manifests, and those of crashes and dead writers."""
    found = sorted(folder.glob(".*.tmp"))
    found += [path_of(folder, version) for version in list_versions(folder)[:-MANIFESTS_KEPT]]
    found += [writer.path for writer in list_writers(folder) if is_gone(writer, now)]
    return [path for path in found if _changed_at(path) <= now - age_s]


def missing_files(folder: Path, files: Iterable[StoredFile]) -> list[str]:
    """List the names of files that are gone or have another length."""
    return [file.name for file in files if _size_of(folder / file.name) != file.size]


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _names(folder: Path, version: int) -> set[str]:
    """Collect the files of a version; a damaged version has no readers and so no files."""
    try:
        return {file.name for file in load_manifest(folder, version).files()}
    except DataError:
        return set()


def _changed_at(path: Path) -> float:
    """Look up when a file was written; a file removed meanwhile counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return math.inf
