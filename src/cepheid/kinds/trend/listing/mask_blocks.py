"""Cache blocks of non-separable predicates, for random access; they are computed on demand.

A block holds, for consecutive rows, the earlier rows that they may follow, back to the first event
of their windows. The cache is limited; the oldest blocks are evicted and computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.trend.look_back.relations import MASK_CELLS

ROOM_CELLS = 1 << 26
"""Cells of all blocks together, one byte each."""

Judge = Callable[[int, int, int], NDArray[np.bool_]]
"""Earliest row, first row, end: for each relation, later and earlier row, whether all hold."""


class _Kept(NamedTuple):
    block: int
    begin: int
    end: int


class MaskBlocks:
    """The blocks of all rows of some segments.

    Parameters
    ----------
    segment_ptr, order, bound
        Where segments begin, the orders of rows, and the first row of each row's window.
    relations
        The number of masks of a block; without masks there are no blocks.
    """

    def __init__(
        self,
        segment_ptr: NDArray[np.int64],
        order: NDArray[np.int64],
        bound: NDArray[np.int64],
        relations: int,
        judge: Judge,
    ) -> None:
        self._judge = judge
        self._kept: list[_Kept] = []
        self._end = 0
        firsts, bases = _cut(segment_ptr, order, bound) if relations else ([0], [0])
        self.first = np.array([*firsts, len(order)], np.int64)
        self.base = np.array(bases, np.int64)
        lengths = np.diff(self.first) if relations else np.zeros(0, np.int64)
        self.of_row = np.repeat(np.arange(len(lengths)), lengths)
        self.at = np.full(len(firsts), -1, np.int64)
        sizes = lengths * (self.first[1:] - self.base) * relations if relations else lengths
        room = max(int(sizes.max(initial=0)), min(ROOM_CELLS, int(sizes.sum())))
        self.mask = np.zeros(room, np.bool_)

    def load(self, block: int) -> None:
        """Compute a block, unless it is cached."""
        if self.at[block] >= 0:
            return
        first, last = int(self.first[block]), int(self.first[block + 1])
        found = self._judge(int(self.base[block]), first, last).ravel()
        begin = self._end if self._end + len(found) <= len(self.mask) else 0
        end = begin + len(found)
        for kept in self._kept:
            if kept.begin < end and begin < kept.end:
                self.at[kept.block] = -1
        self._kept = [kept for kept in self._kept if self.at[kept.block] >= 0]
        self._kept.append(_Kept(block, begin, end))
        self.mask[begin:end] = found
        self.at[block] = begin
        self._end = end


def _cut(
    segment_ptr: NDArray[np.int64], order: NDArray[np.int64], bound: NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """Compute where blocks begin and how far back they reach; tied rows share a block."""
    firsts: list[int] = []
    bases: list[int] = []
    for begin, end in zip(segment_ptr[:-1].tolist(), segment_ptr[1:].tolist(), strict=True):
        first = begin
        while first < end:
            base = int(bound[first])
            upto = min(first + max(MASK_CELLS // (first - base + 1024), 1), end)
            while upto < end and order[upto] == order[upto - 1]:
                upto += 1
            firsts.append(first)
            bases.append(base)
            first = upto
    return firsts, bases
