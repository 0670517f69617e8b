"""Compute the time that a sink waits before it tries again."""

from __future__ import annotations

from collections.abc import Iterator

FIRST_S = 0.5
LONGEST_S = 30.0
TRIES = 6
"""Six waits take half a minute: a server that restarts is back by then."""


def pauses() -> Iterator[float]:
    """Yield the waits between tries, each twice as long as the one before.

    Examples
    --------
    >>> list(pauses())
    [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    """
    for number in range(TRIES):
        yield min(FIRST_S * 2**number, LONGEST_S)
