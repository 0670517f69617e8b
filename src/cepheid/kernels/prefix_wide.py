"""Aggregate by prefix sums over ranks with wide numbers: sums, and counts of any size.

The trees are those of ``prefix.py``, but every number has its own power of two, so time and memory
do not depend on the growth of the numbers of matches. In a block of 16 neighbours the
mantissas come first and their powers, multiples of STEP, next: one update changes both with vector
instructions, in about twice the time of plain doubles. The blocks of all parts are neighbours, so
that an event touches the same pages of memory for each of them.

    tree[index, block, part]   16 mantissas and 16 powers, flat; ``stride`` is the numbers a place
                               has, 2 for each part
    least[index, value, node]  the smallest values, as in ``prefix.py`` with min for +
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.prefix import (
    AHEAD,
    FANOUT,
    LEVELS_MAX,
    LOW,
    NO_VALUE,
    PREFIX,
    RIGHT,
    SHIFT,
    room_of,
    set_levels,
)
from cepheid.kernels.ring import LIMIT, SHRINK, STEP, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

NOTHING, EVERYTHING = -1e300, 1e300
"""The powers of zero, and of infinities and NaN: below and above all others."""


@kernel(inline="code", borrows=True)
def _factor(power, top):
    """Compute the factor of a mantissa; two steps down, it is below the last digit."""
    return 1.0 if power == top else (SHRINK if power == top - STEP else 0.0)


@kernel(inline="code", borrows=True)
def _settle(m, top):
    """Normalise a sum to a mantissa below LIMIT."""
    large = abs(m) >= LIMIT
    m, top = (m * SHRINK if large else m), (top + STEP if large else top)
    return m, (NOTHING if m == 0.0 else top)


@kernel(inline="code", borrows=True)
def plus(m, k, n, l):  # noqa: E741
    """Compute m 2^k + n 2^l without branches, which would be unpredictable."""
    top = max(k, l)
    return _settle(m * _factor(k, top) + n * _factor(l, top), top)


@kernel(inline="code", borrows=True)
def _is_negligible(m, k, other, limit):
    """Check whether m 2^k times another number is below a limit; nothing is below zero."""
    higher = k + other.imag + STEP - limit.imag
    scale = 1.0 if higher == 0.0 else (LIMIT if higher > 0.0 else SHRINK)
    scale = 0.0 if higher < -STEP else (math.inf if higher > STEP else scale)
    return limit.real > 0.0 and m * SHRINK * other.real * scale < limit.real


@kernel(borrows=True)
def _times(weight, count, power):
    """Multiply a value by a number of matches."""
    if not math.isfinite(weight):
        return weight, EVERYTHING
    number = widen(weight, 0.0)
    number = widen(number.real * count, number.imag + power)
    return number.real, number.imag


@kernel(inline="code", borrows=True)
def enter_wide(tree, at, stride, starts, levels, place, m, k):
    """Add m 2^k to the sums right of a place.

    Sums may exceed LIMIT: 2^100 of them still fit a double, and look-ups normalise them.
    """
    for level in range(levels):
        # Read from memory, or the compiler would unroll the loop instead of using vectors.
        width = np.uint64(starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1])
        base = np.uint64(at + stride * (starts[level] + (place & ~LOW)))
        above, right = base + np.uint64(FANOUT), np.uint64((place & LOW) * FANOUT)
        for j in range(width):
            is_right = RIGHT[right + j] > 0.0
            amount, mine = (m if is_right else 0.0), (k if is_right else NOTHING)
            theirs = tree[above + j]
            higher = theirs - mine
            old = 1.0 if higher >= 0.0 else (SHRINK if higher == -STEP else 0.0)
            new = 1.0 if higher <= 0.0 else (SHRINK if higher == STEP else 0.0)
            tree[base + j] = tree[base + j] * old + amount * new
            tree[above + j] = mine if higher < 0.0 else theirs + 0.0
        place >>= SHIFT


@enter_wide.interpreted
def _(tree, at, stride, starts, levels, place, m, k):
    for level in range(levels):
        width = starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1]
        base = at + stride * (starts[level] + (place & ~LOW))
        # Numbers to the left keep what they have: nothing is added to them.
        first = (place & LOW) + 1
        place >>= SHIFT
        if first >= width:
            continue
        mantissas = tree[base + first : base + width]
        powers = tree[base + FANOUT + first : base + FANOUT + width]
        # Sums to the right contain those to the left, so powers never fall.
        if powers[0] == k == powers[-1]:
            mantissas += m
        elif powers[-1] == NOTHING:
            mantissas[:], powers[:] = m, k
        else:
            higher = powers - k
            mantissas *= np.where(higher >= 0.0, 1.0, np.where(higher == -STEP, SHRINK, 0.0))
            mantissas += m * np.where(higher <= 0.0, 1.0, np.where(higher == STEP, SHRINK, 0.0))
            np.maximum(powers, k, out=powers)


@kernel(inline="code", borrows=True)
def look_up_wide(tree, at, stride, starts, levels, upto, m, k):
    """Add the sum of all amounts at places below a bound to a number."""
    top, place = k, upto
    for level in range(levels):
        node = at + stride * (starts[level] + (place & ~LOW)) + (place & LOW)
        top = max(top, tree[node + FANOUT])
        place >>= SHIFT
    total = m * _factor(k, top)
    for level in range(levels):
        node = at + stride * (starts[level] + (upto & ~LOW)) + (upto & LOW)
        total += tree[node] * _factor(tree[node + FANOUT], top)
        upto >>= SHIFT
    return _settle(total, top)


@kernel(inline="code", borrows=True)
def _enter_least(tree, at, starts, levels, place, value):
    for level in range(levels):
        base = at + starts[level] + (place & ~LOW)
        for j in range(base + (place & LOW) + 1, base + FANOUT):
            tree[j] = min(tree[j], value)
        place >>= SHIFT


@kernel(inline="code", borrows=True)
def _look_up_least(tree, at, starts, levels, upto):
    least = NO_VALUE
    for level in range(levels):
        least = min(least, tree[at + starts[level] + upto])
        upto >>= SHIFT
    return least


@kernel(inline="source", borrows=True)
def _gather_sum(G, D, tree, room, sums, starts, levels, row, q, a, parts):
    """Sum one part of the matches that a row may follow."""
    m, k, stride = 0.0, NOTHING, 2 * parts
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.query_ptr[edge] == G.query_ptr[edge + 1]:
            source = G.source[edge]
            m, k = plus(m, k, sums[source, a, 0], sums[source, a, 1])
        for n in range(G.query_ptr[edge], G.query_ptr[edge + 1]):
            upto = D.upto[G.query[n], row]
            if upto < 0:
                continue
            index = G.query_index[n]
            at = index * stride * room + a * 2 * FANOUT
            if G.index_kind[index] == PREFIX:
                m, k = look_up_wide(tree, at, stride, starts, levels, upto, m, k)
            else:
                node = at + stride * (upto & ~LOW) + (upto & LOW)
                m, k = plus(m, k, tree[node], tree[node + FANOUT])
    return m, k


@kernel(inline="source", borrows=True)
def _gather_least(G, D, least, room, smallest, starts, levels, row, q, a, mins):
    """Find the minimum value of the matches that a row may follow."""
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


@kernel(inline="source", borrows=True)
def _enter_row(G, D, tree, least, room, sums, smallest, starts, levels, row, q, held, held_least):
    """Make a row visible to later rows and to the result."""
    states, parts, mins = G.variable.shape[0], sums.shape[1], smallest.shape[1]
    stride = 2 * parts
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
            at = index * stride * room + a * 2 * FANOUT
            if prefix:
                enter_wide(tree, at, stride, starts, levels, place, m, k)
            else:
                node = at + stride * (place & ~LOW) + (place & LOW)
                tree[node], tree[node + FANOUT] = plus(tree[node], tree[node + FANOUT], m, k)
        for a in range(mins):
            at = (index * mins + a) * room
            if prefix:
                _enter_least(least, at, starts, levels, place, held_least[a])
            else:
                least[at + place] = min(least[at + place], held_least[a])


@kernel(borrows=True)
def aggregate_wide(
    G, D, tree, least, room, sums, smallest, held, held_least, starts, begin, end, limit, kept
):
    """Aggregate a segment; rows of one time see only the rows before that time.

    ``sums`` and ``smallest`` (states + 1, ...) end with the result; ``held`` and ``held_least`` are
    buffers for one time. O(log n / 4) per event, state, query and part.
    """
    levels = set_levels(end - begin, starts)
    states, parts, mins = G.variable.shape[0], sums.shape[1], smallest.shape[1]
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
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
                        if limit.real > 0.0 and _is_negligible(m, k, D.others[row, q], limit):
                            m, k = 0.0, NOTHING
                        count, power = m, k
                    elif D.weight_of[variable, a] >= 0:
                        weight = D.weights[D.weight_of[variable, a], row]
                        if weight != 0.0 and count != 0.0:
                            mine, above = _times(weight, count, power)
                            m, k = plus(m, k, mine, above)
                    held[row - i, q, a, 0], held[row - i, q, a, 1] = m, k
                if kept.shape[0] and count != 0.0:
                    kept[row, q] = complex(count, power)
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


@kernel(inline="code", borrows=True)
def _ask_for(tree, stride, starts, place, upto):
    """Prefetch the two lowest blocks of a place, and numbers; higher blocks are always cached."""
    leaf, block = stride * (place & ~LOW), stride * (starts[1] + (place >> SHIFT & ~LOW))
    for n in range(0, stride * FANOUT, 8):
        prefetch(tree, leaf + n)
        prefetch(tree, block + n)
    if upto > 0:
        above = upto >> SHIFT
        leaf = stride * (upto & ~LOW) + (upto & LOW)
        block = stride * (starts[1] + (above & ~LOW)) + (above & LOW)
        for n in range(0, stride * FANOUT, FANOUT):
            prefetch(tree, leaf + n)
            prefetch(tree, block + n)


@kernel(inline="code", borrows=True)
def _ask_for_least(tree, at, starts, place, upto):
    """Prefetch the two lowest nodes of a place, and values."""
    leaf, node = at + (place & ~LOW), at + starts[1] + (place >> SHIFT & ~LOW)
    for n in range(0, FANOUT, 8):
        prefetch(tree, leaf + n)
        prefetch(tree, node + n)
    if upto > 0:
        prefetch(tree, at + upto)
        prefetch(tree, at + starts[1] + (upto >> SHIFT))


@kernel(inline="source", borrows=True)
def _chain_row(D, variable, tree, least, room, starts, levels, row, upto, held, held_least):
    """Aggregate the matches that end with a row of a chain."""
    count, power, stride = 0.0, NOTHING, 2 * held.shape[0]
    for a in range(held.shape[0]):
        m, k = 0.0, NOTHING
        if upto > 0:
            m, k = look_up_wide(tree, a * 2 * FANOUT, stride, starts, levels, upto, m, k)
        if a == 0:
            m, k = plus(m, k, 1.0, 0.0)
            count, power = m, k
        elif D.weight_of[variable, a] >= 0:
            weight = D.weights[D.weight_of[variable, a], row]
            if weight != 0.0:
                mine, above = _times(weight, count, power)
                m, k = plus(m, k, mine, above)
        held[a, 0], held[a, 1] = m, k
    for a in range(held_least.shape[0]):
        value = NO_VALUE
        if upto > 0:
            value = _look_up_least(least, a * room, starts, levels, upto)
        if D.value_of[variable, a] >= 0:
            value = min(value, D.values[D.value_of[variable, a], row])
        held_least[a] = value


@kernel(borrows=True)
def aggregate_chain(
    D, variable, tree, least, room, sums, smallest, held, held_least, starts, begin, end, limit,
    kept,
):  # fmt: skip
    """Aggregate a segment where the pattern is one variable with Kleene plus, ``S+``.

    It equals ``aggregate_wide`` without loops over states and edges, and asks for memory ahead.
    """
    levels = set_levels(end - begin, starts)
    parts, mins = sums.shape[0], smallest.shape[0]
    place, upto, order, others = D.place[0], D.upto[0], D.order, D.others
    limited = limit.real > 0.0
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        if i + AHEAD < end:
            _ask_for(tree, 2 * parts, starts, place[i + AHEAD], upto[i + AHEAD])
            for a in range(mins):
                _ask_for_least(least, a * room, starts, place[i + AHEAD], upto[i + AHEAD])
        j = i
        while j < end and order[j] == order[i]:
            mine, mine_least = held[j - i, 0], held_least[j - i, 0]
            _chain_row(D, variable, tree, least, room, starts, levels, j, upto[j], mine, mine_least)
            if limited and _is_negligible(mine[0, 0], mine[0, 1], others[j, 0], limit):
                mine[0, 0], mine[0, 1] = 0.0, NOTHING
            if kept.shape[0]:
                kept[j, 0] = complex(mine[0, 0], mine[0, 1])
            for a in range(parts):
                sums[a, 0], sums[a, 1] = plus(sums[a, 0], sums[a, 1], mine[a, 0], mine[a, 1])
            for a in range(mins):
                smallest[a] = min(smallest[a], mine_least[a])
            j += 1
        for row in range(i, j):
            if place[row] < 0 or held[row - i, 0, 0, 0] == 0.0:
                continue
            for a in range(parts):
                m, k = held[row - i, 0, a, 0], held[row - i, 0, a, 1]
                enter_wide(tree, a * 2 * FANOUT, 2 * parts, starts, levels, place[row], m, k)
            for a in range(mins):
                value = held_least[row - i, 0, a]
                _enter_least(least, a * room, starts, levels, place[row], value)
        i = j


@kernel(borrows=True)
def _clear(tree, indexes, stride, room, used):
    """Empty the used blocks of every tree."""
    for n in range(indexes):
        at = stride * n * room
        for base in range(at, at + stride * used, 2 * FANOUT):
            tree[base : base + FANOUT] = 0.0
            tree[base + FANOUT : base + 2 * FANOUT] = NOTHING


@kernel(shortcut="prefix_arrays")
def run_wide(
    G, D, chain, tree, least, room, sums, smallest, held, held_least, first, numbers, values, kept
):
    """Aggregate all segments from one on.

    ``chain`` is true if the pattern is one variable with Kleene plus, and its edge a prefix.
    ``kept`` gets the matches that end with each row in each state, unless it has no rows. Rows are
    left out whose count, times that in ``D.others``, is below ``D.negligible`` of their segment.
    """
    states, parts, mins = G.variable.shape[0], numbers.shape[1], values.shape[1]
    indexes = G.index_kind.shape[0]
    starts = np.zeros(LEVELS_MAX + 2, np.int64)
    for segment in range(first, D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        limit = D.negligible[segment] if D.negligible.shape[0] else 0j
        used = room_of(end - begin)
        _clear(tree, indexes, 2 * parts, room, used)
        for n in range(indexes * mins):
            least[n * room : n * room + used] = NO_VALUE
        sums[:, :, 0] = 0.0
        sums[:, :, 1] = NOTHING
        smallest[:] = NO_VALUE
        if chain:
            aggregate_chain(
                D, G.variable[0], tree, least, room, sums[states], smallest[states], held,
                held_least, starts, begin, end, limit, kept,
            )  # fmt: skip
        else:
            aggregate_wide(
                G, D, tree, least, room, sums, smallest, held, held_least, starts, begin, end,
                limit, kept,
            )  # fmt: skip
        for a in range(parts):
            if sums[states, a, 0] != 0.0:
                numbers[segment, a] = widen(sums[states, a, 0], sums[states, a, 1])
        for a in range(mins):
            values[segment, a] = smallest[states, a]
