"""Partial matches level by level, and the order in which a search in depth finds matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Level(NamedTuple):
    """Partial matches of one length, by their parents on the level before, then by their edges.

    ``begins`` is the place of the begin of a match among the edges of a state, -1 for none;
    ``edge`` that of the edge by which a partial match came.
    """

    row: NDArray[np.int64]
    state: NDArray[np.int64]
    parent: NDArray[np.int64]
    edge: NDArray[np.int64]
    bound: NDArray[np.int64]
    begins: NDArray[np.int64]


def order_matches(levels: Sequence[Level]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order all matches as a search in depth would; return the level and the row of each.

    A row with a begin is a match, which comes after what earlier edges of its state lead to, and
    before what later ones do.
    """
    sizes = [(level.begins >= 0).astype(np.int64) for level in levels]
    for number in range(len(levels) - 1, 0, -1):
        np.add.at(sizes[number - 1], levels[number].parent, sizes[number])
    total = int(sizes[0].sum())
    depth, node = np.empty(total, np.int64), np.empty(total, np.int64)
    offset = np.cumsum(sizes[0]) - sizes[0]
    for number, level in enumerate(levels):
        if number:
            offset = _offsets(levels[number - 1], level, sizes[number], offset)
        own = np.flatnonzero(level.begins >= 0)
        place = offset[own]
        if number + 1 < len(levels):
            place = place + _earlier(level, levels[number + 1], sizes[number + 1])[own]
        depth[place], node[place] = number, own
    return depth, node


def _offsets(
    above: Level, level: Level, sizes: NDArray[np.int64], offset: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Compute where the matches of each row begin: after its elder siblings, and its parent."""
    before = np.cumsum(sizes) - sizes
    first = np.searchsorted(level.parent, np.arange(len(above.row)))
    padded = np.append(before, sizes.sum())
    within = before - padded[first[level.parent]]
    begins = above.begins[level.parent]
    own = (begins >= 0) & (begins < level.edge)
    return np.asarray(offset[level.parent] + within + own)


def _earlier(level: Level, below: Level, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the matches of earlier edges than the begin, for each row of a level."""
    early = below.edge < level.begins[below.parent]
    found = np.zeros(len(level.row), np.int64)
    np.add.at(found, below.parent[early], sizes[early])
    return found
