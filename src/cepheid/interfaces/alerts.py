"""Decide which rows of a rule are alerts: limits in any stretch of time, for each key."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator

from cepheid.interfaces.rule import Limit


class Throttle:
    """Lets at most so many alerts of a key through in any stretch of time.

    Alerts come in the order of time. Two of them that are as far apart as the stretch is long are
    not in one stretch.

    Parameters
    ----------
    limit
        The number of alerts, and the length of the stretch in microseconds.
    tick_ns
        The nanoseconds of one tick of the times.

    Examples
    --------
    >>> throttle = Throttle(Limit(rows=2, per_us=10), tick_ns=1_000)
    >>> [throttle.lets("key", time) for time in (0, 1, 9, 10, 10, 11)]
    [True, True, False, True, False, True]
    """

    def __init__(self, limit: Limit, tick_ns: int) -> None:
        self._rows = limit.rows
        # A part of a tick is a tick: no two times are nearer.
        self._ticks = -(-limit.per_us * 1_000 // tick_ns)
        self._recent: dict[Hashable, deque[int]] = {}

    def lets(self, key: Hashable, time: int) -> bool:
        """Return whether an alert goes through, and remember it if so."""
        recent = self._recent.setdefault(key, deque())
        while recent and recent[0] <= time - self._ticks:
            recent.popleft()
        if len(recent) >= self._rows:
            return False
        recent.append(time)
        return True


def keys_of(columns: Iterable[Iterable[object]], count: int) -> Iterator[Hashable]:
    """Yield the key of every row: the values of some columns, of which there may be none."""
    parts = [[_hashable(value) for value in column] for column in columns]
    yield from zip(*parts, strict=True) if parts else iter([()] * count)


def _hashable(value: object) -> Hashable:
    """Return a value that is equal to itself: NaN is not, and lists have no hash."""
    return repr(value) if isinstance(value, list | dict) or value != value else value
