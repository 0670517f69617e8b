"""Aggregate sliding windows that are kept apart: every open window has a lane of its own.

An event is added to all open windows, one lane each, side by side in memory, so that it costs
O(edges x windows) additions; a window that ends is a sum over its lane. Panes (``panes.py``) cost
less where many events of a key share one; with few events a pane, products of matrices cost far
more than these additions. For windows whose length is a multiple of their slide.

    V[key, configuration, part, lane]    as in ``linear.py``; window s is in lane s % windows
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import ENDED, NARROW, NO_VALUE, OK, advance, rooms
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import LIMIT, add, present, wide, widen
from cepheid.kernels.tiers import kernel


@kernel()
def _close_lane(counts, V, M, start, one, exponent, k, lane, unit, zero, R, RM, row, p):
    """Add up the configurations of a window that count, and begin another; tell if any match."""
    some = False
    for a in range(V.shape[2]):
        R[row, a] = wide(V.dtype.type(0), 0)
    for a in range(M.shape[2]):
        RM[row, a] = NO_VALUE
    for q in range(V.shape[1]):
        if counts[q] and present(V[k, q, 0, lane]):
            some = True
            for a in range(V.shape[2]):
                R[row, a] = add(R[row, a], wide(V[k, q, a, lane], exponent[k, lane]), p)
            for a in range(M.shape[2]):
                RM[row, a] = min(RM[row, a], M[k, q, a, lane])
        for a in range(V.shape[2]):
            V[k, q, a, lane] = zero
        for a in range(M.shape[2]):
            M[k, q, a, lane] = NO_VALUE
    start[k, lane] = 0
    one[k, lane] = unit
    exponent[k, lane] = 0
    return some


@kernel()
def _close(
    counts, V, M, start, one, exponent, pane, dirty, k, upto, unit, zero, p, out_key, out_end, R,
    RM, rows,
):  # fmt: skip
    """Close the windows of a key that end by pane ``upto``; return the number of rows."""
    windows = V.shape[3]
    if dirty[k]:
        # After as many panes as a window has, all lanes are empty.
        for b in range(pane[k] + 1, min(upto, pane[k] + windows) + 1):
            if _close_lane(
                counts, V, M, start, one, exponent, k, b % windows, unit, zero, R, RM, rows, p
            ):
                out_key[rows] = k
                out_end[rows] = b
                rows += 1
        dirty[k] = upto - pane[k] < windows
    pane[k] = upto
    return rows


@kernel()
def aggregate_apart(
    T, V, M, start, one, exponent, pane, dirty, ts, key, codes, letters, W, X, wcol, xcol, begin,
    width, grouped, semantics, unit, zero, p, out_key, out_end, R, RM,
):  # fmt: skip
    """Aggregate sliding windows; O(edges x parts x windows) per event.

    Parameters
    ----------
    T
        The tables of a program, with a column of ``start`` for every lane: all of them begin.
    pane, dirty
        (keys,) the last pane of each key, and whether an open window may have matches.
    width
        The length of a pane, which is that of a slide.

    Returns
    -------
    status, next event, number of rows
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
        if rows + V.shape[3] > out_key.shape[0]:
            return FULL, i, rows
        k, upto = key[i], ts[i] // width
        rows = _close(
            T.counts, V, M, start, one, exponent, pane, dirty, k, upto, unit, zero, p, out_key,
            out_end, R, RM, rows,
        )  # fmt: skip
        until[k] = (upto + 1) * width


@kernel()
def _count_lanes(V, counts, k, pane, upto, out_key, out_end, R, rows):
    """Close windows of plain counts as ``_close`` does."""
    size, windows = V.shape[1], V.shape[3]
    for b in range(pane + 1, min(upto, pane + windows) + 1):
        lane, total = b % windows, 0.0
        for q in range(size):
            if counts[q]:
                total += V[k, q, 0, lane]
            V[k, q, 0, lane] = 0.0
        if total != 0.0:
            R[rows, 0] = widen(total, 0.0)
            out_key[rows] = k
            out_end[rows] = b
            rows += 1
    return rows


@kernel()
def count_apart(
    V, pane, dirty, target, source, amount, counts, ts, key, codes, begin, width, out_key, out_end,
    R,
):  # fmt: skip
    """Count matches of plain programs in sliding windows, in doubles without exponents.

    Parameters
    ----------
    target, source, amount
        code -> configuration that grows, -1 for none; code -> configurations that it adds, the one
        that grows first, and the number of configurations where a match begins; how many they are.

    Returns
    -------
    OK, FULL, or NARROW if a count is large; the next event, and the number of rows.
    """
    rows, n, room = 0, codes.shape[0], out_key.shape[0]
    size, windows = V.shape[1], V.shape[3]
    D = V.reshape(V.shape[0] * size, windows)
    wide_lanes = np.uint64(windows)
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if ts[i] >= (pane[k] + 1) * width:
            if rows + windows > room:
                return FULL, i, rows
            upto = ts[i] // width
            if dirty[k]:
                rows = _count_lanes(V, counts, k, pane[k], upto, out_key, out_end, R, rows)
            pane[k] = upto
        dirty[k] = True
        base = k * size
        row = base + t
        for s in range(amount[c]):
            r = source[c, s]
            if r == t:
                for lane in range(wide_lanes):
                    D[row, lane] *= 2.0
            elif r == size:
                for lane in range(wide_lanes):
                    D[row, lane] += 1.0
            else:
                r += base
                for lane in range(wide_lanes):
                    D[row, lane] += D[r, lane]
        # No open window has more matches than the one that ends next.
        if D[row, (pane[k] + 1) % windows] > LIMIT:
            return NARROW, i + 1, rows
    return OK, n, rows


@kernel()
def flush_apart(
    counts, V, M, start, one, exponent, pane, dirty, first, upto, unit, zero, p, out_key, out_end,
    R, RM,
):  # fmt: skip
    """Close the windows of all keys that end by pane ``upto``; return next key and rows."""
    rows = 0
    for k in range(first, V.shape[0]):
        if rows + V.shape[3] > out_key.shape[0]:
            return k, rows
        if pane[k] < upto:
            rows = _close(
                counts, V, M, start, one, exponent, pane, dirty, k, upto, unit, zero, p, out_key,
                out_end, R, RM, rows,
            )  # fmt: skip
    return V.shape[0], rows
