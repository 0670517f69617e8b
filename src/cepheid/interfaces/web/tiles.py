"""Tiles of a timeline: the events of a stretch of time, counted by lane and by pixel.

Level 0 is one tile of all time; each level halves the tiles of the one before. A browser draws the
tiles of the level that fits its zoom, so that millions of events cost it as much as thousands.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.interfaces.web.timeline_task import LANES, TIMES, TYPES

BINS = 512
"""Pixels of a tile."""
LEVEL_MAX = 40
LANES_SHOWN_MAX = 60
TILES_KEPT = 512


class Tiles:
    """The events of a data set in the order of time, and the lanes that are shown."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self._times = np.load(folder / TIMES, mmap_mode="r")
        self._lanes = np.load(folder / LANES, mmap_mode="r")
        self._types = np.load(folder / TYPES, mmap_mode="r")
        self._told = told
        self._kinds = len(told["types"])
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._shown = np.zeros(0, np.int32)
        self.lanes: list[str] = []
        self.choose(())

    @property
    def start(self) -> int:
        """Return the time of the first event."""
        return int(self._times[0]) if len(self._times) else 0

    @property
    def end(self) -> int:
        """Return the time after the last event."""
        return int(self._times[-1]) + 1 if len(self._times) else 1

    def choose(self, first: Sequence[str]) -> None:
        """Choose the lanes to show: those named, then those with most events."""
        names, counts = self._told["lanes"], self._told["counts"]
        known = {name: place for place, name in enumerate(names)}
        named = [known[name] for name in dict.fromkeys(first) if name in known]
        common = sorted(range(len(names)), key=lambda place: -counts[place])
        chosen = list(dict.fromkeys([*named, *common]))[:LANES_SHOWN_MAX]
        # All distinct keys have a number, also those too many to be told.
        size = max(len(names), int(self._lanes.max()) + 1 if len(self._lanes) else 1)
        shown = np.full(size, -1, np.int32)
        shown[chosen] = np.arange(len(chosen))
        self._shown, self.lanes = shown, [names[place] for place in chosen]
        self._kept.clear()

    def about(self) -> dict[str, Any]:
        """Describe the timeline: its range, lanes and types."""
        return {
            "start": self.start,
            "end": self.end,
            "lanes": self.lanes,
            "lane_count": len(self._told["lanes"]),
            "types": self._told["types"],
            "key": self._told["key"],
            "dates": self._told["dates"],
            "events": self._told["events"],
            "bins": BINS,
        }

    def tile(self, level: int, place: int) -> bytes:
        """Count the events of a tile.

        Four bytes have the number of cells. Then come, for every cell that has events, its number
        (lane times bins, and the bin) and its count as four bytes each, and its commonest type as
        one.
        """
        key = (level, place)
        if key not in self._kept:
            self._kept[key] = self._counted(level, place)
            if len(self._kept) > TILES_KEPT:
                self._kept.popitem(last=False)
        return self._kept[key]

    def _counted(self, level: int, place: int) -> bytes:
        width = (self.end - self.start) / (1 << level)
        begin = self.start + width * place
        low = int(np.searchsorted(self._times, int(np.ceil(begin))))
        high = int(np.searchsorted(self._times, int(np.ceil(begin + width))))
        lanes = self._shown[self._lanes[low:high]]
        offsets = (self._times[low:high] - begin) * (BINS / width)
        bins = np.clip(offsets.astype(np.int64), 0, BINS - 1)
        kept = lanes >= 0
        cells = lanes[kept].astype(np.int64) * BINS + bins[kept]
        return _packed(cells, self._types[low:high][kept], self._kinds, len(self.lanes) * BINS)


def _packed(cells: NDArray[Any], types: NDArray[Any], kinds: int, size: int) -> bytes:
    """Pack the cells that have events."""
    counts = np.bincount(cells * kinds + types, minlength=size * kinds).reshape(size, kinds)
    totals = counts.sum(axis=1)
    used = np.flatnonzero(totals)
    commonest = counts[used].argmax(axis=1)
    head = struct.pack("<I", len(used))
    parts: list[NDArray[Any]] = [used.astype("<u4"), totals[used].astype("<u4")]
    parts.append(commonest.astype(np.uint8))
    return head + b"".join(bytes(part.tobytes()) for part in parts)
