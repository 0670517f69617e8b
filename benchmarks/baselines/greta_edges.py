"""GRETA's graph with a predicate between neighbours: operands in, counts of the trends of S+ out.

Algorithm 2 of Poppe et al. (VLDB 2017) compares every event with every earlier one: an edge leads
from j to i if f[j] > g[i], and the count of a vertex is 1 plus the counts of all vertices with an
edge to it. Counts are doubles and become infinite beyond 1.8e308. Times rise strictly.

`PLAIN` is the loop as it stands there. `VECTORISED` may add in any order, so that the compiler
compares several events at a time: more than the paper does, and the best that its algorithm can do
on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.template import Integers

Floats = npt.NDArray[np.float64]
Loop = Callable[[Floats, Floats], float]


def _graph(f: Floats, g: Floats) -> float:
    counts = np.zeros(f.size)
    final_count = 0.0
    for i in range(f.size):
        count, bound = 1.0, g[i]
        for j in range(i):
            if f[j] > bound:
                count += counts[j]
        counts[i] = count
        final_count += count
    return final_count


# Not kept on disk, where both would have one name.
PLAIN = cast("Loop", numba.njit()(_graph))
VECTORISED = kernel(_graph)


@numba.njit(cache=True)
def count_started(f: Floats, g: Floats, start_max: int) -> tuple[float, int]:
    """Return the trends that begin before an event, and the vertices: a NOT came with that event.

    What no trend can reach is no vertex (section 5.2).
    """
    counts, bounds = np.zeros(f.size), np.zeros(f.size)
    final_count, vertices = 0.0, 0
    for i in range(f.size):
        count, bound = 1.0 if i < start_max else 0.0, g[i]
        for j in range(vertices):
            if bounds[j] > bound:
                count += counts[j]
        if count > 0:
            counts[vertices], bounds[vertices] = count, f[i]
            vertices += 1
            final_count += count
    return final_count, vertices


def counts_windows(
    loop: Loop, times_us: Integers, f: Floats, g: Floats, within_us: int, slide_us: int
) -> Floats:
    """Return the count of every window [i · slide, i · slide + within) that holds an event."""
    first = (int(times_us[0]) - within_us) // slide_us + 1
    starts = np.arange(first * slide_us, int(times_us[-1]) + 1, slide_us)
    begins = np.searchsorted(times_us, starts)
    ends = np.searchsorted(times_us, starts + within_us)
    return np.array(
        [loop(f[b:e], g[b:e]) for b, e in zip(begins, ends, strict=True) if e > b], dtype=float
    )
