"""Aggregate overlapping windows together: every number is a row of lanes, one for each window.

As ``prefix.py``, for sliding windows. A segment is the rows of LANES windows that follow each
other. One step over all lanes costs little more than one for a single window. A row of lanes is two
cache lines: with more lanes the trees of a window would no longer fit into a processor's own cache.

    tree[index, place, part, lane]     sums over ranks (Fenwick)
    total[state, part, lane]           sums for edges without predicate
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.prefix import EQUAL, shifted
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

LANES = 16
UNIT, UNIT_POWER = 2.0**-700, -700.0
"""One match, so that numbers have room for values between 2^-300 and 2^100."""


@kernel(inline="code")
def _add_lanes(target, at, amounts, source, width):
    """Add a row of lanes to another; unsigned integers allow vector instructions."""
    first, second = np.uint64(at), np.uint64(source)
    for n in range(np.uint64(width)):
        target[first + n] += amounts[second + n]


@kernel(inline="code")
def _add_prefix(tree, first, upto, stride, amounts, source, width):
    """Add the rows of a Fenwick tree that make up a prefix."""
    into = np.uint64(source)
    while upto > 0:
        node = np.uint64(first + upto * stride)
        for n in range(np.uint64(width)):
            amounts[into + n] += tree[node + n]
        upto &= upto - 1


@kernel()
def _gather(G, D, tree, total, mask, row, q, width, parts, room, amounts):
    """Add up the rows that a row may follow, for all windows that hold it."""
    amounts[:] = 0.0
    stride = parts * LANES
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.query_ptr[edge] == G.query_ptr[edge + 1]:
            _add_lanes(amounts, 0, total, G.source[edge] * stride, parts * width)
        for n in range(G.query_ptr[edge], G.query_ptr[edge + 1]):
            upto = D.upto[G.query[n], row]
            if upto < 0:
                continue
            index = G.query_index[n]
            first = index * room * stride
            for a in range(parts):
                if G.index_kind[index] == EQUAL:
                    at = first + upto * stride + a * LANES
                    _add_lanes(amounts, a * LANES, tree, at, width)
                else:
                    at = first + a * LANES
                    _add_prefix(tree, at, upto, stride, amounts, a * LANES, width)
    unit = UNIT if G.begins[q] else 0.0
    for n in range(width):
        amounts[n] = (amounts[n] + unit) * mask[n]
    for a in range(1, parts):
        column = D.weight_of[G.variable[q], a]
        weight = D.weights[column, row] if column >= 0 else 0.0
        for n in range(width):
            amounts[a * LANES + n] = amounts[a * LANES + n] * mask[n] + weight * amounts[n]


@kernel()
def _enter(G, D, tree, total, results, row, q, width, parts, room, size, amounts):
    """Make a row visible to later rows and to the results."""
    stride = parts * LANES
    _add_lanes(total, q * stride, amounts, 0, parts * width)
    if G.ends[q]:
        _add_lanes(results, 0, amounts, 0, parts * width)
    for n in range(G.enter_ptr[q], G.enter_ptr[q + 1]):
        index = G.enter[n]
        place = D.place[index, row]
        if place < 0:
            continue
        first = index * room * stride
        if G.index_kind[index] == EQUAL:
            _add_lanes(tree, first + place * stride, amounts, 0, parts * width)
            continue
        node = place + 1
        while node <= size:
            for a in range(parts):
                _add_lanes(tree, first + node * stride + a * LANES, amounts, a * LANES, width)
            node += node & -node


@kernel()
def _set_mask(mask, ts, base, within, slide):
    """Mark the windows of a segment that hold a time."""
    opened, closed = ts // slide - base, (ts - within) // slide - base
    for lane in range(mask.shape[0]):
        mask[lane] = 1.0 if closed < lane <= opened else 0.0


@kernel()
def _run_chain(D, tree, results, mask, held, begin, end, base, within, slide, width):
    """Count as ``run_lanes`` does where the pattern is one variable with Kleene plus, ``S+``.

    It has no loops over states, edges and parts, which would take most of the time.
    """
    place, upto = D.place[0], D.upto[0]
    size = end - begin
    until = np.iinfo(np.int64).min
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        if D.ts[i] >= until:
            # Windows open and close at multiples of the slide, counted from both of their ends.
            _set_mask(mask, D.ts[i], base, within, slide)
            until = min(
                (D.ts[i] // slide + 1) * slide,
                ((D.ts[i] - within) // slide + 1) * slide + within,
            )
        j = i
        while j < end and D.order[j] == D.order[i]:
            at = np.uint64((j - i) * LANES)
            for n in range(np.uint64(width)):
                held[at + n] = UNIT
            if upto[j] > 0:
                _add_prefix(tree, 0, upto[j], LANES, held, at, width)
            for n in range(np.uint64(width)):
                held[at + n] *= mask[n]
            _add_lanes(results, 0, held, at, width)
            j += 1
        for row in range(i, j):
            if place[row] < 0:
                continue
            node = place[row] + 1
            while node <= size:
                _add_lanes(tree, node * LANES, held, (row - i) * LANES, width)
                node += node & -node
        i = j


@kernel()
def _run_segment(
    G, D, tree, room, total, results, mask, held, begin, end, base, within, slide, width, parts
):
    """Aggregate the windows of one segment."""
    states = G.variable.shape[0]
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < end and D.order[j] == D.order[i]:
            j += 1
        _set_mask(mask, D.ts[i], base, within, slide)
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1:
                    amounts = held[row - i, q]
                    _gather(G, D, tree, total, mask, row, q, width, parts, room, amounts)
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1:
                    amounts = held[row - i, q]
                    _enter(
                        G, D, tree, total, results, row, q, width, parts, room, end - begin,
                        amounts,
                    )  # fmt: skip
        i = j


@kernel()
def run_lanes(G, D, chain, tree, room, total, results, held, within, slide, width, numbers):
    """Aggregate all windows of all segments; O(log n) steps for each LANES windows of an event.

    Parameters
    ----------
    D
        Rows and segments; ``window`` is the number of a segment's first window.
    chain
        Whether the pattern is one variable with Kleene plus, its edge a prefix, and it is counted.
    tree, total, results, held
        Buffers; trees have ``room`` places each.
    width
        LANES; as a constant, the compiler would unroll loops instead of using vectors.
    numbers
        (segments, LANES, parts) filled with the results.
    """
    parts = numbers.shape[2]
    mask = np.zeros(LANES)
    flat = held.reshape(-1)
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        base, used = D.window[segment], (end - begin + 1) * parts * LANES
        for index in range(G.index_kind.shape[0]):
            at = index * room * parts * LANES
            tree[at : at + used] = 0.0
        total[:] = 0.0
        results[:] = 0.0
        if chain:
            _run_chain(D, tree, results, mask, flat, begin, end, base, within, slide, width)
        else:
            _run_segment(
                G, D, tree, room, total, results, mask, held, begin, end, base, within, slide,
                width, parts,
            )  # fmt: skip
        for lane in range(LANES):
            for a in range(parts):
                numbers[segment, lane, a] = results[a * LANES + lane]


@kernel()
def widen_results(numbers, wide):
    """Convert results to wide numbers; return whether the range of doubles sufficed."""
    right = True
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            for a in range(numbers.shape[2]):
                right &= math.isfinite(numbers[i, j, a])
                wide[i, j, a] = shifted(numbers[i, j, a], -UNIT_POWER)
    return right
