"""Convert times to positions in the stream and back, by the blocks of a store.

The position of an event is the number of events before it. It is defined only if segments do not
overlap.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.store.compaction import clusters_of
from cepheid.store.snapshot import Cover, Snapshot
from cepheid.store.times import Times


def in_order(snapshot: Snapshot) -> bool:
    """Check that the segments of a store do not overlap."""
    segments = snapshot.manifest.segments
    clusters = clusters_of(segments)
    places = [id(segment) for cluster in clusters for segment in cluster]
    return places == [id(segment) for segment in segments] and all(
        a.last <= b.first for cluster in clusters for a, b in pairwise(cluster)
    )


class Places(NamedTuple):
    """The blocks of all segments: the position of their first events, and their times."""

    begins: NDArray[np.int64]
    first: Times
    last: Times
    rows: int

    @staticmethod
    def of(snapshot: Snapshot) -> Places:
        """Compute the positions for a store whose segments do not overlap."""
        begins, first, last, offset = [], [], [], 0
        for segment in snapshot.manifest.segments:
            blocks = snapshot.blocks(segment)
            begins.append(blocks.begins + offset)
            first.append(blocks.first)
            last.append(blocks.last)
            offset += segment.rows
        none = np.zeros(0, np.int64)
        return Places(
            np.concatenate([none, *begins]),
            np.concatenate([none, *first]),
            np.concatenate([none, *last]),
            offset,
        )

    def times(self, rows: Cover) -> Cover:
        """Convert ranges of positions to ranges of time, rounded out to whole blocks."""
        begins, ends = np.maximum(rows.begins, 0), np.minimum(rows.ends, self.rows) - 1
        some = begins <= ends
        low = np.searchsorted(self.begins, begins[some], side="right") - 1
        high = np.searchsorted(self.begins, ends[some], side="right") - 1
        return Cover(self.first[low], self.last[high] + 1)

    def places(self, times: Cover) -> Cover:
        """Convert ranges of time to ranges of positions, rounded out to whole blocks."""
        low = np.searchsorted(self.last, times.begins, side="left")
        high = np.searchsorted(self.first, times.ends, side="left")
        starts = np.append(self.begins, self.rows)
        some = low < high
        return Cover(starts[low[some]], starts[high[some]])
