"""Aggregate matches event by event: the aggregates of each event, from the events that it follows.

With edge predicates an event cannot be extended by every later event, so each keeps its own
aggregates. A *segment* is the events of one partition in one window, all known. Negation is settled
before a segment is run: for every event, the latest start of an occurrence of each negated pattern
that ended before it. So a guard is a bound on the order of the previous event.

    V[row, state, part], M[row, state, part]   aggregates of the matches that end here
    total[state, part]                         their sum, for edges without predicate and guard
    member[state, n]                           the rows in a state, in order
    tree[index, node, part]                    sums over ranges of rank: a segment tree
    at[index, rank]                            the row of a rank, -1 as long as it is not there

A predicate f(prev) op g(next) is a range of ranks: ``rank[predicate, prev]`` lies between
``first[predicate, next]`` and ``last[predicate, next]`` (or outside, for <>).

Inner functions take arrays, not the tuples that hold them: reading an array out of a tuple counts a
reference, which costs more than most of what is done here.

Sources: Poppe et al., "GRETA", VLDB 2017, sections 4 and 5; "COGRA", SIGMOD 2019, section 5, where
an event scans all earlier ones. A tree of sums needs O(log n).
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.bins import SHIFT, bind_bins, report_bins
from cepheid.kernels.moments import bind_moment, moment_at_end
from cepheid.kernels.ring import add, mul, present
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

NO_VALUE = np.iinfo(np.int64).max
NO_BOUND = np.int64(2**62)
TOTAL, INDEX, RANGE, SCAN = 0, 1, 2, 3
"""Ways in which an edge finds earlier events: by their sum, a tree, a range of ranks, or a scan."""
BETWEEN, LEADING, TRAILING, HIT = 0, 1, 2, 3
"""Kinds of guards of an edge; HIT is added where a guard must have been hit."""
UNGUARDED, GUARDED = 0, 1


@kernel(borrows=True)
def bounds_of(G, D, edge, row, segment):
    """Check whether an edge to a row is allowed, and compute its source orders [low, high)."""
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


@kernel(borrows=True)
def least_order_of_end(G, D, state, segment):
    """Compute the order from which on a match may end in a state, by trailing guards."""
    best = NO_BOUND
    for way in range(G.way_ptr[state], G.way_ptr[state + 1]):
        bound = np.int64(0)
        for n in range(G.way_guard_ptr[way], G.way_guard_ptr[way + 1]):
            bound = max(bound, D.latest_of_all[G.way_guard[n], segment])
        best = min(best, bound)
    return best


@kernel(borrows=True)
def _holds(predicates, start, stop, outside, rank, first, last, prev, row):
    """Check the predicates that are ranges of ranks between two rows."""
    for n in range(start, stop):
        predicate = predicates[n]
        here, low = rank[predicate, prev], first[predicate, row]
        if here < 0 or low < 0:
            return False
        if (low <= here < last[predicate, row]) == outside[predicate]:
            return False
    return True


@kernel(inline="code", borrows=True)
def related(
    pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row, base, begin
):
    """Check all predicates of a pair of variables between two rows."""
    if pair < 0:
        return True
    start, stop = pair_ptr[pair], pair_ptr[pair + 1]
    if not _holds(predicates, start, stop, outside, rank, first, last, prev, row):
        return False
    number = pair_mask[pair]
    return number < 0 or mask[number, row - base, prev - begin]


@kernel(inline="code", borrows=True)
def add_row(V, M, row, state, prev, source, p):
    """Add the aggregates of a row in a state to another row."""
    for a in range(V.shape[2]):
        V[row, state, a] = add(V[row, state, a], V[prev, source, a], p)
    if M.shape[2] and present(V[prev, source, 0]):
        for a in range(M.shape[2]):
            M[row, state, a] = min(M[row, state, a], M[prev, source, a])


@kernel(borrows=True)
def set_leaf(tree, least, index, size, rank, V, M, row, source, zero, p):
    """Insert a row into a tree, or remove it (row < 0), and update the sums above; O(log n)."""
    parts, mins = tree.shape[2], least.shape[2]
    node = size + rank
    for a in range(parts):
        tree[index, node, a] = V[row, source, a] if row >= 0 else zero
    for a in range(mins):
        least[index, node, a] = M[row, source, a] if row >= 0 else NO_VALUE
    node >>= 1
    while node >= 1:
        for a in range(parts):
            tree[index, node, a] = add(tree[index, 2 * node, a], tree[index, 2 * node + 1, a], p)
        for a in range(mins):
            least[index, node, a] = min(least[index, 2 * node, a], least[index, 2 * node + 1, a])
        node >>= 1


@kernel(inline="code", borrows=True)
def _add_node(tree, least, index, node, V, M, row, state, p):
    for a in range(tree.shape[2]):
        V[row, state, a] = add(V[row, state, a], tree[index, node, a], p)
    for a in range(least.shape[2]):
        M[row, state, a] = min(M[row, state, a], least[index, node, a])


@kernel(borrows=True)
def add_range(tree, least, index, size, first, last, V, M, row, state, p):
    """Add the sum of the ranks [first, last) to a row; O(log n)."""
    left, right = first + size, last + size
    while left < right:
        if left & 1:
            _add_node(tree, least, index, left, V, M, row, state, p)
            left += 1
        if right & 1:
            right -= 1
            _add_node(tree, least, index, right, V, M, row, state, p)
        left >>= 1
        right >>= 1


@kernel(borrows=True)
def _move_window(G, D, S, index, begin, size, low, high, zero, p):
    """Move a tree to the orders [low, high): both only grow; each row enters and leaves once."""
    source, predicate = G.index_source[index], G.index_predicate[index]
    count = S.members[source]
    while S.entered[index] < count:
        row = S.member[source, S.entered[index]]
        if D.order[row] >= high:
            break
        rank = D.rank[predicate, row] if predicate >= 0 else row - begin
        if rank >= 0 and D.order[row] >= low:
            set_leaf(S.tree, S.tree_least, index, size, rank, S.V, S.M, row, source, zero, p)
        S.entered[index] += 1
    while S.left[index] < S.entered[index]:
        row = S.member[source, S.left[index]]
        if D.order[row] >= low:
            break
        rank = D.rank[predicate, row] if predicate >= 0 else row - begin
        if rank >= 0:
            set_leaf(S.tree, S.tree_least, index, size, rank, S.V, S.M, -1, source, zero, p)
        S.left[index] += 1


@kernel(borrows=True)
def _follow_index(G, D, S, edge, row, state, begin, size, low, high, zero, p):
    index = G.edge_index[edge]
    if G.index_guarded[index]:
        _move_window(G, D, S, index, begin, size, low, high, zero, p)
    predicate = G.index_predicate[index]
    tree, least, V, M = S.tree, S.tree_least, S.V, S.M
    if predicate < 0:
        add_range(tree, least, index, size, 0, size, V, M, row, state, p)
        return
    first, last = D.first[predicate, row], D.last[predicate, row]
    if first < 0:
        return
    if G.outside[predicate]:
        add_range(tree, least, index, size, 0, first, V, M, row, state, p)
        ranks = D.ranks[predicate, row]
        add_range(tree, least, index, size, last, ranks, V, M, row, state, p)
    elif first < last:
        add_range(tree, least, index, size, first, last, V, M, row, state, p)


@kernel(borrows=True)
def _add_candidates(
    candidates, order, low, high, predicates, start, stop, outside, rank, first, last, mask, begin,
    V, M, row, state, source, p,
):  # fmt: skip
    """Add the aggregates of those rows that a row may follow; -1 is no row. O(candidates)."""
    for n in range(candidates.shape[0]):
        prev = candidates[n]
        if prev < 0 or order[prev] < low or order[prev] >= high:
            continue
        if not _holds(predicates, start, stop, outside, rank, first, last, prev, row):
            continue
        if mask.shape[0] and not mask[prev - begin]:
            continue
        # Inlines `add_row`, because a call would take longer.
        for a in range(V.shape[2]):
            V[row, state, a] = add(V[row, state, a], V[prev, source, a], p)
        if M.shape[2] and present(V[prev, source, 0]):
            for a in range(M.shape[2]):
                M[row, state, a] = min(M[row, state, a], M[prev, source, a])


@kernel()
def _follow_some(G, D, S, candidates, edge, row, state, begin, base, low, high, p):
    """Test rows one by one."""
    pair = G.edge_pair[edge]
    first = stop = np.int64(0)
    mask = np.zeros(0, np.bool_)
    if pair >= 0:
        first, stop = G.pair_ptr[pair], G.pair_ptr[pair + 1]
        if G.pair_mask[pair] >= 0:
            mask = D.mask[G.pair_mask[pair], row - base]
    _add_candidates(
        candidates, D.order, low, high, G.predicate, first, stop, G.outside, D.rank, D.first,
        D.last, mask, begin, S.V, S.M, row, state, G.source[edge], p,
    )  # fmt: skip


@kernel(borrows=True)
def _follow_range(G, D, S, edge, row, state, begin, base, low, high, p):
    """Test the rows of a range of ranks one by one."""
    index = G.edge_index[edge]
    predicate = G.index_predicate[index]
    start, stop = D.first[predicate, row], D.last[predicate, row]
    if start < 0:
        return
    if G.outside[predicate]:
        start, stop = np.int32(0), D.ranks[predicate, row]
    if start < stop:
        candidates = S.at[index, start:stop]
        _follow_some(G, D, S, candidates, edge, row, state, begin, base, low, high, p)


@kernel(borrows=True)
def _follow_all(G, D, S, edge, row, state, begin, base, low, high, p):
    """Test all earlier rows in the source state."""
    source = G.source[edge]
    candidates = S.member[source, : S.members[source]]
    _follow_some(G, D, S, candidates, edge, row, state, begin, base, low, high, p)


@kernel(inline="code", borrows=True)
def begin_match(V, begins, row, state, unit, p):
    """Begin a match with a row."""
    V[row, state, 0] = add(V[row, state, 0], unit, p)
    begins[row, state] = True


@kernel(borrows=True)
def bind_event(
    variable, weights, weight_of, values, value_of, salt, V, M, row, state, unit, begins, p
):
    """Add a row's own values to all matches that end with it."""
    count = V[row, state, 0]
    if V.shape[2] > 1 and weight_of[variable, 1] <= SHIFT:
        bind_bins(weights, weight_of[variable, 1], V, row, state, unit, begins[row, state], p)
        return
    # Squares come after what they square, and need it as it was.
    for a in range(V.shape[2] - 1, 0, -1):
        column = weight_of[variable, a]
        if column < -1:
            bind_moment(
                weights, weight_of, variable, column, V, row, state, a, unit, begins[row, state], p
            )
        elif column >= 0 and present(count):
            # No match times an infinite value would be NaN.
            V[row, state, a] = add(V[row, state, a], mul(weights[column, row], count, p), p)
    if salt.shape[0]:
        V[row, state, 0] = mul(count, salt[variable, row], p)
    if M.shape[2] and present(count):
        for a in range(M.shape[2]):
            column = value_of[variable, a]
            if column >= 0:
                M[row, state, a] = min(M[row, state, a], values[column, row])


@kernel(borrows=True)
def report(
    variable, end_bound, weights, weight_of, bits, order, V, M, row, segment, tail, R, RM, ended, p
):
    """Add the matches that end with a row to the result of its segment."""
    for state in range(variable.shape[0]):
        if not bits >> variable[state] & 1:
            continue
        if order >= end_bound[state] and present(V[row, state, 0]):
            if R.shape[1] > 1 and weight_of[variable[state], 1] <= SHIFT:
                report_bins(weights, weight_of[variable[state], 1], V, row, state, segment, R, p)
                continue
            for a in range(R.shape[1]):
                code, number = weight_of[variable[state], a], V[row, state, a]
                if code < -1:
                    number = moment_at_end(
                        weights, weight_of, variable[state], code, V, row, state, a, p
                    )
                R[segment, a] = add(R[segment, a], number, p)
            for a in range(RM.shape[1]):
                RM[segment, a] = min(RM[segment, a], M[row, state, a])
            if tail:
                ended[segment] = add(ended[segment], V[row, state, 0], p)


@kernel(borrows=True)
def open_rows(G, D, S, segment, begin, end, zero):
    """Reset the rows of a segment and compute from where on matches may end."""
    for q in range(G.variable.shape[0]):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.V[begin:end] = zero
    S.M[begin:end] = NO_VALUE
    S.begins[begin:end] = False


@kernel(borrows=True)
def open_segment(G, D, S, segment, begin, end, zero):
    """Reset the rows of a segment, and what the previous segment left."""
    size = end - begin
    open_rows(G, D, S, segment, begin, end, zero)
    S.members[:] = 0
    S.total[:] = zero
    S.total_least[:] = NO_VALUE
    S.entered[:] = 0
    S.left[:] = 0
    S.at[:, :size] = -1
    S.tree[:, : 2 * size] = zero
    S.tree_least[:, : 2 * size] = NO_VALUE


@kernel(borrows=True)
def _add_total(total, total_least, source, V, M, row, state, p):
    """Add the sum of all rows in a state."""
    for a in range(V.shape[2]):
        V[row, state, a] = add(V[row, state, a], total[source, a], p)
    for a in range(M.shape[2]):
        M[row, state, a] = min(M[row, state, a], total_least[source, a])


@kernel(borrows=True)
def _commit_total(total, total_least, member, members, V, M, row, state, p):
    """Make a row visible to later events that use the total of a state or scan its rows."""
    member[state, members[state]] = row
    members[state] += 1
    for a in range(V.shape[2]):
        total[state, a] = add(total[state, a], V[row, state, a], p)
    for a in range(M.shape[2]):
        total_least[state, a] = min(total_least[state, a], M[row, state, a])


@kernel(borrows=True)
def _commit_indexes(
    sources, predicates, guarded, summed, ranks, tree, least, at, V, M, row, state, begin, size,
    zero, p,
):  # fmt: skip
    """Make a row visible to later events that use ranges of ranks."""
    for index in range(sources.shape[0]):
        if sources[index] != state or guarded[index]:
            continue
        predicate = predicates[index]
        rank = ranks[predicate, row] if predicate >= 0 else row - begin
        if rank < 0:
            continue
        at[index, rank] = row
        if summed[index]:
            set_leaf(tree, least, index, size, rank, V, M, row, state, zero, p)


def _pairs(G, D):
    """Estimate the pairs of rows that edges without an index test, in quarters of a usual step."""
    lengths = np.diff(D.segment_ptr).astype(np.float64)
    pairs = (lengths * lengths).sum() / 8 if (G.mode >= RANGE).any() else 0.0
    return max(lengths.sum(), pairs)


def _work_of_segment(G, D, S, segment, begin, end, first, last, *_):
    rows = float(last - first)
    return max(rows, rows * (end - begin) / 8 if (G.mode >= RANGE).any() else 0.0)


@kernel(work=_work_of_segment, borrows=True)
def run_any(G, D, S, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows [first, last) of a segment under skip-till-any-match.

    O(log n) for an edge with one separated predicate or a guard, O(1) without either, O(n) else.
    """
    size, tail = end - begin, D.window[segment]
    variable, edge_ptr, guard_ptr, sources = G.variable, G.edge_ptr, G.guard_ptr, G.source
    order, bits, ts, V, M, begins = D.order, D.bits, D.ts, S.V, S.M, S.begins
    weights, weight_of, values, value_of = D.weights, D.weight_of, D.values, D.value_of
    salt, end_bound, modes, rank = D.salt, S.end_bound, G.mode, D.rank
    total, total_least, member, members = S.total, S.total_least, S.member, S.members
    index_source, index_predicate = G.index_source, G.index_predicate
    guarded, summed, tree, least, at = G.index_guarded, G.index_summed, S.tree, S.tree_least, S.at
    states = variable.shape[0]
    i, rounds = first, 0
    while i < last:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < last and order[j] == order[i]:
            j += 1
        for row in range(i, j):
            for q in range(states):
                if not bits[row] >> variable[q] & 1:
                    continue
                for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                    open_, low, high = True, np.int64(0), NO_BOUND
                    if guard_ptr[edge] < guard_ptr[edge + 1]:
                        open_, low, high = bounds_of(G, D, edge, row, segment)
                    if not open_:
                        continue
                    source, mode = sources[edge], modes[edge]
                    if source < 0:
                        begin_match(V, begins, row, q, unit, p)
                    elif mode == TOTAL:
                        _add_total(total, total_least, source, V, M, row, q, p)
                    elif mode == INDEX:
                        _follow_index(G, D, S, edge, row, q, begin, size, low, high, zero, p)
                    elif mode == RANGE:
                        _follow_range(G, D, S, edge, row, q, begin, first, low, high, p)
                    else:
                        _follow_all(G, D, S, edge, row, q, begin, first, low, high, p)
                bind_event(
                    variable[q], weights, weight_of, values, value_of, salt, V, M, row, q, unit,
                    begins, p,
                )  # fmt: skip
            report(
                variable, end_bound, weights, weight_of, bits[row], order[row], V, M, row, segment,
                ts[row] == tail, R, RM, ended, p,
            )  # fmt: skip
        for row in range(i, j):
            for q in range(states):
                if bits[row] >> variable[q] & 1 and present(V[row, q, 0]):
                    _commit_total(total, total_least, member, members, V, M, row, q, p)
                    _commit_indexes(
                        index_source, index_predicate, guarded, summed, rank, tree, least, at, V, M,
                        row, q, begin, size, zero, p,
                    )  # fmt: skip
        i = j


def _work_of_segments(G, D, *_):
    return _pairs(G, D)


@kernel(work=_work_of_segments, borrows=True)
def run_segments(G, D, S, unit, zero, p, R, RM, ended):
    """Run all segments under skip-till-any-match."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(G, D, S, segment, begin, end, zero)
        run_any(G, D, S, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
