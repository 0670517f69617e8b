"""Skip-till-next-match of one variable whose value rises or falls, where no events are tied.

As ``next_chain.py``, and with its sums in its order, but values are compared themselves, so nothing
is ranked, and aggregates stay on the stack of pending rows while they can still be taken. Every
match that waits is taken once, so counts are whole numbers below the number of events, and plain
doubles are exact.

    pending[n]      the values on the stack, which never fall from bottom to top
    held[n, part]   the aggregates of the matches that end with each of them
"""

from __future__ import annotations

from cepheid.kernels.prefix import NO_VALUE
from cepheid.kernels.ring import widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel


@kernel(inline="code")
def _sum_of(held, pending, low, top, a, rises):
    """Add up a part of the rows [low, top), in the order of their values, then of their times."""
    total = 0.0
    if not rises:
        for n in range(low, top):
            total += held[n, a]
        return total
    # The topmost row is the least; those of equal value are in the order in which they came.
    while top > low:
        group = top - 1
        while group > low and pending[group - 1] == pending[top - 1]:
            group -= 1
        for n in range(group, top):
            total += held[n, a]
        top = group
    return total


@kernel()
def run_stacks(
    segment_ptr, keys, valid, rises, takes_equal, weights, weight_of, values, value_of, pending,
    held, held_least, numbers, least,
):  # fmt: skip
    """Aggregate all segments; ``rises`` is true if a later value must be larger.

    ``valid`` tells which rows have a value; others begin matches that end at once. ``weight_of``
    and ``value_of`` are those of the variable. ``numbers`` and ``least`` get the results.
    """
    parts, mins = numbers.shape[1], least.shape[1]
    flip = -1 if rises else 0
    for segment in range(segment_ptr.shape[0] - 1):
        rounds, top = let_signals_in(segment), 0
        for row in range(segment_ptr[segment], segment_ptr[segment + 1]):
            rounds = let_signals_in(rounds)
            # Flipped, integers have the reverse order.
            key, low = keys[row] ^ flip, top
            if valid[row]:
                while low > 0 and pending[low - 1] > key:
                    low -= 1
                while takes_equal and low > 0 and pending[low - 1] == key:
                    low -= 1
            count = 1.0
            for n in range(low, top):
                count += held[n, 0]
            numbers[segment, 0] += count
            for a in range(1, parts):
                total, column = _sum_of(held, pending, low, top, a, rises), weight_of[a]
                if column >= 0:
                    total += weights[column, row] * count
                numbers[segment, a] += total
                held[low, a] = total
            for a in range(mins):
                mine = values[value_of[a], row] if value_of[a] >= 0 else NO_VALUE
                for n in range(low, top):
                    mine = min(mine, held_least[n, a])
                least[segment, a] = min(least[segment, a], mine)
                held_least[low, a] = mine
            top = low
            if valid[row]:
                pending[top], held[top, 0] = key, count
                top += 1


@kernel()
def widen_all(doubles, numbers):
    """Convert doubles to wide numbers."""
    for segment in range(doubles.shape[0]):
        for a in range(doubles.shape[1]):
            numbers[segment, a] = widen(doubles[segment, a], 0.0)
