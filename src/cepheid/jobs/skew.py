"""Propose another number of buckets for a live query in which one of them has most events.

A key has one bucket, and the checkpoint fixes the number of buckets. So a bucket that several large
keys share can only be relieved by a start with another number; which one, is found by replaying the
hashes of sampled events. Tasks send counts and samples, the driver adds them up.
"""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np
from numpy.typing import NDArray

SKEW_MIN = 2.0
"""A bucket is overloaded from so many times the mean on."""
BATCHES_MIN = 3
"""Micro-batches in a row in which the same bucket is overloaded."""
EVENTS_MIN = 10_000
"""Events of a micro-batch from which it counts."""
GROWTH_MAX = 4
"""At most so many times as many buckets are tried."""
GAIN_MAX = 0.75
"""Another number of buckets is worth a start if the largest share becomes so much smaller."""
NEAR_BEST = 1.1
"""Of the numbers that are nearly the best, the smallest is proposed."""

HOT_KEYS = ". Stop the query, and go on with `--hot-keys`, which splits such keys"
"""The way out of a query whose windows compose."""

Numbers = NDArray[np.int64]


class SentEvents(msgspec.Struct, frozen=True):
    """The events that a task sent in a micro-batch.

    ``counts`` are those of each bucket, ``sample`` the hashes of some of their keys, each with the
    number of events that it stands for; empty if keys have no hash here. ``name`` is the most
    frequent key of the sample as text, with its hash.
    """

    batch: int
    task: int
    counts: list[int]
    sample: dict[int, int]
    name: tuple[int, str] | None = None


class SkewWatch:
    """The events of the last micro-batches by bucket, and whether a proposal was made.

    ``splits`` says that the query can split hot keys, with an option of its own.
    """

    def __init__(self, buckets: int, buckets_most: int, *, splits: bool) -> None:
        self._buckets, self._most, self._splits = buckets, buckets_most, splits
        self._batch = -1
        self._tasks: dict[int, SentEvents] = {}
        self._skewed: deque[tuple[int, list[SentEvents]]] = deque(maxlen=BATCHES_MIN)
        self._told = False

    def add(self, sent: SentEvents) -> str:
        """Add what a task sent; return a proposal, once, when a micro-batch is over."""
        if self._told or sent.batch < self._batch:
            return ""
        found = ""
        if sent.batch > self._batch:
            found = self.judge()
            self._batch, self._tasks = sent.batch, {}
        # A task that runs twice sends the same events twice.
        self._tasks[sent.task] = sent
        return found

    def judge(self) -> str:
        """Judge the micro-batch so far; return a proposal if it is the last of several."""
        came = list(self._tasks.values())
        counts = sum((np.array(one.counts, np.int64) for one in came), np.zeros(1, np.int64))
        total = int(counts.sum())
        if total < EVENTS_MIN or self._buckets < 2:
            return ""
        largest = int(counts.argmax())
        if counts[largest] * self._buckets <= SKEW_MIN * total:
            self._skewed.clear()
            return ""
        if self._skewed and self._skewed[-1][0] != largest:
            self._skewed.clear()
        self._skewed.append((largest, came))
        if len(self._skewed) < BATCHES_MIN:
            return ""
        self._told = True
        return self._proposal(largest, [one for _, sent in self._skewed for one in sent])

    def _proposal(self, largest: int, sent: list[SentEvents]) -> str:
        counts = sum((np.array(one.counts, np.int64) for one in sent), np.zeros(1, np.int64))
        times = counts[largest] * self._buckets / counts.sum()
        said = f"bucket {largest} of {self._buckets} had {times:.1f} times the mean number of "
        said += f"events in {BATCHES_MIN} micro-batches"
        hashes, weights = _merged(sent)
        if not len(hashes):
            return f"{said}: start anew with another `--buckets` and `--restart-from earliest`"
        own = hashes % self._buckets == largest
        top = int(weights.argmax())
        alone, before = (float(one / weights.sum()) for one in (weights[top], weights[own].sum()))
        said += f", of {int(own.sum()):,} of {len(hashes):,} sampled keys"
        if alone * self._buckets > SKEW_MIN:
            name = dict(one.name for one in sent if one.name).get(int(hashes[top]), "one key")
            said += f": {name} alone has {alone:.0%} of all events, too many for a task whatever "
            said += "the number of buckets"
            other = ", and this query cannot split it: add a column to its keys, if it may have one"
            return said + (HOT_KEYS if self._splits else other)
        if self._splits:
            return said + HOT_KEYS
        count, after = better_count(hashes, weights, self._buckets, self._most)
        if after > GAIN_MAX * before:
            tried = min(GROWTH_MAX * self._buckets, self._most)
            return f"{said}: no number of buckets up to {tried} spreads them better"
        said += f": with {count} buckets the largest has {after:.0%} of the events instead of "
        said += f"{before:.0%}. Stop the query, and start it anew with `--restart-from earliest "
        return said + f"--buckets {count}`: rows that have left leave again"


def better_count(hashes: Numbers, weights: Numbers, now: int, most: int) -> tuple[int, float]:
    """Find the number of buckets whose largest share is small, and that share.

    Examples
    --------
    >>> better_count(np.array([0, 2, 4, 1]), np.array([3, 3, 3, 1]), 2, 1000)
    (5, 0.3)
    """
    shares = {
        count: float(np.bincount(hashes % count, weights).max() / weights.sum())
        for count in range(now + 1, min(GROWTH_MAX * now, most) + 1)
    }
    if not shares:
        return now, 1.0
    best = min(shares.values())
    return next((n, share) for n, share in shares.items() if share <= NEAR_BEST * best)


def _merged(sent: list[SentEvents]) -> tuple[Numbers, Numbers]:
    """Add up samples; return the hashes and the events that each stands for."""
    found: dict[int, int] = {}
    for one in sent:
        for code, weight in one.sample.items():
            found[code] = found.get(code, 0) + weight
    return np.array([*found], np.int64), np.array([*found.values()], np.int64)
