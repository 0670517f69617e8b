"""A persistent kernel that waits for small batches: no launch, no table to load again.

Host and device share a mailbox in mapped memory:

    mailbox[0]   the number of the batch that the host requests, -1 to stop
    mailbox[1]   the number of the batch that is done
    mailbox[2]   1 while the kernel runs

The kernel ends after a number of polls without a new batch, so that it never runs forever; the host
starts it again on demand.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float64, int64

from cepheid.accelerator.kernels.count import SYMBOLS, counting


@functools.cache
def serve_kernel(dimension: int, starts: int, per_symbol: int, threads: int) -> Any:
    """Build the one-block kernel; one thread per chunk. Parameters as of ``count_kernel``."""
    room = SYMBOLS * dimension * dimension
    count = counting(dimension, starts, per_symbol)

    @cuda.jit
    def kernel(table, words, chunk, period, opening, steady, numbers, flags, mailbox, looks_max):
        shared = cuda.shared.array(room, float64)
        order = cuda.shared.array(1, int64)
        me = cuda.threadIdx.x
        for n in range(me, room, threads):
            shared[n] = table[n]
        done = mailbox[1]
        begin = me * chunk
        last = min(begin + chunk, words.shape[0])
        while True:
            if me == 0:
                looks = 0
                asked = mailbox[0]
                while asked == done and looks < looks_max:
                    # Without the fence, the next read could miss a write of the host.
                    cuda.threadfence_system()
                    asked = mailbox[0]
                    looks += 1
                order[0] = asked
            cuda.syncthreads()
            asked = order[0]
            if asked < 0 or asked == done:
                break
            cuda.threadfence_system()
            if begin < last and count(
                shared, words, begin, last, period, opening, steady, me, numbers
            ):
                flags[0] = 1
            # The result must be visible before the answer is.
            cuda.threadfence_system()
            cuda.syncthreads()
            done = asked
            if me == 0:
                mailbox[1] = done
                cuda.threadfence_system()
        if me == 0:
            mailbox[2] = 0
            cuda.threadfence_system()

    return kernel
