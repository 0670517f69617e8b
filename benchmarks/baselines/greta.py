"""GRETA (Poppe et al., VLDB 2017), as published: type codes in, counts of trends out.

Algorithm 2 makes a vertex of every matched event. Its count is the sum of the counts of all earlier
vertices of predecessor types: each edge of the graph is traversed once and none is stored. Every
window has its own vertices here; the paper shares a vertex between windows and keeps one count in
it per window, which traverses as many edges.

Times rise strictly, so every earlier vertex is a predecessor, and no edge needs a comparison.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.scaled import LIMIT, SHIFT_BITS, SHRINK, log2, shrink
from benchmarks.baselines.template import Floats, Integers, Template

Codes = npt.NDArray[np.int8]


def log2_count(type_codes: Codes, template: Template) -> float:
    """Return the logarithm of the trends of one window under skip-till-any-match."""
    return log2(
        *_graph(
            type_codes,
            template.state_of_type(),
            template.predecessors(),
            template.start_weights(),
            template.end_weights(),
        )
    )


def log2_counts_windows(
    times_us: Integers, type_codes: Codes, template: Template, within_us: int, slide_us: int
) -> tuple[Integers, Floats]:
    """Return start and logarithm of the count of every window that holds a trend.

    Windows are [i · slide, i · slide + within).
    """
    first = (int(times_us[0]) - within_us) // slide_us + 1
    starts = np.arange(first * slide_us, int(times_us[-1]) + 1, slide_us)
    begins = np.searchsorted(times_us, starts)
    ends = np.searchsorted(times_us, starts + within_us)
    counts = np.array(
        [log2_count(type_codes[b:e], template) for b, e in zip(begins, ends, strict=True)]
    )
    kept = counts > -np.inf
    return starts[kept], counts[kept]


@kernel
def _graph(
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
) -> tuple[float, int]:
    """Algorithm 2; the vertices of a type lie side by side, in the order of time."""
    idle = start_weights.size - 1
    begins = np.zeros(idle + 2, dtype=np.int64)
    for i in range(type_codes.size):
        begins[state_of_type[type_codes[i]] + 1] += 1
    begins = np.cumsum(begins)
    ends = begins[:-1].copy()
    counts = np.zeros(begins[idle])
    final_count = np.zeros(1)
    one, exponent = 1.0, 0
    for i in range(type_codes.size):
        state = state_of_type[type_codes[i]]
        if state == idle:
            continue
        count, edges = start_weights[state] * one, 0
        for j in range(predecessors.shape[1]):
            before = predecessors[state, j]
            vertices = counts[begins[before] : ends[before]]
            edges += vertices.size
            count += np.sum(vertices)
        if edges > 0 or start_weights[state] > 0:  # Else it has no trend to extend (Lines 4-6).
            counts[ends[state]] = count
            ends[state] += 1
            final_count[0] += end_weights[state] * count
        if count > LIMIT:
            shrink(counts)
            shrink(final_count)
            one *= SHRINK
            exponent += SHIFT_BITS
    return final_count[0], exponent
