"""Decide which rows of a rule are alerts: limits in any stretch of time, for each key.

The same limits apply to history and to live streams. Alerts come in the order of their times, and
those of one time in the order of their values, so that it does not matter how a query is cut into
tasks and micro-batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.jobs.derived import MATCH_ID
from cepheid.kinds.workload.json_rows import json_rows
from cepheid.plans.limits import Limit

SHOWN, DUPLICATE, OVER_LIMIT = 0, 1, 2
WHY = (None, "duplicate", "over limit")
"""The fates of a row: an alert, or why it is suppressed."""


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
    recent
        The times of the alerts of each key that went through before.

    Examples
    --------
    >>> throttle = Throttle(Limit(rows=2, per_us=10), tick_ns=1_000)
    >>> [throttle.lets("key", time) for time in (0, 1, 9, 10, 10, 11)]
    [True, True, False, True, False, True]
    """

    def __init__(
        self, limit: Limit, tick_ns: int, recent: dict[str, list[int]] | None = None
    ) -> None:
        self.limit = limit
        # A part of a tick is a tick: no two times are nearer.
        self._ticks = -(-limit.per_us * 1_000 // tick_ns)
        self._recent = {key: deque(times) for key, times in (recent or {}).items()}

    def lets(self, key: str, time: int) -> bool:
        """Return whether an alert goes through, and remember it if so."""
        recent = self._recent.setdefault(key, deque())
        while recent and recent[0] <= time - self._ticks:
            recent.popleft()
        if len(recent) >= self.limit.rows:
            return False
        recent.append(time)
        return True

    def recent(self, until: int) -> dict[str, list[int]]:
        """Collect the times that alerts at or after a time depend on, and forget the others."""
        first = until - self._ticks
        self._recent = {key: times for key, times in self._recent.items() if times[-1] > first}
        return {key: list(times) for key, times in self._recent.items()}

    def suppress(
        self, rows: pa.Table, times: NDArray[np.int64], fates: NDArray[np.int8], fate: int
    ) -> None:
        """Give a fate to the rows above the limit, among those that are alerts so far."""
        left = np.flatnonzero(fates == SHOWN)
        if not len(left):
            return
        order = left[in_order(rows.take(left), times[left])]
        chosen = rows.select(list(self.limit.by)).take(order)
        keys = keys_of((column.to_pylist() for column in chosen.columns), len(order))
        for place, key in zip(order.tolist(), keys, strict=True):
            if not self.lets(key, int(times[place])):
                fates[place] = fate


def in_order(rows: pa.Table, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of rows by their times, and of those of one time by their values."""
    order = np.argsort(times, kind="stable")
    sorted_times = times[order]
    if not len(order) or (np.diff(sorted_times) > 0).all():
        return order
    names = [name for name in rows.column_names if name != MATCH_ID]
    texts = json_rows(rows.select(names)).to_pylist()
    return np.array(sorted(order.tolist(), key=lambda n: (times[n], texts[n])), np.int64)


def keys_of(columns: Iterable[Iterable[object]], count: int) -> Iterator[str]:
    """Yield the key of every row as text: the values of some columns, of which there may be none.

    Examples
    --------
    >>> list(keys_of([["a", "b"], [-0.0, 0.0]], 2))
    ["('a', 0.0)", "('b', 0.0)"]
    """
    parts = [[_equal(value) for value in column] for column in columns]
    yield from map(repr, zip(*parts, strict=True)) if parts else iter(["()"] * count)


def _equal(value: object) -> object:
    """Return a value whose text is that of all values that are equal to it."""
    return value + 0.0 if isinstance(value, float) else value
