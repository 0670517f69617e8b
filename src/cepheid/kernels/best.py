"""Find the matches of segments with the largest values: the best that end with each row, forwards.

A match is a *reference*: the row and state of its last event, and its place among the best that end
there. It knows its value and the reference of what it had before, -1 for nothing. The k best that
end with a row are the best of those that it may follow, and each of these is among the k best of
its own row: the order of matches (§17.4) is that of their beginnings if the last event is the same.
Slots (``lookups.py``) hold the best below each of their nodes; O(k log n) for each row.
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.graph import bounds_of, least_order_of_end, related
from cepheid.kernels.lookups import leaves_of
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel(borrows=True)
def _comes_first(a, b, link, written, states, most):
    """Check whether a match comes before another one of the same value."""
    while a != b:
        if a < 0 or b < 0:
            return a < 0
        here, there = a // most, b // most
        if here // states != there // states:
            return here // states < there // states
        if written[here % states] != written[there % states]:
            return written[here % states] < written[there % states]
        a, b = link[a], link[b]
    return False


@kernel(borrows=True)
def _is_better(a_value, a, b_value, b, link, written, states, most):
    """Check whether a match comes before another one; NaN is the largest value."""
    if a_value > b_value or (math.isnan(a_value) and not math.isnan(b_value)):
        return True
    if a_value < b_value or math.isnan(a_value) != math.isnan(b_value):
        return False
    return _comes_first(a, b, link, written, states, most)


@kernel(borrows=True)
def _offer(values, references, count, value, reference, link, written, states, most):
    """Insert a match into a list of the best, if it is one of them; return the new length."""
    place = count
    while place > 0 and _is_better(
        value, reference, values[place - 1], references[place - 1], link, written, states, most
    ):
        place -= 1
    if place >= most:
        return count
    count = min(count + 1, most)
    for n in range(count - 1, place, -1):
        values[n], references[n] = values[n - 1], references[n - 1]
    values[place], references[place] = value, reference
    return count


@kernel(borrows=True)
def _offer_all(
    offered_values, offered, many, values, references, count, link, written, states, most
):
    """Offer matches, the best first; those after one that is refused would be refused, too."""
    for n in range(many):
        if count == most and not _is_better(
            offered_values[n], offered[n], values[most - 1], references[most - 1], link, written,
            states, most,
        ):  # fmt: skip
            break
        count = _offer(
            values, references, count, offered_values[n], offered[n], link, written, states, most
        )
    return count


@kernel(borrows=True)
def _offer_range(
    tree, tree_value, tree_count, slot, size, left, right, values, references, count, link,
    written, states, most,
):  # fmt: skip
    """Offer the best of a range of leaves; O(k log n)."""
    left += size
    right += size
    while left < right:
        for side in range(2):
            node = np.int64(-1)
            if side == 0 and left & 1:
                node = left
                left += 1
            elif side == 1 and right & 1:
                right -= 1
                node = right
            if node >= 0:
                count = _offer_all(
                    tree_value[slot, node], tree[slot, node], tree_count[slot, node], values,
                    references, count, link, written, states, most,
                )  # fmt: skip
        left >>= 1
        right >>= 1
    return count


@kernel(borrows=True)
def _offer_each(
    filled, order, begin, upto, low, high, source, pair, pair_ptr, predicates, outside, pair_mask,
    rank, first, last, mask, row, values, references, count, value, link, written, states, most,
):  # fmt: skip
    """Test rows one by one, and offer the best of those that a row may follow; O(n)."""
    for prev in range(begin, upto):
        here = prev * states + source
        if not filled[here] or order[prev] < low or order[prev] >= high:
            continue
        if not related(
            pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row,
            begin, begin,
        ):  # fmt: skip
            continue
        for n in range(filled[here]):
            reference = here * most + n
            if count == most and not _is_better(
                value[reference], reference, values[most - 1], references[most - 1], link, written,
                states, most,
            ):  # fmt: skip
                break
            count = _offer(
                values, references, count, value[reference], reference, link, written, states, most
            )
    return count


@kernel(borrows=True)
def _fill(G, D, S, segment, begin, size, upto, row, q):
    """Find the best matches that end with a row in a state."""
    states, most, count = G.variable.shape[0], S.values.shape[0], 0
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        open_, low, high = bounds_of(G, D, edge, row, segment)
        source = G.source[edge]
        if not open_:
            continue
        if source < 0:
            count = _offer(
                S.values, S.references, count, S.begins[row], np.int64(-1), S.link, S.written,
                states, most,
            )  # fmt: skip
            continue
        slot = S.edge_slot[edge]
        if slot < 0:
            count = _offer_each(
                S.filled, D.order, begin, upto, low, high, source, G.edge_pair[edge], G.pair_ptr,
                G.predicate, G.outside, G.pair_mask, D.rank, D.first, D.last, D.mask, row,
                S.values, S.references, count, S.value, S.link, S.written, states, most,
            )  # fmt: skip
            continue
        a, b, c, d = leaves_of(
            S.predicate[slot], row, begin, upto, low, high, D.order, D.first, D.last, D.ranks,
            G.outside,
        )  # fmt: skip
        for start, stop in ((a, b), (c, d)):
            count = _offer_range(
                S.tree, S.tree_value, S.tree_count, slot, size, start, stop, S.values,
                S.references, count, S.link, S.written, states, most,
            )  # fmt: skip
    here = row * states + q
    S.filled[here] = count
    for n in range(count):
        S.value[here * most + n] = S.values[n] + S.weights[G.variable[q], row]
        S.link[here * most + n] = S.references[n]


@kernel(borrows=True)
def _enter(
    tree, tree_value, tree_count, slot, size, leaf, here, filled, value, link, written, states, most
):
    """Enter the best of a row into a slot, as far up as they are among the best; O(k log n)."""
    node = size + leaf
    while node >= 1:
        values, references = tree_value[slot, node], tree[slot, node]
        count, entered = tree_count[slot, node], False
        for n in range(filled[here]):
            reference = here * most + n
            if count == most and not _is_better(
                value[reference], reference, values[most - 1], references[most - 1], link, written,
                states, most,
            ):  # fmt: skip
                break
            count = _offer(
                values, references, count, value[reference], reference, link, written, states, most
            )
            entered = True
        if not entered:
            return
        tree_count[slot, node] = count
        node >>= 1


@kernel(borrows=True)
def find_best(G, D, S):
    """Find the best matches of every segment: their values and references, the first ones first."""
    states, most = G.variable.shape[0], S.values.shape[0]
    for segment in range(D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        size, i, rounds, count = end - begin, begin, 0, 0
        S.tree_count[:, : 2 * size] = 0
        for q in range(states):
            S.end_bound[q] = least_order_of_end(G, D, q, segment)
        while i < end:
            rounds = let_signals_in(rounds)
            j = i + 1
            while j < end and D.order[j] == D.order[i]:
                j += 1
            for row in range(i, j):
                for q in range(states):
                    if D.bits[row] >> G.variable[q] & 1:
                        _fill(G, D, S, segment, begin, size, i, row, q)
            for row in range(i, j):
                for slot in range(S.source.shape[0]):
                    predicate, here = S.predicate[slot], row * states + S.source[slot]
                    leaf = row - begin if predicate < 0 else np.int64(D.rank[predicate, row])
                    if leaf >= 0 and S.filled[here]:
                        _enter(
                            S.tree, S.tree_value, S.tree_count, slot, size, leaf, here, S.filled,
                            S.value, S.link, S.written, states, most,
                        )  # fmt: skip
                for q in range(states):
                    here = row * states + q
                    if D.order[row] < S.end_bound[q]:
                        continue
                    for n in range(S.filled[here]):
                        reference = here * most + n
                        count = _offer(
                            S.best_value[segment], S.best[segment], count,
                            S.value[reference] + S.ends[row], reference, S.link, S.written, states,
                            most,
                        )  # fmt: skip
            i = j
        S.found[segment] = count


@kernel(borrows=True)
def measure_matches(link, references, lengths):
    """Count the events of matches."""
    for n in range(references.shape[0]):
        reference = references[n]
        while reference >= 0:
            lengths[n] += 1
            reference = link[reference]


@kernel(borrows=True)
def read_matches(link, references, states, most, ends, event_row, event_state):
    """Write the events of matches into buffers, each match up to the place where it ends."""
    for n in range(references.shape[0]):
        reference, place = references[n], ends[n]
        while reference >= 0:
            place -= 1
            event_row[place] = reference // most // states
            event_state[place] = reference // most % states
            reference = link[reference]
