"""Count over one long stream: words of codes become one matrix for every chunk.

A thread multiplies the matrices of its chunk, in registers. Codes are one byte each and read eight
at a time; where there are few of them, four or two events are one symbol, whose product stands in
a table in shared memory. Doubles share an exponent per thread, as in ``cepheid.kernels.counting``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import cuda, float64

from cepheid.accelerator.kernels.inlining import inlined
from cepheid.accelerator.kernels.settling import shrinking, storing

SYMBOLS = 256


@functools.cache
def counting(dimension: int, starts: int, per_symbol: int) -> Any:
    """Build a function that counts one chunk of words; it returns whether doubles ran out of range.

    Its parameters are those of the kernel; ``shared`` is the table in shared memory, ``place`` the
    number of the chunk.
    """
    square = dimension * dimension
    symbols = 8 // per_symbol
    bits = np.uint64(8 * per_symbol)
    low = np.uint64(2 ** (8 * per_symbol) - 1)
    byte, four, eight, shift = np.uint64(255), np.uint64(4), np.uint64(8), np.uint64(24)
    gather = np.uint64(0x40100401)
    shrink = shrinking(dimension, starts, 1, dimension)
    store = storing(dimension, starts, 1, dimension)

    @inlined
    def count(shared, words, i, last, period, opening, steady, place, numbers):
        m = cuda.local.array((1, dimension, dimension), float64)
        v = cuda.local.array(dimension, float64)
        for q in range(dimension):
            for c in range(dimension):
                m[0, q, c] = 1.0 if q == c else 0.0
        exponent = 0.0
        lost = False
        narrow = False
        while i < last:
            stop = min(i + period, last)
            for j in range(i, stop):
                word = words[j]
                for _ in range(symbols):
                    x = word & low
                    word = word >> bits
                    if per_symbol == 4:
                        # Two bits of every byte side by side, the first event highest.
                        x = ((x * gather) >> shift) & byte
                    elif per_symbol == 2:
                        x = ((x << four) | (x >> eight)) & byte
                    at = np.int32(x) * square
                    for c in range(dimension):
                        for q in range(dimension):
                            v[q] = m[0, q, c]
                        for q in range(dimension):
                            total = 0.0
                            for r in range(dimension):
                                total += shared[at + q * dimension + r] * v[r]
                            m[0, q, c] = total
            i = stop
            exponent, losing, narrowing = shrink(m, exponent)
            lost = lost or losing
            narrow = narrow or narrowing
        if not store(m, exponent, lost, opening, 0, place, numbers):
            narrow = True
        return narrow or (lost and not steady)

    return count


@functools.cache
def count_kernel(dimension: int, starts: int, per_symbol: int) -> Any:
    """Build the kernel for matrices of a size; its loops are unrolled.

    Parameters of the kernel
    ------------------------
    table
        (256 * dimension * dimension,) the matrix of every symbol.
    words, chunk, period
        Codes as uint64; words of a chunk; words after which numbers are rescaled below the limit.
    opening, steady
        Rows where matches begin; whether matches never leave a configuration.
    numbers
        (chunk, row, part, column, 2) wide numbers.
    flags
        (1,) set if doubles with a shared exponent ran out of range.
    """
    room = SYMBOLS * dimension * dimension
    count = counting(dimension, starts, per_symbol)

    @cuda.jit
    def kernel(table, words, chunk, period, opening, steady, numbers, flags):
        shared = cuda.shared.array(room, float64)
        for n in range(cuda.threadIdx.x, room, cuda.blockDim.x):
            shared[n] = table[n]
        cuda.syncthreads()
        place = cuda.grid(1)
        i = place * chunk
        last = min(i + chunk, words.shape[0])
        if i < last and count(shared, words, i, last, period, opening, steady, place, numbers):
            flags[0] = 1

    return kernel
