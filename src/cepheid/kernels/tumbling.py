"""Count matches in windows that do not overlap, straight from the columns of a batch.

Windows begin at multiples of their length, so all keys share them: events in the order of time come
window by window, and the loop over the events of one window reads no times. What an event adds is
looked up by the number of its type, and its key is a place:

    S[place, slot]          as in ``counting.py``: configurations, the unit, and zero
    target, source          number of a type -> slot that grows, slots that it adds, padded; the
                            slot zero for types that change nothing, so that no event is a branch
    state                   start of the open window, and whether units have become zero

A window that a call opens and closes visits the places of its events where they are fewer than all
places; then its rows are not in the order of places.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.counting import MANY_KEYS, shrink
from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.ring import LIMIT, widen
from cepheid.kernels.tiers import kernel

OPENED, EXHAUSTED, UNSORTED = 0, 1, 2
"""Entries of ``state``."""

SPARSE = 4
"""A window with fewer events than one in so many places visits the places of its events."""

AHEAD = 24
"""Events whose counts are asked for before their turn, where there are many places."""


@kernel()
def check_times(ts):
    """Check whether times go back, and whether two times that follow each other are equal."""
    back, ties = False, False
    for i in range(1, ts.shape[0]):
        back |= ts[i] < ts[i - 1]
        ties |= ts[i] == ts[i - 1]
    return back, ties


@check_times.interpreted
def _(ts):
    return bool((ts[1:] < ts[:-1]).any()), bool((ts[1:] == ts[:-1]).any())


@kernel()
def has_tied_keys(ts, key, lowest, last):
    """Check whether two events have the same time and key; ``last`` holds no time at first."""
    for i in range(ts.shape[0]):
        k = key[i] - lowest
        if last[k] == ts[i]:
            return True
        last[k] = ts[i]
    return False


@kernel()
def _end_of_window(ts, begin, limit):
    """Find the first event from a time on; the search begins with the next ones."""
    low, high, reach = begin, ts.shape[0], 1
    while low + reach < high and ts[low + reach] < limit:
        low += reach
        reach *= 2
    high = min(low + reach, high)
    while low < high:
        middle = (low + high) >> 1
        if ts[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _count_two(S, target, source, types, key, lowest, begin, end):
    """Count events whose types add at most two slots; stop behind one whose count is large."""
    slots = np.uint64(S.shape[1])
    flat = S.reshape(-1)
    many = S.shape[0] >= MANY_KEYS
    for i in range(begin, end):
        if many:
            prefetch(S, (np.int64(key[min(i + AHEAD, end - 1)]) - lowest) * S.shape[1])
        c = np.uint64(types[i])
        base = np.uint64(np.int64(key[i]) - lowest) * slots
        place = base + np.uint64(target[c])
        total = flat[place] + flat[base + np.uint64(source[c, 0])]
        total += flat[base + np.uint64(source[c, 1])]
        flat[place] = total
        if total > LIMIT:
            return i + 1
    return end


@kernel()
def _count_several(S, target, source, types, key, lowest, begin, end):
    """Count events whose types add any number of slots, as ``_count_two`` does."""
    for i in range(begin, end):
        c, k = types[i], key[i] - lowest
        total = S[k, target[c]]
        for s in range(source.shape[1]):
            total += S[k, source[c, s]]
        S[k, target[c]] = total
        if total > LIMIT:
            return i + 1
    return end


@kernel()
def _count_carefully(S, exponent, target, source, types, key, lowest, begin, end):
    """Count as ``counting.count_windows`` does, where units have become zero."""
    size = S.shape[1] - 2
    for i in range(begin, end):
        c, k = types[i], key[i] - lowest
        if target[c] > size:
            continue
        total = S[k, target[c]]
        for s in range(source.shape[1]):
            total += S[k, source[c, s]]
        S[k, target[c]] = total
        if total > LIMIT:
            if not shrink(S, exponent, k, size):
                return NARROW, i + 1
        elif total == 0.0 and S[k, size] == 0.0:
            return NARROW, i
    return OK, end


@kernel()
def close_all(S, exponent, counts, lowest, state, out_key, out_start, R, rows):
    """Close the open window of all keys; return the number of rows."""
    size, start = S.shape[1] - 2, state[OPENED]
    for k in range(S.shape[0]):
        total = 0.0
        for q in range(size):
            if counts[q]:
                total += S[k, q]
            S[k, q] = 0.0
        if total != 0.0:
            R[rows, 0] = widen(total, float(exponent[k]))
            out_key[rows] = k + lowest
            out_start[rows] = start
            rows += 1
        S[k, size] = 1.0
        exponent[k] = 0
    state[EXHAUSTED] = 0
    return rows


@kernel()
def _close_some(S, exponent, counts, key, lowest, begin, end, state, out_key, out_start, R, rows):
    """Close the open window of the keys of some events; return the number of rows."""
    # As above: a function for one key would count references to all of its arrays.
    size, start = S.shape[1] - 2, state[OPENED]
    for i in range(begin, end):
        k = np.int64(key[i]) - lowest
        total = 0.0
        for q in range(size):
            if counts[q]:
                total += S[k, q]
            S[k, q] = 0.0
        if total != 0.0:
            R[rows, 0] = widen(total, float(exponent[k]))
            out_key[rows] = k + lowest
            out_start[rows] = start
            rows += 1
        S[k, size] = 1.0
        exponent[k] = 0
    state[EXHAUSTED] = 0
    state[UNSORTED] = 1
    return rows


@kernel()
def count_tumbling(
    S, exponent, target, source, counts, ts, types, key, lowest, width, state, out_key, out_start, R
):
    """Count matches of events in the order of time; O(1) per event, and per key and window.

    Returns
    -------
    status, next event, number of rows; only NARROW ends before the last event
    """
    rows, i, n = 0, 0, ts.shape[0]
    first = -1  # The first event of the open window, if it is among these.
    while i < n:
        if ts[i] >= state[OPENED] + width:
            if first >= 0 and SPARSE * (i - first) < S.shape[0]:
                rows = _close_some(
                    S, exponent, counts, key, lowest, first, i, state, out_key, out_start, R, rows
                )
            else:
                rows = close_all(S, exponent, counts, lowest, state, out_key, out_start, R, rows)
            state[OPENED] = ts[i] // width * width
            first = i
        end = _end_of_window(ts, i, state[OPENED] + width)
        while i < end:
            if state[EXHAUSTED]:
                status, i = _count_carefully(
                    S, exponent, target, source, types, key, lowest, i, end
                )
                if status != OK:
                    return status, i, rows
                continue
            if source.shape[1] == 2:
                i = _count_two(S, target, source, types, key, lowest, i, end)
            else:
                i = _count_several(S, target, source, types, key, lowest, i, end)
            k = key[i - 1] - lowest
            size = S.shape[1] - 2
            if S[k, target[types[i - 1]]] > LIMIT:
                if not shrink(S, exponent, k, size):
                    return NARROW, i, rows
                if S[k, size] == 0.0:
                    state[EXHAUSTED] = 1
    return OK, n, rows
