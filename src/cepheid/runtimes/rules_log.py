"""The rules log of a stream: a folder in its checkpoint that says which rules came and went.

Every change is a new file, which is renamed into the folder when it is complete, so that Spark
reads it as a second source of the query: a micro-batch that is repeated gets the same records.

    _about.json       the keys of the stream
    _compacted        the rules after the oldest records, whose files are gone
    000...0123.log    records from number 123 on

Files that no micro-batch can read again are compacted: first the rules after them are written, then
they are removed. What is killed in between leaves files whose records are known; they are not
applied again, and the next compaction removes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec

from cepheid.decoding import from_json
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.kinds.workload.rule_places import Keys
from cepheid.kinds.workload.rule_records import Drop, Numbered, Put, Record, from_line, to_lines
from cepheid.runtimes.rules_read import files_behind

FOLDER = "cepheid-rules"
_ABOUT = "_about.json"
_COMPACTED = "_compacted"
_FORMAT = Format("compacted", 1, "a rules log")
_EARLIER = "cepheid-rules.jsonl"
"""The rules of a checkpoint of an earlier version, which stopped the query for every change."""

FILES_MAX = 256
"""Files that come before the log is compacted again; Spark lists all of them every time."""

GONE_MAX = 100_000
"""Rules that are gone whose versions are known, so that they go on if a rule comes again."""

NEW_START = "start anew with `--restart-from earliest`, or go on with the version that wrote it"


class About(msgspec.Struct, frozen=True):
    """The part of a log that stays: its format, and the keys of the stream."""

    format: int
    keys: Keys


class Placed(NamedTuple):
    """A rule with its place among the keys."""

    place: int
    put: Put


class _Compacted(msgspec.Struct, frozen=True):
    """The rules after a record, and the versions of all rules so far."""

    last: int
    rules: tuple[tuple[int, Put], ...]
    versions: dict[str, int]


class _After:
    """The rules after some records."""

    def __init__(self, start: _Compacted) -> None:
        self.rules = {put.name: Placed(place, put) for place, put in start.rules}
        self.versions = dict(start.versions)
        self.last = start.last

    def take(self, one: Numbered) -> None:
        """Apply a record, once."""
        if one.number <= self.last:
            return
        self.last, record = one.number, one.record
        if isinstance(record, Drop):
            known = self.rules.get(record.name)
            if known is not None and known.place == one.place:
                del self.rules[record.name]
        else:
            self.rules[record.name] = Placed(one.place, record)
            # The names of rules that went are forgotten in the order of their last change.
            self.versions.pop(record.name, None)
            self.versions[record.name] = record.version

    def take_file(self, file: Path) -> None:
        """Apply the records of a file."""
        for one in sorted(map(from_line, file.read_bytes().splitlines()), key=lambda r: r.number):
            self.take(one)

    def compacted(self) -> _Compacted:
        """Return the rules as they are written."""
        gone = [name for name in self.versions if name not in self.rules]
        for name in gone[: max(len(gone) - GONE_MAX, 0)]:
            del self.versions[name]
        rules = tuple((one.place, one.put) for one in self.rules.values())
        return _Compacted(self.last, rules, self.versions)


class RulesLog:
    """The log of a checkpoint, and the rules that it leads to.

    Parameters
    ----------
    checkpoint
        The checkpoint of the query.

    Raises
    ------
    DataError
        E524 if an earlier version wrote the checkpoint, E546 if a record is damaged.
    """

    def __init__(self, checkpoint: Path) -> None:
        self.folder, self._checkpoint = checkpoint / FOLDER, checkpoint
        about = self.folder / _ABOUT
        self._about = None
        if about.is_file():
            self._about = from_json(about.read_bytes(), About)
        elif (checkpoint / "offsets").is_dir() and any((checkpoint / "offsets").iterdir()):
            earlier = (checkpoint / _EARLIER).exists()
            why = "it was written by an earlier version, which started the query for every change"
            raise misfit(why if earlier else "it is not one of rules", way_out=NEW_START)
        self._after = self._compacted()
        files = self._files()
        for file in files:
            self._after.take_file(file)
        self._few = len(files)
        self._count = len(files)
        self.compact()

    @property
    def rules(self) -> dict[str, Placed]:
        """Return the rules that the log leads to."""
        return self._after.rules

    @property
    def keys(self) -> Keys | None:
        """Return the keys of the stream; None if it is new."""
        return None if self._about is None else self._about.keys

    def begin(self, keys: Keys) -> None:
        """Write down the keys of a new stream."""
        self._about = About(1, keys)
        self._write(_ABOUT, msgspec.json.encode(self._about))

    def change(self, wanted: Mapping[str, Placed]) -> list[Record]:
        """Append what leads from the rules of the log to those that are wanted.

        Versions are counted here: those of the rules that are given do not matter.
        """
        found: list[tuple[int, Record]] = []
        for name, before in self.rules.items():
            now = wanted.get(name)
            if now is None or now.place != before.place:
                found.append((before.place, Drop(name)))
        for name, now in wanted.items():
            known = self.rules.get(name)
            if known is None or known.place != now.place or not known.put.says_the_same(now.put):
                version = self._after.versions.get(name, 0) + 1
                found.append((now.place, msgspec.structs.replace(now.put, version=version)))
        last = self._after.last
        records = [Numbered(last + n, place, one) for n, (place, one) in enumerate(found, 1)]
        if records:
            self._write(f"{records[0].number:020}.log", to_lines(records))
            for one in records:
                self._after.take(one)
            self._count += 1
            if self._count - self._few >= FILES_MAX:
                self.compact()
        return [one.record for one in records]

    def compact(self) -> None:
        """Remove the oldest files, up to the first one that a micro-batch may read again."""
        behind = files_behind(self._checkpoint, FOLDER)
        files = self._files()
        gone = list(takewhile(lambda file: file.name in behind, files))
        if gone:
            after = self._compacted()
            for file in gone:
                after.take_file(file)
            data = write_state(_FORMAT, after.compacted())
            self._write(_COMPACTED, data)
            for file in gone:
                remove(file)
        self._few = self._count = len(files) - len(gone)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def _compacted(self) -> _After:
        """Read the rules after the records whose files are gone."""
        file = self.folder / _COMPACTED
        if not file.is_file():
            return _After(_Compacted(0, (), {}))
        return _After(read_state(_FORMAT, file.read_bytes(), _Compacted))

    def _write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all, also when the machine stops."""
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = self.folder / f".{name}.tmp"
        with waiting.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(self.folder / name)
        _sync(self.folder)


def remove(file: Path) -> None:
    """Remove a file whose records are compacted."""
    file.unlink()


def _sync(folder: Path) -> None:
    """Let the names of a folder reach the disk, before a file is removed for a new one."""
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
