"""Occurrences of negated patterns: for every row, the latest start of one that ends there.

The arrays are those of ``graph.py``; M[row, state, 0] is the latest start.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import TOTAL, bounds_of, least_order_of_end, related
from cepheid.kernels.tiers import kernel


@kernel()
def _latest_of(
    candidates, order, low, high, pair, pair_ptr, predicates, outside, pair_mask, rank, below,
    above, mask, row, base, begin, M, source, best,
):  # fmt: skip
    """Find the latest start of the rows that a row may follow, if it is after ``best``."""
    for n in range(candidates.shape[0]):
        prev = candidates[n]
        if low <= order[prev] < high and M[prev, source, 0] > best:
            if related(
                pair, pair_ptr, predicates, outside, pair_mask, rank, below, above, mask, prev,
                row, base, begin,
            ):  # fmt: skip
                best = M[prev, source, 0]
    return best


@kernel()
def find_latest(G, D, S, segment, begin, end, first, last, found):
    """Find, for every row, the latest start of an occurrence that ends with it, -1 for none.

    The pattern is a negated one. O(1) for an edge without predicate and guard, O(n) else.
    """
    states = G.variable.shape[0]
    i = first
    while i < last:
        j = i + 1
        while j < last and D.order[j] == D.order[i]:
            j += 1
        for row in range(i, j):
            for q in range(states):
                if not D.bits[row] >> G.variable[q] & 1:
                    continue
                best = np.int64(-1)
                for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
                    open_, low, high = bounds_of(G, D, edge, row, segment)
                    source = G.source[edge]
                    if not open_:
                        continue
                    if source < 0:
                        best = max(best, D.order[row])
                    elif G.mode[edge] == TOTAL:
                        best = max(best, S.total_least[source, 0])
                    else:
                        best = _latest_of(
                            S.member[source, : S.members[source]], D.order, low, high,
                            G.edge_pair[edge], G.pair_ptr, G.predicate, G.outside, G.pair_mask,
                            D.rank, D.first, D.last, D.mask, row, first, begin, S.M, source, best,
                        )  # fmt: skip
                S.M[row, q, 0] = best
                if D.order[row] >= S.end_bound[q]:
                    found[row] = max(found[row], best)
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1 and S.M[row, q, 0] >= 0:
                    S.member[q, S.members[q]] = row
                    S.members[q] += 1
                    S.total_least[q, 0] = max(S.total_least[q, 0], S.M[row, q, 0])
        i = j


@kernel()
def spread_latest(order, segment_ptr, found, latest, latest_of_all):
    """Convert occurrences that end with a row to those before it, and to a segment's latest."""
    for segment in range(segment_ptr.shape[0] - 1):
        best = np.int64(-1)
        i, end = segment_ptr[segment], segment_ptr[segment + 1]
        while i < end:
            j = i
            after = best
            while j < end and order[j] == order[i]:
                latest[j] = best
                after = max(after, found[j])
                j += 1
            best = after
            i = j
        latest_of_all[segment] = best


@kernel()
def open_latest(G, D, S, segment, begin, end):
    """Reset the previous segment, for ``find_latest``."""
    for q in range(G.variable.shape[0]):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.members[:] = 0
    S.total_least[:] = -1
    S.M[begin:end] = -1


@kernel()
def run_latest(G, D, S, found):
    """Run ``find_latest`` over all segments."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_latest(G, D, S, segment, begin, end)
        find_latest(G, D, S, segment, begin, end, begin, end, found)
