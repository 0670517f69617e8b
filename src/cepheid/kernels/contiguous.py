"""Contiguous semantics with edge predicates: only events of the next time can extend a match.

The arrays are those of ``graph.py``.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.bins import SHIFT, begin_bins
from cepheid.kernels.graph import (
    NO_BOUND,
    add_row,
    begin_match,
    bind_event,
    bounds_of,
    open_segment,
    related,
    report,
)
from cepheid.kernels.moments import DURATION
from cepheid.kernels.ring import add, mul
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel()
def _begin_again(variable, weights, weight_of, values, value_of, V, M, row, state, prev, unit, p):
    """Add the match that consists of one earlier row only."""
    V[row, state, 0] = add(V[row, state, 0], unit, p)
    if V.shape[2] > 1 and weight_of[variable, 1] <= SHIFT:
        begin_bins(weights, weight_of[variable, 1], V, row, state, prev, unit, p)
        return
    for a in range(1, V.shape[2]):
        column, square = weight_of[variable, a], False
        if column < -1:
            square = column != DURATION
            first = -2 - column if square else np.int64(a)
            column = weight_of[variable, first]
            column = first - 1 if column == DURATION else column
        if column >= 0:
            weight = weights[column, prev]
            weight = mul(weight, weight, p) if square else weight
            V[row, state, a] = add(V[row, state, a], mul(weight, unit, p), p)
    for a in range(M.shape[2]):
        column = value_of[variable, a]
        if column >= 0:
            M[row, state, a] = min(M[row, state, a], values[column, prev])


@kernel()
def run_contiguous(G, D, S, segment, begin, end, first, last, unit, zero, p, R, RM, ended):
    """Run the rows [first, last) of a segment: only the previous time is extended; O(ties).

    A match cannot pass through a time of several events, because it would skip one of them; it can
    begin or end there (§3.3).
    """
    variable, edge_ptr, guard_ptr, sources = G.variable, G.edge_ptr, G.guard_ptr, G.source
    edge_pair, pair_ptr, predicates, outside = G.edge_pair, G.pair_ptr, G.predicate, G.outside
    pair_mask, rank, mask, below, above = G.pair_mask, D.rank, D.mask, D.first, D.last
    order, bits, ts, V, M, begins = D.order, D.bits, D.ts, S.V, S.M, S.begins
    weights, weight_of, values, value_of = D.weights, D.weight_of, D.values, D.value_of
    salt, end_bound, tail = D.salt, S.end_bound, D.window[segment]
    i, rounds = first, 0
    while i < last:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < last and order[j] == order[i]:
            j += 1
        before = i - 1
        while before > begin and order[before - 1] == order[i - 1]:
            before -= 1
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
                    if i == begin or not low <= order[i - 1] < high:
                        continue
                    for prev in range(before, i):
                        if not bits[prev] >> variable[source] & 1 or not related(
                            edge_pair[edge], pair_ptr, predicates, outside, pair_mask, rank, below,
                            above, mask, prev, row, first, begin,
                        ):  # fmt: skip
                            continue
                        if i - before == 1:
                            add_row(V, M, row, q, prev, source, p)
                        elif begins[prev, source]:
                            _begin_again(
                                variable[source], weights, weight_of, values, value_of, V, M, row,
                                q, prev, unit, p,
                            )  # fmt: skip
                bind_event(
                    variable[q], weights, weight_of, values, value_of, salt, V, M, row, q, unit,
                    begins, p,
                )  # fmt: skip
            report(
                variable, end_bound, weights, weight_of, bits[row], order[row], V, M, row, segment,
                ts[row] == tail, R, RM, ended, p,
            )  # fmt: skip
        i = j


@kernel()
def run_contiguous_segments(G, D, S, unit, zero, p, R, RM, ended):
    """Run all segments."""
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        open_segment(G, D, S, segment, begin, end, zero)
        run_contiguous(G, D, S, segment, begin, end, begin, end, unit, zero, p, R, RM, ended)
