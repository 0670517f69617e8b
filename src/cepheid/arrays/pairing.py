"""Ranges of places in, their members out, in blocks of bounded size: the candidates of joins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

BLOCK_PAIRS = 1 << 20
"""Pairs on which a condition is evaluated at once."""


def members(begins: Rows, counts: Rows, most: int | None = None) -> Iterator[tuple[Rows, Rows]]:
    """Yield the number of a range, and a place in it, for every member of all ranges.

    A block has at most so many members, `BLOCK_PAIRS` by default, or those of a single range.

    Examples
    --------
    >>> blocks = members(np.array([5, 0, 7]), np.array([2, 0, 3]), most=3)
    >>> [(numbers.tolist(), places.tolist()) for numbers, places in blocks]
    [([0, 0], [5, 6]), ([2, 2, 2], [7, 8, 9])]
    """
    most = BLOCK_PAIRS if most is None else most
    total = np.cumsum(counts)
    cut = 0
    while cut < len(counts):
        done = int(total[cut - 1]) if cut else 0
        until = max(int(np.searchsorted(total, done + most, side="right")), cut + 1)
        own = counts[cut:until]
        offsets = np.cumsum(own) - own
        places = np.arange(int(own.sum())) + np.repeat(begins[cut:until] - offsets, own)
        if len(places):
            yield np.repeat(np.arange(cut, until), own), places
        cut = until
