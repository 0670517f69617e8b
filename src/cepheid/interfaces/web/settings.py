"""What a workbench serves: data sets and queries by name, how events are read, and limits.

A browser names data sets; it never sends a path, so nothing outside of what was given is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cepheid.events.files import content_of, find_files
from cepheid.interfaces.cli_input import IMPORTED, WrongUseError, name_of
from cepheid.interfaces.rules import read_rules

SETS_MAX = 200
"""Files of a folder that are data sets of their own."""
MANIFESTS = "manifest-*.json"
RULE_ENDINGS = {".cq", ".sql", ".yaml", ".yml"}


class Columns(msgspec.Struct, frozen=True):
    """The columns of time and type, and how times are read: options of :func:`cepheid.query`."""

    time: str = "ts"
    type: str = "type"
    time_unit: str = "us"
    time_format: str | None = None


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run: rows and bytes that are kept, and seconds that it may take."""

    rows: int = 100_000
    bytes: int = 256 << 20
    seconds: float = 300.0


class DataSet(msgspec.Struct, frozen=True):
    """Events by name: files, a folder of them, or an event store."""

    name: str
    kind: str
    place: str


class Settings(msgspec.Struct, frozen=True):
    """Everything that a workbench serves."""

    sets: dict[str, DataSet]
    queries: dict[str, str]
    folder: Path | None = None
    """The folder of rules, which saved queries go to."""
    columns: Columns = Columns()
    limits: Limits = Limits()
    write: bool = False
    functions: tuple[str, ...] = ()
    """Modules of users' functions, which workers import."""


def find_settings(
    places: Iterable[str], columns: Columns, limits: Limits, *, write: bool
) -> Settings:
    """Find data sets, stores and folders of rules; without any, the bundled events.

    Raises
    ------
    WrongUseError
        If a place is not there, or has neither events nor rules.
    """
    sets: dict[str, DataSet] = {}
    queries: dict[str, str] = {}
    folder: Path | None = None
    given = list(places) or [str(path) for path in _bundled()]
    for place in given:
        path = Path(place)
        if path.is_dir() and any(path.glob(MANIFESTS)):
            _add(sets, path.resolve().name, "store", path)
        elif path.is_dir() and _has_rules(path):
            queries |= {name: rule.query for name, rule in read_rules(path).rules.items()}
            folder = folder or path.resolve()
        else:
            _add_files(sets, place)
    return Settings(sets, queries, folder, columns, limits, write, tuple(IMPORTED))


def _bundled() -> list[Path]:
    data = Path(__file__).parents[2] / "data"
    return sorted(data.glob("*.parquet"))


def _has_rules(path: Path) -> bool:
    return any(file.suffix in RULE_ENDINGS for file in path.rglob("*") if file.is_file())


def _add_files(sets: dict[str, DataSet], place: str) -> None:
    """Add the files of a place; those of a folder also one by one."""
    path = Path(place)
    if not path.exists() and "*" not in place:
        message = f"could not read {name_of(place)}: no such file or folder"
        raise WrongUseError(message)
    files = [file for file in find_files(place) if content_of(file.name)]
    if not files:
        message = f"{name_of(place)} has neither events nor rules"
        raise WrongUseError(message)
    root = path.resolve()
    inside = [file for file in files if is_inside(file, root)]
    if path.is_dir() and len(inside) == len(files):
        _add(sets, f"{root.name}/", "files", path)
    if not path.exists():
        _add(sets, path.name, "files", path)
    for file in inside[:SETS_MAX]:
        _add(sets, file.name, "files", file)


def is_inside(file: Path, place: Path) -> bool:
    """Check that a file of a folder is in it: a link may lead out of what was given."""
    return not place.is_dir() or file.resolve().is_relative_to(place.resolve())


def _add(sets: dict[str, DataSet], name: str, kind: str, path: Path) -> None:
    """Add a data set; names of several get numbers."""
    stem = name.split(".", 1)[0] or name
    chosen, number = stem, 2
    while chosen in sets:
        if sets[chosen].place == str(path):
            return
        chosen, number = f"{stem} {number}", number + 1
    sets[chosen] = DataSet(chosen, kind, str(path))
