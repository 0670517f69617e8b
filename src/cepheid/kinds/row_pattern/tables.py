"""An automaton in, the tables of ``kernels/row_pattern_tables.py`` out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.row_pattern_tables import NONE, SETS
from cepheid.kinds.row_pattern.automaton import ACCEPT, Automaton

Bytes = NDArray[np.uint8]


class Tables(NamedTuple):
    """What a set of states allows; state s is bit s - 1.

    ``allowed`` has the states whose conditions hold for each letter, ``completes`` those that can
    go on with each set, and ``following`` the preferred target of a state in each set.
    """

    allowed: Bytes
    completes: Bytes
    following: Bytes


def tables_of(automaton: Automaton, condition_of: NDArray[np.int32]) -> Tables:
    """Build the tables of an automaton without anchors and with few states."""
    sets, count = np.arange(SETS), automaton.state_count
    following = np.full((count, SETS), NONE, np.uint8)
    allowed, completes = np.zeros(SETS, np.uint8), np.zeros(SETS, np.uint8)
    (ends,) = automaton.first
    for state in range(count):
        for target in automaton.moves[ends[state] : ends[state + 1]][::-1]:
            # What is written last is preferred.
            if target == ACCEPT:
                following[state] = ACCEPT
            else:
                following[state, sets >> (target - 1) & 1 == 1] = target
        if state:
            bit = np.uint8(1 << (state - 1))
            condition = condition_of[state]
            holds = np.ones(SETS, np.bool_) if condition < 0 else sets >> condition & 1 == 1
            allowed |= np.where(holds, bit, 0).astype(np.uint8)
            completes |= np.where(following[state] != NONE, bit, 0).astype(np.uint8)
    return Tables(allowed, completes, following)
