"""Times to places in the stream and back: the blocks of a store, one after the other.

An event has a place only if segments do not overlap: then it is the number of the events before.
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
    """Return whether the segments of a store follow each other."""
    segments = snapshot.manifest.segments
    clusters = clusters_of(segments)
    places = [id(segment) for cluster in clusters for segment in cluster]
    return places == [id(segment) for segment in segments] and all(
        a.last <= b.first for cluster in clusters for a, b in pairwise(cluster)
    )


class Places(NamedTuple):
    """The blocks of all segments: the place of their first events, and their times."""

    begins: NDArray[np.int64]
    first: Times
    last: Times
    rows: int

    @staticmethod
    def of(snapshot: Snapshot) -> Places:
        """Return the places of a store whose segments are in order."""
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
        """Return the times of ranges of places, up to the ends of blocks."""
        begins, ends = np.maximum(rows.begins, 0), np.minimum(rows.ends, self.rows) - 1
        some = begins <= ends
        low = np.searchsorted(self.begins, begins[some], side="right") - 1
        high = np.searchsorted(self.begins, ends[some], side="right") - 1
        return Cover(self.first[low], self.last[high] + 1)

    def places(self, times: Cover) -> Cover:
        """Return the places of ranges of time, up to the ends of blocks."""
        low = np.searchsorted(self.last, times.begins, side="left")
        high = np.searchsorted(self.first, times.ends, side="left")
        starts = np.append(self.begins, self.rows)
        some = low < high
        return Cover(starts[low[some]], starts[high[some]])
