"""Go back to a whole version of a store whose newest manifest or pointer is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.store.checking import missing_files
from cepheid.store.file_system import Files
from cepheid.store.manifest import Manifest, commit, list_versions, load_manifest
from cepheid.store.newest import FILE, read_newest
from cepheid.store.segments import DATA_FOLDER
from cepheid.store.turns import Writer


class Recovered(msgspec.Struct, frozen=True):
    """The result of :meth:`EventStore.recover`.

    Attributes
    ----------
    version, source
        The number of the new version, and of the old one that it equals.
    lost
        The numbers of the versions after it, which are lost.
    spare
        Files of events that the new version does not have.
    """

    version: int
    source: int
    lost: tuple[int, ...]
    spare: tuple[Path, ...]


def recover_store(files: Files, folder: Path) -> Recovered:
    """Commit the newest whole version once more, above all numbers that were in use."""
    with Writer(files, folder) as writer:
        versions = list_versions(folder)
        found = next(filter(None, (_whole(folder, v) for v in reversed(versions))), None)
        if found is None:
            message = f"no version of the store `{folder}` is whole"
            helps = (
                f"read its files of events: `EventStore.open_directory('{folder}/{DATA_FOLDER}')`",
            )
            raise DataError([Diagnostic("E544", message, helps=helps)])
        writer.wait_for_turn()
        last = max(versions)
        try:
            pointer = read_newest(folder)
            last = max(last, 0 if pointer is None else pointer.version)
        except DataError:
            files.remove(folder / FILE)  # It is damaged; the commit makes a new one.
        after = msgspec.structs.replace(found, version=last + 1, pointed=True)
        if not commit(files, folder, after):
            message = f"other writers of `{folder}` were first"
            raise DataError([Diagnostic("E541", message, helps=("try again",))])
    kept = {file.name for file in after.files()}
    spare = [
        path
        for path in sorted((folder / DATA_FOLDER).glob("*"))
        if f"{DATA_FOLDER}/{path.name}" not in kept
    ]
    lost = tuple(range(found.version + 1, last + 1))
    return Recovered(after.version, found.version, lost, tuple(spare))


def _whole(folder: Path, version: int) -> Manifest | None:
    """Read a version; None if its manifest is damaged or a file of it is gone."""
    try:
        found = load_manifest(folder, version)
    except DataError:
        return None
    return None if missing_files(folder, found.own_files()) else found
