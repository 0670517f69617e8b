"""A matcher in the manner of ISEQ: it waits for the end of every situation, then joins backwards.

Situations arrive when they have ended, and lie in buffers in the order of their ends. One that
arrives is joined with the other definitions in a fixed order, which follows the constraints. Ends
are found by binary search; starts, whose order ISEQ does not use, are looked at one by one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels import temporal_join

relate = temporal_join.relate.machine

ANY, START, AFTER_START, END, AFTER_END = 0, 1, 2, 3, 4
"""Where the end of one situation lies, seen from another: anywhere before its start, at it, ..."""

_PLACES = np.array([0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 4, 4], np.int64)
"""The place of the end for each of the thirteen relations."""


@njit(cache=True)
def _first(te, low, high, wanted, above):
    while low < high:
        middle = (low + high) // 2
        if te[middle] < wanted or (above and te[middle] == wanted):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _narrow(mask, te, low, high, b_ts, b_te):
    """Return the range of situations whose ends fit some relations to B."""
    lowest, highest = 4, 0
    for number in range(13):
        if mask >> number & 1:
            lowest = min(lowest, _PLACES[number])
            highest = max(highest, _PLACES[number])
    if lowest > ANY:
        times = b_ts if lowest <= AFTER_START else b_te
        low = _first(te, low, high, times, lowest in (AFTER_START, AFTER_END))
    if highest < AFTER_END:
        times = b_ts if highest <= START else b_te
        high = _first(te, low, high, times, highest in (START, END))
    return low, high


@njit(cache=True)
def count_matches(ts, te, bounds, rows, kinds, keys, masks, orders, within):
    """Return how many matches there are, and the sum of the times at which they are reported.

    Parameters
    ----------
    ts, te, bounds
        Situations by definition and partition, in the order of their ends; where each of these
        begins.
    rows, kinds, keys
        Situations with their definitions and partitions, as they arrive in each partition.
    masks
        For every pair of definitions the allowed relations of the first to the second, 0 for all.
    orders
        For every definition the others, as they are joined to it.
    """
    count = bounds.shape[0]
    low, high = np.zeros(count, np.int64), np.zeros(count, np.int64)
    sel = np.zeros(count, np.int64)
    here, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    found, when, key = 0, 0.0, -1
    for i in range(rows.shape[0]):
        row, trigger = rows[i], kinds[i]
        if keys[i] != key:
            key = keys[i]
            for d in range(count):
                low[d] = high[d] = bounds[d, key]
        now = te[row]
        for d in range(count):
            while low[d] < high[d] and ts[low[d]] < now - within:
                low[d] += 1
        high[trigger] = row + 1
        if ts[row] < now - within:
            continue
        sel[trigger] = row
        level, fresh = 0, True
        while level >= 0:
            x = orders[trigger, level]
            if fresh:
                here[level], end[level] = low[x], high[x]
                for d in range(count):
                    if masks[x, d] and _is_bound(orders, trigger, level, d):
                        here[level], end[level] = _narrow(
                            masks[x, d], te, here[level], end[level], ts[sel[d]], te[sel[d]]
                        )
                fresh = False
            if here[level] >= end[level]:
                level -= 1
                continue
            candidate = here[level]
            here[level] += 1
            fits = True
            for d in range(count):
                if fits and masks[x, d] and _is_bound(orders, trigger, level, d):
                    relation = relate(ts[candidate], te[candidate], ts[sel[d]], te[sel[d]])
                    fits = masks[x, d] >> relation & 1 == 1
            if not fits:
                continue
            sel[x] = candidate
            if level < count - 2:
                level, fresh = level + 1, True
                continue
            found += 1
            when += now
    return found, when


@njit(cache=True)
def _is_bound(orders, trigger, level, d):
    bound = d == trigger
    for n in range(level):
        bound |= orders[trigger, n] == d
    return bound
