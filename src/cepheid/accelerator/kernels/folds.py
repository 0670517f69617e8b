"""Fold the values of events into slots: all sums, minima and maxima of a query in one pass.

A block takes neighbouring events, and neighbouring threads read neighbouring ones. A thread adds
what its events share a slot with before it touches memory: events in time order of few groups come
in long runs. Minima and maxima are whole numbers, or the bits of doubles as numbers in the same
order.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.columns import order_key

NO_LEAST = np.iinfo(np.int64).max
NO_LARGEST = np.iinfo(np.int64).min
NO_SLOT = -1


@functools.cache
def fold_kernel(
    sums: int, wholes: int, leasts: int, largests: int, threads: int, items: int
) -> Any:
    """Build the kernel for a number of folds of each kind.

    Parameters of the kernel
    ------------------------
    slots
        (event,) the slot of every event, -1 for none.
    whole, doubles
        (column, event) the columns as whole numbers and as doubles; both are the same memory.
    places
        (4, fold) the columns of sums of doubles and of whole numbers, of minima and of maxima.
    bits
        (2, fold) whether the values of minima and of maxima are doubles.
    counts
        (slot,) the number of events.
    out_sums, out_whole, out_low, out_high
        (fold, slot) the results.
    """
    room = [max(count, 1) for count in (sums, wholes, leasts, largests)]
    room_sums, room_wholes, room_leasts, room_largests = room

    @cuda.jit
    def kernel(
        slots, whole, doubles, places, bits, counts, out_sums, out_whole, out_low, out_high
    ):  # fmt: skip
        total = cuda.local.array(room_sums, float64)
        exact = cuda.local.array(room_wholes, int64)
        least = cuda.local.array(room_leasts, int64)
        largest = cuda.local.array(room_largests, int64)
        first = int64(cuda.blockIdx.x) * (threads * items) + cuda.threadIdx.x
        slot, count = int64(NO_SLOT), int64(0)
        for step in range(items + 1):
            i = first + step * threads
            now = int64(NO_SLOT)
            if step < items and i < slots.shape[0]:
                now = int64(slots[i])
            if now != slot:
                if slot >= 0:
                    cuda.atomic.add(counts, slot, count)
                    for k in range(sums):
                        cuda.atomic.add(out_sums, (k, slot), total[k])
                    for k in range(wholes):
                        cuda.atomic.add(out_whole, (k, slot), exact[k])
                    for k in range(leasts):
                        cuda.atomic.min(out_low, (k, slot), least[k])
                    for k in range(largests):
                        cuda.atomic.max(out_high, (k, slot), largest[k])
                slot, count = now, int64(0)
                for k in range(sums):
                    total[k] = 0.0
                for k in range(wholes):
                    exact[k] = 0
                for k in range(leasts):
                    least[k] = NO_LEAST
                for k in range(largests):
                    largest[k] = NO_LARGEST
            if slot >= 0:
                count += 1
                for k in range(sums):
                    total[k] += doubles[places[0, k], i]
                for k in range(wholes):
                    exact[k] += whole[places[1, k], i]
                for k in range(leasts):
                    value = whole[places[2, k], i]
                    least[k] = min(least[k], order_key(value) if bits[0, k] else value)
                for k in range(largests):
                    value = whole[places[3, k], i]
                    largest[k] = max(largest[k], order_key(value) if bits[1, k] else value)

    return kernel
