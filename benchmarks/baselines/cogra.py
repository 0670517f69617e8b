"""COGRA (Poppe et al., SIGMOD 2019), as published: type codes in, counts of trends out.

Algorithm 1 keeps one count per type for skip-till-any-match; Algorithm 3 keeps the last matched
event for skip-till-next-match and contiguous. Windows follow its section 7: an event updates the
aggregates of all k windows that it falls into. Times rise strictly, so there are no ties.

Algorithm 3 counts too few trends when an event has several predecessors (docs/semantics.md §3.5).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.scaled import (
    BLOCK_EVENTS,
    LIMIT,
    SHIFT_BITS,
    SHRINK,
    largest,
    log2,
    shrink,
)
from benchmarks.baselines.template import Floats, Integers, Template

Codes = npt.NDArray[np.int8]
Windows = tuple[Integers, Floats, Integers]
"""Start, mantissa and exponent of each window's count."""


def log2_count(type_codes: Codes, template: Template) -> float:
    """Return the logarithm of the trends of one window under skip-till-any-match."""
    return counter(template)(type_codes)


def counter(template: Template) -> Callable[[Codes], float]:
    """Return `log2_count` of a pattern whose arrays are made once, for many partitions."""
    arrays = (
        template.state_of_type(),
        template.predecessors(),
        template.start_weights(),
        template.end_weights(),
    )
    return lambda type_codes: log2(*_type_grained(type_codes, *arrays))


@kernel
def _type_grained(
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
) -> tuple[float, int]:
    """Algorithm 1; every event takes the same path, so that the processor mispredicts nothing."""
    counts = np.zeros(start_weights.size)
    one, exponent = 1.0, 0
    for block in range(0, type_codes.size, BLOCK_EVENTS):
        for i in range(block, min(block + BLOCK_EVENTS, type_codes.size)):
            state = state_of_type[type_codes[i]]
            count = start_weights[state] * one
            for j in range(predecessors.shape[1]):
                count += counts[predecessors[state, j]]
            counts[state] += count
        if largest(counts) > LIMIT:
            shrink(counts)
            one *= SHRINK
            exponent += SHIFT_BITS
    return np.sum(counts * end_weights), exponent


def log2_counts_windows(
    times_us: Integers, type_codes: Codes, template: Template, within_us: int, slide_us: int
) -> tuple[Integers, Floats]:
    """Return start and logarithm of the count of every window that holds a trend.

    Parameters
    ----------
    times_us
        Times that rise strictly.
    type_codes
        The type of each event.
    template
        The pattern.
    within_us, slide_us
        Windows are [i · slide, i · slide + within), and `within_us` is a multiple of `slide_us`.
    """
    assert within_us % slide_us == 0, "every event falls into the same number of windows"
    arrays = (
        template.state_of_type(),
        template.predecessors(),
        template.start_weights(),
        template.end_weights(),
    )
    if within_us == slide_us:
        starts, mantissas, exponents = _tumbling(times_us, type_codes, *arrays, slide_us)
    else:
        window_count = within_us // slide_us
        starts, mantissas, exponents = _sliding(
            times_us, type_codes, *arrays, window_count, slide_us
        )
    kept = mantissas > 0
    return starts[kept], np.log2(mantissas[kept]) + exponents[kept]


@kernel
def _tumbling(
    times_us: Integers,
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
    slide_us: int,
) -> Windows:
    """Algorithm 1 on each window in turn."""
    event_count = times_us.size
    first = times_us[0] // slide_us
    rows = times_us[-1] // slide_us - first + 1
    starts, mantissas = np.zeros(rows, dtype=np.int64), np.zeros(rows)
    exponents = np.zeros(rows, dtype=np.int64)
    begin = 0
    for row in range(rows):
        starts[row] = (first + row) * slide_us
        end = begin
        while end < event_count and times_us[end] < starts[row] + slide_us:
            end += 1
        mantissas[row], exponents[row] = _type_grained(
            type_codes[begin:end], state_of_type, predecessors, start_weights, end_weights
        )
        begin = end
    return starts, mantissas, exponents


@kernel
def _sliding(
    times_us: Integers,
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
    window_count: int,
    slide_us: int,
) -> Windows:
    """Update k windows per event; window i has place i mod k, and counts[state] is contiguous."""
    idle = start_weights.size - 1
    counts, sums = np.zeros((idle + 1, window_count)), np.zeros(window_count)
    ones, shifts = np.ones(window_count), np.zeros(window_count, dtype=np.int64)
    first = times_us[0] // slide_us - window_count + 1
    rows = times_us[-1] // slide_us - first + 1
    starts = (first + np.arange(rows)) * slide_us
    mantissas, exponents = np.zeros(rows), np.zeros(rows, dtype=np.int64)
    newest = window_count - 1  # Windows are numbered from the first; k of them are open.
    for i in range(times_us.size):
        while times_us[i] >= starts[newest] + slide_us:
            oldest = newest + 1 - window_count
            place = oldest % window_count
            mantissas[oldest] = np.sum(counts[:, place] * end_weights)
            exponents[oldest] = shifts[place]
            counts[:, place], ones[place], shifts[place] = 0.0, 1.0, 0
            newest += 1
        state = state_of_type[type_codes[i]]
        if state != idle:
            _add_event(counts, sums, ones, predecessors[state], state, start_weights[state])
        if i % BLOCK_EVENTS == 0:
            _shrink_windows(counts, ones, shifts)
    for oldest in range(newest + 1 - window_count, newest + 1):
        place = oldest % window_count
        mantissas[oldest] = np.sum(counts[:, place] * end_weights)
        exponents[oldest] = shifts[place]
    return starts, mantissas, exponents


@kernel
def _add_event(
    counts: Floats, sums: Floats, ones: Floats, before: Integers, state: int, start_weight: float
) -> None:
    for w in range(sums.size):
        sums[w] = start_weight * ones[w]
    for j in range(before.size):
        if before[j] < counts.shape[0] - 1:
            row = counts[before[j]]
            for w in range(sums.size):
                sums[w] += row[w]
    row = counts[state]
    for w in range(sums.size):
        row[w] += sums[w]


@kernel
def _shrink_windows(counts: Floats, ones: Floats, shifts: Integers) -> None:
    for w in range(ones.size):
        if largest(counts[:, w]) > LIMIT:
            shrink(counts[:, w])
            ones[w] *= SHRINK
            shifts[w] += SHIFT_BITS


def count_pattern_grained(type_codes: Codes, template: Template, *, contiguous: bool) -> float:
    """Return what Algorithm 3 counts in one window, under next-match or contiguous."""
    return _pattern_grained(
        type_codes,
        template.state_of_type(),
        adjacent_states(template),
        template.start_weights(),
        template.end_weights(),
        contiguous,
    )


def adjacent_states(template: Template) -> Floats:
    """Return 1 at [p, q] if an event of state q may follow one of state p, else 0."""
    table = np.zeros((template.idle + 1, template.idle + 1))
    for state, row in enumerate(template.predecessors()):
        table[row, state] = 1.0
    table[template.idle, :] = 0.0
    table[:, template.idle] = 0.0
    return table


@kernel
def _pattern_grained(
    type_codes: Codes,
    state_of_type: Integers,
    adjacent: Floats,
    start_weights: Floats,
    end_weights: Floats,
    contiguous: bool,  # noqa: FBT001  # numba passes no keywords faster than by place
) -> float:
    """Algorithm 3; the idle state stands for "no event" as the last matched one."""
    idle = start_weights.size - 1
    last, last_count, final_count = idle, 0.0, 0.0
    for i in range(type_codes.size):
        state = state_of_type[type_codes[i]]
        if start_weights[state] > 0 or adjacent[last, state] > 0:
            last_count = start_weights[state] + adjacent[last, state] * last_count
            final_count += end_weights[state] * last_count
            last = state
        elif contiguous:
            last, last_count = idle, 0.0
    return final_count


def count_event_grained(type_codes: Codes, template: Template) -> float:
    """Count trends of one window under next-match by definition 2.6, with a count for each event.

    This is what the paper compares Algorithm 3 with in figure 9: aggregates as GRETA keeps them.
    """
    return _event_grained(
        type_codes,
        template.state_of_type(),
        adjacent_states(template),
        template.start_weights(),
        template.end_weights(),
    )


@kernel
def _event_grained(
    type_codes: Codes,
    state_of_type: Integers,
    adjacent: Floats,
    start_weights: Floats,
    end_weights: Floats,
) -> float:
    """An event follows those that no event in between could follow."""
    idle = start_weights.size - 1
    states = np.empty(type_codes.size, dtype=np.int64)
    counts = np.empty(type_codes.size)
    taken = np.zeros(idle + 1)
    kept, final_count = 0, 0.0
    for i in range(type_codes.size):
        state = state_of_type[type_codes[i]]
        if state == idle:
            continue
        count = start_weights[state]
        waiting = np.sum(adjacent[:, state])
        taken[:] = 0.0
        for j in range(kept - 1, -1, -1):
            if waiting == 0.0:
                break
            before = states[j]
            if adjacent[before, state] > 0 and taken[before] == 0:
                count += counts[j]
            for p in range(idle):
                if adjacent[p, before] > 0 and taken[p] == 0:
                    taken[p] = 1.0
                    waiting -= adjacent[p, state]
        if count > 0:
            states[kept], counts[kept] = state, count
            kept += 1
            final_count += end_weights[state] * count
    return final_count
