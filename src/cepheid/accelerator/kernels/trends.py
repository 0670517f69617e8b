"""Trends of one variable under Kleene plus, with comparisons between neighbours.

    count[i] = 1 + sum of count[j] over earlier events j of the segment that i may follow
    sum[i]   = weight[i] * count[i] + sum of sum[j] over the same events

A block of threads processes a segment (a key in a window) in tiles, one thread for each event. A
thread adds up the events of earlier tiles, read through shared memory, then the events of its own
tile one after the other. Every number is wide; while exponents agree, only mantissas are added.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from cepheid.accelerator.kernels.wide import add, mul, widen

NO_VALUE = np.iinfo(np.int64).max
LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL = range(6)


FUNCTIONS = {
    LESS: lambda a, b: a < b,
    LESS_EQUAL: lambda a, b: a <= b,
    GREATER: lambda a, b: a > b,
    GREATER_EQUAL: lambda a, b: a >= b,
    EQUAL: lambda a, b: a == b,
    UNEQUAL: lambda a, b: a != b,
}


def comparing(operators: tuple[int, ...], first: int = 0) -> Any:
    """Build a function that compares the keys of an earlier and a later event, pair by pair."""
    holds = cuda.jit(device=True)(FUNCTIONS[operators[first]])
    if first + 1 == len(operators):
        return cuda.jit(device=True)(lambda keys, k, own: holds(keys[first, k], own[first]))
    rest = comparing(operators, first + 1)

    @cuda.jit(device=True)
    def all_hold(keys, k, own):
        return holds(keys[first, k], own[first]) and rest(keys, k, own)

    return all_hold


def gathering(parts: int) -> Any:
    """Build a function that adds the numbers of an event in shared memory to a thread's own."""

    @cuda.jit(device=True)
    def gather(m, x, there, powers, k):
        for a in range(parts):
            y, up = there[a, k], powers[a, k]
            if up == x[a]:
                m[a] += y
            elif y != 0.0:
                mantissa, power = widen(m[a], x[a])
                m[a], x[a] = add(mantissa, power, y, up)

    return gather


def entering(parts: int) -> Any:
    """Build a function that computes the event's numbers from the sums of its predecessors."""

    @cuda.jit(device=True)
    def enter(m, x, W, i):
        for a in range(parts):
            m[a], x[a] = widen(m[a], x[a])
        m[0], x[0] = add(m[0], x[0], 1.0, 0.0)
        for a in range(1, parts):
            weight, up = widen(W[a - 1, i], 0.0)
            weight, up = mul(weight, up, m[0], x[0])
            m[a], x[a] = add(m[a], x[a], weight, up)

    return enter


@functools.cache
def trend_kernel(operators: tuple[int, ...], parts: int, threads: int) -> Any:
    """Build the kernel.

    Parameters of the kernel
    ------------------------
    earlier, later
        (comparison, event) keys of every event as the earlier and as the later one of a pair.
    before
        The first event that an event may not follow: itself, or the first of its time.
    W
        (part, event) weights of the parts after the count.
    begins, ends, rooms
        (segments,) the events of a segment, which may overlap other segments; the offset of its
        numbers.
    numbers
        (row, part, 2) buffer of wide numbers, a row for each event of each segment.
    totals
        (segment, part, 2) the total of a segment.
    """
    fits, gather, enter = comparing(operators), gathering(parts), entering(parts)
    compared = len(operators)

    @cuda.jit
    def kernel(earlier, later, before, W, begins, ends, rooms, numbers, totals):
        keys = cuda.shared.array((compared, threads), int64)
        own = cuda.local.array(compared, int64)
        there = cuda.shared.array((parts, threads), float64)
        powers = cuda.shared.array((parts, threads), float64)
        m, x = cuda.local.array(parts, float64), cuda.local.array(parts, float64)
        total, power = cuda.local.array(parts, float64), cuda.local.array(parts, float64)
        me, segment = cuda.threadIdx.x, cuda.blockIdx.x
        begin, end = begins[segment], ends[segment]
        room = rooms[segment] - begin
        for a in range(parts):
            total[a], power[a] = 0.0, 0.0
        for first in range(begin, end, threads):
            i = first + me
            limit = int64(0)
            for c in range(compared):
                own[c] = 0
            if i < end:
                limit = before[i]
                for c in range(compared):
                    own[c] = later[c, i]
            for a in range(parts):
                m[a], x[a] = 0.0, 0.0
            for tile in range(begin, first, threads):
                for c in range(compared):
                    keys[c, me] = earlier[c, tile + me]
                for a in range(parts):
                    there[a, me] = numbers[room + tile + me, a, 0]
                    powers[a, me] = numbers[room + tile + me, a, 1]
                cuda.syncthreads()
                stop: Any = min(limit - tile, threads)
                for k in range(stop):
                    if fits(keys, k, own):
                        gather(m, x, there, powers, k)
                cuda.syncthreads()
            if i < end:
                for c in range(compared):
                    keys[c, me] = earlier[c, i]
            for k in range(min(end - first, threads)):
                if me == k:
                    enter(m, x, W, i)
                    for a in range(parts):
                        there[a, me], powers[a, me] = m[a], x[a]
                        numbers[room + i, a, 0], numbers[room + i, a, 1] = m[a], x[a]
                        total[a], power[a] = add(total[a], power[a], m[a], x[a])
                cuda.syncthreads()
                if me > k and first + k < limit and fits(keys, k, own):
                    gather(m, x, there, powers, k)
            cuda.syncthreads()
        for a in range(parts):
            there[a, me], powers[a, me] = total[a], power[a]
        cuda.syncthreads()
        for a in range(me, parts, threads):
            mantissa, up = 0.0, 0.0
            for k in range(threads):
                mantissa, up = add(mantissa, up, there[a, k], powers[a, k])
            totals[segment, a, 0], totals[segment, a, 1] = mantissa, up

    return kernel


@functools.cache
def least_kernel(threads: int) -> Any:
    """Build the kernel: a block finds the least of some values of a segment, or NO_VALUE.

    Parameters of the kernel
    ------------------------
    values, begins, ends
        (extreme, event) value keys; the events of a segment.
    out
        (segment, extreme) room for the least ones.
    """

    @cuda.jit
    def kernel(values, begins, ends, out):
        least = cuda.shared.array(threads, int64)
        me, segment, row = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockIdx.y
        smallest = int64(NO_VALUE)
        for i in range(begins[segment] + me, ends[segment], threads):
            smallest = min(smallest, values[row, i])
        least[me] = smallest
        cuda.syncthreads()
        step = threads // 2
        while step > 0:
            if me < step:
                least[me] = min(least[me], least[me + step])
            cuda.syncthreads()
            step //= 2
        if me == 0:
            out[segment, row] = least[0]

    return kernel
