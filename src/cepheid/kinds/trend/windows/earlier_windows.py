"""Drop matches that an earlier window has already listed (§7.2).

This is needed only where negation makes a match depend on its window: any other match is in its
first window or in none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.enumerate import find_ends
from cepheid.kernels.replay import mark_repeated
from cepheid.kinds.trend.listing.enumerate import Lister
from cepheid.kinds.trend.listing.found import Found


class EarlierWindows:
    """The windows before the listed ones, among the segments of a lister.

    Parameters
    ----------
    count
        The number of earlier windows that can hold the events of a window.
    step
        The difference between the windows of two consecutive segments.
    """

    def __init__(self, lister: Lister, count: int, step: int) -> None:
        self._lister = lister
        segments = lister.segments
        names = list(zip(segments.key.tolist(), *self._values(), strict=True))
        windows = segments.window.tolist()
        before = _before(names, windows, count * step)
        width = max(map(len, before), default=0)
        self._earlier = np.array(
            [found + [-1] * (width - len(found)) for found in before], np.int64
        ).reshape(len(windows), width)
        self._ends = np.zeros((len(windows), len(lister.graph.variable)), np.int64)
        find_ends(lister.graph, lister.data, self._ends)

    def drop_repeated(self, found: Found) -> Found:
        """Keep the matches that no earlier window has."""
        lister = self._lister
        repeated = np.zeros(len(found), np.bool_)
        mark_repeated(
            lister.graph, lister.data, lister.arrays.choice, lister.arrays.chosen, self._ends,
            lister.segments.rows, self._earlier, found.segment, found.ptr, found.rows,
            found.variables, repeated,
        )  # fmt: skip
        return found.take(~repeated)

    def _values(self) -> list[list[int]]:
        """Identify the parts of a segment by their chosen attributes and values."""
        segments, question = self._lister.segments, self._lister.question
        known = [segments.chosen.tolist()]
        owner: NDArray[np.int64] = self._lister.arrays.segment_of
        for number, listed in enumerate(question.listed_bits):
            value = np.full(len(segments.key), -1, np.int64)
            mine = segments.chosen[owner] >> number & 1 == 1
            mine &= segments.bits & listed != 0
            value[owner[mine]] = question.codes[number][segments.rows[mine]]
            known.append(value.tolist())
        return known


def _before(names: list[Any], windows: list[int], distance: int) -> list[list[int]]:
    """List for each segment the earlier ones of its name, the nearest first.

    The last of them is a window at this distance, or an earlier one that holds the same events.
    """
    passed: dict[Any, list[int]] = {}
    found: list[list[int]] = [[] for _ in names]
    for n in sorted(range(len(names)), key=windows.__getitem__):
        mine = passed.setdefault(names[n], [])
        for other in reversed(mine):
            found[n].append(other)
            if windows[other] <= windows[n] - distance:
                break
        mine.append(n)
    return found
