"""Count the matches through each row: those that lead to it, times those that go on from it.

The counts forwards are those of ``graph.py``. Backwards, a row tells the rows that it may follow in
how many ways a match goes on from it. Slots (``lookups.py``) take this as a sum at the nodes above
the leaves of a range, and a row that is told adds up the nodes above its leaf; O(log n) each. In
prefix form (``prefix_wide.py``) counts backwards are those forwards of the pattern turned round.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import bounds_of, least_order_of_end, related
from cepheid.kernels.lookups import leaves_of
from cepheid.kernels.ring import add, mul
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

_NONE = np.uint64(0)


@kernel()
def _tell_range(tree, slot, size, left, right, number):
    """Add a number to all leaves of a range; O(log n)."""
    left += size
    right += size
    while left < right:
        if left & 1:
            tree[slot, left] = add(tree[slot, left], number, _NONE)
            left += 1
        if right & 1:
            right -= 1
            tree[slot, right] = add(tree[slot, right], number, _NONE)
        left >>= 1
        right >>= 1


@kernel()
def _told(tree, slot, size, leaf):
    """Add up what a leaf was told; O(log n)."""
    node, total = size + leaf, 0j
    while node >= 1:
        total = add(total, tree[slot, node], _NONE)
        node >>= 1
    return total


@kernel()
def _tell_each(
    back, order, bits, bit, source, begin, upto, low, high, pair, pair_ptr, predicates, outside,
    pair_mask, rank, first, last, mask, row, number,
):  # fmt: skip
    """Test rows one by one, and tell those that a row may follow; O(n)."""
    for prev in range(begin, upto):
        if bits[prev] >> bit & 1 and low <= order[prev] < high:
            if related(
                pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row,
                begin, begin,
            ):  # fmt: skip
                back[prev, source] = add(back[prev, source], number, _NONE)


@kernel()
def _tell(G, D, S, segment, begin, size, upto, row, q):
    """Tell all rows that a row in a state may follow in how many ways a match goes on."""
    number = S.back[row, q]
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        source = G.source[edge]
        open_, low, high = bounds_of(G, D, edge, row, segment)
        if source < 0 or not open_:
            continue
        slot = S.edge_slot[edge]
        if slot < 0:
            _tell_each(
                S.back, D.order, D.bits, G.variable[source], source, begin, upto, low, high,
                G.edge_pair[edge], G.pair_ptr, G.predicate, G.outside, G.pair_mask, D.rank,
                D.first, D.last, D.mask, row, number,
            )  # fmt: skip
            continue
        a, b, c, d = leaves_of(
            S.predicate[slot], row, begin, upto, low, high, D.order, D.first, D.last, D.ranks,
            G.outside,
        )  # fmt: skip
        _tell_range(S.tree, slot, size, a, b, number)
        _tell_range(S.tree, slot, size, c, d, number)


@kernel()
def add_products(forwards, backwards, through):
    """Multiply the counts of each row and state, and add up those of each row."""
    for row in range(forwards.shape[0]):
        total = 0j
        for state in range(forwards.shape[1]):
            total = add(total, mul(forwards[row, state], backwards[row, state], _NONE), _NONE)
        through[row] = total


@kernel()
def count_through(G, D, S):
    """Count the matches through each row of all segments."""
    states = G.variable.shape[0]
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        size, rounds, j = end - begin, 0, end
        S.tree[:, : 2 * size] = 0j
        for q in range(states):
            S.end_bound[q] = least_order_of_end(G, D, q, segment)
        while j > begin:
            rounds = let_signals_in(rounds)
            i = j - 1
            while i > begin and D.order[i - 1] == D.order[i]:
                i -= 1
            for row in range(i, j):
                for slot in range(S.source.shape[0]):
                    predicate, q = S.predicate[slot], S.source[slot]
                    leaf = row - begin if predicate < 0 else np.int64(D.rank[predicate, row])
                    if leaf >= 0 and S.V[row, q, 0].real != 0.0:
                        told = _told(S.tree, slot, size, leaf)
                        S.back[row, q] = add(S.back[row, q], told, _NONE)
                for q in range(states):
                    count = S.V[row, q, 0]
                    if count.real == 0.0:
                        continue
                    if D.order[row] >= S.end_bound[q]:
                        S.back[row, q] = add(S.back[row, q], 1 + 0j, _NONE)
                    if S.back[row, q].real != 0.0:
                        through = mul(count, S.back[row, q], _NONE)
                        S.through[row] = add(S.through[row], through, _NONE)
            for row in range(i, j):
                for q in range(states):
                    if S.V[row, q, 0].real != 0.0 and S.back[row, q].real != 0.0:
                        _tell(G, D, S, segment, begin, size, i, row, q)
            j = i
