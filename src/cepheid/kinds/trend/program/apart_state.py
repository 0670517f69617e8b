"""Sliding windows that are kept apart, each with counts of its own, where that costs less.

A run begins undecided. Its first large batch tells how many events of a key share a pane: with
few, the additions to every open window cost less than the products of panes
(``kernels/windows_apart.py``). What was chosen stays, because counts of windows cannot be turned
into matrices of panes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import linear, windows_apart
from cepheid.kernels.panes import FULL
from cepheid.kinds.trend.program.linear_state import (
    DOUBLE,
    ROWS_ROOM,
    SEMANTICS_CODES,
    Events,
    LinearRun,
    Rows,
)
from cepheid.kinds.trend.program.wide import fit_doubles

EVENTS_MIN = 1 << 14
"""Fewer events are not compiled for, and interpreted panes cost less."""

WINDOWS_MAX = 1 << 10
"""Open windows of a key; every one takes memory for every key."""

EVENT_NS, LANE_NS, GENERAL_NS, START_NS = 8.0, 0.5, 40.0, 3.0
"""Measured costs of an event: of plain counts, of a number in one of their lanes, of all others,
and of a lane of these in which a match may begin."""

SUM_NS, SUM_LANE_NS = 15.0, 0.2
"""The same of plain sums and extremes: an event, and a number in one of its lanes."""

PANE_NS = 12.0
"""Measured costs of a product of two entries of matrices; a pane that ends is multiplied twice."""


class ApartRun(LinearRun):
    """A run over sliding windows that may keep them apart; ``lanes`` are the open windows then."""

    @property
    def is_decided(self) -> bool:
        """Check whether the run has had arrays; it may have none for now, without keys."""
        return self.shape != (0, 0)

    def choose(self, events: Events, keys: int) -> None:
        """Decide before the first events are processed."""
        window = self.window
        if self.is_decided or not self.sliding or self.modulus or window.within % window.slide:
            return
        windows = window.within // window.slide
        if len(events.ts) < EVENTS_MIN or windows > WINDOWS_MAX:
            return
        panes = int(events.ts[-1] - events.ts[0]) // window.slide + 1
        shared = min(len(events.ts), panes * max(keys, 1)) / len(events.ts)
        plain = self._is_plain(events)
        self.apart = self._costs_less(windows, shared, plain=plain, sums=self._has_sums(events))

    def _costs_less(self, windows: int, shared: float, *, plain: bool, sums: bool) -> bool:
        """Compare the costs of an event, ``shared`` of which end a pane."""
        size, numbers = max(self.program.size, 1), self.wcol.shape[1] + self.xcol.shape[1]
        lanes = self.program.start_size + size
        general = GENERAL_NS + START_NS * windows + 2 * LANE_NS * numbers * windows
        apart = EVENT_NS + 2 * LANE_NS * windows if plain else general
        if sums:
            apart = SUM_NS + SUM_LANE_NS * numbers * windows
        event = EVENT_NS + 2 * LANE_NS * lanes if plain and lanes <= 4 else GENERAL_NS
        event += 2 * LANE_NS * lanes * numbers
        products = size * size * lanes * numbers
        return bool(apart < event + 2 * PANE_NS * products * shared)

    def _is_plain(self, events: Events) -> bool:
        doubles = self.dtype == DOUBLE and self._counts_only and not events.grouped
        return doubles and self.program.plain() is not None

    def _has_sums(self, events: Events) -> bool:
        """Check whether lanes of sums and extremes may be added up as they are."""
        if self.dtype != DOUBLE or self._counts_only or events.grouped:
            return False
        # Zero matches times infinity are no number.
        return self.program.plain() is not None and fit_doubles(events.weights, finite=True)

    def _call(self, events: Events, begin: int) -> tuple[int, int, Rows]:
        if not self.apart:
            return super()._call(events, begin)
        large = self.large or self.exponent.any()
        if not large and self._is_plain(events):
            status, begin, found = self._count(events, begin)
        elif not large and self._has_sums(events):
            status, begin, found = self._sum(events, begin)
        else:
            return self._aggregate(events, begin)
        if status == linear.NARROW:
            # The other kernel rescales.
            self.large, status = True, FULL
        return status, begin, found

    def _count(self, events: Events, begin: int) -> tuple[int, int, Rows]:
        """Call the kernel of plain counts."""
        plain, size = self.program.plain(), self.program.size
        assert plain is not None, "it is plain"
        # What doubles comes first; the padding, which is no configuration, last.
        order = np.where(plain.source == plain.target[:, None], -1, plain.source)
        source = np.take_along_axis(plain.source, np.argsort(order, axis=1, kind="stable"), axis=1)
        out = self._rows_of(len(events.ts))
        status, begin, rows = windows_apart.count_apart(
            self.V, self.opened, self.dirty, plain.target, source,
            (source <= size).sum(axis=1), self.program.tables().counts, events.ts, events.key,
            events.codes, begin, self.window.slide, *out[:3],
        )  # fmt: skip
        return status, begin, Rows(*(array[:rows] for array in out))

    def _sum(self, events: Events, begin: int) -> tuple[int, int, Rows]:
        """Call the kernel of plain sums and extremes."""
        plain, size, tables = self.program.plain(), self.program.size, self.program.tables()
        assert plain is not None, "it is plain"
        source = np.where(plain.source < size, plain.source, size)
        source = np.sort(source, axis=1)
        out = self._rows_of(len(events.ts))
        status, begin, rows = windows_apart.sum_apart(
            tables.counts, self.V, self.M, self.start, self.one, self.exponent, self.opened,
            self.dirty, plain.target, source, (source < size).sum(axis=1),
            (plain.source == size).any(axis=1), tables.variable, events.ts, events.key,
            events.codes, events.weights, events.values, self.wcol, self.xcol, begin,
            self.window.slide, self.modulus, *out,
        )  # fmt: skip
        return status, begin, Rows(*(array[:rows] for array in out))

    def _aggregate(self, events: Events, begin: int) -> tuple[int, int, Rows]:
        """Call the kernel of all programs."""
        tables, out = self.program.tables(), self._rows_of(len(events.ts))
        # As many lanes begin matches as there are columns; a lane reads that of its start.
        more = max(self.lanes - tables.start.shape[1], 0)
        tables = tables._replace(start=np.pad(tables.start, ((0, 0), (0, more))))
        letters = self.program.letters_of_codes()[events.codes]
        status, begin, rows = windows_apart.aggregate_apart(
            tables, self.V, self.M, self.start, self.one, self.exponent, self.opened, self.dirty,
            events.ts, events.key, events.codes.astype(np.int32, copy=False), letters,
            self.weights(events.weights), events.values, self.wcol, self.xcol, begin,
            self.window.slide, events.grouped, SEMANTICS_CODES[self.program.semantics],
            self.dtype.type(1), self.dtype.type(0), self.modulus, *out,
        )  # fmt: skip
        return status, begin, Rows(*(array[:rows] for array in out))

    def _rows_of(self, count: int) -> tuple[NDArray[Any], ...]:
        """Allocate buffers for the rows that so many events or keys may bring."""
        return self._room(max(ROWS_ROOM, count + self.lanes))

    def has_open(self, until: int, keys: Any = slice(None)) -> NDArray[np.bool_]:
        """Mark the keys that have an open window with events, after ``flush`` up to a time."""
        return self.dirty[keys] if self.apart else super().has_open(until, keys)

    def _flush(self, until: int) -> list[Rows]:
        if not self.apart:
            return super()._flush(until)
        found, first = [], 0
        while first < self.keys:
            out = self._rows_of(self.keys)
            first, rows = windows_apart.flush_apart(
                self.program.tables().counts, self.V, self.M, self.start, self.one, self.exponent,
                self.opened, self.dirty, first, until // self.window.slide, self.dtype.type(1),
                self.dtype.type(0), self.modulus, *out,
            )  # fmt: skip
            found.append(Rows(*(array[:rows] for array in out)))
        return found
