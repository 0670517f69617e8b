"""Choose the processor of a query by the times of its earlier runs in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict

from cepheid.accelerator.schedule import Place

NEAR = 4
"""Within this factor of the usual limit the other processor is tried, too."""

FAR = 1 << 10
"""The same for the CPU, for queries that never take it many times as long as the GPU."""

TRIES = 2
"""Runs on a processor that are compared: the first one may compile kernels."""

KEPT = 8
QUERIES_MAX = 1024

_Taken = dict[Place, list[float]]


class Experience:
    """Chooses a processor for a whole query: the usual one, until runs show that it is slower.

    A query counts as the same over as many events, up to the next power of two.

    Examples
    --------
    >>> runs = Experience()
    >>> for seconds in (0.02, 0.01):
    ...     runs.note("q", 1000, Place.CPU, seconds)
    >>> [runs.choose("q", rows, least=2000).value for rows in (1000, 100)]
    ['gpu', 'cpu']
    >>> for seconds in (3.0, 0.03):
    ...     runs.note("q", 1000, Place.GPU, seconds)
    >>> runs.choose("q", 1000, least=2000).value
    'cpu'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: OrderedDict[tuple[str, int], _Taken] = OrderedDict()

    def choose(self, query: str, rows: int, least: int, near: int = NEAR) -> Place:
        """Choose where a query runs that is usually for a GPU from ``least`` events on.

        The CPU is tried for up to ``near`` times as many, the GPU from a quarter of them on.
        """
        usual, other = Place.CPU, Place.GPU
        if rows >= least:
            usual, other = other, usual
        taken = self._taken.get((query, rows.bit_length()), {})
        here, there = taken.get(usual, []), taken.get(other, [])
        if len(here) < TRIES or not least / NEAR <= rows <= near * least:
            return usual
        if len(there) < TRIES:
            return other
        return usual if min(here) <= min(there) else other

    def note(self, query: str, rows: int, place: Place, seconds: float) -> None:
        """Record what a run took."""
        name = query, rows.bit_length()
        # Threads may run queries at the same time.
        with self._lock:
            taken = self._taken.setdefault(name, {})
            self._taken.move_to_end(name)
            taken[place] = [*taken.get(place, [])[-KEPT + 1 :], seconds]
            if len(self._taken) > QUERIES_MAX:
                self._taken.popitem(last=False)
