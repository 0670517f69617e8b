"""A disk that loses what was not synced: a log of all calls, and what a cut of the power leaves.

The calls run on real files and are recorded. For a cut, a prefix of the log is played on a model of
a disk. A file that was not synced keeps some of its bytes, or none. Of the names that were made or
removed in a folder since it was last synced, any may have reached the disk, in any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from cepheid.store.file_system import Data, LocalFiles

Call = tuple[str, Path, Path | None, bytes]


class RecordedFiles(LocalFiles):
    """Records the calls that change files."""

    def __init__(self, log: list[Call]) -> None:
        self.log = log

    def _note(self, call: str, path: Path, other: Path | None = None, data: bytes = b"") -> None:
        self.log.append((call, path, other, data))

    def enter_folder(self, path: Path) -> None:
        self._note("folder", path)
        super().enter_folder(path)

    def create(self, path: Path, data: Data) -> None:
        self._note("create", path, None, bytes(data))
        super().create(path, data)

    def sync_file(self, path: Path) -> None:
        super().sync_file(path)
        self._note("sync file", path)

    def publish(self, source: Path, target: Path) -> bool:
        done = super().publish(source, target)
        if done:
            self._note("link", source, target)
        return done

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self._note("rename", source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self._note("remove", path)
        super().remove(path)

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self._note("sync folder", path)

    def mark(self, path: Path, data: bytes) -> None:
        if not path.exists():
            self._note("create", path, None, data)
        super().mark(path, data)


@dataclass
class File:
    data: bytes
    synced: bool = False


@dataclass
class Folder:
    """Names that are on disk, names as programs see them, and changes that only the latter have."""

    disk: dict[str, File | Folder] = field(default_factory=dict)
    seen: dict[str, File | Folder] = field(default_factory=dict)
    waiting: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, names: dict[str, File | Folder | None]) -> None:
        self.waiting.append(names)
        _apply(self.seen, names)

    def sync(self) -> None:
        self.disk, self.waiting = dict(self.seen), []


def _apply(names: dict[str, File | Folder], change: dict[str, File | Folder | None]) -> None:
    for name, what in change.items():
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


def disk_after(log: list[Call], root: Path) -> Folder:
    """Play a log on the model of a disk."""
    top = Folder()
    for call, path, other, data in log:
        at = path.relative_to(root)
        parent = _find(top, at.parent)
        assert isinstance(parent, Folder)
        if call == "folder":
            parent.change({at.name: Folder()})
        elif call == "create":
            parent.change({at.name: File(data)})
        elif call == "sync file":
            found = parent.seen[at.name]
            assert isinstance(found, File)
            found.synced = True
        elif call in ("link", "rename"):
            assert other is not None
            what: dict[str, File | Folder | None] = {other.name: parent.seen[at.name]}
            parent.change(what | ({at.name: None} if call == "rename" else {}))
        elif call == "remove":
            parent.change({at.name: None})
        else:
            found = _find(top, at)
            assert isinstance(found, Folder), call
            found.sync()
    return top


def _find(top: Folder, path: Path) -> File | Folder:
    found: File | Folder = top
    for part in path.parts:
        assert isinstance(found, Folder)
        found = found.seen[part]
    return found


def write_rest(folder: Folder, path: Path, draw: random.Random) -> None:
    """Write what is left of a folder after the power was cut."""
    names = dict(folder.disk)
    reached = draw.choice([0.0, 0.5, 1.0])
    for change in folder.waiting:
        if draw.random() < reached:
            _apply(names, change)
    path.mkdir()
    for name, what in names.items():
        if isinstance(what, Folder):
            write_rest(what, path / name, draw)
            continue
        data = what.data
        if not what.synced:
            part = data[: draw.randrange(len(data) + 1)]
            data = draw.choice([b"", part, part.ljust(len(data), b"\0"), data])
        (path / name).write_bytes(data)
