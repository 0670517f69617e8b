"""Panes of time that buckets of a live stream without keys share out among themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def place_panes(times: NDArray[np.int64], pane: int, buckets: int) -> NDArray[np.int64]:
    """Compute the bucket of each event's pane.

    Pane numbers are hashed, since events of whole seconds may have only panes of even numbers.
    """
    mixed = (times // pane).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)
