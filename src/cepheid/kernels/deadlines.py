"""Mark the events before or after which a forbidden pattern occurs within a deadline.

The first three kernels are for patterns of which one event is an occurrence. They run over all
events in time order, with a few numbers for every key. The others get segments and, for every row,
the latest start of an occurrence that ends there (``occurrences.py``). All take O(1) per event.

With ``together``, events of equal time do not see each other (§1.3).
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

NEVER = -(1 << 62) - (1 << 61)
"""A time that is before every deadline."""


@kernel()
def mark_next(ts, key, occurs, within, together, nearest, second, marked):
    """Mark the events of a key after which an occurrence comes in less than ``within``.

    ``nearest`` and ``second`` have room for every key; they are the two next times of occurrences.
    """
    for row in range(ts.shape[0] - 1, -1, -1):
        k = key[row]
        if k < 0:
            continue
        time = nearest[k]
        if together and time == ts[row]:
            time = second[k]
        marked[row] = time < ts[row] + within
        if occurs[row] and nearest[k] != ts[row]:
            second[k] = nearest[k]
            nearest[k] = ts[row]


@kernel()
def mark_last(ts, key, occurs, within, together, nearest, second, marked):
    """Mark the events of a key before which an occurrence came less than ``within`` ago."""
    for row in range(ts.shape[0]):
        k = key[row]
        if k < 0:
            continue
        time = nearest[k]
        if together and time == ts[row]:
            time = second[k]
        marked[row] = time > ts[row] - within
        if occurs[row] and nearest[k] != ts[row]:
            second[k] = nearest[k]
            nearest[k] = ts[row]


@kernel()
def mark_beside(ts, key, occurs, within, together, last, here, before, marked):
    """Mark the events directly before which an occurrence came less than ``within`` ago.

    For every key, ``last`` is the time of its last event, ``here`` whether an event of this time
    (with ``together``, else the last event) is an occurrence, and ``before`` when those before
    it were one. Times are in order; of reversed ones with the other sign, the next are the last.
    """
    for row in range(ts.shape[0]):
        k = key[row]
        if k < 0:
            continue
        if not together or last[k] != ts[row]:
            before[k] = last[k] if here[k] else NEVER
            last[k] = ts[row]
            here[k] = False
        marked[row] = before[k] > ts[row] - within
        here[k] = here[k] or occurs[row]


@kernel()
def mark_ahead(segment_ptr, ts, order, found, within, marked):
    """Mark rows after which an occurrence starts that ends in less than ``within``."""
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        latest = np.int64(-1)
        upto = begin
        for row in range(begin, end):
            while upto < end and ts[upto] < ts[row] + within:
                latest = max(latest, found[upto])
                upto += 1
            marked[row] = latest > order[row]


@kernel()
def mark_before(segment_ptr, ts, order, found, within, time_of, marked):
    """Mark rows before which an occurrence ends that started less than ``within`` ago.

    ``time_of`` has room for the times of the longest segment.
    """
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        latest = np.int64(-1)
        i = begin
        while i < end:
            j = i
            after = latest
            time_of[order[i]] = ts[i]
            while j < end and order[j] == order[i]:
                marked[j] = latest >= 0 and time_of[latest] > ts[j] - within
                after = max(after, found[j])
                j += 1
            latest = after
            i = j
