"""Chunks of events through a compiled system: two kernels that differ in how events are read.

    compiled_kernel   a thread reads four events of its chunk before it works on the first
    staged_kernel     a block reads the next events of all its chunks together, neighbours by
                      neighbours, and hands them to the threads in shared memory

Parameters are those of ``chunk_kernel``, without the tables.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float64, int64, uint8

from cepheid.accelerator.kernels.compiled import (
    NO_VALUE,
    Places,
    Spec,
    filling,
    reading,
    small_of,
    spilling,
    spilling_values,
    stepping,
)
from cepheid.accelerator.kernels.inlining import inlined
from cepheid.accelerator.kernels.settling import shrinking, storing

PERIOD = 64
"""Events after which numbers are brought below the limit, as in ``chunks.py``."""

TILE = 8
"""Events of a chunk that a block reads at once; one more place keeps threads off each other."""


class Pieces(NamedTuple):
    """What both kernels are made of."""

    step: Any
    settle: Any
    close: Any
    one: tuple[float, ...]
    nothing: tuple[Any, ...]


def pieces_of(spec: Spec) -> Pieces:
    """Return the functions of a system.

    ``settle`` brings numbers below the limit; ``close`` writes the matrix of a chunk, and tells
    whether doubles with a shared exponent did not reach.
    """
    d, starts, parts = spec.dimension, spec.starts, spec.parts
    places = Places(spec)
    fill, spill = filling(places.numbers), spilling(places.numbers)
    keep = spilling_values(places.values, starts, spec.mins)
    small = small_of(len(places.numbers))
    shrink, store = shrinking(d, starts, parts, d), storing(d, starts, parts, d)

    @inlined
    def settle(s, exponent, lost, narrow):
        if small(s):
            return s, exponent, lost, narrow
        m = cuda.local.array((parts, d, d), float64)
        for a in range(parts):
            for q in range(d):
                for c in range(d):
                    m[a, q, c] = 0.0
        spill(m, s)
        exponent, losing, narrowing = shrink(m, exponent)
        return fill(m), exponent, lost or losing, narrow or narrowing

    @inlined
    def close(s, v, exponent, lost, opening, chunk, numbers, values):
        m = cuda.local.array((parts, d, d), float64)
        for a in range(parts):
            for q in range(d):
                for c in range(d):
                    m[a, q, c] = 0.0
        spill(m, s)
        keep(values, chunk, v)
        return not store(m, exponent, lost, opening, 0, chunk, numbers)

    one = tuple(1.0 if (a, q) == (0, c) else 0.0 for a, q, c in places.numbers)
    nothing = tuple(np.int64(NO_VALUE) for _ in places.values) or (np.int64(NO_VALUE),)
    return Pieces(stepping(spec), settle, close, one, nothing)


@functools.cache
def compiled_kernel(spec: Spec) -> Any:
    """Return the kernel in which threads read their own chunks."""
    step, settle, close, one, nothing = pieces_of(spec)
    weights_at, values_at = reading(spec.parts - 1, 0.0), reading(spec.mins, NO_VALUE)

    @cuda.jit
    def kernel(opening, steady, codes, W, X, ptr, numbers, values, flags):
        chunk = cuda.grid(1)
        if chunk >= ptr.shape[0] - 1:
            return
        s, v = one, nothing
        i, last = ptr[chunk], ptr[chunk + 1]
        exponent, lost, narrow = 0.0, False, False
        while i < last:
            stop = min(i + PERIOD, last)
            while i + 4 <= stop:
                c0, c1, c2, c3 = codes[i], codes[i + 1], codes[i + 2], codes[i + 3]
                w0, w1 = weights_at(W, i), weights_at(W, i + 1)
                w2, w3 = weights_at(W, i + 2), weights_at(W, i + 3)
                x0, x1 = values_at(X, i), values_at(X, i + 1)
                x2, x3 = values_at(X, i + 2), values_at(X, i + 3)
                s, v = step(c0, s, v, w0, x0)
                s, v = step(c1, s, v, w1, x1)
                s, v = step(c2, s, v, w2, x2)
                s, v = step(c3, s, v, w3, x3)
                i += 4
            while i < stop:
                s, v = step(codes[i], s, v, weights_at(W, i), values_at(X, i))
                i += 1
            s, exponent, lost, narrow = settle(s, exponent, lost, narrow)
        if close(s, v, exponent, lost, opening[0], chunk, numbers, values):
            narrow = True
        if narrow or (lost and not steady):
            flags[0] = 1

    return kernel


@functools.cache
def staged_kernel(spec: Spec, threads: int) -> Any:
    """Return the kernel in which blocks of so many threads read for all of their chunks."""
    step, settle, close, one, nothing = pieces_of(spec)
    weights_at, values_at = reading(spec.parts - 1, 0.0), reading(spec.mins, NO_VALUE)
    weights, mins = spec.parts - 1, spec.mins
    width = threads * (TILE + 1)
    rows_w, rows_x = max(weights, 1), max(mins, 1)
    other = len(spec.kept)

    @cuda.jit
    def kernel(opening, steady, codes, W, X, ptr, numbers, values, flags):
        here = cuda.shared.array(width, uint8)
        here_w = cuda.shared.array((rows_w, width), float64)
        here_x = cuda.shared.array((rows_x, width), int64)
        ends = cuda.shared.array((2, threads), int64)
        me, first = cuda.threadIdx.x, cuda.blockIdx.x * threads
        chunk, chunks = first + me, ptr.shape[0] - 1
        ends[0, me] = ptr[chunk] if chunk < chunks else 0
        ends[1, me] = ptr[chunk + 1] if chunk < chunks else 0
        cuda.syncthreads()
        longest = int64(0)
        for n in range(threads):
            longest = max(longest, ends[1, n] - ends[0, n])
        s, v = one, nothing
        exponent, lost, narrow = 0.0, False, False
        left = PERIOD // TILE
        for begin in range(0, longest, TILE):
            for k in range(TILE):
                n = k * threads + me
                whose, place = n // TILE, n // TILE * (TILE + 1) + n % TILE
                i = ends[0, whose] + begin + n % TILE
                if i < ends[1, whose]:
                    here[place] = codes[i]
                    for a in range(weights):
                        here_w[a, place] = W[a, i]
                    for a in range(mins):
                        here_x[a, place] = X[a, i]
                else:
                    here[place] = other
            cuda.syncthreads()
            for k in range(TILE):
                at = me * (TILE + 1) + k
                s, v = step(here[at], s, v, weights_at(here_w, at), values_at(here_x, at))
            left -= 1
            if left == 0 or begin + TILE >= longest:
                left = PERIOD // TILE
                s, exponent, lost, narrow = settle(s, exponent, lost, narrow)
            cuda.syncthreads()
        if chunk < chunks:
            if close(s, v, exponent, lost, opening[0], chunk, numbers, values):
                narrow = True
            if narrow or (lost and not steady):
                flags[0] = 1

    return kernel
