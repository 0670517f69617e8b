"""Ranks of values inside segments: a separated predicate becomes a range of whole numbers.

Every segment is ranked on its own, when it is run, so nothing needs the order of the whole input.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL = range(6)
OPERATORS = {
    "<": LESS,
    "<=": LESS_EQUAL,
    ">": GREATER,
    ">=": GREATER_EQUAL,
    "=": EQUAL,
    "<>": UNEQUAL,
}
_DIGIT = 11
_PASSES = 6
_SMALL = 256
_SIGN = np.uint64(2**63)
_LOW = np.uint64(2**_DIGIT - 1)


@njit(cache=True)
def sort_keys(keys, rows, count, keys_room, rows_room):
    """Sort the first ``count`` rows by their keys, in place; O(n), six passes at most."""
    if count < _SMALL:
        order = np.argsort(keys[:count], kind="mergesort")
        for n in range(count):
            rows_room[n] = rows[order[n]]
            keys_room[n] = keys[order[n]]
        rows[:count] = rows_room[:count]
        keys[:count] = keys_room[:count]
        return
    counts = np.zeros((_PASSES, 1 << _DIGIT), np.int64)
    for n in range(count):
        value = np.uint64(keys[n]) ^ _SIGN
        for digit in range(_PASSES):
            counts[digit, (value >> np.uint64(_DIGIT * digit)) & _LOW] += 1
    from_keys, from_rows, to_keys, to_rows = keys, rows, keys_room, rows_room
    moved = 0
    for digit in range(_PASSES):
        shift = np.uint64(_DIGIT * digit)
        first = ((np.uint64(from_keys[0]) ^ _SIGN) >> shift) & _LOW
        if counts[digit, first] == count:
            continue  # All have the same digit here.
        total = np.int64(0)
        for n in range(1 << _DIGIT):
            here = counts[digit, n]
            counts[digit, n] = total
            total += here
        for n in range(count):
            place = ((np.uint64(from_keys[n]) ^ _SIGN) >> shift) & _LOW
            to = counts[digit, place]
            counts[digit, place] = to + 1
            to_keys[to] = from_keys[n]
            to_rows[to] = from_rows[n]
        from_keys, from_rows, to_keys, to_rows = to_keys, to_rows, from_keys, from_rows
        moved += 1
    if moved % 2:
        keys[:count] = from_keys[:count]
        rows[:count] = from_rows[:count]


@njit(cache=True)
def _range(operator, below, upto, count):
    """Return the ranks that fulfil a comparison with a value that has ``below`` smaller ones."""
    if operator == LESS:
        return 0, below
    if operator == LESS_EQUAL:
        return 0, upto
    if operator == GREATER:
        return upto, count
    if operator == GREATER_EQUAL:
        return below, count
    return below, upto


@njit(cache=True)
def rank_segments(
    segment_ptr, prev_keys, prev_valid, next_keys, next_valid, operator, rank, first, last, ranks
):
    """Give every row its rank, and the range of ranks that it may follow; O(n).

    Parameters
    ----------
    prev_keys, next_keys
        f and g of every row, as whole numbers of the same order.
    prev_valid, next_valid
        Where there is a value, and the row may be the earlier or the later one.
    rank, first, last, ranks
        Filled: the rank of f (-1: none), the range (first -1: none), how many ranks there are.
    """
    longest = 0
    for segment in range(segment_ptr.shape[0] - 1):
        longest = max(longest, segment_ptr[segment + 1] - segment_ptr[segment])
    keys, keys_room = np.empty(longest, np.int64), np.empty(longest, np.int64)
    rows, rows_room = np.empty(longest, np.int32), np.empty(longest, np.int32)
    others, other_rows = np.empty(longest, np.int64), np.empty(longest, np.int32)
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        count = 0
        for row in range(begin, end):
            rank[row] = -1
            if prev_valid[row]:
                keys[count] = prev_keys[row]
                rows[count] = row
                count += 1
        sort_keys(keys, rows, count, keys_room, rows_room)
        for n in range(count):
            rank[rows[n]] = n
        asking = 0
        for row in range(begin, end):
            first[row] = -1
            last[row] = -1
            ranks[row] = count
            if next_valid[row]:
                others[asking] = next_keys[row]
                other_rows[asking] = row
                asking += 1
        sort_keys(others, other_rows, asking, keys_room, rows_room)
        below, upto = 0, 0
        for n in range(asking):
            while below < count and keys[below] < others[n]:
                below += 1
            upto = max(upto, below)
            while upto < count and keys[upto] == others[n]:
                upto += 1
            row = other_rows[n]
            first[row], last[row] = _range(operator, below, upto, count)


@njit(cache=True)
def order_rows(segment_ptr, times, together, order):
    """Give numbers to the times of every segment, or to its rows where each stands for itself."""
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        number = np.int64(-1)
        for row in range(begin, end):
            if row == begin or not together or times[row] != times[row - 1]:
                number += 1
            order[row] = number
