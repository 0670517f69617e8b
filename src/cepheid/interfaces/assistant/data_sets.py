"""Find the data sets of the folders that were given; assistants name them and never send a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.files import content_of
from cepheid.interfaces.cli_input import WrongUseError, name_of

SETS_MAX = 500
"""Data sets that are offered; more files belong into one folder that is read as a whole."""
_MANIFESTS = "manifest-*.json"


class DataSet(NamedTuple):
    """Events by name: a file, a folder of files, or an event store."""

    name: str
    kind: str
    path: Path


class DataSets:
    """The data sets of some files and folders, as they are now."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = [_existing(place) for place in places]

    def all(self) -> dict[str, DataSet]:
        """Find all data sets by name; what links lead to elsewhere is none."""
        found: dict[str, DataSet] = {}
        for place in self._places:
            for one in _sets_of(place):
                if self._is_inside(one.path) and len(found) < SETS_MAX:
                    found.setdefault(one.name, one)
        return found

    def find(self, name: str) -> DataSet:
        """Find a data set.

        Raises
        ------
        DataError
            E501 if there is none of this name.
        """
        known = self.all()
        if name not in known:
            helps = tuple(h for h in [suggest_names(name, known, owner="the server")] if h)
            message = f"there is no data set `{name}`"
            raise DataError([Diagnostic("E501", message, helps=helps)])
        return known[name]

    def _is_inside(self, path: Path) -> bool:
        """Check whether a path and all that it holds lie in the places, links resolved."""
        inner = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        return all(
            any(file.resolve().is_relative_to(place) for place in self._places) for file in inner
        )


def _existing(place: str) -> Path:
    path = Path(place)
    if not path.exists():
        message = f"could not read {name_of(place)}: no such file or folder"
        raise WrongUseError(message)
    return path.resolve()


def _sets_of(place: Path) -> Iterator[DataSet]:
    """Yield the data sets of a file or folder; a folder with files of one format is one, too."""
    if place.is_file():
        yield DataSet(place.name, "file", place)
        return
    if _is_store(place):
        yield DataSet(place.name, "store", place)
        return
    # A store is one set, so its own files are none.
    stores = [path.parent for path in sorted(place.rglob(_MANIFESTS))]
    stores = list(dict.fromkeys(path for path in stores if _is_store(path)))
    for store in stores:
        yield DataSet(f"{place.name}/{store.relative_to(place).as_posix()}", "store", store)
    files = [
        path
        for path in sorted(place.rglob("*"))
        if path.is_file()
        and content_of(path.name)
        and path.name[0] not in "._"
        and not any(path.is_relative_to(store) for store in stores)
    ]
    whole = {content_of(path.name) for path in files}
    plain = all(content_of(path.name) for path in place.rglob("*") if path.is_file())
    if len(files) > 1 and len(whole) == 1 and plain:
        yield DataSet(place.name, "folder", place)
    for file in files:
        yield DataSet(f"{place.name}/{file.relative_to(place).as_posix()}", "file", file)


def _is_store(path: Path) -> bool:
    return any(path.glob(_MANIFESTS))
