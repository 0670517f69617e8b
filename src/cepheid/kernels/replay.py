"""Check whether a sequence of bindings was a match in another window, by following it there.

At most one edge from a state to the states of a variable can be taken, so there is one path to
follow. Predicates and selection do not depend on the window and already hold.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import bounds_of
from cepheid.kernels.tiers import kernel


@kernel()
def _place_of(rows, first, last, row):
    """Find the position of a row in a sorted slice, -1 if it is missing."""
    end = last
    while first < last:
        middle = (first + last) // 2
        if rows[middle] < row:
            first = middle + 1
        else:
            last = middle
    return first if first < end and rows[first] == row else -1


@kernel()
def _follow(G, D, choice, chosen, segment, state, variable, prev, place):
    """Compute the state after one more binding, -2 if there is none."""
    for target in range(G.variable.shape[0]):
        if G.variable[target] != variable or choice[target] != chosen[segment]:
            continue
        for edge in range(G.edge_ptr[target], G.edge_ptr[target + 1]):
            if G.source[edge] != state:
                continue
            open_, low, high = bounds_of(G, D, edge, place, segment)
            if open_ and (prev < 0 or low <= D.order[prev] < high):
                return target
    return -2


@kernel()
def _accepts(G, D, choice, chosen, ends, rows, segment, match_rows, match_variables, first, last):
    """Check whether the bindings [first, last) are a match in a segment."""
    state, prev = -1, np.int64(-1)
    for n in range(first, last):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        place = _place_of(rows, begin, end, match_rows[n])
        if place < 0:
            return False
        state = _follow(G, D, choice, chosen, segment, state, match_variables[n], prev, place)
        if state < 0:
            return False
        prev = place
    return D.order[prev] >= ends[segment, state]


@kernel()
def mark_repeated(
    G, D, choice, chosen, ends, rows, earlier, segment, ptr, match_rows, match_variables, repeated
):
    """Mark the matches that were already found in one of their earlier segments."""
    for n in range(segment.shape[0]):
        for k in range(earlier.shape[1]):
            before = earlier[segment[n], k]
            if before >= 0 and _accepts(
                G, D, choice, chosen, ends, rows, before, match_rows, match_variables, ptr[n],
                ptr[n + 1],
            ):  # fmt: skip
                repeated[n] = True
                break
