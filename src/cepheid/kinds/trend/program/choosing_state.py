"""The state of a query that counts chosen matches and builds none (§14), and its kernels.

A run takes the place of a ``LinearRun``, over the same program: it has sets where that one has
numbers. ``planning/skip.py`` says which queries can be counted so.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.events.temporal import FOREVER, LONG_AGO
from cepheid.kernels import reset
from cepheid.kernels.linear import OK
from cepheid.kinds.trend.program.linear_state import SEMANTICS_CODES, Events, Rows
from cepheid.kinds.trend.program.program import Program
from cepheid.language import tree
from cepheid.plans.plan import WindowKind, WindowPlan

ROWS_ROOM = 1 << 14
SETS_ROOM = 4
BEFORE_ALL = -(2**61)
"""The number of a window before the first one."""


class _Rooms(NamedTuple):
    """Buffers for rows: keys, windows and counts."""

    key: NDArray[np.int64]
    window: NDArray[np.int64]
    chosen: NDArray[np.int64]


class ChoosingRun:
    """The chosen matches of a program, over all keys; see ``kernels/reset.py`` for the arrays."""

    ARRAYS = (
        "alive", "start", "sets", "numbers", "used", "first", "closes", "ends", "bit", "tally"
    )  # fmt: skip

    def __init__(
        self, program: Program, window: WindowPlan, mode: tree.SkipMode, modulus: int = 0
    ) -> None:
        self.program, self.window, self.mode, self.modulus = program, window, mode, modulus
        self.dtype = np.dtype(np.int64)
        self.keys = 0
        self.shape = (0, 0)
        self.block: tuple[NDArray[Any], ...] = ()
        none = np.zeros(0, np.int64)
        self.alive = np.zeros((0, 0), np.int64)
        self.start = np.zeros(0, np.int32)
        self.sets = np.zeros((0, SETS_ROOM), np.int64)
        self.numbers = np.zeros((0, SETS_ROOM), np.int64)
        self.used, self.first, self.closes, self.ends, self.bit = none, none, none, none, none
        self.tally = np.zeros((0, max(window.overlap, 1)), np.int64)

    @property
    def _slide(self) -> int:
        if self.window.kind is WindowKind.NONE:
            return 0
        return self.window.slide or self.window.within

    def copy(self) -> ChoosingRun:
        """Copy the run, so that both can continue independently."""
        other = ChoosingRun(self.program, self.window, self.mode, self.modulus)
        other.keys, other.shape = self.keys, self.shape
        for name in self.ARRAYS:
            setattr(other, name, getattr(self, name).copy())
        return other

    def grow(self, keys: int) -> None:
        """Allocate space for more keys, and for new configurations of the program."""
        size = self.program.size
        if keys > self.keys:
            # Doubling keeps the cost of growing proportional to the number of keys.
            room = max(keys, 2 * self.keys)
            whole = self.window.kind is WindowKind.NONE
            fills = {
                "closes": FOREVER if whole else LONG_AGO,
                "ends": FOREVER if whole else LONG_AGO,
            }
            fills |= {"first": 0 if whole else BEFORE_ALL, "bit": 1 if whole else 0}
            for name in self.ARRAYS:
                before = getattr(self, name)
                after = np.full((room, *before.shape[1:]), fills.get(name, 0), before.dtype)
                after[: self.keys] = before
                setattr(self, name, after)
            self.keys = room
        if size > self.alive.shape[1]:
            more = np.zeros((self.keys, size - self.alive.shape[1]), np.int64)
            self.alive = np.concatenate([self.alive, more], axis=1)
        self.shape = (self.program.start_size, size)

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Drop all keys except some, and renumber these by their position in the list."""
        kept = kept[kept < self.keys]
        for name in self.ARRAYS:
            setattr(self, name, np.take(getattr(self, name), kept, axis=0))
        self.keys = len(kept)

    def has_open(self, until: int) -> NDArray[np.bool_]:
        """Mark the keys that have an open window with events, after ``flush`` up to a time."""
        if self.mode is tree.SkipMode.PAST_LAST:
            return np.asarray(self.ends - self._slide + self.window.within > until)
        return np.asarray(self.closes > until)

    def feed(self, events: Events) -> list[Rows]:
        """Process events in order; return the rows of the windows that closed meanwhile."""
        found: list[Rows] = []
        begin, status = 0, reset.FULL
        while status != OK:
            out = _rooms(ROWS_ROOM + self.tally.shape[1])
            if self.mode is tree.SkipMode.PAST_LAST:
                status, begin, rows = self._past_last(events, begin, out)
            else:
                status, begin, rows = self._to_next(events, begin, out)
            found += self._rows(out, rows)
            if status == reset.CROWDED:
                self.sets, self.numbers = (
                    np.concatenate([sets, np.zeros_like(sets)], axis=1)
                    for sets in (self.sets, self.numbers)
                )
        return found

    def _past_last(self, events: Events, begin: int, out: _Rooms) -> tuple[int, int, int]:
        codes = events.codes.astype(np.int32, copy=False)
        status, at, rows = reset.count_past_last(
            self.program.tables(), self.alive, self.start, self.first, self.closes, self.ends,
            self.bit, self.tally, events.ts, events.key, codes,
            self.program.letters_of_codes()[events.codes], begin, self.window.within, self._slide,
            events.grouped, SEMANTICS_CODES[self.program.semantics], *out,
        )  # fmt: skip
        return status, at, rows

    def _to_next(self, events: Events, begin: int, out: _Rooms) -> tuple[int, int, int]:
        tables = self.program.tables()
        bits = np.left_shift(np.int64(1), tables.source.astype(np.int64))
        clears = np.left_shift(np.int64(1), tables.clear.astype(np.int64))
        codes = events.codes.astype(np.int32, copy=False)
        status, at, rows = reset.count_to_next(
            tables, _united(bits, tables.source_ptr), _united(clears, tables.clear_ptr), self.sets,
            self.numbers, self.used, self.first, self.closes, self.tally, events.ts, events.key,
            codes, begin, self._slide, events.grouped, SEMANTICS_CODES[self.program.semantics],
            *out,
        )  # fmt: skip
        return status, at, rows

    def flush(self, until: int) -> list[Rows]:
        """Return the rows of windows of all keys that end by a time."""
        some = np.flatnonzero(self.tally.any(axis=1))
        out = _rooms(len(some) * self.tally.shape[1])
        rows = reset.flush_windows(
            self.first, self.closes, self.tally, some, until, self.window.within, self._slide, *out
        )
        return self._rows(out, rows)

    def _rows(self, out: _Rooms, count: int) -> list[Rows]:
        if not count:
            return []
        key, window, number = (array[:count].copy() for array in out)
        name = window * self._slide
        if self.window.kind is WindowKind.SLIDING:
            # Sliding windows are named by the pane in which they end, others by their starts.
            name = (name + self.window.within) // self.window.pane
        kind = np.uint64 if self.modulus else np.complex128
        numbers = (number % self.modulus if self.modulus else number).astype(kind)
        return [Rows(key, name, numbers[:, None], np.zeros((count, 0), np.int64))]


def _united(bits: NDArray[np.int64], pointers: NDArray[np.int32]) -> NDArray[np.int64]:
    """Unite the sets of each list of a CSR array."""
    spans = pairwise(pointers)
    return np.array([np.bitwise_or.reduce(bits[a:b], initial=0) for a, b in spans], np.int64)


def _rooms(rows: int) -> _Rooms:
    return _Rooms(*(np.zeros(rows, np.int64) for _ in range(3)))
