"""Walks through a graph of matches backwards: how a row finds again the rows that it may follow.

The graph and its rows are those of ``graph.py``. A *slot* is a tree over the rows of one state, by
their places in the segment or by the ranks of their values:

    edge_slot[edge]     the slot that an edge looks up, -1 if it tests rows one by one
    source, predicate   of each slot: its state, and the predicate whose ranks it orders; -1: places

Rows that a row may follow are then a range of leaves, or two.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.ring import add
from cepheid.kernels.tiers import kernel

_NONE = np.uint64(0)


@kernel(inline="code", borrows=True)
def minus(a, b):
    """Subtract a wide number from one that is not less."""
    return add(a, complex(-b.real, b.imag), _NONE)


@kernel(inline="code", borrows=True)
def less(a, b):
    """Check whether a wide number that is not negative is less than another one."""
    if b.real == 0.0:
        return False
    if a.real == 0.0 or a.imag < b.imag:
        return True
    return a.imag == b.imag and a.real < b.real


@kernel(borrows=True)
def first_at(order, begin, end, least):
    """Find the first row of an order or a higher one; O(log n)."""
    while begin < end:
        middle = (begin + end) >> 1
        if order[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel(borrows=True)
def leaves_of(predicate, row, begin, upto, low, high, order, first, last, ranks, outside):
    """Find the two ranges of leaves of a slot that a row may follow, as four numbers.

    ``upto`` is the first row of the same order; guards leave the orders from low to high.
    """
    zero = np.int64(0)
    if predicate < 0:
        left = first_at(order, begin, upto, low)
        return left - begin, first_at(order, left, upto, high) - begin, zero, zero
    start, stop = np.int64(first[predicate, row]), np.int64(last[predicate, row])
    if start < 0:
        return zero, zero, zero, zero
    if outside[predicate]:
        return zero, start, stop, np.int64(ranks[predicate, row])
    return start, max(start, stop), zero, zero
