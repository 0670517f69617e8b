"""Aggregate matches whose neighbours meet two conditions: divide and conquer over time.

With one condition, an event finds those that it may follow in a range of ranks. Two conditions on
different values are a rectangle of two ranks, and no tree of sums answers rectangles while rows
still come. So time is cut into leaves. Inside of a leaf rows are tested one by one. When the first
half of a node is finished, it is added to the rows of the second half, all at once: rows are swept
in the order of the one rank, and a tree of sums holds the other. O(log^2 n) for an event.

    left, right   the rows of the two halves that a join is about
    by            the places of left rows by the rank that the tree holds

One of the two conditions must be one-sided: it accepts all ranks below a bound, or all from it on.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import add_range, open_segment, run_any, set_leaf
from cepheid.kernels.ranks import sort_keys
from cepheid.kernels.ring import present
from cepheid.kernels.tiers import kernel

NO_VALUE = np.iinfo(np.int64).max


@kernel()
def _cut_leaves(order, begin, end, leaf_rows, cuts):
    """Cut a segment into leaves that do not part events of one time; return their number."""
    count, first = 0, begin
    while first < end:
        cuts[count] = first
        count += 1
        upto = min(first + leaf_rows, end)
        while upto < end and order[upto] == order[upto - 1]:
            upto += 1
        first = upto
    cuts[count] = end
    return count


@kernel()
def _lower_bound(values, count, bound):
    """Find the number of sorted values below a bound."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def _gather_left(bits, variable, V, state, swept, ranged, first, last, left):
    """Collect the finished rows in a state that have both ranks; return their number."""
    count = 0
    for row in range(first, last):
        if not bits[row] >> variable & 1 or not present(V[row, state, 0]):
            continue
        if swept[row] >= 0 and ranged[row] >= 0:
            left[count] = row
            count += 1
    return count


@kernel()
def _gather_right(bits, variable, swept_first, ranged_first, first, last, right):
    """Collect the rows that may follow others; return their number."""
    count = 0
    for row in range(first, last):
        if bits[row] >> variable & 1 and swept_first[row] >= 0 and ranged_first[row] >= 0:
            right[count] = row
            count += 1
    return count


@kernel()
def _sorted_rows(rows, count, values, sign, S, into):
    """Sort rows by a value of theirs, times a sign, into an array of their numbers."""
    for n in range(count):
        S.keys[n] = sign * values[rows[n]]
    mask = sort_keys(S.keys, count, S.packed, S.room)
    for n in range(count):
        into[n] = np.int64(S.packed[n] & mask)


@kernel()
def _add_rectangles(G, D, V, M, P, J, e, m, k, zero, p):
    """Sweep both sides by one rank, and add what the tree holds between bounds of the other."""
    source, target = P.source[e], P.target[e]
    swept, ranged, suffix = P.swept[e], P.ranged[e], P.suffix[e]
    outside = G.outside[ranged]
    sign = -1 if suffix else 1
    bound = D.first[swept] if suffix else D.last[swept]
    rank, first, last = D.rank[swept], D.first[ranged], D.last[ranged]
    done = 0
    for n in range(k):
        row = J.right[J.asking[n]]
        while done < m:
            prev = J.left[J.entering[done]]
            if sign * rank[prev] > sign * bound[row] or (not suffix and rank[prev] == bound[row]):
                break
            set_leaf(
                J.tree, J.least, 0, m, J.place[J.entering[done]], V, M, prev, source, zero, p,
            )  # fmt: skip
            done += 1
        if not done:
            continue
        low = _lower_bound(J.ranks, m, first[row])
        high = _lower_bound(J.ranks, m, last[row])
        if outside:
            add_range(J.tree, J.least, 0, m, 0, low, V, M, row, target, p)
            add_range(J.tree, J.least, 0, m, high, m, V, M, row, target, p)
        elif low < high:
            add_range(J.tree, J.least, 0, m, low, high, V, M, row, target, p)


@kernel()
def _join(G, D, V, M, P, J, e, first, middle, last, zero, p):
    """Add the rows [first, middle) to those of [middle, last) that may follow them."""
    swept, ranged, suffix = P.swept[e], P.ranged[e], P.suffix[e]
    m = _gather_left(
        D.bits, G.variable[P.source[e]], V, P.source[e], D.rank[swept], D.rank[ranged], first,
        middle, J.left,
    )  # fmt: skip
    k = _gather_right(
        D.bits, G.variable[P.target[e]], D.first[swept], D.first[ranged], middle, last, J.right
    )
    if not m or not k:
        return
    _sorted_rows(J.left, m, D.rank[ranged], 1, J, J.by)
    for n in range(m):
        J.place[J.by[n]] = n
        J.ranks[n] = D.rank[ranged, J.left[J.by[n]]]
    sign = -1 if suffix else 1
    _sorted_rows(J.left, m, D.rank[swept], sign, J, J.entering)
    bound = D.first[swept] if suffix else D.last[swept]
    _sorted_rows(J.right, k, bound, sign, J, J.asking)
    J.tree[0, : 2 * m] = zero
    J.least[0, : 2 * m] = NO_VALUE
    _add_rectangles(G, D, V, M, P, J, e, m, k, zero, p)


def _work(G, D, *_):
    lengths = np.diff(D.segment_ptr).astype(np.float64)
    return (lengths * np.log2(lengths + 2)).sum() * 4


@kernel(work=_work)
def run_planes(G, D, S, P, J, leaf_rows, unit, zero, p, R, RM, ended):
    """Run all segments under skip-till-any-match; edges of ``P`` scan leaves, and join halves."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(G, D, S, segment, begin, end, zero)
        leaves = _cut_leaves(D.order, begin, end, leaf_rows, J.cuts)
        for leaf in range(leaves):
            # Edges of planes scan the members of states: those of this leaf.
            S.members[:] = 0
            run_any(
                G, D, S, segment, begin, end, J.cuts[leaf], J.cuts[leaf + 1], unit, zero, p, R, RM,
                ended,
            )  # fmt: skip
            done = leaf + 1
            half = done & -done
            if done == leaves:
                continue
            for e in range(P.source.shape[0]):
                _join(
                    G, D, S.V, S.M, P, J, e, J.cuts[done - half], J.cuts[done],
                    J.cuts[min(done + half, leaves)], zero, p,
                )  # fmt: skip
