"""The manifest: the list of a store's files, one small file for each version.

A version is committed by giving its manifest the name ``manifest-<number>.json``, which fails if
another writer has taken the number. So a commit is atomic, and of two writers exactly one wins.
Then the pointer ``newest`` follows. Files that no manifest names are left over from a crash and are
ignored.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from pathlib import Path, PurePosixPath

import msgspec
import pyarrow as pa

from cepheid.decoding import from_json
from cepheid.errors import DataError, Diagnostic
from cepheid.framing import MAGIC, FrameError, OtherFrameError, digest_of, frame, unframe
from cepheid.store.file_system import Data, Files, told, waiting_name
from cepheid.store.newest import FILE as NEWEST
from cepheid.store.newest import Newest, ensure_newest, lost, pack_newest, read_newest

NAME, FORMAT = "manifest", 4
"""The version goes up whenever older versions of Cepheid can no longer read a store."""

_NAME = re.compile(r"manifest-(\d{10})\.json")
_OLD = re.compile(rb"[0-9a-f]{8}\n")
"""The first bytes of manifests before they had a frame."""
_BACK = "restore it from a copy, or go back to a whole version: `cepheid store recover`"


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a store, its length, the CRC-32 of its bytes, and the digest of its frame.

    Files of events have no frame; the checksums of their pages are in the file of their blocks.
    """

    name: str
    size: int
    checksum: int
    digest: str = ""

    @staticmethod
    def of(name: str, data: Data) -> StoredFile:
        """Describe a file with the given bytes."""
        view = memoryview(data).cast("B")
        framed = bytes(view[: len(MAGIC)]) == MAGIC
        return StoredFile(name, len(view), zlib.crc32(view), digest_of(view) if framed else "")


class Segment(msgspec.Struct, frozen=True):
    """Events in the order of time, in one Parquet file that never changes.

    ``side`` marks a segment of late events: later ones had been stored before.
    """

    data: StoredFile
    rows: int
    first: int
    last: int
    blocks: StoredFile
    indexes: dict[str, StoredFile] = {}
    side: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """A version of a store; among equal times, events of earlier segments in the list come first.

    ``floor`` is the retention limit: all events before it are deleted. ``batches`` maps every
    source to the number of its last batch, so that a batch which is sent again is not stored twice.
    ``pointed`` says that the store has a pointer to its newest version. ``condemned`` are files
    that were about to be removed as left over: nobody may add them any more.
    """

    version: int
    time: str
    columns: str
    segments: tuple[Segment, ...] = ()
    indexed: tuple[str, ...] = ()
    floor: int | None = None
    batches: dict[str, int] = {}
    folder: str | None = None
    pointed: bool = False
    condemned: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the events."""
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self.columns)))

    @property
    def rows(self) -> int:
        """Count the events in the files, including those below the floor."""
        return sum(segment.rows for segment in self.segments)

    def files(self) -> list[StoredFile]:
        """List all files except the manifest itself, including files read in place."""
        return [
            file
            for segment in self.segments
            for file in (segment.data, segment.blocks, *segment.indexes.values())
        ]

    def own_files(self) -> list[StoredFile]:
        """List the files in the folder of the store, without the manifest."""
        others = set() if self.folder is None else {segment.data.name for segment in self.segments}
        return [file for file in self.files() if file.name not in others]


def pack_schema(schema: pa.Schema) -> str:
    """Serialise a schema to text."""
    return b64encode(schema.serialize().to_pybytes()).decode()


def list_versions(folder: Path) -> list[int]:
    """List the versions of a store, in order."""
    with told(folder):
        if not folder.exists():
            return []
        # If the folder is a file, the system reports it.
        found = [_NAME.fullmatch(path.name) for path in folder.iterdir()]
    return sorted(int(match[1]) for match in found if match)


def path_of(folder: Path, version: int) -> Path:
    """Build the path of a manifest."""
    return folder / f"manifest-{version:010}.json"


def newest_version(folder: Path) -> Newest | None:
    """Find the newest version; None if there is none. Its digest is empty if nobody recorded it.

    Raises
    ------
    DataError
        E542 if the pointer is damaged, E548 if a manifest is lost.
    """
    # In this order: a manifest is there before the pointer tells of it.
    pointer = read_newest(folder)
    versions = list_versions(folder)
    last = versions[-1] if versions else 0
    if pointer is not None and pointer.version > last:
        found = f"the newest one found is version {last}" if last else "and so are all others"
        raise lost(folder, f"the manifest of version {pointer.version}", found)
    if not last:
        return None
    return pointer if pointer is not None and pointer.version == last else Newest(last)


def load_newest(folder: Path, known: Manifest | None = None) -> Manifest | None:
    """Read the newest version, or return the known one if it is still the newest.

    Raises
    ------
    DataError
        E542 if a file is damaged, E544 if another version of Cepheid has written it, E547 if it
        names files outside the store, E548 if a manifest or the pointer is lost.
    """
    newest = newest_version(folder)
    if newest is None:
        return None
    if known is not None and known.version == newest.version:
        return known
    found = load_manifest(folder, newest.version, newest.digest)
    # The pointer may have come between the first look and the second.
    if found.pointed and read_newest(folder) is None:
        raise lost(folder, f"the pointer `{NEWEST}`", f"but there is version {found.version}")
    return found


def load_manifest(folder: Path, version: int, digest: str = "") -> Manifest:
    """Read a version; its frame has the given digest, if there is one.

    Raises
    ------
    DataError
        E542 if the manifest is damaged, E544 if another version of Cepheid has written it, E547 if
        it names files outside the store.
    """
    path = path_of(folder, version)
    with told(path):
        data = path.read_bytes()
    try:
        found = from_json(unframe(data, NAME, FORMAT), Manifest)
    except (OtherFrameError, msgspec.MsgspecError) as error:
        raise _other_format(folder, str(error)) from error
    except FrameError as error:
        if _OLD.fullmatch(data[:9]):
            raise _other_format(folder, f"it has version 2, this Cepheid reads {FORMAT}") from error
        message = f"`{path}` is damaged: {error}"
        raise DataError([Diagnostic("E542", message, helps=(_BACK,))]) from error
    if found.version != version or digest not in ("", digest_of(data)):
        message = f"`{path}` is damaged: it is another one than was written"
        raise DataError([Diagnostic("E542", message, helps=(_BACK,))])
    _check_names(path, found)
    return found


def _check_names(path: Path, manifest: Manifest) -> None:
    """Raise E547 if a manifest names a file outside the store and outside its in-place folder.

    The user named the in-place folder when opening it; the manifest keeps it as a relative path.
    """
    beside = () if manifest.folder is None else (manifest.folder,)
    for name in (*(file.name for file in manifest.files()), *beside):
        place = PurePosixPath(name)
        up = ".." in place.parts and name not in beside
        if place.is_absolute() or up or not place.parts or "\0" in name or "\\" in name:
            raise outside(path, name)


def outside(path: Path, name: str) -> DataError:
    """Build the error for a manifest that names a file outside the store."""
    message = f"`{path}` names `{name}`, which is outside the folder of the store"
    helps = ("do not use this store: Cepheid writes no such names",)
    return DataError([Diagnostic("E547", message, helps=helps)])


def _other_format(folder: Path, why: str) -> DataError:
    message = f"another version of Cepheid has written `{folder}`: {why}"
    helps = (f"its events are Parquet files: `EventStore.open_directory('{folder}/segments')`",)
    return DataError([Diagnostic("E544", message, helps=helps)])


def commit(files: Files, folder: Path, manifest: Manifest) -> bool:
    """Commit a manifest as the next version; return False if another writer was first.

    All that needs space is written before the link, so that a full disk cannot come between the
    link and the pointer.
    """
    data = frame(NAME, FORMAT, msgspec.json.encode(manifest))
    ensure_newest(files, folder, manifest.version - 1)
    waiting, pointing = waiting_name(folder, NAME), waiting_name(folder, NEWEST)
    try:
        files.write(waiting, data)
        files.write(pointing, pack_newest(Newest(manifest.version, digest_of(data))))
        if not files.publish(waiting, path_of(folder, manifest.version)) and not _is(
            path_of(folder, manifest.version), data
        ):
            return False
        files.sync_folder(folder)
        before = read_newest(folder)
        if before is None or before.version < manifest.version:
            files.replace(pointing, folder / NEWEST)
            files.sync_folder(folder)
    finally:
        for path in (waiting, pointing):
            files.remove(path)
    return True


def is_committed(folder: Path, manifest: Manifest) -> bool:
    """Check whether a manifest has its name, for a commit that ended with an error."""
    data = frame(NAME, FORMAT, msgspec.json.encode(manifest))
    return _is(path_of(folder, manifest.version), data)


def _is(path: Path, data: bytes) -> bool:
    """Check what a file holds: a network drive may deny a link that it made."""
    try:
        return path.read_bytes() == data
    except OSError:
        return False
