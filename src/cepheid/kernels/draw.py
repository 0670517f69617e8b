"""Draw matches of segments: backwards through the counts of the matches that end with each row.

All draws of a segment walk together from its last row to its first. A draw in a state at a row
takes one of the rows that it may follow, with a probability proportional to its count. Slots
(``lookups.py``) hold these counts as trees of sums with 16 children a node, as in ``prefix.py``,
but a node holds its own sum. Slots by rank lose each row when the walk passes it, so that only
earlier rows are left; O(log n) for each row and each event of a draw.

Counts are wide numbers, of 2^1000 and more; a draw compares a random share of one with sums of
others, so nothing overflows, and nothing is subtracted but what is smaller.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import NO_BOUND, bounds_of, least_order_of_end, related
from cepheid.kernels.lookups import leaves_of, less, minus
from cepheid.kernels.prefix import FANOUT, LOW, SHIFT, room_of, set_levels
from cepheid.kernels.ring import LIMIT, SHRINK, STEP, add, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

SEGMENT, ROW, COUNT = 0, 1, 2
"""The fields of a cursor: segment, end of its rows that are left (-1: all), written events."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31 = (np.uint64(n) for n in (11, 27, 30, 31))
_NONE = np.uint64(0)
HUGE = 1e308


@kernel()
def _uniform(seeds, draw):
    """Return the next random number of a draw, from 0 to below 1 (SplitMix64)."""
    seeds[draw] += _GAMMA
    word = seeds[draw]
    word = (word ^ (word >> _U30)) * _FIRST
    word = (word ^ (word >> _U27)) * _SECOND
    word = word ^ (word >> _U31)
    return np.float64(word >> _U11) * 2.0**-53


@kernel()
def _block_sum(mantissa, power, slot, base):
    """Add up the numbers of a block."""
    top = power[slot, base]
    for n in range(1, FANOUT):
        top = max(top, power[slot, base + n])
    total = 0.0
    for n in range(FANOUT):
        mine = power[slot, base + n]
        # Two steps down, a number is below the last digit.
        factor = 1.0 if mine == top else (SHRINK if mine == top - STEP else 0.0)
        total += mantissa[slot, base + n] * factor
    if total >= LIMIT:
        return total * SHRINK, top + STEP
    return total, top


@kernel()
def _set_leaf(mantissa, power, starts, levels, slot, leaf, number):
    """Change one leaf, and the sums above it; O(log n)."""
    mantissa[slot, leaf], power[slot, leaf] = number.real, number.imag
    for level in range(levels - 1):
        total, top = _block_sum(mantissa, power, slot, starts[level] + (leaf & ~LOW))
        leaf >>= SHIFT
        node = starts[level + 1] + leaf
        mantissa[slot, node], power[slot, node] = total, top


@kernel()
def _range_sum(mantissa, power, starts, levels, slot, left, right):
    """Add up the leaves of a range; O(log n)."""
    total = 0j
    for level in range(levels):
        at = starts[level]
        while left < right and (left & LOW or level == levels - 1):
            total = add(total, complex(mantissa[slot, at + left], power[slot, at + left]), _NONE)
            left += 1
        while left < right and right & LOW:
            right -= 1
            total = add(total, complex(mantissa[slot, at + right], power[slot, at + right]), _NONE)
        left >>= SHIFT
        right >>= SHIFT
    return total


@kernel(inline="code")
def _seen(mantissa, power, top):
    """Compute a number as a multiple of a power of two; what is above it is larger than all."""
    if power == top:
        return mantissa
    if power > top:
        return HUGE if mantissa != 0.0 else 0.0
    return mantissa * SHRINK if power == top - STEP else 0.0


@kernel()
def _descend(mantissa, power, starts, slot, level, place, share, top):
    """Find the leaf below a node in which a share of its sum ends."""
    while level > 0:
        level -= 1
        first = starts[level] + (place << SHIFT)
        found = np.int64(0)
        for n in range(FANOUT):
            number = _seen(mantissa[slot, first + n], power[slot, first + n], top)
            if number > 0.0:
                found = np.int64(n)
                if share < number:
                    break
                share -= number
        place = (place << SHIFT) + found
    return place


@kernel()
def _pick(mantissa, power, starts, levels, slot, left, right, given):
    """Find the leaf of a range in which a share of its sum ends, -1 without any; O(log n).

    Numbers are seen from the share, as plain doubles: what rounding takes from them is below the
    last digit of the sum.
    """
    found, height, share, top = np.int64(-1), 0, given.real, given.imag
    for level in range(levels):
        at = starts[level]
        while left < right and (left & LOW or right & LOW or level == levels - 1):
            if left & LOW or level == levels - 1:
                place = left
                left += 1
            else:
                right -= 1
                place = right
            number = _seen(mantissa[slot, at + place], power[slot, at + place], top)
            if number > 0.0:
                found, height = place, level
                if share < number:
                    return _descend(mantissa, power, starts, slot, level, place, share, top)
                share -= number
        left >>= SHIFT
        right >>= SHIFT
    if found < 0:
        return found
    # Rounding has left a rest: the last leaf that there is.
    return _descend(mantissa, power, starts, slot, height, found, HUGE, top)


@kernel()
def _scan(
    V, order, bits, bit, source, begin, upto, low, high, pair, pair_ptr, predicates, outside,
    pair_mask, rank, first, last, mask, row, share, counts,
):  # fmt: skip
    """Test rows one by one: add their counts up, or find the one in which a share ends; O(n)."""
    total, found = 0j, np.int64(-1)
    for prev in range(begin, upto):
        if not bits[prev] >> bit & 1 or order[prev] < low or order[prev] >= high:
            continue
        count = V[prev, source, 0]
        if count.real == 0.0:
            continue
        if not related(
            pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row,
            begin, begin,
        ):  # fmt: skip
            continue
        if counts:
            total = add(total, count, _NONE)
            continue
        found = np.int64(prev)
        if less(share, count):
            break
        share = minus(share, count)
    return total, found


@kernel()
def _fill_slot(V, rank, mantissa, power, at, starts, slot, source, predicate, begin, end):
    """Build the tree of a slot over the rows of a segment."""
    levels, room = set_levels(end - begin, starts), room_of(end - begin)
    mantissa[slot, :room], power[slot, :room] = 0.0, 0.0
    for row in range(begin, end):
        leaf = row - begin if predicate < 0 else np.int64(rank[predicate, row])
        if leaf >= 0:
            mantissa[slot, leaf] = V[row, source, 0].real
            power[slot, leaf] = V[row, source, 0].imag
            at[slot, leaf] = row - begin
    below = end - begin + 1
    for level in range(levels - 1):
        below = (below + LOW) >> SHIFT
        for node in range(below):
            place = starts[level + 1] + node
            mantissa[slot, place], power[slot, place] = _block_sum(
                mantissa, power, slot, starts[level] + (node << SHIFT)
            )


@kernel()
def _open(G, D, S, segment, begin, end):
    """Build the slots of a segment, and let each of its draws choose the end of its match."""
    size, states = end - begin, G.variable.shape[0]
    for slot in range(S.source.shape[0]):
        _fill_slot(
            S.V, D.rank, S.mantissa, S.power, S.at, S.starts, slot, S.source[slot],
            S.predicate[slot], begin, end,
        )  # fmt: skip
    for q in range(states):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    S.head[: size * states] = -1
    S.ends[0] = 0j
    for row in range(begin, end):
        total = S.ends[row - begin]
        for q in range(states):
            if D.order[row] >= S.end_bound[q]:
                total = add(total, S.V[row, q, 0], _NONE)
        S.ends[row - begin + 1] = total
    for n in range(S.drawn_ptr[segment], S.drawn_ptr[segment + 1]):
        draw = S.drawn[n]
        share = widen(_uniform(S.seeds, draw) * S.ends[size].real, S.ends[size].imag)
        low, high = np.int64(0), size - 1
        while low < high:
            middle = (low + high) >> 1
            if less(share, S.ends[middle + 1]):
                high = middle
            else:
                low = middle + 1
        q = _end_state(S.V, D.order, S.end_bound, begin + low, _uniform(S.seeds, draw))
        S.next[draw] = S.head[low * states + q]
        S.head[low * states + q] = draw


@kernel()
def _end_state(V, order, end_bound, row, chance):
    """Choose the state in which a match ends with a row."""
    total = 0j
    for q in range(end_bound.shape[0]):
        if order[row] >= end_bound[q]:
            total = add(total, V[row, q, 0], _NONE)
    share, found = widen(chance * total.real, total.imag), np.int64(0)
    for q in range(end_bound.shape[0]):
        count = V[row, q, 0]
        if order[row] < end_bound[q] or count.real == 0.0:
            continue
        found = np.int64(q)
        if less(share, count):
            break
        share = minus(share, count)
    return found


@kernel(inline="code")
def _step_back(G, D, S, segment, begin, levels, upto, row, q, draw):
    """Choose what a match had before a row: its place and state in one number, -1 for nothing."""
    count = S.V[row, q, 0]
    share = widen(_uniform(S.seeds, draw) * count.real, count.imag)
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.source[edge] < 0 and (
            G.guard_ptr[edge] == G.guard_ptr[edge + 1] or bounds_of(G, D, edge, row, segment)[0]
        ):
            if less(share, 1 + 0j):
                return np.int64(-1)
            share = minus(share, 1 + 0j)
    # What is left belongs to the last edge, whose sum need not be known.
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1] - 1):
        if G.source[edge] >= 0:
            here, _ = _follow(G, D, S, segment, begin, levels, upto, row, edge, share, True)
            if less(share, here):
                return _follow(G, D, S, segment, begin, levels, upto, row, edge, share, False)[1]
            share = minus(share, here)
    # Rounding can leave a rest where there is no match: then the last edge that has one is taken.
    for edge in range(G.edge_ptr[q + 1] - 1, G.edge_ptr[q] - 1, -1):
        if G.source[edge] >= 0:
            found = _follow(G, D, S, segment, begin, levels, upto, row, edge, share, False)[1]
            if found >= 0:
                return found
    return np.int64(-1)


@kernel(inline="code")
def _follow(G, D, S, segment, begin, levels, upto, row, edge, share, counts):
    """Count the matches that come by an edge, or find the place and state in which a share ends."""
    source, states, nothing = G.source[edge], G.variable.shape[0], np.int64(-1)
    open_, low, high = True, np.int64(0), NO_BOUND
    if G.guard_ptr[edge] < G.guard_ptr[edge + 1]:
        open_, low, high = bounds_of(G, D, edge, row, segment)
    if not open_:
        return 0j, nothing
    slot = S.edge_slot[edge]
    if slot < 0:
        total, prev = _scan(
            S.V, D.order, D.bits, G.variable[source], source, begin, upto, low, high,
            G.edge_pair[edge], G.pair_ptr, G.predicate, G.outside, G.pair_mask, D.rank, D.first,
            D.last, D.mask, row, share, counts,
        )  # fmt: skip
        return total, nothing if prev < 0 else (prev - begin) * states + source
    a, b, c, d = leaves_of(
        S.predicate[slot], row, begin, upto, low, high, D.order, D.first, D.last, D.ranks,
        G.outside,
    )  # fmt: skip
    mantissa, power, starts = S.mantissa, S.power, S.starts
    if counts:
        both = _range_sum(mantissa, power, starts, levels, slot, a, b)
        return add(both, _range_sum(mantissa, power, starts, levels, slot, c, d), _NONE), nothing
    part = _range_sum(mantissa, power, starts, levels, slot, a, b) if c < d else 0j
    leaf = nothing
    if c < d and not less(share, part):
        leaf = _pick(mantissa, power, starts, levels, slot, c, d, minus(share, part))
    if leaf < 0:
        leaf = _pick(mantissa, power, starts, levels, slot, a, b, share)
    return 0j, nothing if leaf < 0 else S.at[slot, leaf] * states + source


@kernel()
def draw_matches(G, D, S, cursor, event_draw, event_row, event_state):
    """Draw matches, backwards, into buffers; return whether all are there.

    A call without room for one event of each draw stops, and goes on where the cursor says.
    """
    states, segments = G.variable.shape[0], D.segment_ptr.shape[0] - 1
    while cursor[SEGMENT] < segments:
        segment = cursor[SEGMENT]
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        waiting = S.drawn_ptr[segment + 1] - S.drawn_ptr[segment]
        if not waiting:
            cursor[SEGMENT] += 1
            continue
        if cursor[ROW] < 0:
            let_signals_in(segment)
            _open(G, D, S, segment, begin, end)
            cursor[ROW] = end
            S.left[0] = waiting
        levels, j, rounds = set_levels(end - begin, S.starts), cursor[ROW], 0
        while j > begin and S.left[0] > 0:
            rounds = let_signals_in(rounds)
            if cursor[COUNT] + waiting > event_row.shape[0]:
                cursor[ROW] = j
                return False
            i = j - 1
            while i > begin and D.order[i - 1] == D.order[i]:
                i -= 1
            for slot in range(S.source.shape[0]):
                predicate = S.predicate[slot]
                for row in range(i, j):
                    if predicate >= 0 and D.rank[predicate, row] >= 0:
                        leaf = np.int64(D.rank[predicate, row])
                        if S.mantissa[slot, leaf] != 0.0:
                            _set_leaf(S.mantissa, S.power, S.starts, levels, slot, leaf, 0j)
            for row in range(i, j):
                for q in range(states):
                    draw = S.head[(row - begin) * states + q]
                    while draw >= 0:
                        after = S.next[draw]
                        place = cursor[COUNT]
                        event_draw[place], event_row[place] = draw, row
                        event_state[place] = q
                        cursor[COUNT] += 1
                        prev = _step_back(G, D, S, segment, begin, levels, i, row, q, draw)
                        if prev < 0:
                            S.left[0] -= 1
                        else:
                            S.next[draw] = S.head[prev]
                            S.head[prev] = draw
                        draw = after
            j = i
        cursor[SEGMENT], cursor[ROW] = segment + 1, -1
    return True
