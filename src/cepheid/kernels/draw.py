"""Draw matches of segments: backwards through the counts of the matches that end with each row.

All draws of a segment walk together from its last row to its first. A draw in a state at a row
takes one of the rows that it may follow, with a probability proportional to its count. Slots
(``lookups.py``) hold these counts as trees of sums. Those by rank lose each row when the walk
passes it, so that only earlier rows are left; O(log n) for each row and each event of a draw.

Counts are wide numbers, of 2^1000 and more; a draw compares a random share of one with sums of
others, so nothing overflows, and nothing is subtracted but what is smaller.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import bounds_of, least_order_of_end, related
from cepheid.kernels.lookups import leaves_of, less, minus
from cepheid.kernels.ring import add, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

SEGMENT, ROW, COUNT = 0, 1, 2
"""The fields of a cursor: segment, end of its rows that are left (-1: all), written events."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31 = (np.uint64(n) for n in (11, 27, 30, 31))
_NONE = np.uint64(0)


@kernel()
def _uniform(seeds, draw):
    """Return the next random number of a draw, from 0 to below 1 (SplitMix64)."""
    seeds[draw] += _GAMMA
    word = seeds[draw]
    word = (word ^ (word >> _U30)) * _FIRST
    word = (word ^ (word >> _U27)) * _SECOND
    word = word ^ (word >> _U31)
    return np.float64(word >> _U11) * 2.0**-53


@kernel()
def _set_leaf(tree, slot, size, leaf, number):
    """Change one leaf, and the sums above it; O(log n)."""
    node = size + leaf
    tree[slot, node] = number
    node >>= 1
    while node >= 1:
        tree[slot, node] = add(tree[slot, 2 * node], tree[slot, 2 * node + 1], _NONE)
        node >>= 1


@kernel()
def _range_sum(tree, slot, size, left, right):
    """Add up the leaves of a range; O(log n)."""
    left += size
    right += size
    total = 0j
    while left < right:
        if left & 1:
            total = add(total, tree[slot, left], _NONE)
            left += 1
        if right & 1:
            right -= 1
            total = add(total, tree[slot, right], _NONE)
        left >>= 1
        right >>= 1
    return total


@kernel()
def _descend(tree, slot, size, node, share):
    """Find the leaf below a node in which a share of its sum ends."""
    while node < size:
        node *= 2
        if tree[slot, node + 1].real != 0.0 and not less(share, tree[slot, node]):
            share = minus(share, tree[slot, node])
            node += 1
    return node - size


@kernel()
def _pick(tree, slot, size, left, right, share):
    """Find the leaf of a range in which a share of its sum ends, -1 without any; O(log n)."""
    left += size
    right += size
    found = np.int64(-1)
    while left < right:
        if left & 1:
            node = left
            left += 1
            if tree[slot, node].real != 0.0:
                found = node
                if less(share, tree[slot, node]):
                    return _descend(tree, slot, size, node, share)
                share = minus(share, tree[slot, node])
        if right & 1:
            right -= 1
            node = right
            if tree[slot, node].real != 0.0:
                found = node
                if less(share, tree[slot, node]):
                    return _descend(tree, slot, size, node, share)
                share = minus(share, tree[slot, node])
        left >>= 1
        right >>= 1
    if found < 0:
        return found
    # Rounding has left a rest: the last leaf that there is.
    return _descend(tree, slot, size, found, tree[slot, found])


@kernel()
def _scan(
    V, order, bits, bit, source, begin, upto, low, high, pair, pair_ptr, predicates, outside,
    pair_mask, rank, first, last, mask, row, share, counts,
):  # fmt: skip
    """Test rows one by one: add their counts up, or find the one in which a share ends; O(n)."""
    total, found = 0j, np.int64(-1)
    for prev in range(begin, upto):
        if not bits[prev] >> bit & 1 or order[prev] < low or order[prev] >= high:
            continue
        count = V[prev, source, 0]
        if count.real == 0.0:
            continue
        if not related(
            pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row,
            begin, begin,
        ):  # fmt: skip
            continue
        if counts:
            total = add(total, count, _NONE)
            continue
        found = np.int64(prev)
        if less(share, count):
            break
        share = minus(share, count)
    return total, found


@kernel()
def _open(G, D, S, segment, begin, end):
    """Build the slots of a segment, and let each of its draws choose the end of its match."""
    size, states = end - begin, G.variable.shape[0]
    for slot in range(S.source.shape[0]):
        source, predicate = S.source[slot], S.predicate[slot]
        S.tree[slot, : 2 * size] = 0j
        for row in range(begin, end):
            leaf = row - begin if predicate < 0 else np.int64(D.rank[predicate, row])
            if leaf >= 0:
                S.tree[slot, size + leaf] = S.V[row, source, 0]
                S.at[slot, leaf] = row - begin
        for node in range(size - 1, 0, -1):
            S.tree[slot, node] = add(S.tree[slot, 2 * node], S.tree[slot, 2 * node + 1], _NONE)
    for q in range(states):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.head[: size * states] = -1
    S.ends[0] = 0j
    for row in range(begin, end):
        total = S.ends[row - begin]
        for q in range(states):
            if D.order[row] >= S.end_bound[q]:
                total = add(total, S.V[row, q, 0], _NONE)
        S.ends[row - begin + 1] = total
    for n in range(S.drawn_ptr[segment], S.drawn_ptr[segment + 1]):
        draw = S.drawn[n]
        share = widen(_uniform(S.seeds, draw) * S.ends[size].real, S.ends[size].imag)
        low, high = np.int64(0), size - 1
        while low < high:
            middle = (low + high) >> 1
            if less(share, S.ends[middle + 1]):
                high = middle
            else:
                low = middle + 1
        q = _end_state(S.V, D.order, S.end_bound, begin + low, _uniform(S.seeds, draw))
        S.next[draw] = S.head[low * states + q]
        S.head[low * states + q] = draw


@kernel()
def _end_state(V, order, end_bound, row, chance):
    """Choose the state in which a match ends with a row."""
    total = 0j
    for q in range(end_bound.shape[0]):
        if order[row] >= end_bound[q]:
            total = add(total, V[row, q, 0], _NONE)
    share, found = widen(chance * total.real, total.imag), np.int64(0)
    for q in range(end_bound.shape[0]):
        count = V[row, q, 0]
        if order[row] < end_bound[q] or count.real == 0.0:
            continue
        found = np.int64(q)
        if less(share, count):
            break
        share = minus(share, count)
    return found


@kernel()
def _step_back(G, D, S, segment, begin, end, upto, row, q, draw):
    """Choose what a match had before a row: its place and state in one number, -1 for nothing."""
    size = end - begin
    count = S.V[row, q, 0]
    share = widen(_uniform(S.seeds, draw) * count.real, count.imag)
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.source[edge] < 0 and bounds_of(G, D, edge, row, segment)[0]:
            if less(share, 1 + 0j):
                return np.int64(-1)
            share = minus(share, 1 + 0j)
    # What is left belongs to the last edge, whose sum need not be known.
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1] - 1):
        if G.source[edge] >= 0:
            here, _ = _follow(G, D, S, segment, begin, size, upto, row, edge, share, True)
            if less(share, here):
                return _follow(G, D, S, segment, begin, size, upto, row, edge, share, False)[1]
            share = minus(share, here)
    # Rounding can leave a rest where there is no match: then the last edge that has one is taken.
    for edge in range(G.edge_ptr[q + 1] - 1, G.edge_ptr[q] - 1, -1):
        if G.source[edge] >= 0:
            found = _follow(G, D, S, segment, begin, size, upto, row, edge, share, False)[1]
            if found >= 0:
                return found
    return np.int64(-1)


@kernel()
def _follow(G, D, S, segment, begin, size, upto, row, edge, share, counts):
    """Count the matches that come by an edge, or find the place and state in which a share ends."""
    source, states, nothing = G.source[edge], G.variable.shape[0], np.int64(-1)
    open_, low, high = bounds_of(G, D, edge, row, segment)
    if not open_:
        return 0j, nothing
    slot = S.edge_slot[edge]
    if slot < 0:
        total, prev = _scan(
            S.V, D.order, D.bits, G.variable[source], source, begin, upto, low, high,
            G.edge_pair[edge], G.pair_ptr, G.predicate, G.outside, G.pair_mask, D.rank, D.first,
            D.last, D.mask, row, share, counts,
        )  # fmt: skip
        return total, nothing if prev < 0 else (prev - begin) * states + source
    a, b, c, d = leaves_of(
        S.predicate[slot], row, begin, upto, low, high, D.order, D.first, D.last, D.ranks,
        G.outside,
    )  # fmt: skip
    if counts:
        both = _range_sum(S.tree, slot, size, a, b)
        return add(both, _range_sum(S.tree, slot, size, c, d), _NONE), nothing
    part = _range_sum(S.tree, slot, size, a, b) if c < d else 0j
    leaf = nothing
    if c < d and not less(share, part):
        leaf = _pick(S.tree, slot, size, c, d, minus(share, part))
    if leaf < 0:
        leaf = _pick(S.tree, slot, size, a, b, share)
    return 0j, nothing if leaf < 0 else S.at[slot, leaf] * states + source


@kernel()
def draw_matches(G, D, S, cursor, event_draw, event_row, event_state):
    """Draw matches, backwards, into buffers; return whether all are there.

    A call without room for one event of each draw stops, and goes on where the cursor says.
    """
    states, segments = G.variable.shape[0], D.segment_ptr.shape[0] - 1
    while cursor[SEGMENT] < segments:
        segment = cursor[SEGMENT]
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        waiting = S.drawn_ptr[segment + 1] - S.drawn_ptr[segment]
        if not waiting:
            cursor[SEGMENT] += 1
            continue
        if cursor[ROW] < 0:
            let_signals_in(segment)
            _open(G, D, S, segment, begin, end)
            cursor[ROW] = end
            S.left[0] = waiting
        size, j, rounds = end - begin, cursor[ROW], 0
        while j > begin and S.left[0] > 0:
            rounds = let_signals_in(rounds)
            if cursor[COUNT] + waiting > event_row.shape[0]:
                cursor[ROW] = j
                return False
            i = j - 1
            while i > begin and D.order[i - 1] == D.order[i]:
                i -= 1
            for slot in range(S.source.shape[0]):
                predicate = S.predicate[slot]
                for row in range(i, j):
                    if predicate >= 0 and D.rank[predicate, row] >= 0:
                        leaf = np.int64(D.rank[predicate, row])
                        if S.tree[slot, size + leaf].real != 0.0:
                            _set_leaf(S.tree, slot, size, leaf, 0j)
            for row in range(i, j):
                for q in range(states):
                    draw = S.head[(row - begin) * states + q]
                    while draw >= 0:
                        after = S.next[draw]
                        place = cursor[COUNT]
                        event_draw[place], event_row[place] = draw, row
                        event_state[place] = q
                        cursor[COUNT] += 1
                        prev = _step_back(G, D, S, segment, begin, end, i, row, q, draw)
                        if prev < 0:
                            S.left[0] -= 1
                        else:
                            S.next[draw] = S.head[prev]
                            S.head[prev] = draw
                        draw = after
            j = i
        cursor[SEGMENT], cursor[ROW] = segment + 1, -1
    return True
