"""Skip-till-next-match with edge predicates: a pending match takes the first event that fits.

Pending rows are in sets ordered by rank, one set for each predicate that can end the waiting, so an
event finds the rows that it extends without scanning others. Every row is removed once, by the
events of one time: O(log n) per row and event, and O(ties) more. One variable whose value rises or
falls needs a stack only (``next_chain.py``).

COGRA's Algorithm 3 keeps the last matched event only and so loses matches by its own Definition 2.6
(docs/semantics.md §3.5); here all pending rows are kept.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.bits import next_member, put, remove
from cepheid.kernels.graph import (
    NO_BOUND,
    add_row,
    begin_match,
    bind_event,
    bounds_of,
    open_rows,
    open_segment,
    related,
    report,
)
from cepheid.kernels.linear import NO_VALUE
from cepheid.kernels.next_chain import is_chain, run_chain
from cepheid.kernels.ring import present
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel(borrows=True)
def _take_out(index_source, index_predicate, rank, sets, levels, state, row, begin):
    for index in range(index_source.shape[0]):
        if index_source[index] == state:
            predicate = index_predicate[index]
            place = rank[predicate, row] if predicate >= 0 else row - begin
            if place >= 0:
                remove(sets[index], levels, place)


@kernel(borrows=True)
def _put_in(index_source, index_predicate, rank, sets, levels, at, state, row, begin):
    for index in range(index_source.shape[0]):
        if index_source[index] == state:
            predicate = index_predicate[index]
            place = rank[predicate, row] if predicate >= 0 else row - begin
            if place >= 0:
                put(sets[index], levels, place)
                at[index, place] = row


@kernel(borrows=True)
def _collect(
    pair, index, index_source, index_predicate, pair_ptr, predicates, outside, pair_mask, rank,
    below, above, ranks, mask, sets, levels, at, state, row, begin, size, base, taken, count,
):  # fmt: skip
    """Remove the pending rows of a state that an event extends, as some variable."""
    predicate = index_predicate[index]
    place, stop = np.int64(0), size
    if predicate >= 0:
        if below[predicate, row] < 0:
            return count
        stop = np.int64(ranks[predicate, row])
        if not outside[predicate]:
            place, stop = np.int64(below[predicate, row]), np.int64(above[predicate, row])
    if place >= stop:
        return count
    waiting = sets[index]
    place = next_member(waiting, levels, place)
    while 0 <= place < stop:
        prev = at[index, place]
        if related(
            pair, pair_ptr, predicates, outside, pair_mask, rank, below, above, mask, prev, row,
            base, begin,
        ):  # fmt: skip
            _take_out(index_source, index_predicate, rank, sets, levels, state, prev, begin)
            taken[count, 0] = state
            taken[count, 1] = prev
            count += 1
        place = next_member(waiting, levels, place + 1)
    return count


@kernel(borrows=True)
def run_next(G, D, S, taken, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows [first, last) of a segment; see the module's docstring.

    ``D.block`` are aliases of variables as which a row ends the waiting of matches without being
    bound itself: it belongs to another sub-partition, and the match to none yet (§4.3).
    """
    variable, edge_ptr, guard_ptr, sources = G.variable, G.edge_ptr, G.guard_ptr, G.source
    edge_pair, pair_ptr, predicates, outside = G.edge_pair, G.pair_ptr, G.predicate, G.outside
    pair_mask, rank, mask, below, above = G.pair_mask, D.rank, D.mask, D.first, D.last
    order, bits, ts, V, M = D.order, D.bits, D.ts, S.V, S.M
    weights, weight_of, values, value_of = D.weights, D.weight_of, D.values, D.value_of
    salt, end_bound, tail, begins = D.salt, S.end_bound, D.window[segment], S.begins
    pair_of, waiting_set, allowed = G.pair_of, G.waiting_set, G.allowed
    index_source, index_predicate, ranks = G.index_source, G.index_predicate, D.ranks
    sets, levels, at, block = S.sets, S.levels, S.at, D.block
    i, rounds = first, 0
    while i < last:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < last and order[j] == order[i]:
            j += 1
        count = 0
        for row in range(i, j):
            for s in range(variable.shape[0]):
                fitting = (bits[row] | block[row]) & allowed[s]
                for later in range(pair_of.shape[0]):
                    if fitting >> later & 1:
                        count = _collect(
                            pair_of[variable[s], later], waiting_set[s, later], index_source,
                            index_predicate, pair_ptr, predicates, outside, pair_mask, rank, below,
                            above, ranks, mask, sets, levels, at, s, row, begin, end - begin,
                            first, taken, count,
                        )  # fmt: skip
        for row in range(i, j):
            for q in range(variable.shape[0]):
                if not bits[row] >> variable[q] & 1:
                    continue
                for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                    open_, low, high = True, np.int64(0), NO_BOUND
                    if guard_ptr[edge] < guard_ptr[edge + 1]:
                        open_, low, high = bounds_of(G, D, edge, row, segment)
                    source = sources[edge]
                    if not open_:
                        continue
                    if source < 0:
                        begin_match(V, begins, row, q, unit, p)
                        continue
                    for n in range(count):
                        prev = taken[n, 1]
                        if taken[n, 0] == source and low <= order[prev] < high and related(
                            edge_pair[edge], pair_ptr, predicates, outside, pair_mask, rank, below,
                            above, mask, prev, row, first, begin,
                        ):  # fmt: skip
                            add_row(V, M, row, q, prev, source, p)
                bind_event(
                    variable[q], weights, weight_of, values, value_of, salt, V, M, row, q, unit,
                    begins, p,
                )  # fmt: skip
            report(
                variable, end_bound, weights, weight_of, bits[row], order[row], V, M, row, segment,
                ts[row] == tail, R, RM, ended, p,
            )  # fmt: skip
        for row in range(i, j):
            for q in range(variable.shape[0]):
                if bits[row] >> variable[q] & 1 and present(V[row, q, 0]):
                    _put_in(index_source, index_predicate, rank, sets, levels, at, q, row, begin)
        i = j


def _work(G, D, *_):
    """Estimate the work: pending rows are tested once, unless a second predicate keeps them."""
    lengths = np.diff(D.segment_ptr).astype(np.float64)
    several = D.mask.size > 0 or (np.diff(G.pair_ptr) > 1).any()
    return max(lengths.sum(), (lengths * lengths).sum() / 8 if several else 0.0)


@kernel(work=_work, shortcut="next_match_arrays", borrows=True)
def run_next_segments(G, D, S, taken, unit, zero, p, R, RM, ended):
    """Run all segments under skip-till-next-match."""
    chain = is_chain(G, D)
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        if chain:
            open_rows(G, D, S, segment, begin, end, zero)
            if run_chain(G, D, S, segment, begin, end, unit, p, R, RM, ended):
                continue
            R[segment], RM[segment], ended[segment] = zero, NO_VALUE, zero
        open_segment(G, D, S, segment, begin, end, zero)
        S.sets[:] = np.uint64(0)
        run_next(G, D, S, taken, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
