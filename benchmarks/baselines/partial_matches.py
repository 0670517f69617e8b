"""An engine of partial matches in the style of SASE: every event extends all that it can.

A partial match is a row: its stage, its last event, the row that it extends, when it began, and
what later conditions ask of it. Under skip-till-any-match nothing is replaced: an extended partial
match stays, so their number grows as the number of matches does. Those that are too old are
removed when half of the rows are. Built matches are walked from their last row, event by event.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.baselines.jit import kernel

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

V_SHAPE, BIG_AFTER_SMALL = 0, 1
STAGE, LAST, BEGAN, PARENT = range(4)
ROWS_MAX = 1 << 27
"""Rows of 40 bytes; more do not fit into the memory of a small machine."""


class Built(NamedTuple):
    """How many matches, of how many events together, and the most partial matches at once."""

    matches: int
    events: int
    partial: int
    is_complete: bool


def build_matches(
    key: Integers,
    stamp: Integers,
    value: Floats,
    query: int,
    within: int,
    *,
    rows_max: int = ROWS_MAX,
) -> Built:
    """Build all matches of a query, and count them.

    Parameters
    ----------
    key, stamp, value
        The events, in the order of time.
    query
        ``V_SHAPE`` is RCEP's Query 1, ``BIG_AFTER_SMALL`` its pattern SEQ(a, b+).
    within
        The length of the window: the last event of a match is less than this after the first.
    """
    order = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.diff(key[order], prepend=-1, append=-2))
    total = np.zeros(4, np.int64)
    for begin, end in itertools.pairwise(bounds):
        rows = order[begin:end]
        done = _run(stamp[rows], value[rows], query, within, rows_max, total)
        if not done:
            return Built(int(total[0]), int(total[1]), int(total[2]), is_complete=False)
    return Built(int(total[0]), int(total[1]), int(total[2]), is_complete=True)


@kernel
def _run(
    stamp: Integers, value: Floats, query: int, within: int, rows_max: int, total: Integers
) -> bool:
    rows = np.zeros((1024, 4), np.int64)
    bound = np.zeros(1024, np.float64)
    count = 0
    for event in range(len(stamp)):
        count = _forget(rows, bound, count, stamp[event] - within)
        before, price = count, value[event]
        if 2 * count + 1 > len(rows):
            if 2 * len(rows) > rows_max:
                return False
            rows, bound = _grow(rows), _grow(bound)
        for row in range(before):
            if rows[row, BEGAN] <= stamp[event] - within:
                continue
            # The price of the first b, once there is one, is what c must be below.
            if query == V_SHAPE and rows[row, STAGE] == 1 and price < bound[row]:
                _build(rows, row, total)
            takes = value[rows[row, LAST]] < price
            if query == BIG_AFTER_SMALL:
                takes = price > 100 and (
                    rows[row, STAGE] == 1 or 5 * value[rows[row, LAST]] < price
                )
            if takes:
                rows[count, STAGE], rows[count, LAST] = 1, event
                rows[count, BEGAN], rows[count, PARENT] = rows[row, BEGAN], row
                bound[count] = price if rows[row, STAGE] == 0 else bound[row]
                if query == BIG_AFTER_SMALL:
                    _build(rows, row, total)
                count += 1
        if query == V_SHAPE or price < 20:
            rows[count, STAGE], rows[count, LAST] = 0, event
            rows[count, BEGAN], rows[count, PARENT] = stamp[event], -1
            count += 1
        total[2] = max(total[2], count)
    return True


@kernel
def _build(rows: Integers, row: int, total: Integers) -> None:
    """Walk a match back to its first event; what is added up stands for writing it."""
    total[0] += 1
    total[1] += 1
    while row >= 0:
        total[1] += 1
        total[3] += rows[row, LAST]
        row = rows[row, PARENT]


@kernel
def _forget(rows: Integers, bound: Floats, count: int, until: int) -> int:
    """Remove what is too old, once that is half; a row is as old as the one that it extends."""
    alive = 0
    for row in range(count):
        alive += rows[row, BEGAN] > until
    if 2 * alive >= count:
        return count
    place = np.full(count, -1, np.int64)
    kept = 0
    for row in range(count):
        if rows[row, BEGAN] > until:
            place[row] = kept
            parent = rows[row, PARENT]
            rows[kept] = rows[row]
            rows[kept, PARENT] = place[parent] if parent >= 0 else -1
            bound[kept] = bound[row]
            kept += 1
    return kept


@kernel
def _grow(values: Any) -> Any:
    return np.concatenate((values, np.zeros_like(values)))
