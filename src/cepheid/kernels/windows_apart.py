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
def _extend_lanes(V, M, k, t, source, own, unit, weights, keys, inc, room, least):
    """Add an event to the aggregates of all lanes; ``inc`` is the number of matches it makes."""
    wide_lanes = np.uint64(inc.shape[0])
    inc[:] = unit
    for s in range(own):
        for lane in range(wide_lanes):
            inc[lane] += V[k, source[s], 0, lane]
    for a in range(1, V.shape[2]):
        for lane in range(wide_lanes):
            room[lane] = weights[a] * inc[lane]
        for s in range(own):
            for lane in range(wide_lanes):
                room[lane] += V[k, source[s], a, lane]
        for lane in range(wide_lanes):
            V[k, t, a, lane] += room[lane]
    for a in range(M.shape[2]):
        for lane in range(wide_lanes):
            least[lane] = keys[a] if inc[lane] > 0.0 else NO_VALUE
        for s in range(own):
            for lane in range(wide_lanes):
                least[lane] = min(least[lane], M[k, source[s], a, lane])
        for lane in range(wide_lanes):
            M[k, t, a, lane] = min(M[k, t, a, lane], least[lane])
    for lane in range(wide_lanes):
        V[k, t, 0, lane] += inc[lane]


@kernel()
def _begin_lanes(V, M, k, t, weights, keys, lanes):
    """Add an event that begins a match, and extends none, to the aggregates of all lanes."""
    for a in range(1, V.shape[2]):
        weight = weights[a]
        for lane in range(lanes):
            V[k, t, a, lane] += weight
    for a in range(M.shape[2]):
        value = keys[a]
        for lane in range(lanes):
            M[k, t, a, lane] = min(M[k, t, a, lane], value)
    for lane in range(lanes):
        V[k, t, 0, lane] += 1.0


@kernel()
def _extend_from_one(V, M, k, t, r, unit, weights, keys, lanes):
    """Do what ``_extend_lanes`` does for one source in one pass over the lanes of each part."""
    for a in range(1, V.shape[2]):
        weight = weights[a]
        for lane in range(lanes):
            V[k, t, a, lane] += weight * (unit + V[k, r, 0, lane]) + V[k, r, a, lane]
    for a in range(M.shape[2]):
        value = keys[a]
        for lane in range(lanes):
            least = value if unit + V[k, r, 0, lane] > 0.0 else NO_VALUE
            M[k, t, a, lane] = min(M[k, t, a, lane], min(least, M[k, r, a, lane]))
    for lane in range(lanes):
        V[k, t, 0, lane] += unit + V[k, r, 0, lane]


@kernel()
def sum_apart(
    counts, V, M, start, one, exponent, pane, dirty, target, source, own, begins, variable, ts,
    key, codes, W, X, wcol, xcol, begin, width, p, out_key, out_end, R, RM,
):  # fmt: skip
    """Aggregate plain programs in sliding windows, in doubles without exponents.

    Parameters
    ----------
    target, source, own, begins
        code -> configuration that grows, -1 for none; code -> configurations that it adds, and how
        many they are; whether an event of a code begins a match.
    variable
        configuration -> the variable of the event that it grows by.

    Returns
    -------
    OK, FULL, or NARROW if a count is large; the next event, and the number of rows.
    """
    rows, n, windows = 0, codes.shape[0], V.shape[3]
    wide_lanes = np.uint64(windows)
    inc, room, least = np.zeros(windows), np.zeros(windows), np.zeros(windows, np.int64)
    weights, keys = np.zeros(V.shape[2]), np.zeros(M.shape[2], np.int64)
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if ts[i] >= (pane[k] + 1) * width:
            if rows + windows > out_key.shape[0]:
                return FULL, i, rows
            rows = _close(
                counts, V, M, start, one, exponent, pane, dirty, k, ts[i] // width, 1.0, 0.0, p,
                out_key, out_end, R, RM, rows,
            )  # fmt: skip
        dirty[k] = True
        unit = 1.0 if begins[c] else 0.0
        v = variable[t]
        for a in range(1, V.shape[2]):
            weights[a] = W[wcol[v, a], i] if wcol[v, a] >= 0 else 0.0
        for a in range(M.shape[2]):
            keys[a] = X[xcol[v, a], i] if xcol[v, a] >= 0 else NO_VALUE
        if own[c] == 1:
            _extend_from_one(V, M, k, t, source[c, 0], unit, weights, keys, wide_lanes)
        elif own[c]:
            _extend_lanes(V, M, k, t, source[c], own[c], unit, weights, keys, inc, room, least)
        elif begins[c]:
            _begin_lanes(V, M, k, t, weights, keys, wide_lanes)
        # No open window has more matches than the one that ends next.
        if V[k, t, 0, (pane[k] + 1) % windows] > LIMIT:
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
