"""Skip-till-next-match with edge predicates: a match that waits takes the first event that fits.

Pending rows stand in sets ordered by rank, one set for each predicate that can end the waiting, so
an event finds the rows that it extends without looking at others. Every row is taken out once, by
the events of one time: O(log n) a row and event, and O(ties) more.

COGRA's Algorithm 3 keeps the last matched event only and so loses matches by its own Definition 2.6
(docs/semantics.md §3.5); here all pending rows are kept.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels import bits
from cepheid.kernels.graph import (
    _add_row,
    begin_match,
    bind_event,
    bounds_of,
    open_segment,
    related,
    report,
)
from cepheid.kernels.ring import present

put, remove, next_member = bits.put, bits.remove, bits.next_member


@njit(cache=True)
def _place(D, predicate, row, begin):
    """Return the place of a row in a set: its rank, or its number."""
    return D.rank[predicate, row] if predicate >= 0 else row - begin


@njit(cache=True)
def _take_out(G, D, S, state, row, begin):
    for index in range(G.index_source.shape[0]):
        if G.index_source[index] == state:
            place = _place(D, G.index_predicate[index], row, begin)
            if place >= 0:
                remove(S.sets[index], S.levels, place)


@njit(cache=True)
def _collect(G, D, S, state, variable, row, begin, size, base, taken, count):
    """Take out the pending rows of a state that an event extends as a variable."""
    pair = G.pair_of[G.variable[state], variable]
    index = G.waiting_set[state, variable]
    predicate = G.index_predicate[index]
    place, stop = np.int64(0), size
    if predicate >= 0:
        if D.first[predicate, row] < 0:
            return count
        stop = D.ranks[predicate, row]
        if not G.outside[predicate]:
            place, stop = D.first[predicate, row], D.last[predicate, row]
    while place < stop:
        place = next_member(S.sets[index], S.levels, place)
        if place < 0 or place >= stop:
            break
        prev = S.at[index, place]
        if related(G, D, pair, prev, row, base, begin):
            _take_out(G, D, S, state, prev, begin)
            taken[count, 0] = state
            taken[count, 1] = prev
            count += 1
        place += 1
    return count


@njit(cache=True)
def run_next(G, D, S, taken, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows [first, last) of a segment; see the module's docstring.

    ``D.block`` are variables as which a row ends the waiting of matches without being bound itself:
    it belongs to another sub-partition, and the match to none yet (§4.3).
    """
    size = end - begin
    states = G.variable.shape[0]
    i = first
    while i < last:
        j = i + 1
        while j < last and D.order[j] == D.order[i]:
            j += 1
        count = 0
        for row in range(i, j):
            for s in range(states):
                fitting = D.bits[row]
                if G.unsettled[s]:
                    fitting = fitting | D.block[row]
                fitting = fitting & G.allowed[s]
                for variable in range(G.pair_of.shape[0]):
                    if fitting >> variable & 1:
                        count = _collect(
                            G, D, S, s, variable, row, begin, size, first, taken, count
                        )
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
                    for n in range(count):
                        prev = taken[n, 1]
                        if taken[n, 0] == source and low <= D.order[prev] < high:
                            if related(G, D, G.edge_pair[edge], prev, row, first, begin):
                                _add_row(S, row, q, prev, source, p)
                bind_event(G, D, S, row, q, p)
            report(G, D, S, row, segment, D.ts[row] == D.window[segment], R, RM, ended, p)
        for row in range(i, j):
            for q in range(states):
                if not D.bits[row] >> G.variable[q] & 1 or not present(S.V[row, q, 0]):
                    continue
                for index in range(G.index_source.shape[0]):
                    if G.index_source[index] == q:
                        place = _place(D, G.index_predicate[index], row, begin)
                        if place >= 0:
                            put(S.sets[index], S.levels, place)
                            S.at[index, place] = row
        i = j


@njit(cache=True)
def run_next_segments(G, D, S, taken, unit, zero, p, R, RM, ended):
    """Run all segments under skip-till-next-match."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(G, D, S, segment, begin, end, zero)
        S.sets[:] = np.uint64(0)
        run_next(G, D, S, taken, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
