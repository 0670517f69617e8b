"""Find row pattern matches by tables: O(rows), and no step is ever taken back.

A row's *letter* tells which conditions hold for it, one bit each. From the last row of a partition
back to the first, a set tells the states that may take a row and still be completed:

    viable[i] = allowed[letter of row i] & completes[viable[i + 1]]

Then the preferred match of a row takes the first move whose target is viable, at every step. Sets
of at most eight states are bytes, so each step looks into a table of 256 entries.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.row_pattern import (
    DONE,
    FULL,
    PAST_LAST_ROW,
    SKIP_TARGET_ABSENT,
    SKIP_TO_FIRST_ROW,
    TO_FIRST,
    TO_NEXT_ROW,
)
from cepheid.kernels.signals import ROUNDS, let_signals_in
from cepheid.kernels.tiers import kernel

STATES_MAX = 8
"""States beside the start, and conditions: sets of them are bytes."""

SETS = 1 << STATES_MAX

NONE = 255
"""The entry of a table where a state has no viable move; 0 ends the match."""


POLLED_ROWS = 1 << 16
"""Rows between two polls for signals: a poll waits for Python's lock, which other threads need."""


@kernel()
def _find_viable(letters, allowed, completes, begin, stop, viable):
    """Find the states that may take each row of a partition, from the last row to the first."""
    found = np.uint8(0)
    viable[stop - begin] = found
    for row in range(stop - 1, begin - 1, -1):
        found = allowed[letters[row]] & completes[found]
        viable[row - begin] = found


@kernel()
def find_by_tables(
    bounds,
    resume,
    letters,
    allowed,
    completes,
    following,
    is_target,
    mode,
    unmatched,
    viable,
    starts,
    lengths,
    numbers,
    states,
):
    """Find all matches of all partitions, and stop early if the buffers are full.

    letters[row]: the conditions that hold. allowed[letter]: the states whose conditions hold.
    completes[set]: the states that can go on, or end the match, if those of the set may take the
    next row. following[state, set]: the target of the first such move. is_target[state]: whether
    SKIP may lead to its row. viable has room for the longest partition, and is kept between calls.
    All else is as for ``row_pattern.find_matches``.
    """
    p, row, number, taken = resume[0], resume[1], resume[2], resume[3]
    count, used, polled = 0, 0, row
    result = DONE
    while p + 1 < bounds.shape[0]:
        begin, stop = bounds[p], bounds[p + 1]
        if row < begin:
            row, number, taken = begin, 0, begin - 1
            _find_viable(letters, allowed, completes, begin, stop, viable)
        while row < stop:
            if row - polled >= POLLED_ROWS:
                let_signals_in(ROUNDS - 1)
                polled = row
            if count == starts.shape[0] or used + (stop - row) > states.shape[0]:
                result = FULL
                break
            state = following[0, viable[row - begin]]
            if state == NONE:
                if unmatched and row > taken:
                    starts[count], lengths[count], numbers[count] = row, -1, 0
                    count += 1
                row += 1
                continue
            at, first, last = row, -1, -1
            while state != 0:
                states[used + at - row] = state
                if is_target[state]:
                    last = at
                    first = at if first < 0 else first
                at += 1
                state = following[state, viable[at - begin]]
            length = at - row
            number += 1
            starts[count], lengths[count], numbers[count] = row, length, number
            count += 1
            taken = max(taken, at - 1)
            used += length
            if length == 0 or mode == TO_NEXT_ROW:
                row += 1
            elif mode == PAST_LAST_ROW:
                row = at
            else:
                target = first if mode == TO_FIRST else last
                if target <= row:
                    result = SKIP_TARGET_ABSENT if target < 0 else SKIP_TO_FIRST_ROW
                    break
                row = target
        if result != DONE:
            break
        p += 1
        row = stop if p + 1 == bounds.shape[0] else bounds[p] - 1
    resume[0], resume[1], resume[2], resume[3] = p, row, number, taken
    resume[4], resume[5] = count, used
    return result
