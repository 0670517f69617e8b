"""A-Seq (Qi et al., VLDB 2014), as published: events in, counts of sequences out.

Three forms: start-event marking for ``WITHIN`` without SLIDE (section 3.2); dynamic prefix counting
of a workload of fixed-length sequences, to which COGRA flattens a Kleene pattern (COGRA section
8.1); and the same workload with shared counters. Times rise strictly, so there are no ties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
from benchmarks.baselines.template import TYPES, Floats, Integers, Template

Codes = npt.NDArray[np.int8]
FIRST_CAPACITY = 1024


# Start-event marking ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outputs:
    """What start-event marking puts out: one entry per event of the last type.

    The paper puts out a count whenever such an event arrives. docs/semantics.md §6.3 has a row only
    when a match ends, which `is_match_end` says.
    """

    times_us: Integers
    counts: Floats
    is_match_end: npt.NDArray[np.bool_]


def count_within(
    times_us: Integers, type_codes: Codes, types: str, within_us: int, negated: str = ""
) -> Outputs:
    """Count the matches of a SEQ of distinct types in (t - within, t], at every t that ends one.

    ``negated`` is a type that must not come right before the last one (section 3.3).
    """
    position_of_type = np.full(128, -1, dtype=np.int64)
    for position, letter in enumerate(types):
        position_of_type[TYPES.index(letter)] = position
    if negated:
        # It resets the prefix before it.
        position_of_type[TYPES.index(negated)] = -len(types)
    return Outputs(
        *_start_event_marking(times_us, type_codes, position_of_type, len(types), within_us)
    )


@kernel
def _start_event_marking(
    times_us: Integers,
    type_codes: Codes,
    position_of_type: Integers,
    length: int,
    within_us: int,
) -> tuple[Integers, Floats, npt.NDArray[np.bool_]]:
    """Figure 5: one prefix counter per active start; counters[m] holds prefix m of all starts."""
    triggers = 0
    for i in range(type_codes.size):
        triggers += position_of_type[type_codes[i]] == length - 1
    output_times = np.empty(triggers, dtype=np.int64)
    outputs, is_match_end = np.empty(triggers), np.empty(triggers, dtype=np.bool_)
    counters = np.zeros((length, FIRST_CAPACITY))
    expiries = np.empty(FIRST_CAPACITY, dtype=np.int64)
    head, tail, output = 0, 0, 0
    for i in range(times_us.size):
        position = position_of_type[type_codes[i]]
        if position < 0:
            if position < -1:
                counters[-position - 2, head:tail] = 0.0
            continue
        while head < tail and expiries[head] <= times_us[i]:
            head += 1
        ended = 0.0
        if position == 0:
            if tail == expiries.size:
                counters, expiries = _make_room(counters, expiries, head, tail)
                head, tail = 0, tail - head
            counters[:, tail] = 0.0
            counters[0, tail] = ended = 1.0
            expiries[tail] = times_us[i] + within_us
            tail += 1
        else:
            before, here = counters[position - 1, head:tail], counters[position, head:tail]
            for start in range(here.size):
                ended += before[start]
                here[start] += before[start]
        if position == length - 1:
            output_times[output] = times_us[i]
            outputs[output] = np.sum(counters[position, head:tail])
            is_match_end[output] = ended > 0
            output += 1
    return output_times, outputs, is_match_end


@kernel
def _make_room(
    counters: Floats, expiries: Integers, head: int, tail: int
) -> tuple[Floats, Integers]:
    """Move the active starts to the front; double the room if they fill half of it."""
    active = tail - head
    capacity = expiries.size if 2 * active < expiries.size else 2 * expiries.size
    moved, moved_expiries = np.zeros((counters.shape[0], capacity)), np.empty(capacity, np.int64)
    moved[:, :active] = counters[:, head:tail]
    moved_expiries[:active] = expiries[head:tail]
    return moved, moved_expiries


# Flattened Kleene patterns ----------------------------------------------------------------------


def longest_match(type_codes: Codes, template: Template) -> int:
    """Return the length of the longest trend of one window."""
    return int(
        _longest(
            type_codes,
            template.state_of_type(),
            template.predecessors(),
            template.start_weights(),
            template.end_weights(),
        )
    )


@kernel
def _longest(
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
) -> int:
    lengths = np.zeros(start_weights.size, dtype=np.int64)
    for i in range(type_codes.size):
        state = state_of_type[type_codes[i]]
        length = 1 if start_weights[state] > 0 else 0
        for j in range(predecessors.shape[1]):
            before = lengths[predecessors[state, j]]
            length = max(length, before + 1 if before > 0 else 0)
        lengths[state] = max(lengths[state], length)
    best = 0
    for state in range(lengths.size):
        if end_weights[state] > 0:
            best = max(best, lengths[state])
    return best


def count_workload(type_codes: Codes, queries: Iterable[str]) -> float:
    """Return the matches of all queries, each a sequence of types with its own prefix counter.

    A Kleene pattern is the workload ``template.words(longest_match(...))``. A nested pattern has
    exponentially many words of each length, so this form ends at some thirty events.
    """
    total = 0.0
    for word in queries:
        query = np.array([TYPES.index(letter) for letter in word], dtype=np.int8)
        total += _prefix_counting(type_codes, query)
    return total


@kernel
def _prefix_counting(type_codes: Codes, query: Codes) -> float:
    """Figure 3, for a sequence in which types repeat: later positions are updated first."""
    counter = np.zeros(query.size + 1)
    counter[0] = 1.0
    for i in range(type_codes.size):
        for position in range(query.size, 0, -1):
            if query[position - 1] == type_codes[i]:
                counter[position] += counter[position - 1]
    return float(counter[query.size])


def log2_count_flattened(type_codes: Codes, template: Template) -> float:
    """Return the logarithm of the trends of one window, by the flattened workload.

    Queries of one length whose prefixes end in one type share a counter. That is more sharing than
    A-Seq's prefix trees have, and makes the workload as large as COGRA reports: linear in the
    number of events. So the cost is a lower bound of A-Seq's.
    """
    return log2(
        *_flattened(
            type_codes,
            template.state_of_type(),
            template.predecessors(),
            template.start_weights(),
            template.end_weights(),
            longest_match(type_codes, template),
        )
    )


@kernel
def _flattened(
    type_codes: Codes,
    state_of_type: Integers,
    predecessors: Integers,
    start_weights: Floats,
    end_weights: Floats,
    length_max: int,
) -> tuple[float, int]:
    """Keep counters[state, l] for prefixes of l events that end in a state."""
    idle = start_weights.size - 1
    counters, sums = np.zeros((idle + 1, length_max + 2)), np.zeros(length_max + 2)
    one, exponent, longest = 1.0, 0, 0
    for i in range(type_codes.size):
        state = state_of_type[type_codes[i]]
        if state != idle:
            longest = min(longest + 1, length_max)
            sums[: longest + 1] = 0.0
            sums[1] = start_weights[state] * one
            for j in range(predecessors.shape[1]):
                if predecessors[state, j] != idle:
                    shorter = counters[predecessors[state, j]]
                    for length in range(2, longest + 1):
                        sums[length] += shorter[length - 1]
            here = counters[state]
            for length in range(1, longest + 1):
                here[length] += sums[length]
        if i % BLOCK_EVENTS == 0 and largest(counters.ravel()) > LIMIT:
            shrink(counters.ravel())
            one *= SHRINK
            exponent += SHIFT_BITS
    total = 0.0
    for state in range(idle):
        total += end_weights[state] * np.sum(counters[state])
    return total, exponent
