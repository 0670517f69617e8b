"""Find the latest starts of matches whose links close by different rules (§3.6, §3.7).

Links of one state that close together have one *kind*. Beside ``starts`` and ``reach`` of
``kernels/starts.py`` the forward pass fills

    close[row, state, kind]   the order of the events that close the link, NEVER if none does

An event takes the link if its own order is not later. Under `next` and `contiguous` the event that
takes a link also closes it, so its earlier events are those whose links close at its own order.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import NO_BOUND, bounds_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.starts import ANY, CONTIGUOUS, NEXT, related
from cepheid.kernels.tiers import kernel

NEVER = np.iinfo(np.int64).max
BEGINS, JOINED, LINKED = 0, 1, 2
"""Ways to reach the last event of a match in a state: as the first event, by a contiguous link,
or by another one."""


@kernel(borrows=True)
def _latest_start(G, D, L, S, edge, row, best, low, high):
    """Find the latest start among the earlier rows whose link is open, the last row first."""
    source, kind, pair = G.source[edge], L.edge_kind[edge], G.edge_pair[edge]
    bound = L.bound[row]
    for n in range(S.members[source, kind] - 1, -1, -1):
        prev = S.member[source, kind, n]
        if prev < bound or prev <= best:
            break
        if low <= D.order[prev] < high and L.reach[prev, source] > best:
            if related(G, D, L, pair, prev, row) == 1:
                best = L.reach[prev, source]
    return best


@kernel(borrows=True)
def _start_of(G, D, L, S, segment, row, q):
    """Find the latest start of the matches that end with a row in a state."""
    best = np.int64(-1)
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        low, high = np.int64(0), NO_BOUND
        if G.guard_ptr[edge] < G.guard_ptr[edge + 1]:
            open_, low, high = bounds_of(G, D, edge, row, segment)
            if not open_:
                continue
        if G.source[edge] < 0:
            return np.int64(row)
        best = _latest_start(G, D, L, S, edge, row, best, low, high)
    return best


@kernel(borrows=True)
def _follows(G, D, L, K, state, prev, first, last):
    """Check whether one of some rows may follow through an open link that is not `any`."""
    order = D.order[first]
    for row in range(first, last):
        fitting = D.bits[row] & G.allowed[state]
        for variable in range(K.kind_of.shape[1]):
            if not fitting >> variable & 1 or D.bits[row] & K.stops_of[variable]:
                continue
            kind = K.kind_of[state, variable]
            if K.rule[kind] == ANY or L.close[prev, state, kind] < order:
                continue
            if related(G, D, L, G.pair_of[G.variable[state], variable], prev, row) == 1:
                return True
    return False


@kernel(borrows=True)
def _close_links(G, D, L, S, K, first, last, every):
    """Close links by the rows of one time; closed ones and those out of reach leave the lists."""
    order = D.order[first]
    for state in range(G.variable.shape[0]):
        for kind in range(K.rule.shape[0]):
            rule = K.rule[kind]
            ended = every & K.stops[kind] != 0
            if rule == ANY and not ended:
                continue
            if rule == NEXT and not ended and not every & G.allowed[state]:
                continue
            left = 0
            for n in range(S.members[state, kind]):
                prev = S.member[state, kind, n]
                if prev < L.bound[first]:
                    continue
                if ended or rule == CONTIGUOUS or _follows(G, D, L, K, state, prev, first, last):
                    L.close[prev, state, kind] = order
                else:
                    S.member[state, kind, left] = prev
                    left += 1
            S.members[state, kind] = left


@kernel(borrows=True)
def _open_links(D, L, S, K, row, q, every, several):
    """Open the links of a match that ends with a row, but for those that its own time closes."""
    for kind in range(K.rule.shape[0]):
        closed = K.reached[q] != BEGINS and every & K.stops[kind] & K.own_stops[q] != 0
        if several and K.rule[kind] == CONTIGUOUS and K.reached[q] == JOINED:
            closed = True
        if closed:
            L.close[row, q, kind] = D.order[row]
        else:
            S.member[q, kind, S.members[q, kind]] = row
            S.members[q, kind] += 1


@kernel(borrows=True)
def find_linked_starts(G, D, L, S, K, segment, first, last):
    """Fill starts, reach and close for the rows [first, last) of a segment."""
    i, rounds = first, 0
    while i < last:
        rounds = let_signals_in(rounds)
        j, every = i + 1, D.bits[i]
        while j < last and D.order[j] == D.order[i]:
            every |= D.bits[j]
            j += 1
        for row in range(i, j):
            for q in range(G.variable.shape[0]):
                if not D.bits[row] >> G.variable[q] & 1 or D.bits[row] & K.own_stops[q]:
                    continue
                if L.need[q] and L.need[q] & ~L.marks[row]:
                    continue
                best = _start_of(G, D, L, S, segment, row, q)
                L.starts[row, q] = best
                L.reach[row, q] = best
        _close_links(G, D, L, S, K, i, j, every)
        for row in range(i, j):
            for q in range(G.variable.shape[0]):
                if L.reach[row, q] >= 0:
                    _open_links(D, L, S, K, row, q, every, j - i > 1)
        i = j


@kernel(borrows=True)
def open_linked_segment(S):
    """Forget the open links of the previous segment."""
    S.members[:] = 0


def _work(G, D, L, *_):
    """Estimate the work: a row reads the rows whose links are open."""
    rows = float(L.bound.shape[0])
    return max(rows, float((np.arange(L.bound.shape[0]) - L.bound).sum()) / 64)


@kernel(work=_work, borrows=True)
def find_all_linked_starts(G, D, L, S, K):
    """Fill starts, reach and close for all segments."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        open_linked_segment(S)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        find_linked_starts(G, D, L, S, K, segment, begin, end)


@kernel()
def gather_linked_members(D, reach, close, rule, ptr, member, key):
    """Collect the rows of every segment, state and kind, sorted by the order of their look-ups.

    This is the row's own order for `any`, else the order of the events that close its link.
    """
    states, kinds = reach.shape[1], rule.shape[0]
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        for state in range(states):
            for kind in range(kinds):
                at = (segment * states + state) * kinds + kind
                place = ptr[at]
                first = place
                for row in range(begin, end):
                    if reach[row, state] < 0:
                        continue
                    if rule[kind] == ANY:
                        member[place], key[place] = row, D.order[row]
                        place += 1
                    elif close[row, state, kind] < NEVER:
                        member[place], key[place] = row, close[row, state, kind]
                        place += 1
                if rule[kind] != ANY:
                    order = np.argsort(key[first:place], kind="mergesort")
                    key[first:place] = key[first:place][order]
                    member[first:place] = member[first:place][order]
                ptr[at + 1] = place
