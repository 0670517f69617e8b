"""Cut events into stretches: runs of a partition's events that satisfy the same conditions.

A situation begins and ends where a condition changes, so an event that satisfies the same
conditions as the one before it in its partition only adds to aggregates. One pass, in the order of
arrival:

    conditions   a a a ab ab b b . . a      of one partition; a, b: which conditions hold
    stretches    |-----|-----|---|---|-

If matches are reported while situations are open, the aggregates of a situation may be needed at a
*point*: at the time when a condition changes, or when a situation has lasted long enough, or has
events enough. Then the events of this time are a stretch of their own.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

NEVER = np.int64(-(2**63))
"""The time of a stretch that takes in events of every time."""

NONE, LASTS, LASTS_FROM_BEFORE, HAS_LASTED = 0, 1, 2, 3
"""A run with a minimum length: none, began with a seen event, perhaps earlier, or long enough."""

CURRENT, BITS, POINT = 0, 1, 2
"""Columns of the state of a partition: its stretch, the conditions, the time if it is a point."""


@kernel()
def cut_stretches(key, ts, bits, base, split, needed, lasting, least, state, runs, first, kinds,
                  count, stretch_of):  # fmt: skip
    """Cut a block of events into stretches, continuing those of the previous block.

    Parameters
    ----------
    key, ts, bits
        Partition (-1 for none), time, and which conditions hold.
    base
        The number of the first of these events.
    split
        Whether the events at the time of a point are a stretch of their own.
    needed
        The conditions whose aggregates are needed.
    lasting, least
        The conditions with a minimum length; for each its duration, and its number of events.
    state, runs
        For each partition its stretch; for each partition and lasting condition the state of its
        run, its start, and its events. Both are updated.
    first, kinds, count
        The first events of stretches, their conditions, and the number of stretches.
    stretch_of
        Gets the stretch of every event, -1 if no aggregates are needed; may be empty.

    Returns
    -------
    int
        The new number of stretches.
    """
    along = stretch_of.shape[0] > 0
    anything = np.int64(0)
    for j in range(lasting.shape[0]):
        anything |= np.int64(1) << lasting[j]
    for i in range(key.shape[0]):
        k = key[i]
        if k < 0:
            if along:
                stretch_of[i] = -1
            continue
        here = np.int64(bits[i])
        new = state[k, CURRENT] < 0
        point = new or here != state[k, BITS]
        if anything and (here | state[k, BITS]) & anything:
            point = _is_lasting(runs[k], here, ts[i], lasting, least, new) or point
        if point or (split and NEVER < state[k, POINT] < ts[i]):
            state[k, CURRENT] = count
            state[k, BITS] = here
            state[k, POINT] = ts[i] if point else NEVER
            first[count] = base + i
            kinds[count] = here
            count += 1
        if along:
            stretch_of[i] = state[k, CURRENT] if here & needed else -1
    return count


@kernel()
def _is_lasting(runs, here, now, lasting, least, new):
    """Check whether a run has, or may have, lasted long enough with this event."""
    point = False
    for j in range(lasting.shape[0]):
        if here >> lasting[j] & 1 == 0:
            runs[j, 0] = NONE
        elif runs[j, 0] == NONE:
            # The first event of a partition may continue an earlier run.
            runs[j, 0] = LASTS_FROM_BEFORE if new else LASTS
            runs[j, 1] = now
            runs[j, 2] = 1
        elif runs[j, 0] != HAS_LASTED:
            runs[j, 2] += 1
            long = now - runs[j, 1] >= least[j, 0] and runs[j, 2] >= least[j, 1]
            point = point or long or runs[j, 0] == LASTS_FROM_BEFORE
            if long:
                runs[j, 0] = HAS_LASTED
    return point


@kernel()
def count_events(stretch_of, total):
    """Add one for every event."""
    for i in range(stretch_of.shape[0]):
        if stretch_of[i] >= 0:
            total[stretch_of[i]] += 1


@kernel()
def add_values(stretch_of, values, total):
    """Add the values of the events."""
    for i in range(stretch_of.shape[0]):
        if stretch_of[i] >= 0:
            total[stretch_of[i]] += values[i]


@kernel()
def take_least(stretch_of, values, total):
    """Find the minimum of the events."""
    for i in range(stretch_of.shape[0]):
        s = stretch_of[i]
        if s >= 0 and values[i] < total[s]:
            total[s] = values[i]


@kernel()
def take_last(stretch_of, base, last):
    """Find the last of the events."""
    for i in range(stretch_of.shape[0]):
        if stretch_of[i] >= 0:
            last[stretch_of[i]] = base + i
