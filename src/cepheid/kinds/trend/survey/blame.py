"""Count the matches through each event (§17.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.blame import count_through
from cepheid.kinds.trend.survey.graph import Walk


class _Room(NamedTuple):
    """The arrays of the kernel; see ``kernels/blame.py``."""

    V: NDArray[Any]
    edge_slot: NDArray[np.int64]
    source: NDArray[np.int64]
    predicate: NDArray[np.int64]
    tree: NDArray[Any]
    end_bound: NDArray[np.int64]
    back: NDArray[Any]
    through: NDArray[Any]


def blame_rows(walk: Walk, counts: NDArray[Any]) -> NDArray[Any]:
    """Count the matches through each row of the segments, as wide numbers."""
    rows, longest = len(walk.segments.rows), walk.segments.longest
    room = _Room(
        counts, *walk.slots, np.zeros((len(walk.slots.source), 2 * longest), np.complex128),
        np.zeros(walk.states, np.int64), np.zeros((rows, walk.states), np.complex128),
        np.zeros(rows, np.complex128),
    )  # fmt: skip
    count_through(walk.graph, walk.data, room)
    return room.through
