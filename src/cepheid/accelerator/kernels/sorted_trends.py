"""Trends where order is compared: ``kernels/trends.py`` in O(n log n) instead of O(n²).

    sum over earlier j with key[j] < key[i] of count[j]

is a prefix sum once the earlier events are sorted by their keys. A block of threads walks over the
tiles of its segment in time order. A tile is processed event by event; then it and its equally
long neighbours before it are merged to one sorted run, and the prefix sums of that run are added to
the events of the equally long run after it. So every event gets a sum from each of the runs that
its past consists of, about log2(tiles) of them.

Only order is compared, with ``<`` or ``<=``; for ``>`` and ``>=`` all keys are turned round. Every
number is wide.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float64, int64

from cepheid.accelerator.kernels.trends import (
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    entering,
    gathering,
)
from cepheid.accelerator.kernels.wide import add

ORDERED = frozenset({LESS, LESS_EQUAL, GREATER, GREATER_EQUAL})


def turning(operator: int) -> Any:
    """Build a function that turns a key round if the larger of two keys comes first."""
    if operator in (GREATER, GREATER_EQUAL):
        return cuda.jit(device=True)(lambda key: ~key)
    return cuda.jit(device=True)(lambda key: key)


def following(operator: int) -> Any:
    """Build a function that compares the turned keys of an earlier and a later event."""
    if operator in (LESS_EQUAL, GREATER_EQUAL):
        return cuda.jit(device=True)(lambda a, b: a <= b)
    return cuda.jit(device=True)(lambda a, b: a < b)


@cuda.jit(device=True)
def place_of(keys, level, low, high, key, inclusive):
    """Find the first key of a sorted run that is larger than a key, or not smaller than it."""
    first, last = low, high
    while first < last:
        middle = (first + last) // 2
        other = keys[level, middle]
        if other < key or (inclusive and other == key):
            first = middle + 1
        else:
            last = middle
    return first


@cuda.jit(device=True)
def sort_tile(own, count, me, first, keys, rows):
    """Write the keys of a tile, and the rows that they come from, in order."""
    if me < count:
        key, place = own[me], 0
        for k in range(count):
            if own[k] < key or (own[k] == key and k < me):
                place += 1
        keys[0, first + place], rows[0, first + place] = key, first + me


@cuda.jit(device=True)
def merge_runs(keys, rows, level, first, size, me, threads):
    """Merge two neighbouring runs of one size; levels take turns with the buffers."""
    here, there = level % 2, (level + 1) % 2
    middle, end = first + size, first + 2 * size
    for k in range(first + me, end, threads):
        key = keys[here, k]
        if k < middle:
            place = k + place_of(keys, here, middle, end, key, False) - middle
        else:
            place = k - middle + place_of(keys, here, first, middle, key, True)
        keys[there, place], rows[there, place] = key, rows[here, k]


def summing(parts: int, threads: int) -> Any:
    """Build a function that sums up a sorted run.

    A thread computes the prefix sums of its stretch; the sums of all stretches before and with
    that of a thread are in shared memory.
    """

    @cuda.jit(device=True)
    def sum_up(rows, here, first, size, me, numbers, sums, m, x, there, powers):
        stretch = max(size // threads, 1)
        low = first + me * stretch
        for a in range(parts):
            m[a], x[a] = 0.0, 0.0
        if low < first + size:
            for k in range(low, low + stretch):
                row = rows[here, k]
                for a in range(parts):
                    m[a], x[a] = add(m[a], x[a], numbers[row, a, 0], numbers[row, a, 1])
                    sums[k, a, 0], sums[k, a, 1] = m[a], x[a]
        for a in range(parts):
            there[a, me], powers[a, me] = m[a], x[a]
        step = 1
        while step < threads and step * stretch < size:
            cuda.syncthreads()
            if me >= step:
                for a in range(parts):
                    m[a], x[a] = add(m[a], x[a], there[a, me - step], powers[a, me - step])
            cuda.syncthreads()
            for a in range(parts):
                there[a, me], powers[a, me] = m[a], x[a]
            step *= 2

    return sum_up


def spreading(operator: int, parts: int, threads: int) -> Any:
    """Build a function that adds the sums of a sorted run to the events of the run after it."""
    turn, fits = turning(operator), following(operator)
    inclusive = operator in (LESS_EQUAL, GREATER_EQUAL)

    @cuda.jit(device=True)
    def spread(columns, keys, here, run, room, end, me, numbers, sums, m, x, there, powers):
        earlier, later, before = columns
        first, last = run
        stretch = max((last - first) // threads, 1)
        for i in range(last - room + me, end, threads):
            key, limit = turn(later[i]), before[i] + room
            for a in range(parts):
                m[a], x[a] = numbers[room + i, a, 0], numbers[room + i, a, 1]
            if limit >= last:
                place = place_of(keys, here, first, last, key, inclusive) - 1
                if place >= first:
                    for a in range(parts):
                        m[a], x[a] = add(m[a], x[a], sums[place, a, 0], sums[place, a, 1])
                    whole = (place - first) // stretch - 1
                    if whole >= 0:
                        for a in range(parts):
                            m[a], x[a] = add(m[a], x[a], there[a, whole], powers[a, whole])
            else:
                # Events of its time are in the run, too, and it may not follow them.
                for k in range(first, limit):
                    if fits(turn(earlier[k - room]), key):
                        for a in range(parts):
                            m[a], x[a] = add(m[a], x[a], numbers[k, a, 0], numbers[k, a, 1])
            for a in range(parts):
                numbers[room + i, a, 0], numbers[room + i, a, 1] = m[a], x[a]

    return spread


@functools.cache
def sorted_trend_kernel(operator: int, parts: int, threads: int, tile: int) -> Any:
    """Build the kernel for tiles of a number of events; threads are a multiple of it.

    Few threads process a tile, because its events follow each other; all of them merge and sum up.

    Parameters of the kernel
    ------------------------
    earlier, later, before, W, begins, ends, rooms, numbers, totals
        As of ``trend_kernel``.
    keys, rows
        (2, row) buffers of sorted runs: the keys, and the rows that they come from.
    sums
        (row, part, 2) buffer of the prefix sums of a run.
    """
    turn, fits = turning(operator), following(operator)
    gather, enter = gathering(parts), entering(parts)
    sum_up, spread = summing(parts, threads), spreading(operator, parts, threads)

    @cuda.jit
    def kernel(earlier, later, before, W, begins, ends, rooms, numbers, totals, keys, rows, sums):
        own = cuda.shared.array(tile, int64)
        there = cuda.shared.array((parts, threads), float64)
        powers = cuda.shared.array((parts, threads), float64)
        m, x = cuda.local.array(parts, float64), cuda.local.array(parts, float64)
        total, power = cuda.local.array(parts, float64), cuda.local.array(parts, float64)
        me, segment = cuda.threadIdx.x, cuda.blockIdx.x
        begin, end = begins[segment], ends[segment]
        room = rooms[segment] - begin
        for i in range(room + begin + me, room + end, threads):
            for a in range(parts):
                numbers[i, a, 0], numbers[i, a, 1] = 0.0, 0.0
        for a in range(parts):
            total[a], power[a] = 0.0, 0.0
        cuda.syncthreads()
        for first in range(begin, end, tile):
            i, count = first + me, min(end - first, tile)
            key, limit = int64(0), int64(0)
            if me < count:
                key, limit, own[me] = turn(later[i]), before[i], turn(earlier[i])
                for a in range(parts):
                    m[a], x[a] = numbers[room + i, a, 0], numbers[room + i, a, 1]
            for k in range(count):
                if me == k:
                    enter(m, x, W, i)
                    for a in range(parts):
                        there[a, me], powers[a, me] = m[a], x[a]
                cuda.syncthreads()
                if k < me < count and first + k < limit and fits(own[k], key):
                    gather(m, x, there, powers, k)
            if me < count:
                for a in range(parts):
                    numbers[room + i, a, 0], numbers[room + i, a, 1] = m[a], x[a]
                    total[a], power[a] = add(total[a], power[a], m[a], x[a])
            sort_tile(own, count, me, room + first, keys, rows)
            cuda.syncthreads()
            last, size, level = room + first + tile, int64(tile), int64(0)
            if first + tile < end:
                while ((last - room - begin) // size) % 2 == 0:
                    merge_runs(keys, rows, level, last - 2 * size, size, me, threads)
                    cuda.syncthreads()
                    level, size = level + 1, 2 * size
                here, run = level % 2, (last - size, last)
                sum_up(rows, here, last - size, size, me, numbers, sums, m, x, there, powers)
                cuda.syncthreads()
                stop: Any = min(last - room + size, end)
                spread(
                    (earlier, later, before), keys, here, run, room, stop, me, numbers, sums, m, x,
                    there, powers,
                )  # fmt: skip
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
