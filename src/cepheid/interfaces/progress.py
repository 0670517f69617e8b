"""Show the progress of a command on a terminal: the file, the events and their rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cepheid.errors import visible

RATE_AFTER_S = 0.5
"""Rates of shorter times say little."""


class Reading:
    """The progress of reading files; ``tell`` shows a text in the place of the one before."""

    def __init__(
        self,
        files: Sequence[Path],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._files = files
        self._tell = tell
        self._clock = clock
        self._start = clock()
        self._place = 0
        self._events = 0

    def open(self, place: int) -> None:
        """Tell that the file at a place is read now."""
        self._place = place
        self._show()

    def read(self, events: int) -> None:
        """Tell how many events have been read."""
        self._events = events
        self._show()

    def _show(self) -> None:
        name = visible(self._files[self._place].name)
        several = f" ({self._place + 1} of {len(self._files)})" * (len(self._files) > 1)
        seconds = self._clock() - self._start
        rate = f", {rate_of(self._events / seconds)}" if seconds >= RATE_AFTER_S else ""
        self._tell(f"reading {name}{several}, {self._events:,} events{rate}")


def rate_of(events_a_second: float) -> str:
    """Write a rate in three digits at most.

    Examples
    --------
    >>> rate_of(2_140_000), rate_of(53_100), rate_of(12)
    ('2.1 M events/s', '53 k events/s', '12 events/s')
    """
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if events_a_second >= size:
            number = events_a_second / size
            return f"{number:.1f}{unit} events/s" if number < 10 else f"{number:.0f}{unit} events/s"
    return f"{events_a_second:.0f} events/s"
