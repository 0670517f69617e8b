"""The data sets that an assistant may name, found anew for every question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.files import content_of, find_files
from cepheid.interfaces.data_sets import FOLDER, DataSet, check_place, sets_of


class NamedSets:
    """The data sets of some files and folders, as they are now."""

    def __init__(self, places: Sequence[str]) -> None:
        for place in places:
            check_place(place)
        # The folder that the server works in may change.
        self._places = [str(Path(place).resolve()) for place in places]

    def all(self) -> dict[str, DataSet]:
        """Find all data sets by name."""
        found: dict[str, DataSet] = {}
        for place in self._places:
            for one in sets_of(place):
                if one.kind != FOLDER or _is_uniform(one):
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


def _is_uniform(folder: DataSet) -> bool:
    """Check whether all files of a folder have one format, as queries over it need."""
    files = find_files(folder.place)
    kinds = {content_of(file.name) for file in files}
    return len(files) > 1 and len(kinds) == 1
