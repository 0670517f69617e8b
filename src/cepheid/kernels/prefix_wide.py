"""Aggregate through prefix sums over ranks with wide numbers: sums, and counts of any size.

The trees are those of ``prefix.py``, but every number has a power of two of its own, so trees take
the same time and room however fast the numbers of matches grow. In a block of 16 neighbours the
mantissas come first and their powers, multiples of STEP, next: one update changes both with vector
instructions, in about twice the time of plain doubles.

    tree[index, part, block]   16 mantissas and 16 powers, flat, 2 * ``room`` numbers a tree
    least[index, value, node]  the smallest values, as in ``prefix.py`` with min for +
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.prefix import AHEAD, LEVELS_MAX, NO_VALUE, PREFIX, RIGHT, room_of, set_levels
from cepheid.kernels.ring import LIMIT, SHRINK, STEP, widen

NOTHING, EVERYTHING = -1e300, 1e300
"""The powers of zero, and of infinities and NaN: below and above all others."""


@njit(cache=True, inline="always")
def plus(m, k, n, l):  # noqa: E741
    """Return m 2^k + n 2^l. Two steps apart, the smaller is beyond the last digit of the larger."""
    if l == k:
        m += n
    elif l > k:
        m = n + (m * SHRINK if l == k + STEP else 0.0)
        k = l
    elif l == k - STEP:
        m += n * SHRINK
    if abs(m) >= LIMIT:
        m *= SHRINK
        k += STEP
    if m == 0.0:
        k = NOTHING
    return m, k


@njit(cache=True)
def _times(weight, count, power):
    """Return a value, times a number of matches."""
    if not np.isfinite(weight):
        return weight, EVERYTHING
    number = widen(weight, 0.0)
    number = widen(number.real * count, number.imag + power)
    return number.real, number.imag


@njit(cache=True, inline="always")
def enter_wide(tree, at, starts, levels, place, m, k):
    """Add m 2^k to the sums right of a place; no branches, so that it runs in vectors."""
    # Read from memory, or the compiler would unroll the loop instead.
    width = starts[LEVELS_MAX]
    for level in range(levels):
        base, right = at + 2 * (starts[level] + (place & ~15)), (place & 15) * 16
        mantissas, powers = tree[base : base + width], tree[base + width : base + 2 * width]
        mask = RIGHT[right : right + width]
        for j in range(width):
            mine = k if mask[j] > 0.0 else NOTHING
            theirs = powers[j]
            top = max(theirs, mine)
            below = top - STEP
            old = 1.0 if theirs == top else (SHRINK if theirs == below else 0.0)
            new = 1.0 if mine == top else (SHRINK if mine == below else 0.0)
            total = mantissas[j] * old + (m if mask[j] > 0.0 else 0.0) * new
            large = abs(total) >= LIMIT
            mantissas[j] = total * SHRINK if large else total
            top = top + STEP if large else top
            powers[j] = NOTHING if total == 0.0 else top
        place >>= 4


@njit(cache=True, inline="always")
def look_up_wide(tree, at, starts, levels, upto, m, k):
    """Return a number plus the sum of all amounts at places below another number."""
    for level in range(levels):
        node = at + 2 * (starts[level] + (upto & ~15)) + (upto & 15)
        m, k = plus(m, k, tree[node], tree[node + 16])
        upto >>= 4
    return m, k


@njit(cache=True, inline="always")
def _enter_least(tree, at, starts, levels, place, value):
    for level in range(levels):
        base = at + starts[level] + (place & ~15)
        for j in range(base + (place & 15) + 1, base + 16):
            tree[j] = min(tree[j], value)
        place >>= 4


@njit(cache=True, inline="always")
def _look_up_least(tree, at, starts, levels, upto):
    least = NO_VALUE
    for level in range(levels):
        least = min(least, tree[at + starts[level] + upto])
        upto >>= 4
    return least


@njit(cache=True, inline="always")
def _gather_sum(G, D, tree, room, sums, starts, levels, row, q, a, parts):
    """Return what the matches that a row may follow have of one part."""
    m, k = 0.0, NOTHING
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.query_ptr[edge] == G.query_ptr[edge + 1]:
            source = G.source[edge]
            m, k = plus(m, k, sums[source, a, 0], sums[source, a, 1])
        for n in range(G.query_ptr[edge], G.query_ptr[edge + 1]):
            upto = D.upto[G.query[n], row]
            if upto < 0:
                continue
            index = G.query_index[n]
            at = (index * parts + a) * 2 * room
            if G.index_kind[index] == PREFIX:
                m, k = look_up_wide(tree, at, starts, levels, upto, m, k)
            else:
                node = at + 2 * (upto & ~15) + (upto & 15)
                m, k = plus(m, k, tree[node], tree[node + 16])
    return m, k


@njit(cache=True, inline="always")
def _gather_least(G, D, least, room, smallest, starts, levels, row, q, a, mins):
    """Return the smallest value of the matches that a row may follow."""
    found = NO_VALUE
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.query_ptr[edge] == G.query_ptr[edge + 1]:
            found = min(found, smallest[G.source[edge], a])
        for n in range(G.query_ptr[edge], G.query_ptr[edge + 1]):
            upto = D.upto[G.query[n], row]
            if upto < 0:
                continue
            index = G.query_index[n]
            at = (index * mins + a) * room
            below = least[at + upto]
            if G.index_kind[index] == PREFIX:
                below = _look_up_least(least, at, starts, levels, upto)
            found = min(found, below)
    return found


@njit(cache=True, inline="always")
def _enter_row(G, D, tree, least, room, sums, smallest, starts, levels, row, q, held, held_least):
    """Let later rows and the result see what a row holds."""
    states, parts, mins = G.variable.shape[0], sums.shape[1], smallest.shape[1]
    for a in range(parts):
        m, k = held[a, 0], held[a, 1]
        sums[q, a, 0], sums[q, a, 1] = plus(sums[q, a, 0], sums[q, a, 1], m, k)
        if G.ends[q]:
            ended = plus(sums[states, a, 0], sums[states, a, 1], m, k)
            sums[states, a, 0], sums[states, a, 1] = ended
    for a in range(mins):
        smallest[q, a] = min(smallest[q, a], held_least[a])
        if G.ends[q]:
            smallest[states, a] = min(smallest[states, a], held_least[a])
    for n in range(G.enter_ptr[q], G.enter_ptr[q + 1]):
        index = G.enter[n]
        place = D.place[index, row]
        if place < 0:
            continue
        prefix = G.index_kind[index] == PREFIX
        for a in range(parts):
            m, k = held[a, 0], held[a, 1]
            at = (index * parts + a) * 2 * room
            if prefix:
                enter_wide(tree, at, starts, levels, place, m, k)
            else:
                node = at + 2 * (place & ~15) + (place & 15)
                tree[node], tree[node + 16] = plus(tree[node], tree[node + 16], m, k)
        for a in range(mins):
            at = (index * mins + a) * room
            if prefix:
                _enter_least(least, at, starts, levels, place, held_least[a])
            else:
                least[at + place] = min(least[at + place], held_least[a])


@njit(cache=True)
def aggregate_wide(G, D, tree, least, room, sums, smallest, held, held_least, starts, begin, end):
    """Aggregate a segment; rows of the same time see what was before all of them.

    ``sums`` and ``smallest`` (states + 1, ...) end with the result; ``held`` and ``held_least`` are
    room for one time. O(log n / 4) an event, state, query and part.
    """
    levels = set_levels(end - begin, starts)
    states, parts, mins = G.variable.shape[0], sums.shape[1], smallest.shape[1]
    i = begin
    while i < end:
        j = i + 1
        while j < end and D.order[j] == D.order[i]:
            j += 1
        for row in range(i, j):
            for q in range(states):
                variable = G.variable[q]
                if not D.bits[row] >> variable & 1:
                    continue
                count, power = 0.0, NOTHING
                for a in range(parts):
                    m, k = _gather_sum(G, D, tree, room, sums, starts, levels, row, q, a, parts)
                    if a == 0:
                        if G.begins[q] and not (D.barred.shape[0] and D.barred[q, row]):
                            m, k = plus(m, k, 1.0, 0.0)
                        count, power = m, k
                    elif D.weight_of[variable, a] >= 0:
                        weight = D.weights[D.weight_of[variable, a], row]
                        if weight != 0.0 and count != 0.0:
                            mine, above = _times(weight, count, power)
                            m, k = plus(m, k, mine, above)
                    held[row - i, q, a, 0], held[row - i, q, a, 1] = m, k
                for a in range(mins):
                    value = _gather_least(
                        G, D, least, room, smallest, starts, levels, row, q, a, mins
                    )
                    if count > 0.0 and D.value_of[variable, a] >= 0:
                        value = min(value, D.values[D.value_of[variable, a], row])
                    held_least[row - i, q, a] = value
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1:
                    _enter_row(
                        G, D, tree, least, room, sums, smallest, starts, levels, row, q,
                        held[row - i, q], held_least[row - i, q],
                    )  # fmt: skip
        i = j


@njit(cache=True, inline="always")
def _ask_for(tree, starts, place):
    """Prefetch the two lowest blocks of a place; those above are always at hand."""
    leaf, block = 2 * (place & ~15), 2 * (starts[1] + (place >> 4 & ~15))
    for n in range(0, 32, 8):
        prefetch(tree, leaf + n)
        prefetch(tree, block + n)


@njit(cache=True)
def count_chain_wide(place, upto, order, tree, held, starts, begin, end):
    """Count a segment where the pattern is one variable with Kleene plus, ``S+``.

    The same as ``aggregate_wide`` without loops over states, edges and parts.
    """
    levels = set_levels(end - begin, starts)
    total, top = 0.0, NOTHING
    i = begin
    while i < end:
        j = i
        while j < end and order[j] == order[i]:
            if j + AHEAD < end:
                _ask_for(tree, starts, place[j + AHEAD])
            m, k = 1.0, 0.0
            if upto[j] > 0:
                m, k = look_up_wide(tree, 0, starts, levels, upto[j], m, k)
            held[j - i, 0, 0, 0], held[j - i, 0, 0, 1] = m, k
            total, top = plus(total, top, m, k)
            j += 1
        for row in range(i, j):
            if place[row] >= 0:
                m, k = held[row - i, 0, 0, 0], held[row - i, 0, 0, 1]
                enter_wide(tree, 0, starts, levels, place[row], m, k)
        i = j
    return total, top


@njit(cache=True)
def _clear(tree, count, room, used):
    """Empty the used blocks of every tree."""
    for n in range(count):
        at = 2 * n * room
        for base in range(at, at + 2 * used, 32):
            tree[base : base + 16] = 0.0
            tree[base + 16 : base + 32] = NOTHING


@njit(cache=True)
def run_wide(
    G, D, chain, tree, least, room, sums, smallest, held, held_least, first, numbers, values
):
    """Aggregate all segments from one on.

    ``chain`` says whether the pattern is one variable with Kleene plus, and its edge a prefix.
    """
    states, parts, mins = G.variable.shape[0], numbers.shape[1], values.shape[1]
    indexes = G.index_kind.shape[0]
    starts = np.zeros(LEVELS_MAX + 1, np.int64)
    for segment in range(first, D.segment_ptr.shape[0] - 1):
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        used = room_of(end - begin)
        _clear(tree, indexes * parts, room, used)
        for n in range(indexes * mins):
            least[n * room : n * room + used] = NO_VALUE
        sums[:, :, 0] = 0.0
        sums[:, :, 1] = NOTHING
        smallest[:] = NO_VALUE
        if chain:
            sums[states, 0, 0], sums[states, 0, 1] = count_chain_wide(
                D.place[0], D.upto[0], D.order, tree, held, starts, begin, end
            )
        else:
            aggregate_wide(
                G, D, tree, least, room, sums, smallest, held, held_least, starts, begin, end
            )
        for a in range(parts):
            if sums[states, a, 0] != 0.0:
                numbers[segment, a] = widen(sums[states, a, 0], sums[states, a, 1])
        for a in range(mins):
            values[segment, a] = smallest[states, a]
