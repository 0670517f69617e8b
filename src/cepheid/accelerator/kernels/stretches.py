"""Mark where stretches begin: runs of a partition's events that satisfy the same conditions.

Events come by partition, in time order; ``order`` has the row of each. ``kernels/stretches.py`` of
the CPU does the same event by event, and tells what a stretch and a point are. Here each event
finds out for itself: bisection in a list of first events finds the run that it is in, and bisection
in a list of points the last one before it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, int64


@functools.cache
def bit_kernel(predicate: Callable[..., Any]) -> Any:
    """Build the kernel that sets a bit of every event for which a condition is true."""
    fits = cuda.jit(device=True)(predicate)

    @cuda.jit
    def kernel(columns, order, number, bits):
        step = cuda.gridDim.x * cuda.blockDim.x
        for p in range(cuda.grid(1), order.shape[0], step):
            if fits(columns, order[p]):
                bits[p] |= int64(1) << number

    return kernel


@cuda.jit
def mark(places, flags):
    """Set the flags of some places."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for k in range(cuda.grid(1), places.shape[0], step):
        flags[places[k]] = 1


@cuda.jit
def mark_changes(bits, heads, points):
    """Mark the first event of each partition, and events with other conditions than before."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for p in range(cuda.grid(1), bits.shape[0], step):
        points[p] = 1 if heads[p] != 0 or bits[p] != bits[p - 1] else 0


@cuda.jit
def mark_runs(bits, heads, number, runs):
    """Mark the first event of each run of a condition."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for p in range(cuda.grid(1), bits.shape[0], step):
        here = bits[p] >> number & 1
        before = 0 if heads[p] != 0 else bits[p - 1] >> number & 1
        runs[p] = 1 if here == 1 and before == 0 else 0


@cuda.jit(device=True)
def last_until(places, p):
    """Find the number of the last of ascending places that is not after one; -1 for none."""
    low, high = 0, places.shape[0]
    while low < high:
        middle = (low + high) // 2
        if places[middle] <= p:
            low = middle + 1
        else:
            high = middle
    return low - 1


@cuda.jit
def mark_lasting(bits, heads, order, times, number, duration, events, runs, points):
    """Mark where runs of a condition have lasted long enough; ``runs`` has their first events.

    A run that a partition begins with may have begun before, so all its events count until then.
    """
    step = cuda.gridDim.x * cuda.blockDim.x
    for p in range(cuda.grid(1), bits.shape[0], step):
        if bits[p] >> number & 1 == 0:
            continue
        first = runs[last_until(runs, p)]
        if p == first:
            continue
        begun = times[order[first]]
        long = times[order[p]] - begun >= duration and p - first + 1 >= events
        before = p - 1 > first and times[order[p - 1]] - begun >= duration and p - first >= events
        if not before and (long or heads[first] != 0):
            points[p] = 1


@cuda.jit
def mark_splits(order, times, heads, points, begins):
    """Mark the events after the time of a point, up to the next change of time."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for p in range(cuda.grid(1), order.shape[0], step):
        if heads[p] != 0 or begins[p] != 0:
            continue
        before = times[order[p - 1]]
        if times[order[p]] > before:
            latest = points[last_until(points, p - 1)]
            if times[order[latest]] == before:
                begins[p] = 1


@cuda.jit
def number_stretches(begins, order, bits, needed, ranks, slots):
    """Write for every row the number of its stretch if its aggregates are needed, else -1."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for p in range(cuda.grid(1), order.shape[0], step):
        stretch = ranks[last_until(begins, p)]
        slots[order[p]] = stretch if bits[p] & needed != 0 else np.int64(-1)
