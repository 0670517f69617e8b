"""Aggregate windows that end with any event: each is a product of few matrices of a tree.

Chunks of events have a matrix each, and so have groups of chunks, and groups of these. A window is
a range of events: single events up to a chunk, then the largest groups that fit, then single events
again. A thread pushes the empty match through them, in wide numbers, so a window of n events takes
O(chunk + fanout log n) steps, whatever other windows do.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.wide import add, mul, widen

NO_VALUE = np.iinfo(np.int64).max


@functools.cache
def event_step(dimension: int, parts: int, mins: int) -> Any:
    """Build a function that pushes a vector through one event; see ``systems.py`` for the rule."""

    @cuda.jit(device=True)
    def step(kept, gained, weighs, picks, code, W, X, i, v, low, m, least):
        for q in range(dimension):
            inc, power = 0.0, 0.0
            for r in range(dimension):
                if gained[0, code, q, r] != 0.0:
                    inc, power = add(inc, power, v[0, 0, r], v[1, 0, r])
            for a in range(parts):
                total, high = 0.0, 0.0
                if a == 0:
                    total, high = inc, power
                elif weighs[0, a, q] != 0.0 and inc != 0.0:
                    weight, up = widen(W[a - 1, i], 0.0)
                    total, high = mul(weight, up, inc, power)
                for r in range(dimension):
                    if kept[0, code, q, r] != 0.0:
                        total, high = add(total, high, v[0, a, r], v[1, a, r])
                    if a > 0 and gained[0, code, q, r] != 0.0:
                        total, high = add(total, high, v[0, a, r], v[1, a, r])
                m[0, a, q], m[1, a, q] = total, high
            for a in range(mins):
                smallest = X[a, i] if picks[0, a, q] != 0.0 and inc != 0.0 else NO_VALUE
                for r in range(dimension):
                    if kept[0, code, q, r] != 0.0 or gained[0, code, q, r] != 0.0:
                        smallest = min(smallest, low[a, r])
                least[a, q] = smallest

    return step


@functools.cache
def matrix_step(dimension: int, parts: int, mins: int) -> Any:
    """Build a function that pushes a vector through one matrix."""

    @cuda.jit(device=True)
    def step(numbers, values, row, v, low, m, least):
        for q in range(dimension):
            for a in range(parts):
                m[0, a, q], m[1, a, q] = 0.0, 0.0
            for a in range(mins):
                least[a, q] = NO_VALUE
            for r in range(dimension):
                count, power = numbers[row, q, 0, r, 0], numbers[row, q, 0, r, 1]
                if count == 0.0 or v[0, 0, r] == 0.0:
                    continue
                x, up = mul(v[0, 0, r], v[1, 0, r], count, power)
                m[0, 0, q], m[1, 0, q] = add(m[0, 0, q], m[1, 0, q], x, up)
                for a in range(1, parts):
                    x, up = mul(v[0, a, r], v[1, a, r], count, power)
                    m[0, a, q], m[1, a, q] = add(m[0, a, q], m[1, a, q], x, up)
                    x, up = mul(
                        v[0, 0, r], v[1, 0, r], numbers[row, q, a, r, 0], numbers[row, q, a, r, 1]
                    )
                    m[0, a, q], m[1, a, q] = add(m[0, a, q], m[1, a, q], x, up)
                for a in range(mins):
                    least[a, q] = min(least[a, q], min(low[a, r], values[row, q, a, r]))

    return step


@cuda.jit(device=True)
def first_after(times, low, high, since):
    """Find the first event from ``low`` to ``high`` that is later than a time; the last one is."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] > since:
            high = middle
        else:
            low = middle + 1
    return low


@functools.cache
def trailing_kernel(dimension: int, starts: int, parts: int, mins: int) -> Any:
    """Build the kernel: a thread computes one window.

    Parameters of the kernel
    ------------------------
    kept, gained, weighs, picks, codes, W, X
        The system and the events; see ``chunks.py``.
    counts
        (configuration,) whether matches in it count.
    times, first, within
        The times of events, where the events of their keys begin, and the length of windows.
    numbers, values, base, chunk, fanout
        The matrices of all levels, where each level begins, the events of a chunk, and the
        matrices of a group.
    ends
        The events with which windows end.
    out, least_out, ended
        Room for aggregates, and for whether a match ends with the last event.
    """
    slots = max(mins, 1)
    take_event = event_step(dimension, parts, mins)
    take_matrix = matrix_step(dimension, parts, mins)

    @cuda.jit
    def kernel(
        kept, gained, weighs, picks, codes, W, X, counts, times, first, within, numbers, values,
        base, chunk, fanout, ends, out, least_out, ended,
    ):  # fmt: skip
        place = cuda.grid(1)
        if place >= ends.shape[0]:
            return
        last = ends[place]
        at = first_after(times, first[last], last, times[last] - within)
        v = cuda.local.array((2, parts, dimension), float64)
        m = cuda.local.array((2, parts, dimension), float64)
        low = cuda.local.array((slots, dimension), int64)
        least = cuda.local.array((slots, dimension), int64)
        for q in range(dimension):
            for a in range(parts):
                m[0, a, q] = 1.0 if a == 0 and q == 0 else 0.0
                m[1, a, q] = 0.0
            for a in range(mins):
                least[a, q] = NO_VALUE
        while at <= last:
            for q in range(dimension):
                for a in range(parts):
                    v[0, a, q], v[1, a, q] = m[0, a, q], m[1, a, q]
                for a in range(mins):
                    low[a, q] = least[a, q]
            if at % chunk == 0 and at + chunk <= last:
                level, size = 0, chunk
                while (
                    level + 1 < base.shape[0]
                    and at % (size * fanout) == 0
                    and at + size * fanout <= last
                ):
                    level += 1
                    size *= fanout
                take_matrix(numbers, values, base[level] + at // size, v, low, m, least)
                at += size
            else:
                code = np.int32(codes[at])
                take_event(kept, gained, weighs, picks, code, W, X, at, v, low, m, least)
                at += 1
        code = np.int32(codes[last])
        found = False
        for q in range(starts, dimension):
            if counts[q - starts]:
                for r in range(dimension):
                    if gained[0, code, q, r] != 0.0 and v[0, 0, r] != 0.0:
                        found = True
        ended[place] = found
        for a in range(parts):
            total, high_part = 0.0, 0.0
            for q in range(starts, dimension):
                if counts[q - starts]:
                    total, high_part = add(total, high_part, m[0, a, q], m[1, a, q])
            out[place, a, 0], out[place, a, 1] = total, high_part
        for a in range(mins):
            smallest = NO_VALUE
            for q in range(starts, dimension):
                if counts[q - starts] and m[0, 0, q] != 0.0:
                    smallest = min(smallest, least[a, q])
            least_out[place, a] = smallest

    return kernel
