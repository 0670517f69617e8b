"""Count matches by prefix sums over ranks: the fast path for separated predicates.

It applies to skip-till-any-match if every edge has at most one predicate of the form
f(prev) < g(next) (or <=, >, >=, =, <>): an event adds the prefix sum below its bound and inserts
its own count at its rank. Leading NOT keeps rows from beginning a match (``barred``); other guards,
and everything else, run in ``graph.py``.

The sums are in a tree with 16 children per node. A node holds, for each child, the sum of the
children to its left, so a look-up reads one number per level and an update adds to 16 neighbours,
which takes one or two vector instructions: O(log n / 4) each, and two or three cache misses.

    tree[index, plane, node]   the nodes of all levels, leaves first; flat, ``room`` nodes each
    place[index, row]          where a row enters, -1 for nowhere
    upto[query, row]           how many places a row looks up, -1 for none

Numbers of matches exceed doubles, so they are in *planes*: plane p holds amounts between 2^-1000
and 2^930, times 2^(1900 p). An amount enters the tree of its plane only; a look-up reads the planes
from above. There are at most PLANES_MAX; larger counts, and sums, run in ``prefix_wide.py``.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.ring import SHRINK, STEP, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

NO_VALUE = np.iinfo(np.int64).max
PREFIX, EQUAL = 0, 1
SHIFT = 4
FANOUT = 1 << SHIFT
LOW = FANOUT - 1
LEVELS_MAX = 8
AHEAD = 8
"""Memory is asked for this many rows ahead."""

# The power of two of one match, the powers between planes, the largest amount that stays in one,
# and the smallest one below which the planes below count: a sum of 2^30 largest amounts there is
# still beyond its last digit. Half a plane's step, up and down.
POWER, PLANE = -1000.0, 1900.0
UNIT, LARGE, SMALL = 2.0**-1000, 2.0**930, 2.0**-880
UP, DOWN = 2.0**950, 2.0**-950

PLANES_MAX = 2

_PLAIN = 2.0**-100
"""Amounts below it are plain doubles after their unit is taken out."""

RIGHT = np.tril(np.ones((FANOUT, FANOUT)), -1).T.ravel().copy()
"""RIGHT[16 k + j] is 1 where child j is to the right of child k."""


@kernel(borrows=True)
def room_of(size):
    """Count the nodes of a tree over places 0 to size."""
    nodes, width = 0, size + 1
    while True:
        width = (width + FANOUT - 1) // FANOUT
        nodes += width * FANOUT
        if width == 1:
            return nodes


@kernel(borrows=True)
def set_levels(size, starts):
    """Set the offsets of the levels of a tree, then their widths; return the number of levels.

    The root may have fewer children, so that half a node is enough.
    """
    starts[LEVELS_MAX] = FANOUT
    count, at, width = 0, 0, size + 1
    while True:
        starts[count] = at
        starts[LEVELS_MAX + 1] = FANOUT // 2 if width <= FANOUT // 2 else FANOUT
        count += 1
        width = (width + FANOUT - 1) // FANOUT
        at += width * FANOUT
        if width == 1:
            return count


@kernel(inline="code", borrows=True)
def _enter(tree, at, starts, levels, place, amount):
    """Add an amount to the sums right of a place; the tree starts at offset ``at``.

    Trees are in one flat array: a view for each would cost more than the sums.
    """
    for level in range(levels):
        # Read from memory, or the compiler would unroll the loop instead of using vectors.
        width = starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1]
        base, right = at + starts[level] + (place & ~LOW), (place & LOW) * FANOUT
        node, mask = tree[base : base + width], RIGHT[right : right + width]
        for j in range(width):
            node[j] += amount * mask[j]
        place >>= SHIFT


@_enter.interpreted
def _(tree, at, starts, levels, place, amount):
    for level in range(levels):
        width = starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1]
        base, right = at + starts[level] + (place & ~LOW), (place & LOW) * FANOUT
        tree[base : base + width] += amount * RIGHT[right : right + width]
        place >>= SHIFT


@kernel(inline="code", borrows=True)
def _look_up(tree, at, starts, levels, upto):
    """Sum all amounts at places below a number."""
    total = 0.0
    for level in range(levels):
        total += tree[at + starts[level] + upto]
        upto >>= SHIFT
    return total


@kernel(borrows=True)
def _settle(amounts):
    """Add up amounts of all planes; return the sum and its plane."""
    plane = amounts.shape[0] - 1
    total = amounts[plane]
    while plane > 0 and total < SMALL:
        plane -= 1
        total = total * UP * UP + amounts[plane]
    if total >= LARGE:
        total = total * DOWN * DOWN
        plane += 1
    return total, plane


@kernel(borrows=True)
def count_prefix(G, D, tree, room, total, held, planes_held, amounts, starts, begin, end, first):
    """Count the matches of a segment; return its end, or the row that needs one more plane.

    ``total`` (states + 1, planes) ends with the result; the other arrays are buffers for one time.
    """
    levels = set_levels(end - begin, starts)
    # Read once: reading an array out of a tuple counts a reference, and loops do it every time.
    variable, edge_ptr, source, query_ptr = G.variable, G.edge_ptr, G.source, G.query_ptr
    query, query_index, index_kind, begins = G.query, G.query_index, G.index_kind, G.begins
    ends, enter_ptr, entered, barred = G.ends, G.enter_ptr, G.enter, D.barred
    order, all_bits, places, uptos = D.order, D.bits, D.place, D.upto
    states, planes = variable.shape[0], total.shape[1]
    i, rounds = first, 0
    while i < end:
        rounds = let_signals_in(rounds)
        j = i + 1
        while j < end and order[j] == order[i]:
            j += 1
        for row in range(i, j):
            bits = all_bits[row]
            for q in range(states):
                if not bits >> variable[q] & 1:
                    continue
                for plane in range(planes):
                    amount = 0.0
                    for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                        if query_ptr[edge] == query_ptr[edge + 1]:
                            amount += total[source[edge], plane]
                        for n in range(query_ptr[edge], query_ptr[edge + 1]):
                            upto = uptos[query[n], row]
                            if upto < 0:
                                continue
                            index = query_index[n]
                            at = (index * planes + plane) * room
                            if index_kind[index] == PREFIX:
                                amount += _look_up(tree, at, starts, levels, upto)
                            else:
                                amount += tree[at + upto]
                    amounts[plane] = amount
                if begins[q] and not (barred.shape[0] and barred[q, row]):
                    amounts[0] += UNIT
                amount, plane = _settle(amounts)
                if plane == planes:
                    return i
                held[row - i, q] = amount
                planes_held[row - i, q] = plane
        for row in range(i, j):
            bits = all_bits[row]
            for q in range(states):
                if not bits >> variable[q] & 1:
                    continue
                amount, plane = held[row - i, q], planes_held[row - i, q]
                total[q, plane] += amount
                if ends[q]:
                    total[states, plane] += amount
                for n in range(enter_ptr[q], enter_ptr[q + 1]):
                    index = entered[n]
                    place = places[index, row]
                    if place < 0:
                        continue
                    at = (index * planes + plane) * room
                    if index_kind[index] == PREFIX:
                        _enter(tree, at, starts, levels, place, amount)
                    else:
                        tree[at + place] += amount
        i = j
    return end


@kernel(inline="code", borrows=True)
def _ask_for(tree, room, planes, starts, place, upto):
    """Prefetch the two lowest nodes of a place, and numbers; higher nodes are always cached."""
    leaf, node = place & ~LOW, starts[1] + (place >> SHIFT & ~LOW)
    for plane in range(planes):
        at = plane * room
        if upto > 0:
            prefetch(tree, at + upto)
            prefetch(tree, at + starts[1] + (upto >> SHIFT))
        prefetch(tree, at + leaf)
        prefetch(tree, at + leaf + 8)
        prefetch(tree, at + node)
        prefetch(tree, at + node + 8)


@kernel(inline="code", borrows=True)
def _chain_amount(tree, room, planes, starts, levels, upto):
    """Compute the amount that a row adds, and its plane.

    The highest plane comes first: if it is not empty, the others are below the last digit. These
    are branches rather than conditional moves, so that the processor can speculate.
    """
    amount, plane = 0.0, planes - 1
    if upto < 0:
        return UNIT, 0
    amount = _look_up(tree, plane * room, starts, levels, upto)
    while plane > 0 and amount < SMALL:
        plane -= 1
        below = _look_up(tree, plane * room, starts, levels, upto)
        amount = amount * UP * UP + below
    if plane == 0:
        amount += UNIT
    if amount >= LARGE:
        return amount * DOWN * DOWN, plane + 1
    return amount, plane


@kernel(borrows=True)
def count_chain(
    place, upto, order, tree, room, total, held, planes_held, starts, begin, end, first
):
    """Count as ``count_prefix`` does where the pattern is one variable with Kleene plus, ``S+``.

    It has no loops over states and edges, which would take half of the time.
    """
    levels = set_levels(end - begin, starts)
    planes = total.shape[1]
    i, rounds = first, 0
    while i < end:
        rounds = let_signals_in(rounds)
        if i + AHEAD < end:
            _ask_for(tree, room, planes, starts, place[i + AHEAD], upto[i + AHEAD])
        if i + 1 == end or order[i + 1] != order[i]:
            amount, where = _chain_amount(tree, room, planes, starts, levels, upto[i])
            if where == planes:
                return i
            for plane in range(planes):
                if plane == where:
                    total[1, plane] += amount
                    if place[i] >= 0:
                        _enter(tree, plane * room, starts, levels, place[i], amount)
            i += 1
            continue
        j = i
        while j < end and order[j] == order[i]:
            amount, where = _chain_amount(tree, room, planes, starts, levels, upto[j])
            if where == planes:
                return i
            held[j - i, 0] = amount
            planes_held[j - i, 0] = where
            j += 1
        for row in range(i, j):
            where = planes_held[row - i, 0]
            total[1, where] += held[row - i, 0]
            if place[row] >= 0:
                _enter(tree, where * room, starts, levels, place[row], held[row - i, 0])
        i = j
    return end


@kernel(borrows=True)
def result_of(amounts):
    """Sum the amounts of all planes to a wide number."""
    # Nearly all windows have few matches, and there may be millions of windows.
    if amounts.shape[0] == 1 and amounts[0] < _PLAIN:
        return widen(amounts[0] / UNIT, 0.0)
    total = complex(0.0, 0.0)
    for plane in range(amounts.shape[0]):
        total = _plus(total, shifted(amounts[plane], plane * PLANE - POWER))
    return total


@kernel(borrows=True)
def _plus(a, b):
    if b.real == 0.0:
        return a
    if a.real == 0.0 or b.imag - a.imag > 2 * STEP:
        return b
    if a.imag - b.imag > 2 * STEP:
        return a
    while a.imag > b.imag:
        b = complex(b.real * SHRINK, b.imag + STEP)
    while b.imag > a.imag:
        a = complex(a.real * SHRINK, a.imag + STEP)
    return widen(a.real + b.real, a.imag)


@kernel(borrows=True)
def shifted(amount, power):
    """Multiply a double by a power of two to a wide number."""
    if amount == 0.0:
        return complex(0.0, 0.0)
    number = widen(amount, 0.0)
    steps = np.floor(power / STEP)
    return widen(number.real * 2.0 ** (power - steps * STEP), number.imag + steps * STEP)


@kernel(borrows=True)
def _clear(tree, count, room, used):
    """Empty the used part of every tree."""
    for n in range(count):
        tree[n * room : n * room + used] = 0.0


@kernel(shortcut="prefix_arrays")
def run_count(G, D, chain, tree, room, total, held, planes_held, segment, first, numbers):
    """Count segments from a row of one on; return the segment and row that need one more plane.

    ``chain`` is true if the pattern is one variable with Kleene plus, and its edge a prefix.
    """
    states, planes = G.variable.shape[0], total.shape[1]
    amounts, starts = np.zeros(planes), np.zeros(LEVELS_MAX + 2, np.int64)
    count = D.segment_ptr.shape[0] - 1
    while segment < count:
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        if first <= begin:
            _clear(tree, G.index_kind.shape[0] * planes, room, room_of(end - begin))
            total[:] = 0.0
            first = begin
        if chain:
            first = count_chain(
                D.place[0], D.upto[0], D.order, tree, room, total, held, planes_held, starts,
                begin, end, first,
            )  # fmt: skip
        else:
            first = count_prefix(
                G, D, tree, room, total, held, planes_held, amounts, starts, begin, end, first
            )
        if first < end:
            return segment, first
        numbers[segment, 0] = result_of(total[states])
        segment += 1
    return count, 0
