"""Check conditions between two events of a match while it is built backwards.

An *order* is a condition with one of its events known to be earlier. The later event is bound first
and restricts the earlier one to a range of ranks (``kernels/ranks.py``); the ranges of several
later events are intersected. ``limits[depth]`` are the ranges of all orders after ``depth`` events.

A row in a state that led to no match will not lead to one later either, as long as the match ends
with the same event and the ranges have not become wider: it is *dead*. So wasted work is bounded by
the rows and ranges of a window, and not by the number of partial matches.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

LOW, HIGH = 0, 1
OPEN = np.int32(-1)
"""The bounds of a range that no event has set yet; all ranks lie above."""
WIDEST = np.int32(2**31 - 1)


# Arrays are indexed and never sliced: a slice costs more than everything else.
@kernel(inline="code", borrows=True)
def open_limits(limits, outside, row, state, later_ptr, later, first, last):
    """Initialise the ranges with those of the last event of a match."""
    for order in range(outside.shape[0]):
        limits[0, order, LOW] = OPEN
        limits[0, order, HIGH] = OPEN if outside[order] else WIDEST
    _narrow(limits, 0, outside, row, state, later_ptr, later, first, last)


@kernel(inline="code", borrows=True)
def _narrow(limits, depth, outside, row, state, later_ptr, later, first, last):
    """Narrow the ranges of the orders in which a state holds the later event."""
    for n in range(later_ptr[state], later_ptr[state + 1]):
        order = later[n]
        low, high = first[order, row], last[order, row]
        if outside[order]:
            # The range excludes ranks of the earlier event; NULL allows none.
            limits[depth, order, LOW] = low if low >= 0 else 0
            limits[depth, order, HIGH] = high if low >= 0 else WIDEST
        elif low < 0:
            limits[depth, order, LOW], limits[depth, order, HIGH] = 0, 0
        else:
            limits[depth, order, LOW] = max(limits[depth, order, LOW], low)
            limits[depth, order, HIGH] = min(limits[depth, order, HIGH], high)


@kernel(inline="code", borrows=True)
def fits(limits, depth, outside, row, state, earlier_ptr, earlier, rank):
    """Check whether a row is in the ranges of the orders in which it is the earlier event."""
    for n in range(earlier_ptr[state], earlier_ptr[state + 1]):
        order = earlier[n]
        value = rank[order, row]
        low, high = limits[depth, order, LOW], limits[depth, order, HIGH]
        if outside[order]:
            if high >= 0 and (value < 0 or low <= value < high):
                return False
        elif not low <= value < high:
            return False
    return True


@kernel(inline="code", borrows=True)
def _is_dead(limits, depth, outside, place, state, dead_limits):
    """Check whether the ranges are within those with which a row was marked dead."""
    for order in range(outside.shape[0]):
        low, high = limits[depth, order, LOW], limits[depth, order, HIGH]
        least, most = dead_limits[place, state, order, LOW], dead_limits[place, state, order, HIGH]
        if outside[order]:
            if most >= 0 and (low != least or high != most):
                return False
        elif low < least or high > most:
            return False
    return True


@kernel(inline="code", borrows=True)
def enter(
    limits, depth, row, state, trigger, dead, dead_limits, outside, earlier_ptr, earlier,
    later_ptr, later, rank, first, last,
):  # fmt: skip
    """Check whether a row can be pushed; if so, set the ranges that remain after it."""
    if not fits(limits, depth - 1, outside, row, state, earlier_ptr, earlier, rank):
        return False
    place = row % dead.shape[0]
    if dead[place, state] == trigger + 1:
        if _is_dead(limits, depth - 1, outside, place, state, dead_limits):
            return False
    for order in range(outside.shape[0]):
        limits[depth, order, LOW] = limits[depth - 1, order, LOW]
        limits[depth, order, HIGH] = limits[depth - 1, order, HIGH]
    _narrow(limits, depth, outside, row, state, later_ptr, later, first, last)
    return True


@kernel(inline="code", borrows=True)
def bury(limits, depth, row, state, trigger, dead, dead_limits):
    """Mark a row in a state as dead, for the ranges before it was pushed."""
    place = row % dead.shape[0]
    dead[place, state] = trigger + 1
    for order in range(limits.shape[1]):
        dead_limits[place, state, order, LOW] = limits[depth, order, LOW]
        dead_limits[place, state, order, HIGH] = limits[depth, order, HIGH]
