"""Push chunks of events through a compiled system, in registers.

A thread reads four events of its chunk before it processes the first, so that it waits for memory
once. Reading for a whole block at once, through shared memory, was a tenth slower on an H200.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from benchmarks.thesis_operators.one_system import (
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
from numba import cuda, float64

from cepheid.accelerator.kernels.inlining import inlined
from cepheid.accelerator.kernels.settling import shrinking, storing

PERIOD = 64
"""Events after which numbers are rescaled, as in ``chunks.py``."""


class Pieces(NamedTuple):
    """The functions that make up the kernel."""

    step: Any
    settle: Any
    close: Any
    one: tuple[float, ...]
    nothing: tuple[Any, ...]


def pieces_of(spec: Spec) -> Pieces:
    """Build the functions of a system.

    ``settle`` rescales numbers below the limit; ``close`` writes the matrix of a chunk, and returns
    whether doubles with a shared exponent ran out of range.
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
    """Build the kernel; its parameters are those of ``chunk_kernel``, without the tables."""
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
