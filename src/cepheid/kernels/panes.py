"""Aggregate sliding windows: panes become small matrices, windows products of matrices.

A pane is a stretch that no window cuts. The events of a key in a pane are one linear map, kept as
a matrix: one lane for every start configuration and every configuration that may come in.
P panes make a window. Panes are cut into blocks of P, so a window is the end of one block and the
beginning of the next:

    block b               block b+1
    | 0 1 2 3 4 5 ... P-1 | 0 1 2 3 ...
          [ window of P panes )
          suffix[2]         prefix

``suffix[o]`` is a vector (the empty match pushed through panes o..P-1 of the last block), computed
once when a block ends; ``prefix`` is the product of the panes of the open block. A result is one
vector times one matrix. So a pane costs O(size^3) a key that has events in it, and a window
O(size^2), whatever the number of overlapping windows; an event costs O(edges x lanes).

    pane, prefix    [key, (offset,) configuration, part, lane]   wide numbers or residues
    suffix          [key, offset, configuration, part]
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import ENDED, NO_VALUE, advance, rooms
from cepheid.kernels.ring import add, mul, present, wide
from cepheid.kernels.tiers import kernel

FULL = 2
"""Status: the buffer for rows is full; empty it and continue."""


@kernel()
def times(X, XM, lane, xs, B, C, S, nS, oV, oM, p):
    """Multiply a vector by a matrix: push the matches of the vector through the matrix.

    Parameters
    ----------
    X, XM, lane, xs
        The vector: one lane of (configuration, part, lane) twice, and its start or -1.
    B, C, S
        The matrix: (configuration, part, lane) twice, and the start configuration of every lane.
    nS
        The number of start lanes; lane nS + q belongs to configuration q.

    Returns
    -------
    The start configuration of the product, which is in oV, oM (configuration, part).
    """
    size, parts, mins = B.shape[0], B.shape[1], C.shape[1]
    for q in range(size):
        for a in range(parts):
            oV[q, a] = B[q, a, xs] if xs >= 0 else B.dtype.type(0)
        for a in range(mins):
            oM[q, a] = C[q, a, xs] if xs >= 0 else NO_VALUE
    for r in range(size):
        if not present(X[r, 0, lane]):
            continue
        for q in range(size):
            count = B[q, 0, nS + r]
            if not present(count):
                continue
            oV[q, 0] = add(oV[q, 0], mul(X[r, 0, lane], count, p), p)
            for a in range(1, parts):
                both = add(mul(X[r, 0, lane], B[q, a, nS + r], p), mul(X[r, a, lane], count, p), p)
                oV[q, a] = add(oV[q, a], both, p)
            for a in range(mins):
                oM[q, a] = min(oM[q, a], min(XM[r, a, lane], C[q, a, nS + r]))
    return S[xs] if xs >= 0 else np.int32(-1)


@kernel()
def put(oV, oM, D, DM, lane):
    """Store a vector in a lane of a matrix."""
    for q in range(oV.shape[0]):
        for a in range(oV.shape[1]):
            D[q, a, lane] = oV[q, a]
        for a in range(oM.shape[1]):
            DM[q, a, lane] = oM[q, a]


@kernel()
def product(X, XM, XS, B, C, S, nS, D, DM, DS, oV, oM, p):
    """Multiply two matrices into a third, which may be the first one, lane by lane."""
    for lane in range(X.shape[2]):
        DS[lane] = times(X, XM, lane, XS[lane], B, C, S, nS, oV, oM, p)
        put(oV, oM, D, DM, lane)


@kernel()
def copy_lanes(X, XM, XS, D, DM, DS, lanes):
    """Copy the first lanes of a matrix."""
    for lane in range(lanes):
        for q in range(X.shape[0]):
            for a in range(X.shape[1]):
                D[q, a, lane] = X[q, a, lane]
            for a in range(XM.shape[1]):
                DM[q, a, lane] = XM[q, a, lane]
        DS[lane] = XS[lane]


@kernel()
def identity(V, M, start, one, exponent, unit, zero, k, nS):
    """Begin a pane: every lane holds one match, in its own configuration."""
    for lane in range(V.shape[3]):
        one[k, lane] = unit
        exponent[k, lane] = 0
        for q in range(V.shape[1]):
            for a in range(V.shape[2]):
                V[k, q, a, lane] = zero
            for a in range(M.shape[2]):
                M[k, q, a, lane] = NO_VALUE
        if lane < nS:
            start[k, lane] = lane
        else:
            start[k, lane] = -1
            V[k, lane - nS, 0, lane] = unit


@kernel()
def _end_pane(V, M, start, exponent, P, PM, PS, has, F, FM, FS, begun, k, o, nS, oV, oM, p):
    """Store the matrix of the pane at offset o, and multiply the prefix of the block by it."""
    size, parts, lanes, mins = V.shape[1], V.shape[2], V.shape[3], M.shape[2]
    for lane in range(lanes):
        for q in range(size):
            for a in range(parts):
                P[k, o, q, a, lane] = wide(V[k, q, a, lane], exponent[k, lane])
            for a in range(mins):
                PM[k, o, q, a, lane] = M[k, q, a, lane]
        PS[k, o, lane] = start[k, lane]
    has[k, o] = True
    if not begun[k]:
        copy_lanes(P[k, o], PM[k, o], PS[k, o], F[k], FM[k], FS[k], lanes)
        begun[k] = True
        return
    X, XM, XS = F[k], FM[k], FS[k]
    product(X, XM, XS, P[k, o], PM[k, o], PS[k, o], nS, X, XM, XS, oV, oM, p)


@kernel()
def _end_block(P, PM, PS, has, begun, A, AM, AS, tail, k, nS, oV, oM, p):
    """Compute the suffix vectors of the block that ends, and begin the next one."""
    panes, size, parts, lanes, mins = P.shape[1], P.shape[2], P.shape[3], P.shape[4], PM.shape[3]
    G = np.zeros((size, parts, lanes), P.dtype)
    GM = np.zeros((size, mins, lanes), np.int64)
    GS = np.zeros(lanes, np.int32)
    H, HM, HS = np.zeros_like(G), np.zeros_like(GM), np.zeros_like(GS)
    some = False
    for o in range(panes - 1, -1, -1):
        if has[k, o]:
            if some:
                product(P[k, o], PM[k, o], PS[k, o], G, GM, GS, nS, H, HM, HS, oV, oM, p)
                G, GM, GS, H, HM, HS = H, HM, HS, G, GM, GS
            else:
                copy_lanes(P[k, o], PM[k, o], PS[k, o], G, GM, GS, lanes)
            some = True
        tail[k, o] = some
        has[k, o] = False
        if some:
            copy_lanes(G, GM, GS, A[k, o], AM[k, o], AS[k, o], 1)
    begun[k] = False


@kernel()
def _window(counts, F, FM, FS, begun, A, AM, AS, tail, k, o, nS, oV, oM, R, RM, row, p):
    """Compute the result of the window that ends at offset o; return whether it has a match."""
    size, parts, mins = F.shape[1], F.shape[2], FM.shape[2]
    whole = o > 0 and tail[k, o]
    if not whole and not begun[k]:
        return False
    if whole and begun[k]:
        times(A[k, o], AM[k, o], 0, AS[k, o, 0], F[k], FM[k], FS[k], nS, oV, oM, p)
    else:
        for q in range(size):
            for a in range(parts):
                oV[q, a] = A[k, o, q, a, 0] if whole else F[k, q, a, 0]
            for a in range(mins):
                oM[q, a] = AM[k, o, q, a, 0] if whole else FM[k, q, a, 0]
    some = False
    for a in range(parts):
        R[row, a] = F.dtype.type(0)
    for a in range(mins):
        RM[row, a] = NO_VALUE
    for q in range(size):
        if counts[q] and present(oV[q, 0]):
            some = True
            for a in range(parts):
                R[row, a] = add(R[row, a], oV[q, a], p)
            for a in range(mins):
                RM[row, a] = min(RM[row, a], oM[q, a])
    return some


@kernel()
def seal(
    counts,
    V,
    M,
    start,
    one,
    exponent,
    pane,
    dirty,
    B,
    k,
    upto,
    slide,
    nS,
    unit,
    zero,
    p,
    oV,
    oM,
    out_key,
    out_end,
    R,
    RM,
    rows,
):
    """Close all panes of a key before pane ``upto``; return the number of rows.

    ``B`` holds the block: matrices, prefix and suffixes (``engine.state.Block``).
    """
    P, PM, PS, has, F, FM, FS, begun, A, AM, AS, tail = B
    panes = P.shape[1]
    if dirty[k]:
        _end_pane(
            V, M, start, exponent, P, PM, PS, has, F, FM, FS, begun, k, pane[k] % panes, nS,
            oV, oM, p,
        )  # fmt: skip
        identity(V, M, start, one, exponent, unit, zero, k, nS)
        dirty[k] = False
    b = pane[k] + 1
    while b <= upto:
        o = b % panes
        if (b - panes) % slide == 0 and _window(
            counts, F, FM, FS, begun, A, AM, AS, tail, k, o, nS, oV, oM, R, RM, rows, p
        ):
            out_key[rows] = k
            out_end[rows] = b
            rows += 1
        if o == 0:
            _end_block(P, PM, PS, has, begun, A, AM, AS, tail, k, nS, oV, oM, p)
        # Suffixes only get shorter: if the next one is empty, so are all that follow.
        if not begun[k] and (o + 1 == panes or not tail[k, o + 1]):
            # All windows are empty: skip the gap.
            for left in range(panes):
                tail[k, left] = False
            break
        b += 1
    pane[k] = upto
    return rows


@kernel(shortcut="pane_arrays")
def aggregate_panes(
    T,
    V,
    M,
    start,
    one,
    exponent,
    pane,
    dirty,
    B,
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
    slide,
    grouped,
    semantics,
    nS,
    unit,
    zero,
    p,
    out_key,
    out_end,
    R,
    RM,
):
    """Aggregate sliding windows; see the module's docstring for the costs.

    Parameters
    ----------
    pane, dirty
        (keys,) the open pane of each key, and whether it has events.
    width, slide
        The length of a pane, and of a slide in panes.

    Returns
    -------
    status, next event, number of rows
    """
    rows, i, n = 0, begin, ts.shape[0]
    panes = B[0].shape[1]
    oV = np.zeros((V.shape[1], V.shape[2]), B[0].dtype)
    oM = np.zeros((M.shape[1], M.shape[2]), np.int64)
    room = rooms(V, M)
    until = (pane + 1) * width
    while True:
        status, i = advance(
            T, V, M, start, one, exponent, until, dirty, ts, key, codes, letters, W, X, wcol, xcol,
            room, i, n, grouped, semantics, zero, p,
        )  # fmt: skip
        if status != ENDED:
            return status, i, rows
        if rows + 2 * panes + 2 > out_key.shape[0]:
            return FULL, i, rows
        k, upto = key[i], ts[i] // width
        rows = seal(
            T.counts, V, M, start, one, exponent, pane, dirty, B, k, upto, slide, nS, unit,
            zero, p, oV, oM, out_key, out_end, R, RM, rows,
        )  # fmt: skip
        until[k] = (upto + 1) * width


@kernel()
def flush_panes(
    counts,
    V,
    M,
    start,
    one,
    exponent,
    pane,
    dirty,
    B,
    first,
    upto,
    slide,
    nS,
    unit,
    zero,
    p,
    out_key,
    out_end,
    R,
    RM,
):
    """Close the panes of all keys before pane ``upto``; return next key and number of rows."""
    rows = 0
    panes = B[0].shape[1]
    oV = np.zeros((V.shape[1], V.shape[2]), B[0].dtype)
    oM = np.zeros((M.shape[1], M.shape[2]), np.int64)
    for k in range(first, V.shape[0]):
        if rows + 2 * panes + 2 > out_key.shape[0]:
            return k, rows
        if pane[k] < upto:
            rows = seal(
                counts, V, M, start, one, exponent, pane, dirty, B, k, upto, slide, nS, unit,
                zero, p, oV, oM, out_key, out_end, R, RM, rows,
            )  # fmt: skip
    return V.shape[0], rows
