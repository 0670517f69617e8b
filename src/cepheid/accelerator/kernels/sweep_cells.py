"""Find the cells of chunks and segments of events: the values at which one of their events changes.

A block of threads takes one chunk, a thread one of its events. Chunks are short, so each thread
compares its rank with those of all others, which needs no sorting.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, int32, int64

from cepheid.accelerator.kernels.compaction import add_up_threads


@functools.cache
def cells_of_chunks(threads: int) -> tuple[Any, Any]:
    """Build the kernels that count and write the cells of chunks of up to ``threads`` events.

    Parameters of the kernels
    -------------------------
    first, last, segment
        (chunk,) its events, and the segment that it is a part of.
    rank, relevant
        (event,) its rank, and whether the condition is about it.
    values
        The number of values: an event of this rank, or of rank 0, changes for none of them.
    flags, counts
        Room: (1, segment and value) is set to 1 where a cell of the segment begins, and the number
        of cells of every chunk.
    offsets, owner, value
        The first cell of every chunk; room for the chunk of every cell, and its first value.
    """

    @cuda.jit(device=True)
    def own_rank(first, last, rank, relevant, values, ranks):
        """Return the rank of the thread's event, or 0 if it changes nothing or another one has it.

        All threads find the ranks of the chunk in ``ranks``.
        """
        me = cuda.threadIdx.x
        event = first[cuda.blockIdx.x] + me
        own = int64(0)
        if event < last[cuda.blockIdx.x] and relevant[event] != 0 and rank[event] < values:
            own = rank[event]
        ranks[me] = own
        cuda.syncthreads()
        known = False
        for other in range(me):
            known = known or ranks[other] == own
        cuda.syncthreads()
        if known:
            own = int64(0)
        ranks[me] = own
        cuda.syncthreads()
        return own

    @cuda.jit
    def count(first, last, segment, rank, relevant, values, flags, counts):
        ranks = cuda.shared.array(threads, int64)
        sums = cuda.shared.array(threads, int32)
        me, chunk = cuda.threadIdx.x, cuda.blockIdx.x
        own = own_rank(first, last, rank, relevant, values, ranks)
        sums[me] = 1 if own > 0 else 0
        add_up_threads(sums, me, threads)
        begin = segment[chunk] * values
        if own > 0:
            flags[0, begin + own] = 1
        if me == 0:
            flags[0, begin] = 1
            counts[chunk] = sums[threads - 1] + 1

    @cuda.jit
    def write(first, last, rank, relevant, values, offsets, owner, value):
        ranks = cuda.shared.array(threads, int64)
        chunk = cuda.blockIdx.x
        own = own_rank(first, last, rank, relevant, values, ranks)
        # The first thread also writes the cell that begins at the first value.
        if cuda.threadIdx.x == 0:
            owner[offsets[chunk]] = chunk
            value[offsets[chunk]] = 0
        if own > 0:
            at = offsets[chunk] + 1
            for other in range(threads):
                if 0 < ranks[other] < own:
                    at += 1
            owner[at] = chunk
            value[at] = own

    return count, write


@cuda.jit
def clear(flags):
    """Set all flags to 0."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), flags.shape[1], step):
        flags[0, i] = 0


@cuda.jit
def split_places(places, values, owner, value):
    """Split the places of cells into their segments and their first values."""
    step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), places.shape[0], step):
        owner[i] = places[i] // values
        value[i] = places[i] % values
