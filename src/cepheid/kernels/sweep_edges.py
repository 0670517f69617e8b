"""Count trends for every value of a constant between neighbours: a lane for each value.

As ``prefix.py``, for queries that differ in one bound of ``f(prev) < g(next) + constant``. Events
have the same places for all values, and look up as many places as their value says. So a row of
lanes enters a tree at once, which are vector instructions, and only the look-ups differ.

    tree[index, node, lane]    sums over places (Fenwick), nodes from 1 on
    bounds[row, lane]          how many places a row looks up in the swept index, -1 for none
    total[state, lane]         sums of all rows so far; the last state is the result
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.prefix import LARGE, PREFIX, UNIT, result_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

WALK = 16
"""Steps after which a bound is searched from the middle."""


@kernel(inline="code")
def _precedes(here, key, strict):
    """Check whether a key is below another one, or equal to it if that is enough."""
    return here < key or (not strict and here == key)


@kernel()
def find_bounds(
    sorted_ptr, asking_ptr, asking, prev_keys, next_keys, strict, backwards, lane, lanes, bounds
):
    """Find how many of a segment's sorted keys each asking row may follow, for one value.

    Rows ask in an order in which their keys rise, or nearly so: the search goes on from the bound
    of the row before. ``next_keys`` are in this order.
    """
    for segment in range(sorted_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, count = sorted_ptr[segment], sorted_ptr[segment + 1] - sorted_ptr[segment]
        keys = prev_keys[begin : begin + count]
        place = 0
        for n in range(asking_ptr[segment], asking_ptr[segment + 1]):
            key, walked = next_keys[n], 0
            while place < count and walked < WALK and _precedes(keys[place], key, strict):
                place += 1
                walked += 1
            while place > 0 and walked < WALK and not _precedes(keys[place - 1], key, strict):
                place -= 1
                walked += 1
            if walked == WALK:
                low, high = 0, count
                while low < high:
                    middle = (low + high) >> 1
                    if _precedes(keys[middle], key, strict):
                        low = middle + 1
                    else:
                        high = middle
                place = low
            bounds[asking[n] * lanes + lane] = count - place if backwards else place


@kernel(inline="code")
def _add(target, to, source, of, lanes):
    """Add a row of lanes to another; unsigned integers allow vector instructions."""
    first, second = np.uint64(to), np.uint64(of)
    for n in range(np.uint64(lanes)):
        target[first + n] += source[second + n]


@_add.interpreted
def _(target, to, source, of, lanes):
    target[to : to + lanes] += source[of : of + lanes]


@kernel(inline="code")
def _look_up_each(tree, first, bounds, at, held, to, lanes):
    """Add to every lane the sum of as many places as its bound says."""
    for lane in range(lanes):
        upto, amount = np.int64(bounds[at + lane]), 0.0
        while upto > 0:
            amount += tree[first + upto * lanes + lane]
            upto &= upto - 1
        held[to + lane] += amount


@kernel()
def count_lanes(
    G, segment_ptr, order, all_bits, places, uptos, swept, bounds, room, lanes, tree, total,
    held, numbers, lost,
):  # fmt: skip
    """Count the matches of all segments in all lanes; mark segments whose counts are too large.

    ``room`` is the number of nodes of a tree; all arrays of numbers are flat.
    """
    variable, edge_ptr, source, query_ptr = G.variable, G.edge_ptr, G.source, G.query_ptr
    query, query_index, index_kind, begins = G.query, G.query_index, G.index_kind, G.begins
    ends, enter_ptr, entered = G.ends, G.enter_ptr, G.enter
    states, stride = variable.shape[0], room * lanes
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        size = end - begin
        for index in range(index_kind.shape[0]):
            tree[index * stride : index * stride + (size + 1) * lanes] = 0.0
        total[:] = 0.0
        i, rounds = begin, 0
        while i < end:
            rounds = let_signals_in(rounds)
            j = i + 1
            while j < end and order[j] == order[i]:
                j += 1
            for row in range(i, j):
                for q in range(states):
                    if not all_bits[row] >> variable[q] & 1:
                        continue
                    here = ((row - i) * states + q) * lanes
                    held[here : here + lanes] = UNIT if begins[q] else 0.0
                    for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                        if query_ptr[edge] == query_ptr[edge + 1]:
                            _add(held, here, total, source[edge] * lanes, lanes)
                        for n in range(query_ptr[edge], query_ptr[edge + 1]):
                            first = query_index[n] * stride
                            if query[n] == swept:
                                _look_up_each(tree, first, bounds, row * lanes, held, here, lanes)
                                continue
                            upto = np.int64(uptos[query[n], row])
                            if index_kind[query_index[n]] != PREFIX:
                                if upto >= 0:
                                    _add(held, here, tree, first + (upto + 1) * lanes, lanes)
                                continue
                            while upto > 0:
                                _add(held, here, tree, first + upto * lanes, lanes)
                                upto &= upto - 1
            for row in range(i, j):
                for q in range(states):
                    if not all_bits[row] >> variable[q] & 1:
                        continue
                    here = ((row - i) * states + q) * lanes
                    _add(total, q * lanes, held, here, lanes)
                    if ends[q]:
                        _add(total, states * lanes, held, here, lanes)
                    for n in range(enter_ptr[q], enter_ptr[q + 1]):
                        index = entered[n]
                        node = np.int64(places[index, row]) + 1
                        if node <= 0:
                            continue
                        if index_kind[index] != PREFIX:
                            _add(tree, index * stride + node * lanes, held, here, lanes)
                            continue
                        while node <= size:
                            _add(tree, index * stride + node * lanes, held, here, lanes)
                            node += node & -node
            i = j
        for n in range(states * lanes):
            if not total[n] < LARGE:
                lost[segment] = True
        for lane in range(lanes):
            at = states * lanes + lane
            if not lost[segment] and total[at] < LARGE:
                numbers[segment, lane] = result_of(total[at : at + 1])
            else:
                lost[segment] = True
