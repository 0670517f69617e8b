"""A matcher in the manner of ISEQ: it waits for the end of every situation, then tries all pairs.

Situations arrive when they have ended. Each is joined with the buffers of the other definitions,
one after the other in a fixed order, and every buffered situation of the window is looked at.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.temporal_join import relate


@njit(cache=True)
def count_matches(ts, te, bounds, ends, masks, within):
    """Return how many matches there are, and the sum of the times at which they are reported.

    Parameters
    ----------
    ts, te, bounds
        Situations, definition by definition, and where each definition starts.
    ends
        Situations and their definitions, in the order of their ends.
    masks
        For every pair of definitions the allowed relations; all where there is no constraint.
    """
    count = bounds.shape[0] - 1
    low, high = bounds[:-1].copy(), bounds[:-1].copy()
    sel, here = np.zeros(count, np.int64), np.zeros(count, np.int64)
    found, when = 0, 0.0
    for i in range(ends.shape[0]):
        row, trigger = ends[i, 0], ends[i, 1]
        now = te[row]
        for d in range(count):
            while low[d] < high[d] and ts[low[d]] < now - within:
                low[d] += 1
        high[trigger] += 1
        if ts[row] < now - within:
            continue
        level = 0
        here[0] = row if trigger == 0 else low[0]
        while level >= 0:
            last = row + 1 if level == trigger else high[level]
            if here[level] >= last:
                level -= 1
                continue
            candidate = here[level]
            here[level] += 1
            fits = True
            for d in range(level):
                relation = relate(ts[sel[d]], te[sel[d]], ts[candidate], te[candidate])
                fits = fits and masks[d, level] >> relation & 1 == 1
            if not fits:
                continue
            sel[level] = candidate
            if level < count - 1:
                level += 1
                here[level] = row if level == trigger else low[level]
                continue
            found += 1
            when += now
    return found, when
