"""Sums and minima by prefix sums over ranks in plain doubles, for one variable with Kleene plus.

As ``aggregate_chain`` of ``prefix_wide.py``, and with its additions in its order, so its bits.
But numbers have no powers of their own: one match is UNIT, and a segment whose counts reach LARGE
is left to wide numbers. Values are between 2^-300 and 2^100, so neither products nor sums leave the
range of doubles.

    tree[block, part]   16 numbers, flat; ``parts`` numbers for each place
    least[value, node]  the smallest values, as in ``prefix.py`` with min for +
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.prefix import (
    AHEAD,
    FANOUT,
    LEVELS_MAX,
    LOW,
    NO_VALUE,
    RIGHT,
    SHIFT,
    room_of,
    set_levels,
    shifted,
)
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

UNIT, POWER, LARGE = 2.0**-600, 600.0, 2.0**850


@kernel(inline="code", borrows=True)
def _enter(tree, parts, starts, levels, place, held, at):
    """Add the amounts of a row to the sums right of a place."""
    for level in range(levels):
        # Read from memory, or the compiler would unroll the loop instead of using vectors.
        width = np.uint64(starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1])
        right = np.uint64((place & LOW) * FANOUT)
        base = parts * (starts[level] + (place & ~LOW))
        for a in range(parts):
            node, amount = np.uint64(base + a * FANOUT), held[at + a]
            for j in range(width):
                tree[node + j] += amount * RIGHT[right + j]
        place >>= SHIFT


@kernel(inline="code", borrows=True)
def _enter_least(least, at, starts, levels, place, value):
    """Lower the values right of a place."""
    for level in range(levels):
        width = np.uint64(starts[LEVELS_MAX if level + 1 < levels else LEVELS_MAX + 1])
        right = np.uint64((place & LOW) * FANOUT)
        node = np.uint64(at + starts[level] + (place & ~LOW))
        for j in range(width):
            mine = value if RIGHT[right + j] > 0.0 else NO_VALUE
            least[node + j] = min(least[node + j], mine)
        place >>= SHIFT


@kernel(inline="code", borrows=True)
def _look_up(tree, parts, a, starts, levels, upto):
    """Sum one part of all amounts at places below a number."""
    total = 0.0
    for level in range(levels):
        total += tree[parts * (starts[level] + (upto & ~LOW)) + a * FANOUT + (upto & LOW)]
        upto >>= SHIFT
    return total


@kernel(inline="code", borrows=True)
def _look_up_least(least, at, starts, levels, upto):
    found = NO_VALUE
    for level in range(levels):
        found = min(found, least[at + starts[level] + upto])
        upto >>= SHIFT
    return found


@kernel(inline="code", borrows=True)
def _ask_for(tree, least, parts, mins, room, starts, place, upto):
    """Prefetch the two lowest blocks of a place, and numbers; higher blocks are always cached."""
    above, over = place >> SHIFT, upto >> SHIFT
    leaf, block = parts * (place & ~LOW), parts * (starts[1] + (above & ~LOW))
    for n in range(0, parts * FANOUT, 8):
        prefetch(tree, leaf + n)
        prefetch(tree, block + n)
    for a in range(mins):
        for n in range(0, FANOUT, 8):
            prefetch(least, a * room + (place & ~LOW) + n)
            prefetch(least, a * room + starts[1] + (above & ~LOW) + n)
    if upto > 0:
        for a in range(parts):
            prefetch(tree, parts * (upto & ~LOW) + a * FANOUT + (upto & LOW))
            prefetch(tree, parts * (starts[1] + (over & ~LOW)) + a * FANOUT + (over & LOW))
        for a in range(mins):
            prefetch(least, a * room + upto)
            prefetch(least, a * room + starts[1] + over)


@kernel(borrows=True)
def _aggregate(
    place, upto, order, weights, weight_of, values, value_of, tree, least, room, sums, smallest,
    held, held_least, starts, begin, end,
):  # fmt: skip
    """Aggregate a segment; return whether doubles suffice."""
    levels = set_levels(end - begin, starts)
    parts, mins = sums.shape[0], smallest.shape[0]
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        if i + AHEAD < end:
            _ask_for(
                tree, least, parts, mins, room, starts, place[i + AHEAD], upto[i + AHEAD]
            )  # fmt: skip
        j = i
        while j < end and order[j] == order[i]:
            at, low = (j - i) * parts, (j - i) * mins
            below = np.int64(upto[j])
            count = UNIT
            if below > 0:
                count = _look_up(tree, parts, 0, starts, levels, below) + UNIT
            if count >= LARGE:
                return False
            held[at] = count
            sums[0] += count
            for a in range(1, parts):
                total, column = 0.0, weight_of[a]
                if below > 0:
                    total = _look_up(tree, parts, a, starts, levels, below)
                if column >= 0:
                    total += weights[column, j] * count
                held[at + a] = total
                sums[a] += total
            for a in range(mins):
                value = values[value_of[a], j] if value_of[a] >= 0 else NO_VALUE
                if below > 0:
                    value = min(
                        value, _look_up_least(least, a * room, starts, levels, below)
                    )  # fmt: skip
                held_least[low + a] = value
                smallest[a] = min(smallest[a], value)
            j += 1
        for row in range(i, j):
            if place[row] < 0:
                continue
            at = (row - i) * parts
            _enter(tree, parts, starts, levels, np.int64(place[row]), held, at)
            for a in range(mins):
                value = held_least[(row - i) * mins + a]
                _enter_least(least, a * room, starts, levels, np.int64(place[row]), value)
        i = j
    return True


@kernel()
def run_plain(D, variable, tree, least, room, held, held_least, numbers, values):
    """Aggregate segments from the first one on, while doubles suffice; return how many."""
    parts, mins = numbers.shape[1], values.shape[1]
    starts = np.zeros(LEVELS_MAX + 2, np.int64)
    sums, smallest = np.zeros(parts), np.zeros(mins, np.int64)
    place, upto, order, weights, own = D.place[0], D.upto[0], D.order, D.weights, D.values
    weight_of, value_of = D.weight_of[variable], D.value_of[variable]
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        used = room_of(end - begin)
        tree[: parts * used] = 0.0
        for a in range(mins):
            least[a * room : a * room + used] = NO_VALUE
        sums[:] = 0.0
        smallest[:] = NO_VALUE
        if not _aggregate(
            place, upto, order, weights, weight_of, own, value_of, tree, least, room, sums,
            smallest, held, held_least, starts, begin, end,
        ):  # fmt: skip
            return segment
        for a in range(parts):
            numbers[segment, a] = shifted(sums[a], POWER)
        values[segment] = smallest
    return D.segment_ptr.shape[0] - 1
