"""Shedding: a live query that is too slow drops events by a rule, and counts every one of them.

From a time on, which is later than every event so far, a level keeps one of so many times: an
event is dropped if the hash of its time says so, whatever its values are. Levels are notes in a
folder, so a micro-batch that is repeated drops the same events. Before events are sent to buckets,
the dropped ones of each group and pane of time are counted; buckets keep these counts until the
windows close, whose rows have them in the column ``shed``.

The folder has three others: ``levels``, ``pace`` (micro-batches that took long) and ``windows``
(the dropped events of each window that closed). All but the last are names of empty files.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from cepheid.jobs.hot_keys import file_system

SHED = "shed"
"""The column of rows with the number of events of the window and group that were dropped."""
PANE, COUNT = "__pane", "__shed"
LEVELS, PACE, WINDOWS = "levels", "pace", "windows"
SLOW_MIN = 3
"""Micro-batches in a row that take too long, before more is dropped."""
QUICK_MIN = 10
"""Micro-batches in a row that take at most half of the allowed time, before less is dropped."""
KEEP_MAX = 64
"""At least one of so many times is kept."""

Numbers = NDArray[np.int64]

_NAME = re.compile(r"-?\d+(_\d+)*")


class Level(msgspec.Struct, frozen=True, order=True):
    """From a time on, one of ``keep`` times is kept."""

    since: int
    keep: int


class Shed(msgspec.Struct, frozen=True):
    """The settings by which a query sheds: folder, time limit of a micro-batch, groups and windows.

    ``names`` are the columns of groups, ``shown`` their names in rows.
    """

    folder: str
    allowed_ms: int
    names: tuple[str, ...]
    shown: tuple[str, ...]
    within: int
    slide: int
    pane: int

    def levels(self) -> list[Level]:
        """Read the levels, sorted by time; of two at one time the one that drops more counts."""
        return levels_of(self.folder)

    def note_level(self, level: Level) -> None:
        """Let a level begin."""
        self._touch(LEVELS, level.since, level.keep)

    def note_pace(self, bucket: int, started_ms: int, took_ms: int) -> None:
        """Note that a micro-batch took more than half of the allowed time, if it did."""
        if 2 * took_ms > self.allowed_ms:
            self._touch(PACE, started_ms, bucket, took_ms)

    def pace(self, started_ms: int) -> int:
        """Return how long a micro-batch took, 0 if that was not long; forget earlier ones."""
        took = 0
        system, folder = self._place(PACE)
        for started, bucket, took_ms in _numbers_in(system, folder):
            if started == started_ms:
                took = max(took, took_ms)
            elif started < started_ms:
                with suppress(FileNotFoundError):  # Another attempt of this task was faster.
                    system.delete_file(f"{folder}/{started}_{bucket}_{took_ms}")
        return took

    def note_windows(self, bucket: int, starts: Numbers, counts: Numbers) -> None:
        """Write down how many events of windows that closed were dropped in a bucket."""
        system, folder = self._place(WINDOWS)
        lines = [
            msgspec.json.encode(
                {"window_start": start, "window_end": start + self.within, SHED: count}
            )
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
        ]
        system.create_dir(folder)
        with system.open_output_stream(f"{folder}/{starts[-1]}_{bucket}.jsonl") as file:
            file.write(b"\n".join(lines) + b"\n")

    def dropped(self, table: pa.Table, times: Numbers) -> pa.Table:
        """Count events that are dropped by group and pane."""
        keys: dict[str, Any] = {name: table[name] for name in self.names}
        ones = pa.array(np.ones(len(table), np.int64))
        return compact(pa.table(keys | {PANE: pa.array(times // self.pane), COUNT: ones}))

    def of_rows(self, rows: pa.Table, starts: Numbers, counted: pa.Table) -> Numbers:
        """Return the number of dropped events of the group and window of each row."""
        pairs = zip(self.shown, self.names, strict=True)
        both = [pa.concat_arrays([_plain(rows[a]), _plain(counted[b])]) for a, b in pairs]
        codes = codes_of(both, len(rows) + len(counted))
        return self._within(starts, codes[: len(rows)], counted, codes[len(rows) :])

    def closed(self, counted: pa.Table, since: int | None, until: int) -> tuple[Numbers, Numbers]:
        """Return the begins of windows that close between two watermarks, and what they lack."""
        panes = counted[PANE].to_numpy() * self.pane
        if not len(panes):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        first, last = int(panes.min()), int(panes.max())
        begin = (first - self.within) // self.slide
        if since is not None:
            begin = max(begin, (since - self.within) // self.slide)
        end = min(last // self.slide, (until - self.within) // self.slide)
        starts = np.arange(begin + 1, end + 1, dtype=np.int64) * self.slide
        none = np.zeros(len(starts), np.int64), np.zeros(len(panes), np.int64)
        counts = self._within(starts, none[0], counted, none[1])
        return starts[counts > 0], counts[counts > 0]

    def open(self, counted: pa.Table, until: int | None) -> pa.Table:
        """Keep the counts of panes whose windows may be open."""
        if until is None:
            return counted
        ends = (counted[PANE].to_numpy() // (self.slide // self.pane) * self.slide) + self.within
        return counted.filter(pa.array(ends > until))

    def _within(self, starts: Numbers, codes: Numbers, counted: pa.Table, own: Numbers) -> Numbers:
        """Add up the counts of panes in windows, of the same code."""
        panes = counted[PANE].to_numpy()
        if not len(panes):
            return np.zeros(len(starts), np.int64)
        lowest = int(panes.min())
        span = int(panes.max()) - lowest + 2
        place = own * span + panes - lowest
        order = np.argsort(place, kind="stable")
        sums = np.concatenate([[0], np.cumsum(counted[COUNT].to_numpy()[order])])
        found = []
        for edge in (starts, starts + self.within):
            inner = np.clip(edge // self.pane - lowest, 0, span - 1)
            found.append(sums[np.searchsorted(place[order], codes * span + inner)])
        return np.asarray(found[1] - found[0])

    def _place(self, kind: str) -> tuple[Any, str]:
        system, folder = file_system(self.folder)
        return system, f"{folder}/{kind}"

    def _touch(self, kind: str, *numbers: int) -> None:
        system, folder = self._place(kind)
        system.create_dir(folder)
        with system.open_output_stream(f"{folder}/{'_'.join(map(str, numbers))}"):
            pass


def levels_of(folder: str) -> list[Level]:
    """Read the levels of a folder of notes."""
    system, inner = file_system(folder)
    found: dict[int, int] = {}
    for since, keep in _numbers_in(system, f"{inner}/{LEVELS}"):
        found[since] = max(found.get(since, 1), keep)
    return [Level(*item) for item in sorted(found.items())]


def _numbers_in(system: Any, folder: str) -> list[tuple[int, ...]]:
    chosen = fs.FileSelector(folder, allow_not_found=True)
    names = (info.base_name for info in system.get_file_info(chosen))
    # File systems leave files of their own.
    return [tuple(map(int, name.split("_"))) for name in names if _NAME.fullmatch(name)]


def kept(levels: list[Level], times: Numbers) -> NDArray[np.bool_]:
    """Mark the events that are kept at their times; those of a level are among those of a lower."""
    if not levels:
        return np.ones(len(times), np.bool_)
    begins = np.array([level.since for level in levels], np.int64)
    keeps = np.array([1, *(level.keep for level in levels)], np.uint64)
    keep = keeps[np.searchsorted(begins, times, side="right")]
    return np.asarray(_mixed(times) % keep == 0)


def _mixed(times: Numbers) -> NDArray[np.uint64]:
    """Mix the bits of numbers, so that no period of times is kept or dropped as a whole."""
    mixed = times.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed


def keep_at(levels: list[Level], time: int | None) -> int:
    """Return the level that is in force at a time."""
    past = [level.keep for level in levels if time is not None and level.since <= time]
    return past[-1] if past else 1


def compact(counted: pa.Table) -> pa.Table:
    """Add up the counts of the same group and pane."""
    if len(counted) < 2:
        return counted
    others = [_plain(counted[name]) for name in counted.column_names if name != COUNT]
    _, first, inverse = np.unique(
        codes_of(others, len(counted)), return_index=True, return_inverse=True
    )
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse, counted[COUNT].to_numpy())
    place = counted.schema.get_field_index(COUNT)
    return counted.take(first).set_column(place, COUNT, pa.array(sums))


def codes_of(columns: list[Any], length: int) -> Numbers:
    """Assign numbers to combinations of values; NULL is a value, one NaN another, 0.0 is -0.0."""
    codes = np.zeros(length, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        both = codes * max(len(encoded.dictionary), 1) + own
        codes = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return codes


def _plain(column: Any) -> Any:
    """Return one array without a dictionary, whose zeros are positive."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pa.compute.add(column, pa.scalar(0.0, column.type))
    return pa.concat_arrays([*column.chunks, pa.array([], column.type)])
