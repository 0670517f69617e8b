"""Add up the matches of a window that moves: matches enter when they end, and leave by their start.

A tree of sums over the matches of a key holds those that the window has; its root is their sum.
Nothing is subtracted, so sums of doubles keep their digits, and minima work alike. O(log n) for
every match that enters or leaves.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.graph import set_leaf
from cepheid.kernels.tiers import kernel

NO_VALUE = np.iinfo(np.int64).max


@kernel()
def sum_windows(
    begins, ends, time_ptr, high, low, leaving, time, width, V, M, tree, least, zero, p, R, RM
):
    """Compute the sums at all times of the matches that ended, and began less than a width ago.

    Parameters
    ----------
    begins, ends, time_ptr
        Where the matches of each key begin and end, and where its times begin.
    high, low, leaving
        The last and the first time of each match, in the order of ``high``; matches by ``low``.
    V, M
        (match, 1, number) their aggregates.
    tree, least
        Buffers for twice the matches of a key.
    R, RM
        Filled: the sums at every time.
    """
    for key in range(begins.shape[0]):
        begin, end = begins[key], ends[key]
        size = end - begin
        tree[0, : 2 * size] = zero
        least[0, : 2 * size] = NO_VALUE
        entered, left = begin, begin
        for n in range(time_ptr[key], time_ptr[key + 1]):
            while entered < end and high[entered] <= time[n]:
                rank = entered - begin
                set_leaf(tree, least, 0, size, rank, V, M, entered, 0, zero, p)
                entered += 1
            while left < end and low[leaving[left]] <= time[n] - width:
                # A match is shorter than the window, so it has entered before.
                set_leaf(tree, least, 0, size, leaving[left] - begin, V, M, -1, 0, zero, p)
                left += 1
            if size:
                R[n] = tree[0, 1]
                RM[n] = least[0, 1]
