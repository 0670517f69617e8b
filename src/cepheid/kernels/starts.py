"""Find the latest start of the matches that end at a row, to prune partial matches.

Matches are built backwards, from their last events (``kernels/enumerate.py``). Before that, one
forward pass finds, for every row and state, the latest row at which a partial match ending there
can begin. A window is a bound on the first event of a match, so one number decides for all windows
whether there is any match, and no partial match is built that cannot be completed.

    starts[row, state]   the latest first row of the matches that end here, -1 for none
    reach[row, state]    the same for those that a later event may extend
    until[row, state]    skip-till-next-match: the order of the events that extend them, -1 for none
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import NO_BOUND, bounds_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

ANY, NEXT, CONTIGUOUS, LINKS = 0, 1, 2, 3
"""Ways to select events; LINKS: every kind of link has a rule (``kernels/links.py``)."""
SOMEHOW, BEGINS, SUMMED = 0, 1, 2
"""The latest start of matches in a state: the row itself, or that of all source states."""


@kernel(inline="code", borrows=True)
def in_ranks(n, end, predicate, outside, rank, first, last, prev, row):
    """Check the ranked predicates between two rows."""
    while n < end:
        p = predicate[n]
        if rank[p, prev] < 0 or first[p, row] < 0:
            return False
        if (first[p, row] <= rank[p, prev] < last[p, row]) == outside[p]:
            return False
        n += 1
    return True


@kernel(borrows=True)
def related(G, D, L, pair, prev, row):
    """Check all predicates of a pair of variables: 1, 0, or -1 if not known yet."""
    if pair < 0:
        return 1
    for n in range(G.pair_ptr[pair], G.pair_ptr[pair + 1]):
        predicate = G.predicate[n]
        rank = D.rank[predicate, prev]
        first, last = D.first[predicate, row], D.last[predicate, row]
        if rank < 0 or first < 0:
            return 0
        if (first <= rank < last) == G.outside[predicate]:
            return 0
    mask = G.pair_mask[pair]
    if mask < 0:
        return 1
    block = L.block_of[row]
    begin = L.block_at[block]
    if begin < 0:
        return -1
    first, base = L.block_first[block], L.block_base[block]
    width = L.block_first[block + 1] - base
    height = L.block_first[block + 1] - first
    place = begin + (mask * height + row - first) * width + prev - base
    return 1 if L.mask[place] else 0


@kernel(borrows=True)
def _scan(G, D, L, S, edge, row, best, low, high, begin):
    """Find the latest start among all earlier rows of the source state, the last row first."""
    source, pair = G.source[edge], G.edge_pair[edge]
    equal = L.equal[pair] if pair >= 0 else -1
    if equal >= 0:
        for rank in range(D.first[equal, row], D.last[equal, row]):
            prev = L.at_rank[equal, begin + rank]
            if D.order[prev] < D.order[row] and low <= D.order[prev] < high:
                if L.reach[prev, source] > best and related(G, D, L, pair, prev, row) == 1:
                    best = L.reach[prev, source]
        return best
    bound = L.bound[row]
    for n in range(S.members[source] - 1, -1, -1):
        prev = S.member[source, n]
        if prev < bound or prev <= best or D.order[prev] < low:
            break
        if D.order[prev] < high and L.reach[prev, source] > best:
            if related(G, D, L, pair, prev, row) == 1:
                best = L.reach[prev, source]
    return best


@kernel(borrows=True)
def _scan_last_time(G, D, L, edge, row, best, before, first):
    """Find the latest start among the rows of the previous time (contiguous)."""
    source, pair = G.source[edge], G.edge_pair[edge]
    for prev in range(before, first):
        if L.reach[prev, source] > best and related(G, D, L, pair, prev, row) == 1:
            best = L.reach[prev, source]
    return best


@kernel(borrows=True)
def _scan_taken(G, D, L, taken, count, edge, row, best, low, high):
    """Find the latest start among the rows that the events of this time take."""
    source, pair = G.source[edge], G.edge_pair[edge]
    for n in range(count):
        prev = taken[n, 1]
        if taken[n, 0] == source and low <= D.order[prev] < high:
            if L.reach[prev, source] > best and related(G, D, L, pair, prev, row) == 1:
                best = L.reach[prev, source]
    return best


@kernel(borrows=True)
def _extends(G, D, L, state, prev, first, last):
    """Check whether one of some rows extends a partial match, as any variable (§3.2)."""
    for row in range(first, last):
        fitting = (D.bits[row] | D.block[row]) & G.allowed[state]
        for variable in range(G.pair_of.shape[0]):
            if fitting >> variable & 1:
                if related(G, D, L, G.pair_of[G.variable[state], variable], prev, row) == 1:
                    return True
    return False


@kernel(borrows=True)
def _take(G, D, L, S, taken, first, last):
    """Take the pending rows that the events of one time extend, and drop those out of reach."""
    count = 0
    every = np.int64(0)
    for row in range(first, last):
        every |= D.bits[row] | D.block[row]
    for state in range(G.variable.shape[0]):
        if not every & G.allowed[state]:
            continue
        left = 0
        for n in range(S.members[state]):
            prev = S.member[state, n]
            if prev < L.bound[first]:
                continue
            if _extends(G, D, L, state, prev, first, last):
                L.until[prev, state] = D.order[first]
                taken[count, 0] = state
                taken[count, 1] = prev
                count += 1
            else:
                S.member[state, left] = prev
                left += 1
        S.members[state] = left
    return count


@kernel(borrows=True)
def _start_of(G, D, L, S, taken, count, semantics, segment, row, q, before, first, begin):
    """Find the latest start of matches that end with a row in a state, and if it begins one."""
    best, begins = np.int64(-1), False
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        low, high = np.int64(0), NO_BOUND
        if G.guard_ptr[edge] < G.guard_ptr[edge + 1]:
            open_, low, high = bounds_of(G, D, edge, row, segment)
            if not open_:
                continue
        source = G.source[edge]
        if source < 0:
            best, begins = np.int64(row), True
        elif semantics == CONTIGUOUS:
            if before < first and low <= D.order[before] < high:
                best = _scan_last_time(G, D, L, edge, row, best, before, first)
        elif semantics == NEXT:
            best = _scan_taken(G, D, L, taken, count, edge, row, best, low, high)
        elif G.edge_pair[edge] < 0 and G.guard_ptr[edge] == G.guard_ptr[edge + 1]:
            best = max(best, S.latest[source])
        else:
            best = _scan(G, D, L, S, edge, row, best, low, high, begin)
    return best, begins


@kernel(borrows=True)
def find_starts(G, D, L, S, taken, semantics, segment, begin, first, last):
    """Fill starts, reach and until for the rows [first, last) of a segment."""
    i, rounds = first, 0
    while i < last:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < last and D.order[j] == D.order[i]:
            j += 1
        before = i
        while before > begin and D.order[before - 1] == D.order[i] - 1:
            before -= 1
        count = _take(G, D, L, S, taken, i, j) if semantics == NEXT else 0
        crowded = semantics == CONTIGUOUS and j - i > 1
        for row in range(i, j):
            for q in range(G.variable.shape[0]):
                if not D.bits[row] >> G.variable[q] & 1 or L.choice[q] != L.chosen[segment]:
                    continue
                if L.need[q] and L.need[q] & ~L.marks[row]:
                    continue
                # Passing tuples costs more than the work of most states.
                best, begins = np.int64(row), True
                if L.way[q] == SUMMED:
                    best, begins = np.int64(-1), False
                    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
                        best = max(best, S.latest[G.source[edge]])
                elif L.way[q] != BEGINS:
                    best, begins = _start_of(
                        G, D, L, S, taken, count, semantics, segment, row, q, before, i, begin
                    )
                L.starts[row, q] = best
                # A match cannot pass through a time of several events; it can begin there (§3.3).
                S.held[row - i, q] = (row if begins else -1) if crowded else best
        for row in range(i, j):
            for q in range(G.variable.shape[0]):
                if L.starts[row, q] < 0:
                    continue
                best = S.held[row - i, q]
                L.reach[row, q] = best
                if best >= 0:
                    S.latest[q] = max(S.latest[q], best)
                    S.member[q, S.members[q]] = row
                    S.members[q] += 1
        i = j


@kernel(borrows=True)
def find_contiguous_starts(
    segment_ptr, order, bits, chosen, choice, need, marks, variable, edge_ptr, source, edge_pair,
    pair_ptr, predicate, outside, rank, first, last, starts, reach,
):  # fmt: skip
    """Fill starts and reach under contiguous, without negation and masks.

    It equals ``find_all_starts`` and is three times as fast: arrays passed one by one avoid
    repeated reference counting.
    """
    for segment in range(segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        before, i = begin, begin
        while i < end:
            j = i + 1
            while j < end and order[j] == order[i]:
                j += 1
            for row in range(i, j):
                for q in range(variable.shape[0]):
                    if not bits[row] >> variable[q] & 1 or choice[q] != chosen[segment]:
                        continue
                    if need[q] and need[q] & ~marks[row]:
                        continue
                    best, begins = np.int64(-1), False
                    for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                        if source[edge] < 0:
                            best, begins = np.int64(row), True
                            continue
                        pair = edge_pair[edge]
                        n, upto = (pair_ptr[pair], pair_ptr[pair + 1]) if pair >= 0 else (0, 0)
                        for prev in range(before, i):
                            if reach[prev, source[edge]] > best and in_ranks(
                                n, upto, predicate, outside, rank, first, last, prev, row
                            ):
                                best = reach[prev, source[edge]]
                    starts[row, q] = best
                    reach[row, q] = best
                    if j - i > 1:
                        reach[row, q] = row if begins else -1
            before, i = i, j


@kernel(borrows=True)
def open_segment(S):
    """Reset the previous segment."""
    S.members[:] = 0
    S.latest[:] = -1


def _work(G, D, L, *_):
    """Estimate the work: every row may read all rows in reach before it, though most read few."""
    rows = float(L.bound.shape[0])
    return max(rows, float((np.arange(L.bound.shape[0]) - L.bound).sum()) / 64)


@kernel(work=_work, borrows=True)
def find_all_starts(G, D, L, S, taken, semantics):
    """Fill starts, reach and until for all segments."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(S)
        find_starts(G, D, L, S, taken, semantics, segment, begin, begin, end)
