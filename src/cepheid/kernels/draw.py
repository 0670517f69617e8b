"""Draw matches of segments: backwards through the counts of the matches that end with each row.

All draws of a segment walk together from its last row to its first. A draw in a state at a row
takes one of the rows that it may follow, with a probability proportional to its count. Slots
(``lookups.py``) hold these counts as trees of sums with 16 children a node, as in ``prefix.py``,
but a node holds its own sum. Rows enter slots in order, and every sum that one changes is kept.
When the walk passes a row, it leaves slots by rank, and these sums are what they were: only earlier
rows are left. O(log n) for each row and each event of a draw. What a row may follow, as few nodes
of the trees, is listed once for all draws that come to it; each of them looks its share up.

Counts are wide numbers, of 2^1000 and more; a draw compares a random share of one with sums of
others, so nothing overflows, and nothing is subtracted but what is smaller.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import NO_BOUND, bounds_of, least_order_of_end, related
from cepheid.kernels.lookups import leaves_of, less, minus
from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.prefix import (
    AHEAD,
    FANOUT,
    LEVELS_MAX,
    LOW,
    SHIFT,
    room_of,
    set_levels,
)
from cepheid.kernels.ring import LIMIT, SHRINK, STEP, add, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

SEGMENT, ROW, COUNT, LEFT = 0, 1, 2, 3
"""Fields of a cursor: segment, end of its rows that are left (-1: all), events, open draws."""
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31 = (np.uint64(n) for n in (11, 27, 30, 31))
_NONE = np.uint64(0)
HUGE = 1e308
FEW = 32
"""So many sums are read one by one faster than by halves, at which processors guess wrong."""
IS_ROW = -1
"""The kind of a row that was tested; that of a node has its slot and its level."""


@kernel(borrows=True)
def _uniform(seeds, draw):
    """Return the next random number of a draw, from 0 to below 1 (SplitMix64)."""
    seeds[draw] += _GAMMA
    word = seeds[draw]
    word = (word ^ (word >> _U30)) * _FIRST
    word = (word ^ (word >> _U27)) * _SECOND
    word = word ^ (word >> _U31)
    return np.float64(word >> _U11) * 2.0**-53


@kernel(inline="code", borrows=True)
def _enter(mantissa, power, tree, starts, levels, leaf, number, was, was_power):
    """Add a number at a leaf to the sums above it, and keep what they were."""
    steps = np.int32(number.imag / STEP)
    mantissa[tree + leaf], power[tree + leaf] = number.real, steps
    for level in range(1, levels):
        leaf >>= SHIFT
        node = tree + starts[level] + leaf
        m, k = mantissa[node], power[node]
        was[level - 1], was_power[level - 1] = m, k
        top = max(k, steps)
        total = _seen(m, k, top) + _seen(number.real, steps, top)
        large = total >= LIMIT
        mantissa[node] = total * SHRINK if large else total
        power[node] = top + 1 if large else top


@kernel(inline="code", borrows=True)
def _leave(mantissa, power, tree, starts, levels, leaf, was, was_power):
    """Empty the leaf that was entered last, and make the sums above it what they were."""
    mantissa[tree + leaf], power[tree + leaf] = 0.0, 0
    for level in range(1, levels):
        leaf >>= SHIFT
        node = tree + starts[level] + leaf
        mantissa[node], power[node] = was[level - 1], was_power[level - 1]


@kernel(inline="code", borrows=True)
def _seen(mantissa, power, top):
    """Compute a number as a multiple of a power of two; what is above it is larger than all.

    Two steps down, a number is below the last digit. There are no branches: they would be
    unpredictable.
    """
    lower = SHRINK if power == top - 1 else 0.0
    return mantissa * (1.0 if power == top else (HUGE if power > top else lower))


@kernel(inline="code", borrows=True)
def _descend(mantissa, power, tree, starts, level, place, share, top):
    """Find the leaf below a node in which a share of its sum ends."""
    while level > 0:
        level -= 1
        first = tree + starts[level] + (place << SHIFT)
        found = np.int64(-1)
        for n in range(FANOUT):
            number = _seen(mantissa[first + n], power[first + n], top)
            if share < number:
                found = np.int64(n)
                break
            share -= number
        if found < 0:
            # What rounding leaves of the share belongs to the last child that is not empty.
            found = np.int64(FANOUT - 1)
            while found > 0 and not _seen(mantissa[first + found], power[first + found], top) > 0.0:
                found -= 1
        place = (place << SHIFT) + found
    return place


@kernel(inline="code", borrows=True)
def _cover(
    mantissa, power, tree, starts, levels, left, right, kind, top, most, ends, nodes, kinds, count,
    total,
):  # fmt: skip
    """List the nodes that make up a range of leaves, with the sum up to the end of each one.

    ``kind`` is that of leaves, and nodes above have one more for each level; O(log n). Numbers are
    multiples of a power of two, as plain doubles: what rounding takes from them is below the last
    digit of the sum. Returns the number of nodes so far, and their sum; none follow a sum above
    ``most``.
    """
    for level in range(levels):
        at = tree + starts[level]
        while left < right and (left & LOW or right & LOW or level == levels - 1):
            if left & LOW or level == levels - 1:
                place = left
                left += 1
            else:
                right -= 1
                place = right
            number = _seen(mantissa[at + place], power[at + place], top)
            if number > 0.0:
                total += number
                ends[count], nodes[count], kinds[count] = total, place, kind + level
                count += 1
                if total > most:
                    return count, total
        left >>= SHIFT
        right >>= SHIFT
    return count, total


@kernel(borrows=True)
def _cover_rows(
    V, order, bits, bit, source, begin, upto, low, high, pair, pair_ptr, predicates, outside,
    pair_mask, rank, first, last, mask, row, top, most, ends, nodes, kinds, count, total,
):  # fmt: skip
    """List rows as ``_cover`` does nodes, testing them one by one; O(n)."""
    states = V.shape[1]
    for prev in range(begin, upto):
        if not bits[prev] >> bit & 1 or order[prev] < low or order[prev] >= high:
            continue
        number = _seen(V[prev, source, 0].real, np.int32(V[prev, source, 0].imag / STEP), top)
        if number == 0.0 or not related(
            pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, prev, row,
            begin, begin,
        ):  # fmt: skip
            continue
        total += number
        ends[count], kinds[count] = total, IS_ROW
        nodes[count] = (prev - begin) * states + source
        count += 1
        if total > most:
            break
    return count, total


@kernel(borrows=True)
def _fill_slot(
    V, rank, mantissa, power, tree, at, starts, levels, was, was_power, source, predicate, begin,
    end,
):  # fmt: skip
    """Build the tree of a slot: the rows of a segment enter in order."""
    room = room_of(end - begin)
    mantissa[tree : tree + room], power[tree : tree + room] = 0.0, 0
    for row in range(begin, end):
        leaf = row - begin if predicate < 0 else np.int64(rank[predicate, row])
        if predicate >= 0 and row + AHEAD < end:
            prefetch(mantissa, tree + rank[predicate, row + AHEAD])
            prefetch(power, tree + rank[predicate, row + AHEAD])
        if leaf >= 0 and V[row, source, 0].real != 0.0:
            at[leaf] = row - begin
            _enter(
                mantissa, power, tree, starts, levels, leaf, V[row, source, 0], was[row - begin],
                was_power[row - begin],
            )  # fmt: skip


@kernel(borrows=True)
def _open(G, D, S, segment, begin, end):
    """Build the slots of a segment, and let each of its draws choose the end of its match."""
    size, states = end - begin, G.variable.shape[0]
    levels, room = set_levels(size, S.starts), S.mantissa.shape[0] // max(S.source.shape[0], 1)
    for slot in range(S.source.shape[0]):
        _fill_slot(
            S.V, D.rank, S.mantissa, S.power, slot * room, S.at[slot], S.starts, levels,
            S.was[slot], S.was_power[slot], S.source[slot], S.predicate[slot], begin, end,
        )  # fmt: skip
    for q in range(states):
        S.end_bound[q] = least_order_of_end(G, D, q, segment)
    V, order, end_bound, ends, head, seeds = S.V, D.order, S.end_bound, S.ends, S.head, S.seeds
    head[: size * states] = -1
    ends[0] = 0j
    for row in range(begin, end):
        total = ends[row - begin]
        for q in range(states):
            if order[row] >= end_bound[q]:
                total = add(total, V[row, q, 0], _NONE)
        ends[row - begin + 1] = total
    for n in range(S.drawn_ptr[segment], S.drawn_ptr[segment + 1]):
        draw = S.drawn[n]
        share = widen(_uniform(seeds, draw) * ends[size].real, ends[size].imag)
        low, high = np.int64(0), size - 1
        while low < high:
            middle = (low + high) >> 1
            if less(share, ends[middle + 1]):
                high = middle
            else:
                low = middle + 1
        q = _end_state(V, order, end_bound, begin + low, _uniform(seeds, draw))
        S.next[draw] = head[low * states + q]
        head[low * states + q] = draw


@kernel(borrows=True)
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


@kernel(inline="code", borrows=True)
def _find_ways(
    G, D, edge_ptr, sources, guard_ptr, edge_slot, predicate, order, first, last, ranks, outside,
    segment, begin, upto, row, q, ways,
):  # fmt: skip
    """Find the rows that each edge leads from to a row; return in how many ways a match begins.

    An edge with a slot leads from two ranges of its leaves, others from orders from low to high.
    """
    starts = 0
    for edge in range(edge_ptr[q], edge_ptr[q + 1]):
        open_, low, high = True, np.int64(0), NO_BOUND
        if guard_ptr[edge] < guard_ptr[edge + 1]:
            open_, low, high = bounds_of(G, D, edge, row, segment)
        a, b, c, d = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        if open_ and sources[edge] < 0:
            starts += 1
        elif open_ and edge_slot[edge] < 0:
            a, b = low, high
        elif open_:
            a, b, c, d = leaves_of(
                predicate[edge_slot[edge]], row, begin, upto, low, high, order, first, last, ranks,
                outside,
            )  # fmt: skip
        n = edge - edge_ptr[q]
        ways[n, 0], ways[n, 1], ways[n, 2], ways[n, 3] = a, b, c, d
    return starts


@kernel(inline="code", borrows=True)
def _cover_ways(
    V, mantissa, power, starts, levels, room, edge_ptr, sources, edge_slot, ways, order, bits,
    variable, edge_pair, pair_ptr, predicates, outside, pair_mask, rank, first, last, mask, begin,
    upto, row, q, top, most, ends, nodes, kinds,
):  # fmt: skip
    """List what a match may have before a row, with sums, until they are above ``most``.

    Returns how much is listed.
    """
    count, total = 0, 0.0
    for edge in range(edge_ptr[q], edge_ptr[q + 1]):
        slot, source, n = edge_slot[edge], sources[edge], edge - edge_ptr[q]
        if source >= 0 and slot < 0 and ways[n, 0] < ways[n, 1] and total <= most:
            count, total = _cover_rows(
                V, order, bits, variable[source], source, begin, upto, ways[n, 0], ways[n, 1],
                edge_pair[edge], pair_ptr, predicates, outside, pair_mask, rank, first, last, mask,
                row, top, most, ends, nodes, kinds, count, total,
            )  # fmt: skip
        for side in range(0, 4 if slot >= 0 else 0, 2):
            if ways[n, side] < ways[n, side + 1] and total <= most:
                count, total = _cover(
                    mantissa, power, slot * room, starts, levels, ways[n, side],
                    ways[n, side + 1], slot * (LEVELS_MAX + 1), top, most, ends, nodes, kinds,
                    count, total,
                )  # fmt: skip
    return count


@kernel(inline="code", borrows=True)
def _step_back(
    mantissa, power, starts, room, at, slot_source, states, ends, nodes, kinds, count, share, top
):
    """Choose what a match had before a row: its place and state in one number, -1 for nothing.

    A share below 0 is one of the matches that begin there. If rounding leaves a rest in the end,
    it belongs to the last of what is listed.
    """
    if count == 0 or share < 0.0:
        return np.int64(-1)
    low, high = np.int64(0), count - 1
    while high - low > FEW:
        middle = (low + high) >> 1
        if share < ends[middle]:
            high = middle
        else:
            low = middle + 1
    while low < high and share >= ends[low]:
        low += 1
    kind = kinds[low]
    if kind == IS_ROW:
        return nodes[low]
    rest = share - ends[low - 1] if low > 0 else share
    slot, level = kind // (LEVELS_MAX + 1), kind % (LEVELS_MAX + 1)
    leaf = _descend(mantissa, power, slot * room, starts, level, nodes[low], rest, top)
    return at[slot, leaf] * states + slot_source[slot]


@kernel(inline="code", borrows=True)
def _leave_rows(
    mantissa, power, tree, starts, levels, V, source, rank, was, was_power, begin, i, j
):
    """Let the rows from i to j leave the slot of a state by rank, the last one first."""
    for row in range(j - 1, i - 1, -1):
        if row - AHEAD >= begin:
            prefetch(mantissa, tree + rank[row - AHEAD])
        if rank[row] >= 0 and V[row, source, 0].real != 0.0:
            _leave(
                mantissa, power, tree, starts, levels, np.int64(rank[row]), was[row - begin],
                was_power[row - begin],
            )  # fmt: skip


@kernel(inline="code", borrows=True)
def _take_shares(
    seeds, after, lengths, shares, cursor, event_draw, event_place, draw, place, count, begun_share
):
    """Note an event for the draws at a place, and choose their shares; return the largest one."""
    most = -1.0
    while draw >= 0:
        event_draw[cursor[COUNT]], event_place[cursor[COUNT]] = draw, place
        cursor[COUNT] += 1
        lengths[draw] += 1
        shares[draw] = _uniform(seeds, draw) * count - begun_share
        most = max(most, shares[draw])
        draw = after[draw]
    return most


@kernel(borrows=True)
def draw_matches(G, D, S, cursor, event_draw, event_place):
    """Draw matches, backwards, into buffers; return whether all are there.

    An event is written as its row times the number of states, plus its state. A call without room
    for one event of each draw stops, and goes on where the cursor says.
    """
    # Read once: reading an array out of a tuple counts a reference, and loops do it every time.
    edge_ptr, sources, guard_ptr, outside = G.edge_ptr, G.source, G.guard_ptr, G.outside
    order, rank, first, last, ranks = D.order, D.rank, D.first, D.last, D.ranks
    V, mantissa, power, starts, at = S.V, S.mantissa, S.power, S.starts, S.at
    edge_slot, predicate, head, after, seeds = S.edge_slot, S.predicate, S.head, S.next, S.seeds
    ptr, drawn_ptr, lengths, ways = D.segment_ptr, S.drawn_ptr, S.lengths, S.ways
    slot_source, was, was_power = S.source, S.was, S.was_power
    ends, nodes, kinds, shares = S.listed_ends, S.listed, S.listed_kind, S.shares
    bits, variable, edge_pair, pair_ptr = D.bits, G.variable, G.edge_pair, G.pair_ptr
    predicates, pair_mask, mask = G.predicate, G.pair_mask, D.mask
    states, room = variable.shape[0], mantissa.shape[0] // max(predicate.shape[0], 1)
    while cursor[SEGMENT] < ptr.shape[0] - 1:
        segment = cursor[SEGMENT]
        begin, end = ptr[segment], ptr[segment + 1]
        waiting = drawn_ptr[segment + 1] - drawn_ptr[segment]
        if not waiting:
            cursor[SEGMENT] += 1
            continue
        if cursor[ROW] < 0:
            let_signals_in(segment)
            _open(G, D, S, segment, begin, end)
            cursor[ROW], cursor[LEFT] = end, waiting
        levels, j, rounds = set_levels(end - begin, starts), cursor[ROW], 0
        while j > begin and cursor[LEFT] > 0:
            rounds = let_signals_in(rounds)
            if cursor[COUNT] + waiting > event_place.shape[0]:
                cursor[ROW] = j
                return False
            i = j - 1
            while i > begin and order[i - 1] == order[i]:
                i -= 1
            for slot in range(predicate.shape[0]):
                if predicate[slot] >= 0:
                    _leave_rows(
                        mantissa, power, slot * room, starts, levels, V, slot_source[slot],
                        rank[predicate[slot]], was[slot], was_power[slot], begin, i, j,
                    )  # fmt: skip
            for place in range((i - begin) * states, (j - begin) * states):
                draw = head[place]
                if draw < 0:
                    continue
                row, q = begin + place // states, place % states
                begun = _find_ways(
                    G, D, edge_ptr, sources, guard_ptr, edge_slot, predicate, order, first, last,
                    ranks, outside, segment, begin, i, row, q, ways,
                )  # fmt: skip
                count, top = V[row, q, 0].real, np.int32(V[row, q, 0].imag / STEP)
                most = _take_shares(
                    seeds, after, lengths, shares, cursor, event_draw, event_place, draw,
                    begin * states + place, count, begun * _seen(1.0, 0, top),
                )  # fmt: skip
                # Once for all draws that come to this row.
                listed = _cover_ways(
                    V, mantissa, power, starts, levels, room, edge_ptr, sources, edge_slot, ways,
                    order, bits, variable, edge_pair, pair_ptr, predicates, outside, pair_mask,
                    rank, first, last, mask, begin, i, row, q, top, most, ends, nodes, kinds,
                )  # fmt: skip
                while draw >= 0:
                    later = after[draw]
                    prev = _step_back(
                        mantissa, power, starts, room, at, slot_source, states, ends, nodes, kinds,
                        listed, shares[draw], top,
                    )  # fmt: skip
                    if prev < 0:
                        cursor[LEFT] -= 1
                    else:
                        after[draw], head[prev] = head[prev], draw
                    draw = later
            j = i
        cursor[SEGMENT], cursor[ROW] = segment + 1, -1
    return True


@kernel(borrows=True)
def order_events(event_draw, event_place, states, variable, upto, rows, variables):
    """Put the events of each draw in order; ``upto`` begins as the end of each one."""
    for n in range(event_draw.shape[0]):
        draw = event_draw[n]
        upto[draw] -= 1
        rows[upto[draw]] = event_place[n] // states
        variables[upto[draw]] = variable[event_place[n] % states]
