"""Derive runs of events that satisfy a condition, by partition, with running aggregates.

Each event has the number of its partition and a flag whether it satisfies the condition. ``order``
lists them partition by partition; ``starts[k] : starts[k + 1]`` are the places of partition k in
it.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

FOREVER = np.int64(2**63 - 1)
"""The end of an open run, and a time that is not known yet."""


@kernel()
def sort_by_key(key, count):
    """Sort the events by partition (stable), and return the offsets of partitions."""
    starts = np.zeros(count + 1, np.int64)
    for i in range(key.shape[0]):
        starts[key[i] + 1] += 1
    for k in range(count):
        starts[k + 1] += starts[k]
    place = starts[:-1].copy()
    order = np.empty(key.shape[0], np.int64)
    for i in range(key.shape[0]):
        order[place[key[i]]] = i
        place[key[i]] += 1
    return order, starts


@kernel()
def count_runs(mask, order, starts, open_row):
    """Count an upper bound of the runs: those that continue and those that begin."""
    runs = 0
    for k in range(starts.shape[0] - 1):
        inside = open_row[k] >= 0
        runs += inside
        for p in range(starts[k], starts[k + 1]):
            true = mask[order[p]]
            runs += true and not inside
            inside = true
    return runs


@kernel()
def derive_runs(mask, order, starts, ts, open_row, open_ts, open_known, events, open_events,
                bounds):  # fmt: skip
    """Derive the runs of all partitions in order, without those that are too short or too long.

    Parameters
    ----------
    ts
        The times of the events, in the order of ``order``.
    open_row, open_ts, open_known
        For each partition the run that continues from before, -1 for none; for each such run its
        start, and the time at which it was known to last long enough.
    events, open_events
        How many events each stretch has, and each run from before; empty if no bound asks.
    bounds
        Minimum and maximum of the duration, then of the number of events; -1 for no maximum.

    Returns
    -------
    tuple
        Partition, start, end (FOREVER if it is open), time at which the duration is known to fit,
        the places of the first event and after the last one, and the run from before or -1.
    """
    least, most, fewest, largest = bounds[0], bounds[1], bounds[2], bounds[3]
    counts = events.shape[0] > 0
    grows = most < 0 and largest < 0
    count = count_runs(mask, order, starts, open_row)
    run = np.empty((7, count), np.int64)
    n = 0
    for k in range(starts.shape[0] - 1):
        old = open_row[k]
        inside = old >= 0
        start = open_ts[old] if inside else np.int64(0)
        known = open_known[old] if inside else FOREVER
        number = open_events[old] if inside and counts else np.int64(0)
        first = starts[k]
        for p in range(starts[k], starts[k + 1]):
            now = ts[p]
            true = mask[order[p]]
            if true and not inside:
                inside, old, start, first = True, np.int64(-1), now, p
                known, number = FOREVER, np.int64(0)
            if not inside:
                continue
            if true and counts:
                number += events[order[p]]
            length = now - start
            if known == FOREVER and grows and length >= least and number >= fewest:
                known = now
            if not true:
                fits = length > 0 and length >= least and (most < 0 or length <= most)
                if fits and number >= fewest and (largest < 0 or number <= largest):
                    _put(run, n, k, start, now, known if grows else now, first, p, old)
                    n += 1
                inside = False
        if inside:
            _put(run, n, k, start, FOREVER, known, first, starts[k + 1], old)
            n += 1
    return run[:, :n]


@kernel()
def _put(run, n, key, start, end, known, first, last, old):
    run[0, n] = key
    run[1, n] = start
    run[2, n] = end
    run[3, n] = known
    run[4, n] = first
    run[5, n] = last
    run[6, n] = old


@kernel()
def add_up(order, first, last, before, values, running, total):
    """Add the values of every run: in total and, if there is a buffer, up to each event."""
    along = running.shape[0] > 0
    for r in range(first.shape[0]):
        here = before[r]
        for p in range(first[r], last[r]):
            here += values[order[p]]
            if along:
                running[p] = here
        total[r] = here


@kernel()
def least_of(order, first, last, before, values, running, total):
    """Find the minimum of every run: in total and, if there is a buffer, up to each event."""
    along = running.shape[0] > 0
    for r in range(first.shape[0]):
        here = before[r]
        for p in range(first[r], last[r]):
            here = min(here, values[order[p]])
            if along:
                running[p] = here
        total[r] = here


@kernel()
def last_places(ts, first, last, now):
    """Find the last event of each run that is not later than a time."""
    places = np.empty(first.shape[0], np.int64)
    for r in range(first.shape[0]):
        low, high = first[r], last[r]
        while low < high:
            middle = (low + high) // 2
            if ts[middle] <= now[r]:
                low = middle + 1
            else:
                high = middle
        places[r] = low - 1
    return places
