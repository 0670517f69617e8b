"""Two-step engines for S+ with a condition between neighbours: operands in, built trends out.

An event i may follow an event j if f[j] > g[i]. SASE (Wu et al., SIGMOD 2006) keeps events with
pointers to those that may come before, and walks back from every event, so a shared beginning is
walked again for every trend. CET (Poppe et al., SIGMOD 2017) stores every trend it has built and
extends it. Both count the trends that they build; with `start_max` only those that begin with an
earlier event, as a NOT in front asks for. Times rise strictly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel

Floats = npt.NDArray[np.float64]

STEPS_MAX = 400_000_000
"""Steps that a walk may take, some seconds."""

ROWS_MAX = 1 << 23
"""Trends that may be stored at once."""

ROW_BYTES = 16


class Built(NamedTuple):
    """The trends that were built, the bytes that were kept, and the steps that it took."""

    trends: int
    kept: int
    steps: int


def build_by_walks(
    f: Floats, g: Floats, start_max: int | None = None, steps_max: int = STEPS_MAX
) -> Built | None:
    """Build all trends in the manner of SASE; none if it takes too many steps."""
    trends, edges, deepest, steps = _walk(f, g, _starts(f, start_max), steps_max)
    kept = 8 * (f.size + edges + deepest)
    return Built(trends, kept, steps) if steps <= steps_max else None


def _starts(f: Floats, start_max: int | None) -> int:
    return f.size if start_max is None else start_max


@kernel
def _walk(f: Floats, g: Floats, start_max: int, steps_max: int) -> tuple[int, int, int, int]:
    events, places = np.zeros(f.size, np.int64), np.zeros(f.size, np.int64)
    trends, edges, deepest, steps = 0, 0, 0, 0
    for last in range(f.size):
        depth, events[0], places[0] = 0, last, last - 1
        trends += last < start_max
        while depth >= 0:
            bound, j = g[events[depth]], places[depth]
            while j >= 0 and f[j] <= bound:
                j -= 1
                steps += 1
            if j < 0:
                depth -= 1
                continue
            edges += depth == 0
            places[depth] = j - 1
            depth += 1
            events[depth], places[depth] = j, j - 1
            trends += j < start_max
            steps += 1
            deepest = max(deepest, depth + 1)
        if steps > steps_max:
            break
    return trends, edges, deepest, steps


def build_by_stored_trends(
    f: Floats, g: Floats, start_max: int | None = None, rows_max: int = ROWS_MAX
) -> Built | None:
    """Build all trends in the manner of CET; none if it stores too many."""
    rows, steps = _store(f, g, _starts(f, start_max), rows_max)
    return Built(rows, rows * ROW_BYTES, steps) if rows <= rows_max else None


@kernel
def _store(f: Floats, g: Floats, start_max: int, rows_max: int) -> tuple[int, int]:
    parents, events = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    begins = np.zeros(f.size + 1, np.int64)
    rows, steps = 0, 0
    for i in range(f.size):
        # The trends that end with an event lie side by side.
        begins[i] = rows
        added = 1 if i < start_max else 0
        for j in range(i):
            added += (begins[j + 1] - begins[j]) * (f[j] > g[i])
        steps += i
        if rows + added > rows_max:
            return rows_max + 1, steps
        while rows + added > parents.size:
            parents = np.concatenate((parents, np.zeros_like(parents)))
            events = np.concatenate((events, np.zeros_like(events)))
        if i < start_max:
            parents[rows], events[rows] = -1, i
            rows += 1
        for j in range(i):
            if f[j] > g[i]:
                for row in range(begins[j], begins[j + 1]):
                    parents[rows], events[rows] = row, i
                    rows += 1
        begins[i + 1] = rows
        steps += added
    return rows, steps
