"""Find row pattern matches if every condition reads one row only: O(rows x states).

A depth-first search from a start row tries matches in the order of preference. Whether a match can
be completed from a row and a state does not depend on the path to them, so one bit for every row
and state records a failure, for all later starts too.

The end of a partition may be *open*, as on a stream: more rows will arrive. The search of a
partition then stops at the first start whose match depends on them, so no failure at an open end is
ever recorded for a later start.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

DONE, FULL, SKIP_TO_FIRST_ROW, SKIP_TARGET_ABSENT = 0, 1, 2, 3
"""Results of a search: all rows are done, the buffer is full, or SKIP has no target."""

PAST_LAST_ROW, TO_NEXT_ROW, TO_FIRST, TO_LAST = 0, 1, 2, 3


FIRST_START, EDGE, LAST_END, UNDECIDED_START = 0, 1, 2, 3
"""Columns of ``opened``: where a partition with an open end is searched, and up to where.

FIRST_START is the first row that may begin a match, EDGE the first row whose conditions are not
known yet, LAST_END the row up to which matches may end, since measures look beyond their end, and
UNDECIDED_START, which the search sets, the first row of which it is not known what begins there.
"""

UNDECIDED = -3
"""The length of a match that depends on rows which have not come yet."""


@kernel(inline="code")
def edges_of(opened, p, begin, stop):
    """Find the first row that may begin a match, and the first with unknown conditions."""
    if opened.shape[0] > 0:
        return opened[p, FIRST_START], opened[p, EDGE]
    return begin, stop


@kernel(inline="code")
def is_undecided(length, start, opened, p):
    """Check whether the match from a row depends on rows that have not arrived yet."""
    if length < 0:
        return length == UNDECIDED
    return opened.shape[0] > 0 and start + length > opened[p, LAST_END]


@kernel(inline="code")
def _search(
    start, begin, stop, limit, edge, conditions, condition_of, first, moves, memo, path, cursor
):
    """Find the preferred match from a row; return its length and the last row read.

    The length is -1 if there is none, and UNDECIDED if that depends on a row from edge on.
    path[1:length + 1] holds the states of its rows. limit: the first row that is too late.
    """
    state_count = condition_of.shape[0]
    anchored = first.shape[0] > 1
    place = 0
    if anchored:
        place = 1 if start == begin else 0
        if start == stop:
            place += 2
    depth = 0
    path[0] = 0
    cursor[0] = first[place, 0]
    furthest = start
    while True:
        row = start + depth
        state = path[depth]
        if anchored:
            place = (1 if row == begin else 0) + (2 if row == stop else 0)
        at = cursor[depth]
        if at == first[place, state + 1]:
            bit = (row - begin) * state_count + state
            memo[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
            if depth == 0:
                return -1, furthest
            depth -= 1
            continue
        cursor[depth] = at + 1
        target = moves[at]
        if target == 0:
            return depth, furthest
        if row >= limit:
            continue
        if row >= edge:
            return UNDECIDED, furthest
        which = condition_of[target]
        if which >= 0 and not conditions[which, row]:
            continue
        bit = (row + 1 - begin) * state_count + target
        if memo[bit >> 6] >> np.uint64(bit & 63) & np.uint64(1):
            continue
        depth += 1
        if row + 1 > furthest:
            furthest = row + 1
        path[depth] = target
        if anchored:
            place = 2 if row + 1 == stop else 0
        cursor[depth] = first[place, target]


@kernel(inline="code")
def _seek(
    row, start, begin, stop, limit, edge, seek, conditions, condition_of, first, moves, memo, path,
    cursor,
):  # fmt: skip
    """Find the match of a row, from a start on; return its start, length and the last row read."""
    length, furthest = -1, row
    while start < stop:
        length, reached = _search(
            start, begin, stop, limit, edge, conditions, condition_of, first, moves, memo, path,
            cursor,
        )  # fmt: skip
        furthest = max(furthest, reached)
        if length != -1 or not seek or start + 1 >= limit:
            break
        start += 1
    return start, length, furthest


@kernel()
def next_start(start, row, length, mode, is_target, variable_of, path):
    """Compute the row to continue from after the match of a row, or a negative error code."""
    if length == 0 or mode == TO_NEXT_ROW:
        return row + 1
    if mode == PAST_LAST_ROW:
        return start + length
    found = -1
    for i in range(length):
        if is_target[variable_of[path[i]]]:
            found = i
            if mode == TO_FIRST:
                break
    if found < 0:
        return -SKIP_TARGET_ABSENT
    if found == 0:
        return -SKIP_TO_FIRST_ROW
    return start + found


@kernel()
def find_matches(
    bounds,
    resume,
    conditions,
    condition_of,
    variable_of,
    first,
    moves,
    limits,
    opened,
    mode,
    is_target,
    unmatched,
    seek,
    memo,
    path,
    cursor,
    starts,
    lengths,
    numbers,
    states,
):
    """Find all matches of all partitions, and stop early if the buffers are full.

    bounds[p], bounds[p + 1]: the rows of partition p. resume: partition, row, matches before, last
    row that a match took, matches found, states written; the last two start at 0, and all are
    updated. limits[i]: the first row that is too late for a match from row i; without WITHIN it
    has no entry. opened: of each partition what FIRST_START and the columns after it say, or no
    entry if all ends are closed. starts, lengths, numbers: one entry a match, in order; a length
    of -1 is a row that no match took, if unmatched asks for them. states: those of the rows of all
    matches. seek: a row without a match has the next one up to its limit, and numbers are the rows
    that matches belong to.
    """
    p, row, number, taken = resume[0], resume[1], resume[2], resume[3]
    count, used = 0, 0
    state_count = condition_of.shape[0]
    within, is_open = limits.shape[0] > 0, opened.shape[0] > 0
    result = DONE
    while p + 1 < bounds.shape[0]:
        begin, stop = bounds[p], bounds[p + 1]
        first_start, edge = edges_of(opened, p, begin, stop)
        if row < begin:
            row, number, taken = first_start, 0, begin - 1
        # From the rows before this one on there is no match.
        barren = begin
        if row == first_start or within:
            memo[: ((stop - begin + 1) * state_count >> 6) + 1] = 0
        while row < stop:
            let_signals_in(row)
            if count == starts.shape[0] or used + (stop - row) > states.shape[0]:
                result = FULL
                break
            # A row behind an open end is not too late: what asks for it is undecided.
            limit = limits[row] if within else stop + is_open
            start = barren if seek and not within and barren > row else row
            start, length, furthest = _seek(
                row, start, begin, stop, limit, edge, seek, conditions, condition_of, first, moves,
                memo, path, cursor,
            )  # fmt: skip
            barren = start + 1 if length == -1 else start
            if is_undecided(length, row, opened, p):
                break
            if within:
                # A row that is too late for this start may be in time for the next.
                low = (row - begin) * state_count >> 6
                memo[low : ((furthest - begin + 1) * state_count >> 6) + 1] = 0
            if length < 0:
                if unmatched and row > taken:
                    starts[count], lengths[count], numbers[count] = row, -1, 0
                    count += 1
                row += 1
                continue
            number += 1
            starts[count], lengths[count] = start, length
            numbers[count] = row if seek else number
            count += 1
            for i in range(length):
                states[used + i] = path[i + 1]
            used += length
            if start + length - 1 > taken:
                taken = start + length - 1
            if length == 0 or mode == TO_NEXT_ROW:
                following = row + 1
            elif mode == PAST_LAST_ROW:
                following = start + length
            else:
                following = next_start(start, row, length, mode, is_target, variable_of, path[1:])
            if following < 0:
                result = -following
                break
            row = following
        if result != DONE:
            break
        if is_open:
            opened[p, UNDECIDED_START] = row
        p += 1
        row = stop if p + 1 == bounds.shape[0] else bounds[p] - 1
    resume[0], resume[1], resume[2], resume[3] = p, row, number, taken
    resume[4], resume[5] = count, used
    return result
