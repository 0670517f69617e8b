"""Summaries of stretches of events: compute the matrices of panes, and compose them elsewhere.

A stretch is summarised by one matrix per key and pane (``panes.py``): one lane for every start
configuration and every configuration that may come in. Matrices of stretches that follow each
other are multiplied, so a stream can be cut anywhere and its pieces processed in parallel.

    V, start    [row, configuration, part, lane] and [row, lane]; M likewise, for extremes
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import ENDED, OK, advance, rooms
from cepheid.kernels.panes import FULL, identity, product, seal
from cepheid.kernels.ring import add, wide
from cepheid.kernels.tiers import kernel


@kernel()
def add_rows(numbers, values, place, total, least, p):
    """Add rows to their targets: numbers by addition, value keys by the minimum."""
    for row in range(len(place)):
        for a in range(numbers.shape[1]):
            total[place[row], a] = add(total[place[row], a], numbers[row, a], p)
        for a in range(values.shape[1]):
            least[place[row], a] = min(least[place[row], a], values[row, a])


@kernel()
def take_pane(V, M, start, exponent, k, D, DM, DS, row):
    """Copy the matrix of a key's open pane into a row of wide numbers or residues."""
    for lane in range(V.shape[3]):
        for q in range(V.shape[1]):
            for a in range(V.shape[2]):
                D[row, q, a, lane] = wide(V[k, q, a, lane], exponent[k, lane])
            for a in range(M.shape[2]):
                DM[row, q, a, lane] = M[k, q, a, lane]
        DS[row, lane] = start[k, lane]


@kernel()
def take_panes(V, M, start, one, exponent, keys, nS, unit, zero, D, DM, DS):
    """Take the matrices of several keys, and reset their panes."""
    for row in range(len(keys)):
        take_pane(V, M, start, exponent, keys[row], D, DM, DS, row)
        identity(V, M, start, one, exponent, unit, zero, keys[row], nS)


@kernel()
def summarise_panes(
    T, V, M, start, one, exponent, pane, dirty, ts, key, codes, letters, W, X, wcol, xcol, begin,
    width, grouped, semantics, nS, unit, zero, p, out_key, out_pane, D, DM, DS,
):  # fmt: skip
    """Summarise events pane by pane; O(edges x lanes) an event.

    Parameters
    ----------
    pane, dirty
        (keys,) the open pane of each key, and whether it has events.
    out_key, out_pane, D, DM, DS
        Buffers for the matrices of finished panes; the caller takes those that are still open.

    Returns
    -------
    status, next event, number of matrices
    """
    rows, i, n = 0, begin, ts.shape[0]
    room = rooms(V, M)
    until = (pane + 1) * width
    while True:
        status, i = advance(
            T, V, M, start, one, exponent, until, dirty, ts, key, codes, letters, W, X, wcol, xcol,
            room, i, n, grouped, semantics, zero, p,
        )  # fmt: skip
        if status != ENDED:
            return status, i, rows
        k = key[i]
        if dirty[k]:
            if rows == out_key.shape[0]:
                return FULL, i, rows
            take_pane(V, M, start, exponent, k, D, DM, DS, rows)
            out_key[rows], out_pane[rows] = k, pane[k]
            rows += 1
            identity(V, M, start, one, exponent, unit, zero, k, nS)
            dirty[k] = False
        pane[k] = ts[i] // width
        until[k] = (pane[k] + 1) * width


@kernel()
def compose_panes(
    counts, V, M, start, one, exponent, pane, dirty, B, key, panes_in, D, DM, DS, begin, slide, nS,
    unit, zero, p, out_key, out_end, R, RM,
):  # fmt: skip
    """Multiply matrices into the panes of their keys; close the windows that end before them.

    ``D``, ``DM``, ``DS`` are the matrices, in the order of time for every key; numbers are wide or
    residues. Returns status, next matrix and number of rows, as ``panes.aggregate_panes``.
    """
    rows = 0
    room = out_key.shape[0]
    panes = B[0].shape[1]
    oV = np.zeros((V.shape[1], V.shape[2]), V.dtype)
    oM = np.zeros((M.shape[1], M.shape[2]), np.int64)
    for i in range(begin, key.shape[0]):
        k = key[i]
        if panes_in[i] > pane[k]:
            if rows + 2 * panes + 2 > room:
                return FULL, i, rows
            rows = seal(
                counts, V, M, start, one, exponent, pane, dirty, B, k, panes_in[i], slide, nS,
                unit, zero, p, oV, oM, out_key, out_end, R, RM, rows,
            )  # fmt: skip
        X, XM, XS = V[k], M[k], start[k]
        product(X, XM, XS, D[i], DM[i], DS[i], nS, X, XM, XS, oV, oM, p)
        dirty[k] = True
    return OK, key.shape[0], rows
