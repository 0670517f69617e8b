"""Hot keys of a live query: found while it runs, and split by panes of time over all buckets.

All events of a key go to one bucket, so a key with many events makes one task slow. If the windows
of a query compose, the panes of such a key can be summarised in any bucket. A key is split from a
time on, ``since``, which is later than every event so far:

    an event before ``since``        goes to the home bucket of its key, as it did
    within a window after ``since``  goes there and, by its pane, to some bucket
    later                            goes to the bucket of its pane only

Windows that begin before ``since`` are computed at home, later ones from panes. Where an event goes
depends on its key and its time only, so micro-batches may be repeated. The home bucket notes the
key in a folder, and the tasks of the next micro-batch read it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.events.temporal import FOREVER
from cepheid.jobs.misfits import misfit
from cepheid.jobs.panes import place_panes
from cepheid.jobs.state_format import Format, read_state, write_state
from cepheid.jobs.tables import table_from_bytes, table_to_bytes

NOTE = Format("hotkey", 1, "a hot key")
SUFFIX = ".hot"

HOT_SHARE = 0.05
"""The share of a bucket's mean number of events from which a key is hot."""
HOT_EVENTS_MIN = 10_000
"""Events of a micro-batch from which it is worth while to look for hot keys."""
HOT_BATCHES_MIN = 2
"""Micro-batches in a row in which a key must be hot."""
HOT_KEYS_MAX = 64
"""Keys that are split at most: each adds matrices to every window."""
SAMPLED = 7
"""One event of so many is counted."""


class HotKey(msgspec.Struct, frozen=True):
    """A key that is split: its hash, its values as a table of one row, and from which time on."""

    hash: int
    since: int
    names: bytes


class HotKeys:
    """All keys that are split, with the time from which on each is."""

    def __init__(self, names: tuple[str, ...], found: list[HotKey]) -> None:
        self.names, self.found = names, found

    def __len__(self) -> int:
        return len(self.found)

    @cached_property
    def hashes(self) -> NDArray[np.int64]:
        """Return the hashes of the keys."""
        return np.array([key.hash for key in self.found], np.int64)

    @cached_property
    def _since(self) -> NDArray[np.int64]:
        return np.array([key.since for key in self.found], np.int64)

    @cached_property
    def _values(self) -> pa.Table:
        return pa.concat_tables([table_from_bytes(key.names) for key in self.found])

    def since(self, table: pa.Table) -> NDArray[np.int64]:
        """Return, for each row, the time from which on its key is split; FOREVER if it is not."""
        since = np.full(len(table), FOREVER, np.int64)
        if self.found and len(table):
            known = KeyTable(self.names)
            place = np.argsort(known.number(Columns(self._values)), kind="stable")
            count = len(known)
            number = known.number(Columns(table))
            split = (number >= 0) & (number < count)
            since[split] = self._since[place[number[split]]]
        return since


class Placed(msgspec.Struct):
    """Where the events of a table go: homes, and buckets of panes; -1 for nowhere.

    ``counted`` marks those that count at home; others count where their panes are.
    """

    home: NDArray[np.int64]
    pane: NDArray[np.int64]
    counted: NDArray[np.bool_]


class Split(msgspec.Struct, frozen=True):
    """The settings by which a query splits hot keys: notes, keys, panes, windows and buckets."""

    folder: str
    names: tuple[str, ...]
    pane: int
    within: int
    buckets: int

    def place(
        self, hot: HotKeys, table: pa.Table, hashes: NDArray[np.int64], times: NDArray[np.int64]
    ) -> Placed:
        """Compute the buckets of events."""
        home = hashes % self.buckets
        since = np.full(len(table), FOREVER, np.int64)
        rows = np.flatnonzero(np.isin(hashes, hot.hashes)) if len(hot) else np.zeros(0, np.int64)
        if len(rows):
            since[rows] = hot.since(table.select(list(self.names)).take(rows))
        split = times >= since
        pane = np.full(len(table), -1, np.int64)
        panes = place_panes(times[split], self.pane, self.buckets)
        pane[split] = (panes + home[split]) % self.buckets
        gone = split & (times - np.where(split, since, 0) >= self.within)
        return Placed(np.where(gone, -1, home), pane, ~split)

    def heat(self, hot: HotKeys, table: pa.Table, hashes: NDArray[np.int64]) -> pa.Table | None:
        """Find keys of a table that may be hot: hashes, events, events of all keys, and values."""
        sample = hashes[::SAMPLED]
        found, first, counts = np.unique(sample, return_index=True, return_counts=True)
        heavy = counts * self.buckets >= HOT_SHARE * len(sample)
        heavy &= ~np.isin(found, hot.hashes)
        if not heavy.any():
            return None
        rows = np.flatnonzero(heavy)[np.argsort(-counts[heavy], kind="stable")[:HOT_KEYS_MAX]]
        about = {
            "__hash": pa.array(found[rows]),
            "__events": pa.array(counts[rows] * SAMPLED),
            "__of": pa.array(np.full(len(rows), len(hashes))),
        }
        names = table.select(list(self.names)).take(first[rows] * SAMPLED)
        return pa.table(about | {name: names[name] for name in self.names})

    def read(self) -> HotKeys:
        """Read the keys that are split from now on; E524 if they are of another query."""
        found = read_notes(self.folder)
        for key in found:
            if table_from_bytes(key.names).column_names != [*self.names]:
                why = f"`{self.folder}` has notes of another query's hot keys"
                raise misfit(why)
        return HotKeys(self.names, found)

    def note(self, keys: list[HotKey]) -> None:
        """Note keys that are split from a time on, if there is room and they are not there yet."""
        known = self.read()
        new = [key for key in keys if key.hash not in known.hashes]
        system, folder = file_system(self.folder)
        if new:
            system.create_dir(folder)
        for key in new[: HOT_KEYS_MAX - len(known)]:
            path = f"{folder}/{key.hash & (1 << 32) - 1:08x}"
            with system.open_output_stream(f"{path}.part") as file:
                file.write(write_state(NOTE, key))
            # Nobody reads a part of a note. A task that runs twice writes the same note twice.
            system.move(f"{path}.part", path + SUFFIX)


def read_notes(folder: str) -> list[HotKey]:
    """Read all notes of a folder."""
    system, inner = file_system(folder)
    chosen = fs.FileSelector(inner, allow_not_found=True)
    paths = sorted(i.path for i in system.get_file_info(chosen) if i.path.endswith(SUFFIX))
    return [_note(system, path) for path in paths]


def noted_keys(folder: str) -> dict[str, int]:
    """Return the keys of a folder as text, with the times from which on they are split."""
    return names_of(read_notes(folder))


def names_of(keys: Sequence[HotKey]) -> dict[str, int]:
    """Return keys as text, with the times from which on they are split."""
    found = {}
    for key in keys:
        (row,) = table_from_bytes(key.names).to_pylist()
        found[", ".join(f"{name} {value!r}" for name, value in row.items())] = key.since
    return found


def file_system(folder: str) -> tuple[Any, str]:
    """Return the file system of a folder, and its path there."""
    if "://" in folder:
        return fs.FileSystem.from_uri(folder)
    return fs.LocalFileSystem(), folder


def _note(system: Any, path: str) -> HotKey:
    with system.open_input_stream(path) as file:
        return read_state(NOTE, file.read(), HotKey)


class Warmth(msgspec.Struct, array_like=True):
    """A key that was hot in the last micro-batches: how many, its events, and those of all keys."""

    batches: int
    events: float
    of: float


def warmed(
    warm: dict[int, Warmth], tables: list[pa.Table], names: tuple[str, ...], buckets: int
) -> tuple[dict[int, Warmth], dict[int, bytes]]:
    """Add what tasks found in a micro-batch; return also the keys that are to be split.

    Earlier micro-batches count half as much each, and a key that is not heavy is forgotten.
    """
    now: dict[int, Warmth] = {}
    values: dict[int, bytes] = {}
    for table in tables:
        for row, (code, events, of) in enumerate(
            zip(*(table[name].to_pylist() for name in ("__hash", "__events", "__of")), strict=True)
        ):
            one = now.setdefault(code, Warmth(0, 0.0, 0.0))
            one.events, one.of = one.events + events, one.of + of
            values.setdefault(code, table_to_bytes(table.select(list(names)).slice(row, 1)))
    hot: dict[int, bytes] = {}
    for code, one in now.items():
        if one.of < HOT_EVENTS_MIN:
            continue
        before = warm.get(code, Warmth(0, 0.0, 0.0))
        one.batches = before.batches + 1
        one.events, one.of = one.events + before.events / 2, one.of + before.of / 2
        if one.batches >= HOT_BATCHES_MIN and one.events * buckets >= HOT_SHARE * one.of:
            hot[code] = values[code]
    kept = {code: one for code, one in now.items() if one.batches and code not in hot}
    return kept, hot
