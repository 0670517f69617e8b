"""Aggregate matches event by event: what every event holds, and which earlier events it follows.

With edge predicates an event cannot be extended by every later event, so each keeps its own
aggregates. A *segment* is the events of one partition in one window, all known. Negation is settled
before a segment is run: for every event, the latest start of an occurrence of each negated pattern
that ended before it. So a guard is a bound on the order of the event before.

    V[row, state, part], M[row, state, part]   aggregates of the matches that end here
    total[state, part]                         their sum, for edges without predicate and guard
    member[state, n]                           the rows in a state, in order
    tree[index, node, part]                    sums over ranges of rank: a segment tree
    at[index, rank]                            the row of a rank, -1 as long as it is not there

A predicate f(prev) op g(next) is a range of ranks: ``rank[predicate, prev]`` lies between
``first[predicate, next]`` and ``last[predicate, next]`` (or outside, for <>).

Sources: Poppe et al., "GRETA", VLDB 2017, sections 4 and 5; "COGRA", SIGMOD 2019, section 5, where
an event looks at all earlier ones. A tree of sums needs O(log n).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.ring import add, mul, present

NO_VALUE = np.iinfo(np.int64).max
NO_BOUND = np.int64(2**62)
TOTAL, INDEX, RANGE, SCAN = 0, 1, 2, 3
"""How an edge finds the events before: their sum, a tree, a range of ranks, all of them."""
BETWEEN, LEADING, TRAILING, HIT = 0, 1, 2, 3
"""Kinds of guards of an edge; HIT is added where a guard must have been hit."""
UNGUARDED, GUARDED = 0, 1


@njit(cache=True)
def bounds_of(G, D, edge, row, segment):
    """Return whether an edge may be taken to a row, and the orders [low, high) to come from."""
    low, high = np.int64(0), NO_BOUND
    for n in range(G.guard_ptr[edge], G.guard_ptr[edge + 1]):
        guard, kind = G.guard[n], G.guard_kind[n]
        hit = D.latest[guard, row]
        if kind == LEADING:
            if hit >= 0:
                return False, low, high
        elif kind == LEADING + HIT:
            if hit < 0:
                return False, low, high
        else:
            if kind in (TRAILING, TRAILING + HIT):
                hit = D.latest_of_all[guard, segment]
            if kind >= HIT:
                high = min(high, hit)
            else:
                low = max(low, hit)
    return low < high, low, high


@njit(cache=True)
def least_order_of_end(G, D, state, segment):
    """Return the order from which on a match may end in a state, as trailing guards allow."""
    best = NO_BOUND
    for way in range(G.way_ptr[state], G.way_ptr[state + 1]):
        bound = np.int64(0)
        for n in range(G.way_guard_ptr[way], G.way_guard_ptr[way + 1]):
            bound = max(bound, D.latest_of_all[G.way_guard[n], segment])
        best = min(best, bound)
    return best


@njit(cache=True)
def related(G, D, pair, prev, row, base, begin):
    """Return whether all predicates of a pair of variables hold between two rows."""
    if pair < 0:
        return True
    for n in range(G.pair_ptr[pair], G.pair_ptr[pair + 1]):
        predicate = G.predicate[n]
        rank = D.rank[predicate, prev]
        first, last = D.first[predicate, row], D.last[predicate, row]
        if rank < 0 or first < 0:
            return False
        if (first <= rank < last) == G.outside[predicate]:
            return False
    mask = G.pair_mask[pair]
    return mask < 0 or D.mask[mask, row - base, prev - begin]


@njit(cache=True)
def _add_row(S, row, state, prev, source, p):
    """Add what a row holds in a state to another row."""
    for a in range(S.V.shape[2]):
        S.V[row, state, a] = add(S.V[row, state, a], S.V[prev, source, a], p)
    if present(S.V[prev, source, 0]):
        for a in range(S.M.shape[2]):
            S.M[row, state, a] = min(S.M[row, state, a], S.M[prev, source, a])


@njit(cache=True)
def _set_leaf(S, index, size, rank, row, source, zero):
    """Put a row into a tree, or take it out (row < 0); O(log n)."""
    tree, least = S.tree[index], S.tree_least[index]
    node = size + rank
    for a in range(tree.shape[1]):
        tree[node, a] = S.V[row, source, a] if row >= 0 else zero
    for a in range(least.shape[1]):
        least[node, a] = S.M[row, source, a] if row >= 0 else NO_VALUE


@njit(cache=True)
def _refresh(S, index, size, rank, p):
    """Sum up again what lies above a leaf."""
    tree, least = S.tree[index], S.tree_least[index]
    node = (size + rank) >> 1
    while node >= 1:
        for a in range(tree.shape[1]):
            tree[node, a] = add(tree[2 * node, a], tree[2 * node + 1, a], p)
        for a in range(least.shape[1]):
            least[node, a] = min(least[2 * node, a], least[2 * node + 1, a])
        node >>= 1


@njit(cache=True)
def _add_range(S, index, size, first, last, row, state, p):
    """Add the sum of the ranks [first, last) to a row; O(log n)."""
    tree, least = S.tree[index], S.tree_least[index]
    left, right = first + size, last + size
    while left < right:
        if left & 1:
            for a in range(tree.shape[1]):
                S.V[row, state, a] = add(S.V[row, state, a], tree[left, a], p)
            for a in range(least.shape[1]):
                S.M[row, state, a] = min(S.M[row, state, a], least[left, a])
            left += 1
        if right & 1:
            right -= 1
            for a in range(tree.shape[1]):
                S.V[row, state, a] = add(S.V[row, state, a], tree[right, a], p)
            for a in range(least.shape[1]):
                S.M[row, state, a] = min(S.M[row, state, a], least[right, a])
        left >>= 1
        right >>= 1


@njit(cache=True)
def _move_window(G, D, S, index, begin, size, low, high, zero, p):
    """Bring a tree to the orders [low, high): both only grow, so every row comes and goes once."""
    source, predicate = G.index_source[index], G.index_predicate[index]
    count = S.members[source]
    while S.entered[index] < count:
        row = S.member[source, S.entered[index]]
        if D.order[row] >= high:
            break
        rank = D.rank[predicate, row] if predicate >= 0 else row - begin
        if rank >= 0 and D.order[row] >= low:
            _set_leaf(S, index, size, rank, row, source, zero)
            _refresh(S, index, size, rank, p)
        S.entered[index] += 1
    while S.left[index] < S.entered[index]:
        row = S.member[source, S.left[index]]
        if D.order[row] >= low:
            break
        rank = D.rank[predicate, row] if predicate >= 0 else row - begin
        if rank >= 0:
            _set_leaf(S, index, size, rank, np.int64(-1), source, zero)
            _refresh(S, index, size, rank, p)
        S.left[index] += 1


@njit(cache=True)
def _follow_index(G, D, S, edge, row, state, begin, size, low, high, zero, p):
    index = G.edge_index[edge]
    if G.index_guarded[index]:
        _move_window(G, D, S, index, begin, size, low, high, zero, p)
    predicate = G.index_predicate[index]
    if predicate < 0:
        _add_range(S, index, size, 0, size, row, state, p)
        return
    first, last = D.first[predicate, row], D.last[predicate, row]
    if first < 0:
        return
    if G.outside[predicate]:
        _add_range(S, index, size, 0, first, row, state, p)
        _add_range(S, index, size, last, D.ranks[predicate, row], row, state, p)
    elif first < last:
        _add_range(S, index, size, first, last, row, state, p)


@njit(cache=True)
def _follow_range(G, D, S, edge, row, state, begin, base, low, high, p):
    """Look at the rows of a range of ranks one by one."""
    index, pair, source = G.edge_index[edge], G.edge_pair[edge], G.source[edge]
    predicate = G.index_predicate[index]
    first, last = D.first[predicate, row], D.last[predicate, row]
    if first < 0:
        return
    stop = last
    start = first
    if G.outside[predicate]:
        start, stop = np.int64(0), D.ranks[predicate, row]
    for rank in range(start, stop):
        prev = S.at[index, rank]
        if prev >= 0 and low <= D.order[prev] < high:
            if related(G, D, pair, prev, row, base, begin):
                _add_row(S, row, state, prev, source, p)


@njit(cache=True)
def _follow_all(G, D, S, edge, row, state, begin, base, low, high, p):
    """Look at all earlier rows in the state before."""
    pair, source = G.edge_pair[edge], G.source[edge]
    for n in range(S.members[source]):
        prev = S.member[source, n]
        if low <= D.order[prev] < high and related(G, D, pair, prev, row, base, begin):
            _add_row(S, row, state, prev, source, p)


@njit(cache=True)
def begin_match(G, D, S, row, state, unit, p):
    """Let a match begin with a row."""
    S.V[row, state, 0] = add(S.V[row, state, 0], unit, p)
    S.begins[row, state] = True


@njit(cache=True)
def bind_event(G, D, S, row, state, p):
    """Add what a row itself brings to all matches that end with it."""
    variable = G.variable[state]
    count = S.V[row, state, 0]
    for a in range(1, S.V.shape[2]):
        column = D.weight_of[variable, a]
        if column >= 0:
            weight = D.weights[column, row]
            S.V[row, state, a] = add(S.V[row, state, a], mul(weight, count, p), p)
    if D.salt.shape[0]:
        S.V[row, state, 0] = mul(count, D.salt[variable, row], p)
    if present(count):
        for a in range(S.M.shape[2]):
            column = D.value_of[variable, a]
            if column >= 0:
                S.M[row, state, a] = min(S.M[row, state, a], D.values[column, row])


@njit(cache=True)
def report(G, D, S, row, segment, tail, R, RM, ended, p):
    """Add the matches that end with a row to the result of its segment."""
    for state in range(G.variable.shape[0]):
        if not D.bits[row] >> G.variable[state] & 1:
            continue
        if D.order[row] >= S.end_bound[state] and present(S.V[row, state, 0]):
            for a in range(R.shape[1]):
                R[segment, a] = add(R[segment, a], S.V[row, state, a], p)
            for a in range(RM.shape[1]):
                RM[segment, a] = min(RM[segment, a], S.M[row, state, a])
            if tail:
                ended[segment] = add(ended[segment], S.V[row, state, 0], p)


@njit(cache=True)
def open_segment(G, D, S, segment, begin, end, zero):
    """Forget the segment before and settle from where on matches may end."""
    size = end - begin
    for q in range(G.variable.shape[0]):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.members[:] = 0
    S.total[:] = zero
    S.total_least[:] = NO_VALUE
    S.entered[:] = 0
    S.left[:] = 0
    S.at[:, :size] = -1
    S.tree[:, : 2 * size] = zero
    S.tree_least[:, : 2 * size] = NO_VALUE
    S.V[begin:end] = zero
    S.M[begin:end] = NO_VALUE
    S.begins[begin:end] = False


@njit(cache=True)
def _commit(G, D, S, row, state, begin, size, zero, p):
    """Let later events see what a row holds."""
    if not present(S.V[row, state, 0]):
        return
    S.member[state, S.members[state]] = row
    S.members[state] += 1
    for a in range(S.V.shape[2]):
        S.total[state, a] = add(S.total[state, a], S.V[row, state, a], p)
    for a in range(S.M.shape[2]):
        S.total_least[state, a] = min(S.total_least[state, a], S.M[row, state, a])
    for index in range(G.index_source.shape[0]):
        if G.index_source[index] != state or G.index_guarded[index]:
            continue
        predicate = G.index_predicate[index]
        rank = D.rank[predicate, row] if predicate >= 0 else row - begin
        if rank < 0:
            continue
        S.at[index, rank] = row
        if G.index_summed[index]:
            _set_leaf(S, index, size, rank, row, state, zero)
            _refresh(S, index, size, rank, p)


@njit(cache=True)
def run_any(G, D, S, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows [first, last) of a segment under skip-till-any-match.

    O(log n) for an edge with one separated predicate or a guard, O(1) without either, O(n) else.
    """
    size = end - begin
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
                for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
                    open_, low, high = bounds_of(G, D, edge, row, segment)
                    if not open_:
                        continue
                    source, mode = G.source[edge], G.mode[edge]
                    if source < 0:
                        begin_match(G, D, S, row, q, unit, p)
                    elif mode == TOTAL:
                        for a in range(S.V.shape[2]):
                            S.V[row, q, a] = add(S.V[row, q, a], S.total[source, a], p)
                        for a in range(S.M.shape[2]):
                            S.M[row, q, a] = min(S.M[row, q, a], S.total_least[source, a])
                    elif mode == INDEX:
                        _follow_index(G, D, S, edge, row, q, begin, size, low, high, zero, p)
                    elif mode == RANGE:
                        _follow_range(G, D, S, edge, row, q, begin, first, low, high, p)
                    else:
                        _follow_all(G, D, S, edge, row, q, begin, first, low, high, p)
                bind_event(G, D, S, row, q, p)
            report(G, D, S, row, segment, D.ts[row] == D.window[segment], R, RM, ended, p)
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1:
                    _commit(G, D, S, row, q, begin, size, zero, p)
        i = j


@njit(cache=True)
def _begin_again(G, D, S, row, state, prev, source, unit, p):
    """Add the match that consists of one earlier row only."""
    variable = G.variable[source]
    S.V[row, state, 0] = add(S.V[row, state, 0], unit, p)
    for a in range(1, S.V.shape[2]):
        column = D.weight_of[variable, a]
        if column >= 0:
            weight = mul(D.weights[column, prev], unit, p)
            S.V[row, state, a] = add(S.V[row, state, a], weight, p)
    for a in range(S.M.shape[2]):
        column = D.value_of[variable, a]
        if column >= 0:
            S.M[row, state, a] = min(S.M[row, state, a], D.values[column, prev])


@njit(cache=True)
def run_contiguous(G, D, S, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows of a segment under contiguous: only the time before can be extended; O(ties).

    A match cannot pass through a time of several events, as it would leave one of them out; it can
    begin or end there (§3.3).
    """
    states = G.variable.shape[0]
    i = first
    while i < last:
        j = i + 1
        while j < last and D.order[j] == D.order[i]:
            j += 1
        before = i - 1
        while before > begin and D.order[before - 1] == D.order[i - 1]:
            before -= 1
        for row in range(i, j):
            for q in range(states):
                if not D.bits[row] >> G.variable[q] & 1:
                    continue
                for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
                    open_, low, high = bounds_of(G, D, edge, row, segment)
                    source = G.source[edge]
                    if not open_:
                        continue
                    if source < 0:
                        begin_match(G, D, S, row, q, unit, p)
                        continue
                    if i == begin or not low <= D.order[i - 1] < high:
                        continue
                    for prev in range(before, i):
                        if not D.bits[prev] >> G.variable[source] & 1:
                            continue
                        if not related(G, D, G.edge_pair[edge], prev, row, first, begin):
                            continue
                        if i - before == 1:
                            _add_row(S, row, q, prev, source, p)
                        elif S.begins[prev, source]:
                            _begin_again(G, D, S, row, q, prev, source, unit, p)
                bind_event(G, D, S, row, q, p)
            report(G, D, S, row, segment, D.ts[row] == D.window[segment], R, RM, ended, p)
        i = j


@njit(cache=True)
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
                        for n in range(S.members[source]):
                            prev = S.member[source, n]
                            if low <= D.order[prev] < high and S.M[prev, source, 0] > best:
                                if related(G, D, G.edge_pair[edge], prev, row, first, begin):
                                    best = S.M[prev, source, 0]
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


@njit(cache=True)
def spread_latest(order, segment_ptr, found, latest, latest_of_all):
    """Turn what ends with a row into what ended before it, and into the latest of a segment."""
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


@njit(cache=True)
def open_latest(G, D, S, segment, begin, end):
    """Forget the segment before, for ``find_latest``."""
    for q in range(G.variable.shape[0]):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.members[:] = 0
    S.total_least[:] = -1
    S.M[begin:end] = -1


@njit(cache=True)
def run_latest(G, D, S, found):
    """Run ``find_latest`` over all segments."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_latest(G, D, S, segment, begin, end)
        find_latest(G, D, S, segment, begin, end, begin, end, found)


@njit(cache=True)
def run_segments(G, D, S, contiguous, unit, zero, p, R, RM, ended):
    """Run all segments under skip-till-any-match or contiguous."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(G, D, S, segment, begin, end, zero)
        if contiguous:
            run_contiguous(G, D, S, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
        else:
            run_any(G, D, S, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
