"""Find the data sets of files, folders and event stores; who asks names them and sends no path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from cepheid.errors import DataError
from cepheid.events.files import content_of, find_files
from cepheid.interfaces.cli_input import WrongUseError, name_of

SETS_MAX = 500
"""Files of a place that are data sets of their own."""
FILE, FOLDER, FILES, STORE, TOPIC = "file", "folder", "files", "store", "topic"
"""Kinds of data sets; ``files`` are those of a pattern, and ``topic`` is Kafka's."""
_MANIFESTS = "manifest-*.json"


class Columns(msgspec.Struct, frozen=True):
    """The columns of time and type, and how times are read: options of :func:`cepheid.query`."""

    time: str = "ts"
    type: str = "type"
    time_unit: str = "us"
    time_format: str | None = None


class DataSet(msgspec.Struct, frozen=True):
    """Events by name: a file, a folder of files, those of a pattern, a store, or topics of Kafka.

    Topics may have ``fields``, their columns with types, and ``settings`` of the client.
    """

    name: str
    kind: str
    place: str
    fields: str = ""
    settings: dict[str, str] = {}


def check_place(place: str) -> None:
    """Refuse a place that is not there.

    Raises
    ------
    WrongUseError
        If it is neither a file or folder nor a pattern.
    """
    if not Path(place).exists() and "*" not in place:
        message = f"could not read {name_of(place)}: no such file or folder"
        raise WrongUseError(message)


def is_store(path: Path) -> bool:
    """Check whether a folder is an event store."""
    return path.is_dir() and any(path.glob(_MANIFESTS))


def is_inside(file: Path, place: Path) -> bool:
    """Check that a file of a folder is in it: a link may lead out of what was given."""
    return not place.is_dir() or file.resolve().is_relative_to(place.resolve())


def sets_of(place: str) -> Iterator[DataSet]:
    """Yield the data sets of a place as it is now: the whole, then its stores, then its files.

    Names in a folder begin with its name. What links lead to elsewhere is no data set, and a folder
    with such a link is none as a whole.
    """
    path = Path(place)
    root = path.resolve()
    if is_store(path):
        yield DataSet(root.name, STORE, place)
        return
    # A store is one set, so its own files are none.
    stores = _stores_in(path) if path.is_dir() else []
    files = [
        file for file in _event_files(place) if not any(file.is_relative_to(one) for one in stores)
    ]
    inside = [file for file in files if is_inside(file, path)]
    before = f"{root.name}/" if path.is_dir() else ""
    if path.is_dir() and files and not stores and len(inside) == len(files):
        yield DataSet(before, FOLDER, place)
    if not path.exists() and files:
        yield DataSet(path.name, FILES, place)
    for store in stores:
        if all(is_inside(file, path) for file in store.rglob("*")):
            yield DataSet(f"{before}{store.relative_to(path).as_posix()}", STORE, str(store))
    for file in inside[:SETS_MAX]:
        name = file.relative_to(path).as_posix() if before else file.name
        yield DataSet(f"{before}{name}", FILE, str(file))


def _stores_in(folder: Path) -> list[Path]:
    return sorted({manifest.parent for manifest in folder.rglob(_MANIFESTS)})


def _event_files(place: str) -> list[Path]:
    try:
        return [file for file in find_files(place) if content_of(file.name)]
    except DataError:
        return []  # A folder may be empty now, and have files later.
