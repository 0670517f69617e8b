"""Filter and join on the device: count the hits, compute prefix sums, write in order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import cuda, int32, int64, uint8


@cuda.jit(device=True)
def add_up_threads(sums, me, threads):
    """Compute the inclusive prefix sum over the threads of a block."""
    cuda.syncthreads()
    step = 1
    while step < threads:
        before = sums[me - step] if me >= step else 0
        cuda.syncthreads()
        sums[me] += before
        cuda.syncthreads()
        step *= 2


@cuda.jit
def gather_kernel(column, rows, out):
    """Copy some events of a column, in the order of their rows."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for k in range(cuda.grid(1), rows.shape[0], step):
        out[k] = column[rows[k]]


@functools.cache
def filter_kernels(predicate: Callable[..., Any], threads: int, items: int) -> tuple[Any, Any]:
    """Build the kernels that count and write the hits of every block's tile.

    Neighbouring threads read neighbouring events; flags in shared memory put them in order. Rows
    are written with ``base`` added.
    """
    fits = cuda.jit(device=True)(predicate)
    tile = threads * items

    @cuda.jit
    def count(columns, length, counts):
        sums = cuda.shared.array(threads, int32)
        me = cuda.threadIdx.x
        first = cuda.blockIdx.x * tile
        found = 0
        for k in range(items):
            i = first + k * threads + me
            if i < length and fits(columns, i):
                found += 1
        sums[me] = found
        cuda.syncthreads()
        step = threads // 2
        while step > 0:
            if me < step:
                sums[me] += sums[me + step]
            cuda.syncthreads()
            step //= 2
        if me == 0:
            counts[cuda.blockIdx.x] = sums[0]

    @cuda.jit
    def write(columns, length, offsets, base, out):
        flags = cuda.shared.array(tile, uint8)
        places = cuda.shared.array(tile, int32)
        sums = cuda.shared.array(threads, int32)
        me = cuda.threadIdx.x
        first = cuda.blockIdx.x * tile
        for k in range(items):
            i = first + k * threads + me
            flags[k * threads + me] = 1 if i < length and fits(columns, i) else 0
        cuda.syncthreads()
        mine = 0
        for k in range(items):
            mine += flags[me * items + k]
        sums[me] = mine
        add_up_threads(sums, me, threads)
        at = sums[me] - mine
        for k in range(items):
            if flags[me * items + k] != 0:
                places[at] = me * items + k
                at += 1
        cuda.syncthreads()
        begin = offsets[cuda.blockIdx.x]
        for k in range(me, sums[threads - 1], threads):
            out[begin + k] = base + first + places[k]

    return count, write


@functools.cache
def scan_kernel(threads: int) -> Any:
    """Build the one-block kernel that computes prefix sums: the write offset of every block.

    If there is one more offset than counts, it gets the total.
    """

    @cuda.jit
    def scan(counts, offsets, total):
        sums = cuda.shared.array(threads, int64)
        me, length = cuda.threadIdx.x, counts.shape[0]
        size = (length + threads - 1) // threads
        first, last = min(me * size, length), min((me + 1) * size, length)
        mine = int64(0)
        for k in range(first, last):
            mine += counts[k]
        sums[me] = mine
        add_up_threads(sums, me, threads)
        at = sums[me] - mine
        for k in range(first, last):
            offsets[k] = at
            at += counts[k]
        if me == threads - 1:
            total[0] = sums[me]
            if offsets.shape[0] > length:
                offsets[length] = sums[me]

    return scan


@functools.cache
def join_kernels(predicate: Callable[..., Any]) -> tuple[Any, Any]:
    """Build the kernels that count and write pairs.

    A thread tests one left event against one stripe of its candidates, so pairs are sorted by left
    event, then by right event.

    Parameters of the kernels
    -------------------------
    left, right
        (column, event) the columns of both streams.
    rows
        The left event of every probe.
    low, high
        The candidates of every probe: right events low to high - 1.
    stripes
        The number of threads that share the candidates of a probe.
    """
    fits = cuda.jit(device=True)(predicate)

    @cuda.jit
    def count(left, right, rows, low, high, stripes, counts):
        place = cuda.grid(1)
        probe = place // stripes
        if probe >= rows.shape[0]:
            return
        stripe = place % stripes
        size = (high[probe] - low[probe] + stripes - 1) // stripes
        first = low[probe] + stripe * size
        found = 0
        for j in range(first, min(first + size, high[probe])):
            if fits(left, rows[probe], right, j):
                found += 1
        counts[place] = found

    @cuda.jit
    def write(left, right, rows, low, high, stripes, offsets, out_probe, out_right):
        place = cuda.grid(1)
        probe = place // stripes
        if probe >= rows.shape[0] or offsets[place] == offsets[place + 1]:
            return
        stripe = place % stripes
        size = (high[probe] - low[probe] + stripes - 1) // stripes
        first = low[probe] + stripe * size
        at = offsets[place]
        for j in range(first, min(first + size, high[probe])):
            if fits(left, rows[probe], right, j):
                out_probe[at] = probe
                out_right[at] = j
                at += 1

    return count, write
