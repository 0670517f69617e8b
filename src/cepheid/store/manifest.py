"""The manifest: which files a store consists of, as one small file for each version.

A version is committed by giving its manifest the name ``manifest-<number>.json``, which fails if
another writer has taken the number. So a version is there as a whole or not at all, and of two
writers one is first. Files that no manifest names are left over from a crash and mean nothing.
"""

from __future__ import annotations

import re
import uuid
import zlib
from base64 import b64decode, b64encode
from pathlib import Path

import msgspec
import pyarrow as pa

from cepheid.errors import DataError, Diagnostic
from cepheid.store.file_system import Data, Files

FORMAT = 2
"""Goes up whenever older versions of Cepheid can no longer read a store."""

_NAME = re.compile(r"manifest-(\d{10})\.json")


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a store, its length and the CRC-32 of its bytes."""

    name: str
    size: int
    checksum: int

    @staticmethod
    def of(name: str, data: Data) -> StoredFile:
        """Return what there is to know about a file that holds some bytes."""
        return StoredFile(name, len(data), zlib.crc32(data))


class Segment(msgspec.Struct, frozen=True):
    """Events in the order of time, in one Parquet file that never changes.

    ``side`` says that they came after later events had been stored.
    """

    data: StoredFile
    rows: int
    first: int
    last: int
    blocks: StoredFile
    indexes: dict[str, StoredFile] = {}
    side: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """A version of a store. Of equal times, those of an earlier segment in the list came first.

    ``floor`` is the time before which nothing exists any more. ``batches`` has for every source
    the number of its last batch, so that a batch which is sent again is not stored again.
    """

    version: int
    time: str
    columns: str
    segments: tuple[Segment, ...] = ()
    indexed: tuple[str, ...] = ()
    floor: int | None = None
    batches: dict[str, int] = {}
    folder: str | None = None
    format: int = FORMAT

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the events."""
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self.columns)))

    @property
    def rows(self) -> int:
        """Return the number of events in the files, also of those below the floor."""
        return sum(segment.rows for segment in self.segments)

    def files(self) -> list[StoredFile]:
        """Return all files but the manifest itself; those of others that are read in place too."""
        return [
            file
            for segment in self.segments
            for file in (segment.data, segment.blocks, *segment.indexes.values())
        ]


def pack_schema(schema: pa.Schema) -> str:
    """Return a schema as text."""
    return b64encode(schema.serialize().to_pybytes()).decode()


def list_versions(folder: Path) -> list[int]:
    """Return the versions of a store, in order."""
    if not folder.is_dir():
        return []
    found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(match[1]) for match in found if match)


def path_of(folder: Path, version: int) -> Path:
    """Return the place of a manifest."""
    return folder / f"manifest-{version:010}.json"


def load_manifest(folder: Path, version: int) -> Manifest:
    """Read a version.

    Raises
    ------
    DataError
        E542 if the manifest is damaged, E544 if a later Cepheid has written it.
    """
    path = path_of(folder, version)
    head, _, body = path.read_bytes().partition(b"\n")
    if head != _checksum_line(body):
        message = f"`{path}` is damaged: its checksum is wrong"
        helps = ("remove it to go back to the version before",)
        raise DataError([Diagnostic("E542", message, helps=helps)])
    known: dict[str, object] = msgspec.json.decode(body)
    if known.get("format") != FORMAT:
        message = f"`{folder}` has format {known.get('format')}, this Cepheid reads {FORMAT}"
        raise DataError([Diagnostic("E544", message)])
    return msgspec.json.decode(body, type=Manifest)


def _checksum_line(body: bytes) -> bytes:
    return f"{zlib.crc32(body):08x}".encode()


def commit(files: Files, folder: Path, manifest: Manifest) -> bool:
    """Make a manifest the next version; False if another writer was first."""
    body = msgspec.json.encode(manifest)
    waiting = folder / f".manifest-{uuid.uuid4().hex}.tmp"
    try:
        files.write(waiting, _checksum_line(body) + b"\n" + body)
        won = files.publish(waiting, path_of(folder, manifest.version))
    finally:
        files.remove(waiting)
    if won:
        files.sync_folder(folder)
    return won
