"""Aggregate matches as a linear system: codes and weights of events in, one vector a partition out.

Without edge predicates every match in a configuration can be extended by the same events, so one
running aggregate per configuration is enough and no event is kept.

    V[key, configuration, part, lane]    counts and sums; part 0 counts matches
    M[key, configuration, part, lane]    smallest value keys (largest ones are kept as complements)
    start[key, lane]                     the start configuration of a lane, -1 for none
    exponent[key]                        doubles only: V stands for V * 2^exponent

A lane is one run of the system. Windows that do not overlap need one lane. For sliding windows a
pane is summarised by one lane per start configuration and per configuration: a matrix.

Source: Poppe et al., "Event Trend Aggregation Under Rich Event Matching Semantics", SIGMOD 2019,
sections 4 and 6, generalised: negation, ambiguity and all semantics are one finite linear system.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.ring import add, mul, present, settle, tiny, wide

ANY, NEXT, CONTIGUOUS = 0, 1, 2
NO_VALUE = np.iinfo(np.int64).max
OK, NARROW = 0, 1
"""Status of a run; NARROW: doubles with a shared exponent do not reach from the smallest to the
largest number, so the run must go on with wide numbers."""


@njit(cache=True)
def advance(
    T,
    V,
    M,
    start,
    one,
    k,
    i,
    j,
    codes,
    letter,
    W,
    X,
    wcol,
    xcol,
    nV,
    nM,
    mV,
    mM,
    semantics,
    zero,
    p,
):
    """Apply the events i to j of partition k, all of one time; O(edges x parts x lanes) an event.

    Parameters
    ----------
    T
        The tables of a program (``engine.program.Tables``).
    codes, letter
        The code of every event, and the letter of this time.
    W, X
        Weights (parts x events) and value keys (parts x events).
    wcol, xcol
        (variable, part) -> row of W or X, or -1.
    nV, nM
        What the events add: (configuration, part, lane); stays readable for the caller.
    mV, mM
        Room for what moves, of the same shapes.
    """
    size, parts, lanes = V.shape[1], V.shape[2], V.shape[3]
    mins = M.shape[2]
    grouped = j - i > 1
    nV[:, :, :] = zero
    nM[:, :, :] = NO_VALUE
    for e in range(i, j):
        c = codes[e]
        for t in range(T.target_ptr[c], T.target_ptr[c + 1]):
            q = T.target[t]
            variable = T.variable[q]
            for lane in range(lanes):
                inc = zero
                # Contiguous matches that go on past tied events would leave one of them out, so
                # only those that begin here stay; finished ones count all the same (§3.3).
                extends = not (grouped and semantics == CONTIGUOUS and not T.finished[q])
                if extends:
                    for s in range(T.source_ptr[t], T.source_ptr[t + 1]):
                        inc = add(inc, V[k, T.source[s], 0, lane], p)
                if start[k, lane] >= 0 and T.start[t, start[k, lane]]:
                    if tiny(one[k]) and not present(inc) and not present(V[k, q, 0, lane]):
                        return NARROW
                    inc = add(inc, one[k], p)
                if not present(inc):
                    continue
                nV[q, 0, lane] = add(nV[q, 0, lane], inc, p)
                for a in range(1, parts):
                    total = zero
                    if extends:
                        for s in range(T.source_ptr[t], T.source_ptr[t + 1]):
                            total = add(total, V[k, T.source[s], a, lane], p)
                    row = wcol[variable, a]
                    if row >= 0:
                        total = add(total, mul(W[row, e], inc, p), p)
                    nV[q, a, lane] = add(nV[q, a, lane], total, p)
                for a in range(mins):
                    least = NO_VALUE
                    if extends:
                        for s in range(T.source_ptr[t], T.source_ptr[t + 1]):
                            if present(V[k, T.source[s], 0, lane]):
                                least = min(least, M[k, T.source[s], a, lane])
                    row = xcol[variable, a]
                    if row >= 0:
                        least = min(least, X[row, e])
                    nM[q, a, lane] = min(nM[q, a, lane], least)
    if semantics == CONTIGUOUS:
        for q in range(size):
            if not T.finished[q]:
                V[k, q] = zero
                M[k, q] = NO_VALUE
    elif semantics == NEXT:
        for e in range(i, j):
            for t in range(T.clear_ptr[codes[e]], T.clear_ptr[codes[e] + 1]):
                V[k, T.clear[t]] = zero
                M[k, T.clear[t]] = NO_VALUE
    if T.move_ptr[letter + 1] > T.move_ptr[letter]:
        move(T, V, M, k, letter, mV, mM, zero, p)
    for lane in range(lanes):
        if start[k, lane] >= 0:
            start[k, lane] = T.start_next[letter, start[k, lane]]
    for q in range(size):
        for lane in range(lanes):
            if present(nV[q, 0, lane]):
                for a in range(parts):
                    V[k, q, a, lane] = add(V[k, q, a, lane], nV[q, a, lane], p)
                for a in range(mins):
                    M[k, q, a, lane] = min(M[k, q, a, lane], nM[q, a, lane])
    return OK


@njit(cache=True)
def move(T, V, M, k, letter, mV, mM, zero, p):
    """Move the matches of configurations by a letter; all leave before any arrives."""
    parts, lanes, mins = V.shape[2], V.shape[3], M.shape[2]
    mV[:, :, :] = zero
    mM[:, :, :] = NO_VALUE
    first, last = T.move_ptr[letter], T.move_ptr[letter + 1]
    for m in range(first, last):
        s, q = T.move_from[m], T.move_to[m]
        for lane in range(lanes):
            if q >= 0 and present(V[k, s, 0, lane]):
                for a in range(parts):
                    mV[q, a, lane] = add(mV[q, a, lane], V[k, s, a, lane], p)
                for a in range(mins):
                    mM[q, a, lane] = min(mM[q, a, lane], M[k, s, a, lane])
    for m in range(first, last):
        V[k, T.move_from[m]] = zero
        M[k, T.move_from[m]] = NO_VALUE
    for q in range(V.shape[1]):
        for lane in range(lanes):
            if present(mV[q, 0, lane]):
                for a in range(parts):
                    V[k, q, a, lane] = add(V[k, q, a, lane], mV[q, a, lane], p)
                for a in range(mins):
                    M[k, q, a, lane] = min(M[k, q, a, lane], mM[q, a, lane])


@njit(cache=True)
def close_row(T, V, M, k, exponent, R, RM, row, p):
    """Add up the configurations that count, in lane 0; return whether there is any match."""
    some = False
    for a in range(V.shape[2]):
        R[row, a] = wide(V.dtype.type(0), 0)
    for a in range(M.shape[2]):
        RM[row, a] = NO_VALUE
    for q in range(V.shape[1]):
        if T.counts[q] and present(V[k, q, 0, 0]):
            some = True
            for a in range(V.shape[2]):
                R[row, a] = add(R[row, a], wide(V[k, q, a, 0], exponent[k]), p)
            for a in range(M.shape[2]):
                RM[row, a] = min(RM[row, a], M[k, q, a, 0])
    return some


@njit(cache=True)
def reset(V, M, start, one, exponent, unit, zero, k):
    """Forget everything of a partition."""
    V[k] = zero
    M[k] = NO_VALUE
    start[k] = 0
    one[k] = unit
    exponent[k] = 0


@njit(cache=True, nogil=True)
def aggregate_linear(
    T,
    V,
    M,
    start,
    one,
    exponent,
    opened,
    ts,
    key,
    codes,
    letters,
    W,
    X,
    wcol,
    xcol,
    begin,
    width,
    grouped,
    semantics,
    unit,
    zero,
    p,
    out_key,
    out_start,
    R,
    RM,
):
    """Aggregate windows that do not overlap; O(edges) an event and memory for one vector a key.

    Parameters
    ----------
    opened
        (keys,) the start of each key's open window; its events are in V.
    begin
        The first event to process.
    width
        The length of a window, 0 for one window that never ends.
    grouped
        Whether events of one key and time are processed together (TIES strict).

    Returns
    -------
    status, next event, number of rows
    """
    rows = 0
    n = ts.shape[0]
    nV = np.zeros((V.shape[1], V.shape[2], V.shape[3]), V.dtype)
    nM = np.zeros((M.shape[1], M.shape[2], M.shape[3]), np.int64)
    mV, mM = nV.copy(), nM.copy()
    i = begin
    while i < n:
        k = key[i]
        j = i + 1
        if grouped:
            while j < n and ts[j] == ts[i] and key[j] == k:
                j += 1
        if width > 0 and ts[i] >= opened[k] + width:
            if close_row(T, V, M, k, exponent, R, RM, rows, p):
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            reset(V, M, start, one, exponent, unit, zero, k)
            opened[k] = ts[i] // width * width
        status = advance(
            T, V, M, start, one, k, i, j, codes, letters[i], W, X, wcol, xcol, nV, nM, mV, mM,
            semantics, zero, p,
        )  # fmt: skip
        if status != OK:
            return status, i, rows
        i = j
        if not settle(V, one, exponent, k):
            return NARROW, i, rows
    return OK, n, rows


@njit(cache=True)
def flush_linear(
    T, V, M, start, one, exponent, opened, until, width, unit, zero, p, out_key, out_start, R, RM
):
    """Close every window that ends by ``until``; return the number of rows."""
    rows = 0
    for k in range(V.shape[0]):
        if width > 0 and opened[k] + width > until:
            continue
        if close_row(T, V, M, k, exponent, R, RM, rows, p):
            out_key[rows] = k
            out_start[rows] = opened[k]
            rows += 1
        reset(V, M, start, one, exponent, unit, zero, k)
    return rows
