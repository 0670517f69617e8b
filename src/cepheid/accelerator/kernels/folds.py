"""Fold the values of events into slots: all sums, minima and maxima of a query in one pass.

A thread takes neighbouring events, and adds what they share a slot with before it touches memory;
events in time order of few groups come in long runs. Minima and maxima are whole numbers, or the
bits of doubles as numbers in the same order.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.columns import order_key

NO_LEAST = np.iinfo(np.int64).max
NO_LARGEST = np.iinfo(np.int64).min


@functools.cache
def fold_kernel(sums: int, wholes: int, leasts: int, largests: int, items: int) -> Any:
    """Build the kernel for a number of folds of each kind.

    Parameters of the kernel
    ------------------------
    slots
        (event,) the slot of every event.
    doubles, whole, low, high
        (fold, event) values to be summed, as doubles and as whole numbers, and to be compared.
    bits_low, bits_high
        (fold,) whether values to be compared are the bits of doubles.
    counts
        (slot,) the number of events.
    out_sums, out_whole, out_low, out_high
        (fold, slot) the results.
    """
    room = [max(count, 1) for count in (sums, wholes, leasts, largests)]
    room_sums, room_wholes, room_leasts, room_largests = room

    @cuda.jit
    def kernel(
        slots, doubles, whole, low, high, bits_low, bits_high, counts, out_sums, out_whole,
        out_low, out_high,
    ):  # fmt: skip
        total = cuda.local.array(room_sums, float64)
        exact = cuda.local.array(room_wholes, int64)
        least = cuda.local.array(room_leasts, int64)
        largest = cuda.local.array(room_largests, int64)
        first = cuda.grid(1) * items
        last = min(first + items, slots.shape[0])
        i = first
        while i < last:
            slot = slots[i]
            count = int64(0)
            for k in range(sums):
                total[k] = 0.0
            for k in range(wholes):
                exact[k] = 0
            for k in range(leasts):
                least[k] = NO_LEAST
            for k in range(largests):
                largest[k] = NO_LARGEST
            while i < last and slots[i] == slot:
                count += 1
                for k in range(sums):
                    total[k] += doubles[k, i]
                for k in range(wholes):
                    exact[k] += whole[k, i]
                for k in range(leasts):
                    value = order_key(low[k, i]) if bits_low[k] else low[k, i]
                    least[k] = min(least[k], value)
                for k in range(largests):
                    value = order_key(high[k, i]) if bits_high[k] else high[k, i]
                    largest[k] = max(largest[k], value)
                i += 1
            cuda.atomic.add(counts, slot, count)
            for k in range(sums):
                cuda.atomic.add(out_sums, (k, slot), total[k])
            for k in range(wholes):
                cuda.atomic.add(out_whole, (k, slot), exact[k])
            for k in range(leasts):
                cuda.atomic.min(out_low, (k, slot), least[k])
            for k in range(largests):
                cuda.atomic.max(out_high, (k, slot), largest[k])

    return kernel
