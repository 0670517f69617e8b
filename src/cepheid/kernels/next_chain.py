"""Skip-till-next-match of one variable whose value must rise or fall: pending rows are a stack.

An event takes all pending rows on one side of its own value. What stays lies on the other side, so
the event itself comes on top of it, and the rows that the next event takes are the topmost ones:
O(1) per row and event, where sets in the order of ranks take O(log n) (``next_match.py``).
"""

from __future__ import annotations

from cepheid.kernels.graph import add_row, begin_match, bind_event, report
from cepheid.kernels.ring import present
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel()
def is_chain(G, D):
    """Check whether a pattern has one variable, one predicate to itself, and nothing else."""
    if G.variable.shape[0] != 1 or G.pair_of.shape[0] != 1 or G.index_source.shape[0] != 1:
        return False
    if D.mask.size or G.guard.shape[0] or G.way_guard.shape[0] or G.index_predicate[0] < 0:
        return False
    pair = G.pair_of[G.variable[0], 0]
    if pair < 0 or G.pair_ptr[pair + 1] - G.pair_ptr[pair] != 1 or G.pair_mask[pair] >= 0:
        return False
    predicate = G.index_predicate[0]
    if G.predicate[G.pair_ptr[pair]] != predicate or G.outside[predicate]:
        return False
    for edge in range(G.edge_ptr[0], G.edge_ptr[1]):
        if G.source[edge] >= 0 and G.edge_pair[edge] != pair:
            return False
    return True


@kernel()
def _side(below, above, most, first, last):
    """Find the side of its own value on which an event takes rows: 1 above, -1 below, 0 neither."""
    for row in range(first, last):
        # An event that takes all rows there can be tells nothing.
        if below[row] > 0 or (below[row] == 0 and above[row] < most):
            if above[row] >= most:
                return 1
            return -1 if below[row] == 0 else 0
    return 1


@kernel()
def _take(stack, top, low, equal, side, V, M, row, p):
    """Add the pending rows [low, top) to an event, in the order of their ranks."""
    if side > 0:
        for n in range(low, top):
            add_row(V, M, row, 0, stack[n], 0, p)
        return
    # The topmost row is the least; those of equal value are in the order in which they came.
    while top > low:
        group = top - 1
        while group > low and equal[stack[group - 1]] == equal[stack[top - 1]]:
            group -= 1
        for n in range(group, top):
            add_row(V, M, row, 0, stack[n], 0, p)
        top = group


@kernel()
def run_chain(G, D, S, segment, begin, end, unit, p, R, RM, ended):
    """Run a segment; return False if events are tied, or a value is not compared with itself."""
    predicate = G.index_predicate[0]
    rank, below, above = D.rank[predicate], D.first[predicate], D.last[predicate]
    order, bits, ts, block, V, M = D.order, D.bits, D.ts, D.block, S.V, S.M
    weights, weight_of, values, value_of = D.weights, D.weight_of, D.values, D.value_of
    salt, end_bound, tail, begins = D.salt, S.end_bound, D.window[segment], S.begins
    variable, sources = G.variable, G.source
    stack, top, rounds = S.at[0], 0, 0
    most = 0
    for row in range(begin, end):
        most = max(most, rank[row] + 1)
        if block[row] or (row > begin and order[row] <= order[row - 1]):
            return False
    side = _side(below, above, most, begin, end)
    if side == 0:
        return False
    equal = below if side > 0 else above
    for row in range(begin, end):
        rounds = let_signals_in(rounds)
        if not bits[row] >> variable[0] & 1:
            continue
        low = top
        if below[row] >= 0:
            if (above[row] < most) if side > 0 else (below[row] > 0):
                return False
            if side > 0:
                while low > 0 and rank[stack[low - 1]] >= below[row]:
                    low -= 1
            else:
                while low > 0 and rank[stack[low - 1]] < above[row]:
                    low -= 1
        for edge in range(G.edge_ptr[0], G.edge_ptr[1]):
            if sources[edge] < 0:
                begin_match(V, begins, row, 0, unit, p)
            else:
                _take(stack, top, low, equal, side, V, M, row, p)
        top = low
        bind_event(
            variable[0], weights, weight_of, values, value_of, salt, V, M, row, 0, unit, begins, p
        )
        report(
            variable, end_bound, weights, weight_of, bits[row], order[row], V, M, row, segment,
            ts[row] == tail, R, RM, ended, p,
        )  # fmt: skip
        if rank[row] >= 0 and present(V[row, 0, 0]):
            if top and equal[stack[top - 1]] != equal[row]:
                before = rank[stack[top - 1]]
                if (before > rank[row]) if side > 0 else (before < rank[row]):
                    return False
            stack[top] = row
            top += 1
    return True
