"""Matches that an earlier window has had are not listed again (§7.2).

Only where negation makes a match depend on its window: others are in the first window or in none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.engine.enumerate import Found, Lister
from cepheid.kernels.enumerate import find_ends
from cepheid.kernels.replay import mark_repeated


class EarlierWindows:
    """The windows before those that are listed, among the segments of a lister.

    Parameters
    ----------
    count
        How many windows before can hold what a window holds.
    step
        The difference between the windows of two segments that follow each other.
    """

    def __init__(self, lister: Lister, count: int, step: int) -> None:
        self._lister = lister
        segments = lister.segments
        names = list(zip(segments.key.tolist(), *self._values(), strict=True))
        windows = segments.window.tolist()
        place = {(*name, w): n for n, (name, w) in enumerate(zip(names, windows, strict=True))}
        self._earlier = np.array(
            [
                [place.get((*name, w - k * step), -1) for k in range(1, count + 1)]
                for name, w in zip(names, windows, strict=True)
            ],
            np.int64,
        ).reshape(len(windows), count)
        self._ends = np.zeros((len(windows), len(lister.graph.variable)), np.int64)
        find_ends(lister.graph, lister.data, self._ends)

    def drop_repeated(self, found: Found) -> Found:
        """Return the matches that none of the windows before has had."""
        lister = self._lister
        repeated = np.zeros(len(found), np.bool_)
        mark_repeated(
            lister.graph, lister.data, lister.arrays.choice, lister.arrays.chosen, self._ends,
            lister.segments.rows, self._earlier, found.segment, found.ptr, found.rows,
            found.variables, repeated,
        )  # fmt: skip
        return found.take(~repeated)

    def _values(self) -> list[list[int]]:
        """Return what tells the parts of a segment apart: the chosen attributes and values."""
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
