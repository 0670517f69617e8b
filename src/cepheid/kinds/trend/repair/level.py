"""One level of the trees of all cells: items in the order of time, in blocks of a few.

A *cell* is a key and a pane. The items of the lowest level are events, and those of any other level
are the blocks of the one below. A change touches the blocks that hold its items: they are gathered,
the items that leave are left out, those that come are merged in, and what is there then is cut into
blocks again. Everything is done for all changes of a batch at once, so a batch costs the blocks
that it touches, and a copy of the directory of blocks.

    directory   one entry a block, by cell and first time: where its items are, and its node
    items       one entry an item, in pieces that lie anywhere: its time and its number
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import blocks

Numbers = NDArray[np.int64]

GARBAGE_SHARE = 2
"""Items are packed once there are so many times as many places as items."""


class Items(NamedTuple):
    """Items of a level: their cells, times and numbers; those that come are in this order."""

    cell: Numbers
    time: Numbers
    item: Numbers

    def __len__(self) -> int:
        return len(self.cell)


class Recut(NamedTuple):
    """The outcome of a change: blocks that are gone, and blocks that are new."""

    gone: Items
    """Their cells, first times and nodes."""
    cell: Numbers
    """Of new blocks: the cell, the first time, and where their items begin in ``item``."""
    first: Numbers
    starts: Numbers
    time: Numbers
    """Of the items of new blocks: their times and numbers."""
    item: Numbers

    @property
    def block(self) -> Numbers:
        """Return the number of the new block that has each item."""
        return np.repeat(np.arange(len(self.starts)), np.diff([*self.starts, len(self.item)]))


class Level:
    """The blocks of all cells on one level, each of about ``size`` items."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cell, self.first, self.begin, self.length, self.node = (
            np.zeros(0, np.int64) for _ in range(5)
        )
        self.time, self.item = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.used = 0
        self._leaves = np.zeros(0, np.bool_)

    def change(self, leave: Items, come: Items) -> Recut:
        """Take items away and put others in; those that come follow equal times."""
        out_at, _ = self._find(leave)
        in_at, known = self._find(come)
        touched = distinct(len(self.cell), out_at, in_at[known])
        kept, counts = self._gather(touched, leave.item)
        edges = np.concatenate([[0], np.cumsum(counts)])
        place = self._places(come, in_at, known, touched, edges, kept.time)
        # With where each item is, or would be, in the directory.
        merged, stood = _merge(kept, np.repeat(touched, counts), come, in_at, place)
        starts = self._cut(merged, stood)
        gone = Items(self.cell[touched], self.first[touched], self.node[touched])
        self._replace(touched, merged, starts, stood)
        return Recut(gone, merged.cell[starts], merged.time[starts], starts, *merged[1:])

    def put_nodes(self, recut: Recut, nodes: Numbers) -> None:
        """Give the new blocks of a change their nodes."""
        at, _ = self._find(Items(recut.cell, recut.first, nodes))
        self.node[at] = nodes

    def nodes_of(self, cells: Numbers) -> tuple[Numbers, Numbers]:
        """Return the nodes of some cells, one cell after the other, and how many each has."""
        low = np.searchsorted(self.cell, cells, side="left")
        counts = np.searchsorted(self.cell, cells, side="right") - low
        return self.node[_ranges(low, counts)], counts

    def drop(self, gone: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Forget whole cells, given as a mask; return their items and nodes."""
        mine = gone[self.cell]
        at = np.flatnonzero(mine)
        items = self.item[_ranges(self.begin[at], self.length[at])]
        nodes = self.node[at]
        for name in ("cell", "first", "begin", "length", "node"):
            setattr(self, name, getattr(self, name)[~mine])
        return items, nodes

    def everything(self) -> Items:
        """Return all items in their order."""
        at = _ranges(self.begin, self.length)
        return Items(np.repeat(self.cell, self.length), self.time[at], self.item[at])

    @property
    def most(self) -> int:
        """Count the blocks of the cell that has most."""
        new = np.flatnonzero(np.diff(self.cell, prepend=-1, append=-1))
        return int(np.diff(new).max(initial=0))

    def _find(self, items: Items) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the block that has the time of each item, and whether its cell has any."""
        low = np.searchsorted(self.cell, items.cell, side="left")
        high = np.searchsorted(self.cell, items.cell, side="right")
        known = low < high
        at = low.copy()
        several = np.flatnonzero(high - low > 1)
        if len(several):
            found = _upper(self.first, low[several], high[several], items.time[several])
            at[several] = np.maximum(found - 1, low[several])
        return at, known

    def _gather(self, touched: Numbers, leaving: Numbers) -> tuple[Items, Numbers]:
        """Return the items of blocks without those that leave, and how many each has."""
        lengths = self.length[touched]
        at = _ranges(self.begin[touched], lengths)
        item = self.item[at]
        owner = np.repeat(np.arange(len(touched)), lengths)
        if len(leaving):
            most = int(leaving.max()) + 1
            if len(self._leaves) <= most:
                self._leaves = np.zeros(2 * most + 1, np.bool_)
            self._leaves[leaving] = True
            # Numbers beyond the last one that leaves are looked up behind it, where nothing is.
            stays = ~self._leaves[np.minimum(item, len(self._leaves) - 1)]
            self._leaves[leaving] = False
            at, item, owner = at[stays], item[stays], owner[stays]
        counts = np.bincount(owner, minlength=len(touched)).astype(np.int64)
        return Items(self.cell[touched][owner], self.time[at], item), counts

    def _places(
        self,
        come: Items,
        at: Numbers,
        known: NDArray[np.bool_],
        touched: Numbers,
        edges: Numbers,
        times: Numbers,
    ) -> Numbers:
        """Return before which of the gathered items each new one comes."""
        block = np.searchsorted(touched, at)
        low = edges[block]
        high = np.where(known, edges[np.minimum(block + 1, len(edges) - 1)], low)
        return _upper(times, low, high, come.time)

    def _cut(self, items: Items, stood: Numbers) -> Numbers:
        """Cut items into blocks of one cell; items of one time stay together."""
        starts = np.empty(len(items), np.int64)
        return starts[: blocks.cut_blocks(items.cell, items.time, stood, self.size, starts)]

    def _replace(self, touched: Numbers, items: Items, starts: Numbers, stood: Numbers) -> None:
        """Put new blocks in the place of those that were touched."""
        begin = self._room(len(items))
        self.time[begin : begin + len(items)] = items.time
        self.item[begin : begin + len(items)] = items.item
        stays = np.ones(len(self.cell), np.bool_)
        stays[touched] = False
        first_stood = stood[starts]
        before = first_stood - np.searchsorted(touched, first_stood)
        lengths = np.diff([*starts, len(items)])
        new = {
            "cell": items.cell[starts],
            "first": items.time[starts],
            "begin": begin + starts,
            "length": lengths,
            "node": np.full(len(starts), -1, np.int64),
        }
        old = np.ones(len(before) + int(stays.sum()), np.bool_)
        here = before + np.arange(len(before))
        old[here] = False
        for name, values in new.items():
            both = np.empty(len(old), np.int64)
            both[old], both[here] = getattr(self, name)[stays], values
            setattr(self, name, both)

    def _room(self, count: int) -> int:
        """Make room for items; pack those that are in use if most are not."""
        if self.used + count > len(self.time):
            live = int(self.length.sum())
            at = _ranges(self.begin, self.length)
            size = GARBAGE_SHARE * (live + count) + 1024
            time, item = np.empty(size, np.int64), np.empty(size, np.int64)
            time[:live], item[:live] = self.time[at], self.item[at]
            self.time, self.item = time, item
            self.begin = np.cumsum(self.length) - self.length
            self.used = live
        begin = self.used
        self.used += count
        return begin


def distinct(size: int, *numbers: Numbers) -> Numbers:
    """List the distinct ones of numbers below a size, in order."""
    seen = np.zeros(size, np.bool_)
    for some in numbers:
        seen[some] = True
    return np.flatnonzero(seen)


def _merge(
    kept: Items, stood: Numbers, come: Items, at: Numbers, place: Numbers
) -> tuple[Items, Numbers]:
    """Merge new items into others, before given places; likewise where they stand."""
    out = np.empty((4, len(kept) + len(come)), np.int64)
    blocks.merge_items(*kept, stood, *come, at, place, out)
    return Items(out[0], out[1], out[2]), out[3]


def _upper(values: Numbers, low: Numbers, high: Numbers, asked: Numbers) -> Numbers:
    """Find in sorted parts [low, high) the first value above each asked one."""
    found = np.empty(len(asked), np.int64)
    blocks.upper_bounds(values, low, high, asked, found)
    return found


def _ranges(begin: Numbers, length: Numbers) -> Numbers:
    """List the numbers of several ranges."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(begin - (ends - length), length))
