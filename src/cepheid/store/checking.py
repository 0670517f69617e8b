"""Verify the checksums of a store's files, and remove files that no version uses."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa

from cepheid.errors import DataError
from cepheid.store.file_system import Files
from cepheid.store.manifest import Manifest, StoredFile, list_versions, load_manifest, path_of
from cepheid.store.segments import DATA_FOLDER, INDEX_FOLDER
from cepheid.store.snapshot import Snapshot

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


def remove_leftovers(
    files: Files, folder: Path, manifest: Manifest | None, older_than_s: float
) -> list[Path]:
    """Remove old files that no version in use names, and return their names."""
    before = time.time() - older_than_s
    needed = set() if manifest is None else {file.name for file in manifest.files()}
    versions = list_versions(folder)
    for version, later in pairwise(versions):
        # A version is read until the next one comes, and by some for a while after that.
        if _changed_at(path_of(folder, later)) > before:
            needed |= _names(folder, version)
    found = [
        path
        for name in (DATA_FOLDER, INDEX_FOLDER)
        for path in sorted((folder / name).glob("*"))
        if f"{name}/{path.name}" not in needed
    ]
    found += sorted(folder.glob(".manifest-*.tmp"))
    found += [path_of(folder, version) for version in versions[:-MANIFESTS_KEPT]]
    removed = []
    for path in found:
        if _changed_at(path) <= before:
            files.remove(path)
            removed.append(path)
    return removed


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
