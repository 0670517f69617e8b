"""A two-step enumerator in the style of SASE (COGRA section 8.1): events in, counted trends out.

Step one stores every event on the stack of its type, with pointers to the events that may precede
it. Step two walks back from every event that ends a trend, depth first, builds each trend and
aggregates it. One trend is held at a time. It stops at a time limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.cogra import adjacent_states
from benchmarks.baselines.jit import kernel
from benchmarks.baselines.template import Floats, Integers, Template

Codes = npt.NDArray[np.int8]
Pointers = npt.NDArray[np.int32]

STEPS_PER_LOOK = 20_000_000
"""The clock is read after so many steps, some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """How many trends were built, and whether these are all."""

    trend_count: int
    is_complete: bool


def count_trends(
    type_codes: Codes, template: Template, *, semantics: str = "any", limit_s: float = 10.0
) -> Enumeration:
    """Build and count the trends of one window.

    Parameters
    ----------
    type_codes
        The type of each event, in the order of time.
    template
        The pattern.
    semantics
        ``"any"``, ``"next"`` or ``"contiguous"``. The last two point to the last matched event
        alone, as COGRA's Theorem 6.1 allows, and share the fault of its Algorithm 3.
    limit_s
        The time to stop at.
    """
    deadline = time.perf_counter() + limit_s
    states = template.state_of_type()[type_codes]
    predecessors = template.predecessors()
    starts, ends = template.start_weights(), template.end_weights()
    if semantics == "any":
        pointers = _all_pointers(states, predecessors)
    else:
        pointers = _last_pointers(
            states, predecessors, adjacent_states(template), starts, semantics == "contiguous"
        )
    stacks = _stacks(states, pointers, template.idle)
    # The walk's state: the event that ends the trend, its depth, the trends so far.
    walk = np.array([-1, -1, 0], dtype=np.int64)
    path = np.zeros((3, min(states.size, 1 << 24) + 1), dtype=np.int32)
    is_complete = False
    while not is_complete and time.perf_counter() < deadline:
        is_complete = _walk(
            walk, path, states, predecessors, pointers, stacks, starts, ends, STEPS_PER_LOOK
        )
    return Enumeration(int(walk[2]), is_complete)


@kernel
def _all_pointers(states: Integers, predecessors: Integers) -> Pointers:
    """Return, per event and predecessor type, the stretch [0, height) of that type's stack."""
    idle = predecessors.shape[0] - 1
    heights = np.zeros(idle + 1, dtype=np.int64)
    pointers = np.zeros((states.size, predecessors.shape[1], 2), dtype=np.int32)
    for i in range(states.size):
        for j in range(predecessors.shape[1]):
            if predecessors[states[i], j] != idle:
                pointers[i, j, 1] = heights[predecessors[states[i], j]]
        heights[states[i]] += 1
    return pointers


@kernel
def _last_pointers(
    states: Integers,
    predecessors: Integers,
    adjacent: Floats,
    start_weights: Floats,
    contiguous: bool,  # noqa: FBT001  # numba passes no keywords faster than by place
) -> Pointers:
    """Return pointers to the last matched event; [-1, -1) marks an event that is not matched."""
    idle = predecessors.shape[0] - 1
    heights = np.zeros(idle + 1, dtype=np.int64)
    pointers = np.zeros((states.size, predecessors.shape[1], 2), dtype=np.int32)
    last = idle
    for i in range(states.size):
        state = states[i]
        is_adjacent = adjacent[last, state] > 0
        if not is_adjacent and start_weights[state] == 0:
            pointers[i] = -1
            last = idle if contiguous else last
            continue
        for j in range(predecessors.shape[1]):
            if is_adjacent and predecessors[state, j] == last:
                pointers[i, j, 0] = heights[last] - 1
                pointers[i, j, 1] = heights[last]
        heights[state] += 1
        last = state
    return pointers


@kernel
def _stacks(states: Integers, pointers: Pointers, idle: int) -> Pointers:
    """Return the numbers of the matched events, one row per state."""
    heights = np.zeros(idle + 1, dtype=np.int64)
    stacks = np.zeros((idle, states.size), dtype=np.int32)
    for i in range(states.size):
        if states[i] != idle and pointers[i, 0, 0] >= 0:
            stacks[states[i], heights[states[i]]] = i
            heights[states[i]] += 1
    return stacks


@kernel
def _walk(
    walk: Integers,
    path: Pointers,
    states: Integers,
    predecessors: Integers,
    pointers: Pointers,
    stacks: Pointers,
    start_weights: Floats,
    end_weights: Floats,
    step_count: int,
) -> bool:
    """Go on with the walk for some steps; true when it has come to its end.

    path[0] holds the trend from its end backwards; path[1] and path[2] hold, per event of it, which
    predecessor type and which event of its stack come next.
    """
    last, depth, trends = walk
    trend, types, places = path
    for _ in range(step_count):
        if depth < 0:
            last += 1
            if last == states.size:
                break
            if end_weights[states[last]] == 0 or pointers[last, 0, 0] < 0:
                continue
            event = last
        else:
            event, j = trend[depth], types[depth]
            if j == predecessors.shape[1]:
                depth -= 1
                continue
            if places[depth] == pointers[event, j, 1]:
                types[depth] += 1
                if j + 1 < predecessors.shape[1]:
                    places[depth] = pointers[event, j + 1, 0]
                continue
            places[depth] += 1
            event = stacks[predecessors[states[event], j], places[depth] - 1]
        depth += 1
        trend[depth], types[depth], places[depth] = event, 0, pointers[event, 0, 0]
        if start_weights[states[event]] > 0:
            trends += 1  # The trend is complete: COUNT(*) takes no more of it.
    walk[0], walk[1], walk[2] = last, depth, trends
    return bool(last == states.size)
