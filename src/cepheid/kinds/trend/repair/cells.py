"""Cells: keys and panes as numbers, and which of them a changed window needs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, KeyTable
from cepheid.arrays.key_values import KeyValues
from cepheid.kinds.trend.windows.summaries import HUGE
from cepheid.plans.plan import Partition

Numbers = NDArray[np.int64]


class Cells:
    """The cells of a query: for each its key, its pane and its group."""

    def __init__(self, partition: Partition, pane: int, per_window: int) -> None:
        self.pane, self.per_window = pane, per_window
        self.keys = KeyTable(partition.attributes)
        self._groups = KeyTable(partition.group_by)
        self._panes, self._pairs = KeyValues(), KeyValues()
        self.whole = set(partition.attributes) == set(partition.group_by)
        """Whether every group is one key."""
        self.group_of = np.zeros(0, np.int64)
        self.key, self.at = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._pairs)

    def number(self, columns: Columns, keys: Numbers, times: Numbers) -> Numbers:
        """Return the cells of events that have a key; new ones get numbers."""
        self._note_groups(columns, keys)
        # Without a window, everything is one pane.
        panes = times // self.pane if self.pane < HUGE else np.zeros_like(times)
        dense = self._panes.number(pa.chunked_array([pa.array(panes)]))
        cells = self._pairs.add_pairs(keys, dense)
        if len(self._pairs) > len(self.key):
            self.key, self.at = (_longer(own, len(self._pairs)) for own in (self.key, self.at))
        self.key[cells], self.at[cells] = keys, panes
        return cells

    def keep(self, kept: NDArray[np.bool_]) -> Numbers:
        """Forget all cells but some; return the new number of each."""
        cells = np.flatnonzero(kept)
        keys, number = np.unique(self.key[cells], return_inverse=True)
        if self.keys.names:
            self.keys = self.keys.take(keys)
            self.group_of = self.group_of[keys] if not self.whole else self.group_of
        self.key, self.at = number, self.at[cells]
        self._panes, self._pairs = KeyValues(), KeyValues()
        if len(cells):
            dense = self._panes.number(pa.chunked_array([pa.array(self.at)]))
            self._pairs.add_pairs(self.key, dense)
        return np.asarray(np.maximum(np.cumsum(kept) - 1, 0))

    def _note_groups(self, columns: Columns, keys: Numbers) -> None:
        if self.whole:
            return
        self.group_of = _longer(self.group_of, len(self.keys))
        self.group_of[keys] = self._groups.number(columns)

    def _group(self, cells: Numbers) -> Numbers:
        return self.key[cells] if self.whole else self.group_of[self.key[cells]]

    def needed(self, touched: Numbers) -> Numbers:
        """List the cells of all windows that touched cells are in, by key and pane."""
        if self.whole and self.per_window == 1:
            found = touched
        else:
            every = np.arange(len(self))
            near = self._near(every, touched, self.per_window - 1)
            found = every[near]
        return found[np.lexsort((self.at[found], self.key[found]))]

    def changed(self, key: Numbers, end: Numbers, touched: Numbers) -> NDArray[np.bool_]:
        """Mark the rows of keys and windows, given by their last panes, that cells are in."""
        group = key if self.whole else self.group_of[key]
        return self._holds(group, end - self.per_window, end - 1, touched)

    def _near(self, cells: Numbers, touched: Numbers, distance: int) -> NDArray[np.bool_]:
        """Mark the cells of a group that are at most so many panes from a touched one."""
        at = self.at[cells]
        return self._holds(self._group(cells), at - distance, at + distance, touched)

    def _holds(
        self, group: Numbers, first: Numbers, last: Numbers, touched: Numbers
    ) -> NDArray[np.bool_]:
        """Mark the ranges of panes of groups that hold a touched cell."""
        if not len(group) or not len(touched):
            return np.zeros(len(group), np.bool_)
        # By the ranks of touched panes, so that numbers stay small.
        panes, rank = np.unique(self.at[touched], return_inverse=True)
        groups, place = np.unique(self._group(touched), return_inverse=True)
        span = len(panes) + 1
        known = np.searchsorted(groups, group)
        here = groups[np.minimum(known, len(groups) - 1)] == group
        sorted_ = np.unique(place * span + rank)
        low = np.searchsorted(panes, first)
        high = np.searchsorted(panes, last, side="right")
        begin = np.searchsorted(sorted_, known * span + low)
        end = np.searchsorted(sorted_, known * span + high)
        return np.asarray(here & (begin < end))


def _longer(array: Numbers, size: int) -> Numbers:
    if size <= len(array):
        return array
    longer = np.zeros(max(size, 2 * len(array)), np.int64)
    longer[: len(array)] = array
    return longer
