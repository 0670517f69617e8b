"""The events of a table that changes, as the arrays that kernels take; rows are used again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import EventArrays

Numbers = NDArray[np.int64]


class EventPool:
    """Events by row: time, cell, variables, weights and values."""

    def __init__(self) -> None:
        self.ts, self.cell = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._bits: NDArray[Any] | None = None
        self._weights: NDArray[Any] = np.zeros((0, 0))
        self._values = np.zeros((0, 0), np.int64)
        self._free = np.zeros(0, np.int64)
        self._count = 0

    def add(self, events: EventArrays, cells: Numbers) -> Numbers:
        """Keep events; return their rows."""
        rows = self._take(len(events.ts))
        self._grow(events)
        self._set(rows, events, cells)
        return rows

    def _set(self, rows: Numbers, events: EventArrays, cells: Numbers) -> None:
        assert self._bits is not None, "it has room"
        self.ts[rows], self.cell[rows], self._bits[rows] = events.ts, cells, events.bits
        self._weights[:, rows], self._values[:, rows] = events.weights, events.values

    def put(self, rows: Numbers, events: EventArrays, cells: Numbers) -> None:
        """Keep events in given rows, in a pool that has none; rows between them are free."""
        self._count = int(rows.max()) + 1
        unused = np.ones(self._count, np.bool_)
        unused[rows] = False
        self._free = np.flatnonzero(unused)
        self._grow(events)
        self._set(rows, events, cells)

    def arrays(self, rows: Numbers, times: Numbers, keys: Numbers) -> EventArrays:
        """Return events of some rows, in this order, with their times and the given keys."""
        assert self._bits is not None, "there are events"
        return EventArrays(
            times,
            keys,
            np.take(self._bits, rows),
            np.take(self._weights, rows, axis=1),
            np.take(self._values, rows, axis=1),
        )

    def free(self, rows: Numbers) -> None:
        """Forget events."""
        self._free = np.concatenate([self._free, rows])

    def _take(self, count: int) -> Numbers:
        spare = self._free[: min(count, len(self._free))]
        self._free = self._free[len(spare) :]
        new = np.arange(self._count, self._count + count - len(spare))
        self._count += len(new)
        return np.concatenate([spare, new])

    def _grow(self, like: EventArrays) -> None:
        """Make room for all rows."""
        if self._bits is None:
            self._bits = np.zeros(0, like.bits.dtype)
            self._weights = np.zeros((len(like.weights), 0), like.weights.dtype)
            self._values = np.zeros((len(like.values), 0), np.int64)
        size = len(self.ts)
        if self._count <= size:
            return
        room = max(self._count, 2 * size)
        for name in ("ts", "cell", "_bits", "_weights", "_values"):
            before = getattr(self, name)
            after = np.zeros((*before.shape[:-1], room), before.dtype)
            after[..., :size] = before
            setattr(self, name, after)
