"""The rules log of a stream: a folder in its checkpoint that says which rules came and went.

Every change is a new file, which is renamed into the folder when it is complete, so that Spark
reads it as a second source of the query: a micro-batch that is repeated gets the same records.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from cepheid.jobs.misfits import misfit
from cepheid.kinds.workload.rule_places import Keys
from cepheid.kinds.workload.rule_records import Drop, Numbered, Put, Record, from_line, to_lines

FOLDER = "cepheid-rules"
_ABOUT = "_about.json"
_EARLIER = "cepheid-rules.jsonl"
"""The rules of a checkpoint of an earlier version, which stopped the query for every change."""

NEW_START = "start anew with `--restart-from earliest`, or go on with the version that wrote it"


class About(msgspec.Struct, frozen=True):
    """The part of a log that stays: its format, and the keys of the stream."""

    format: int
    keys: Keys


class Placed(NamedTuple):
    """A rule with its place among the keys."""

    place: int
    put: Put


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
        self.folder = checkpoint / FOLDER
        self.rules: dict[str, Placed] = {}
        self._versions: dict[str, int] = {}
        self._last = 0
        about = self.folder / _ABOUT
        self._about = None
        if about.is_file():
            self._about = msgspec.json.decode(about.read_bytes(), type=About)
        elif (checkpoint / "offsets").is_dir() and any((checkpoint / "offsets").iterdir()):
            earlier = (checkpoint / _EARLIER).exists()
            why = "it was written by an earlier version, which started the query for every change"
            raise misfit(why if earlier else "it is not one of rules", way_out=NEW_START)
        for file in sorted(self.folder.glob("*.log")):
            for line in file.read_bytes().splitlines():
                self._take(from_line(line))

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
                version = self._versions.get(name, 0) + 1
                found.append((now.place, msgspec.structs.replace(now.put, version=version)))
        records = [Numbered(self._last + n, place, one) for n, (place, one) in enumerate(found, 1)]
        if records:
            self._write(f"{records[0].number:020}.log", to_lines(records))
            for one in records:
                self._take(one)
        return [one.record for one in records]

    def _take(self, one: Numbered) -> None:
        record = one.record
        self._last = max(self._last, one.number)
        if isinstance(record, Drop):
            known = self.rules.get(record.name)
            if known is not None and known.place == one.place:
                del self.rules[record.name]
        else:
            self.rules[record.name] = Placed(one.place, record)
            self._versions[record.name] = record.version

    def _write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all, also when the machine stops."""
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = self.folder / f".{name}.tmp"
        with waiting.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        waiting.replace(self.folder / name)
