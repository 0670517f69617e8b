"""Sliding windows of many queries: a pane is one sparse matrix, whose entries queries share.

As ``panes.py``, but a matrix is a list of nodes: only the entries that some query can reach, each
once. The product of two stretches adds up products of entries, which the tables list.

    P[key, offset, node, part]    the panes of the open block
    F[key, node, part]            their product
    A[key, offset, node, part]    products of the last panes of the block before
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import NARROW, NO_VALUE
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import add, mul, present, wide
from cepheid.kernels.shared import ENDED, GROWN, advance_until, reset_key
from cepheid.kernels.tiers import kernel


@kernel()
def multiply(T, q, X, XM, Y, YM, D, DM, row, p):
    """Add entry q of the product of two stretches to a row; return whether it is not empty."""
    some = False
    for t in range(T.product_ptr[q], T.product_ptr[q + 1]):
        left, right = T.left[t], T.right[t]
        a0, b0 = X[left, 0], Y[right, 0]
        if not present(a0) or not present(b0):
            continue
        some = True
        D[row, 0] = add(D[row, 0], mul(a0, b0, p), p)
        for a in range(1, D.shape[1]):
            both = add(mul(a0, Y[right, a], p), mul(X[left, a], b0, p), p)
            D[row, a] = add(D[row, a], both, p)
        for a in range(DM.shape[1]):
            DM[row, a] = min(DM[row, a], min(XM[left, a], YM[right, a]))
    return some


@kernel()
def _copy(X, XM, D, DM):
    """Copy a matrix; assigning whole arrays would take much longer to compile."""
    for q in range(X.shape[0]):
        for a in range(X.shape[1]):
            D[q, a] = X[q, a]
        for a in range(XM.shape[1]):
            DM[q, a] = XM[q, a]


@kernel()
def product(T, X, XM, Y, YM, D, DM, p):
    """Store the product of two stretches in D, DM."""
    for q in range(D.shape[0]):
        for a in range(D.shape[1]):
            D[q, a] = D.dtype.type(0)
        for a in range(DM.shape[1]):
            DM[q, a] = NO_VALUE
    D[0, 0] = D.dtype.type(1)
    for q in range(1, D.shape[0]):
        multiply(T, q, X, XM, Y, YM, D, DM, q, p)


@kernel()
def _end_pane(T, V, M, stamp, exponent, P, PM, has, F, FM, begun, k, o, D, DM, p):
    """Store the matrix of the pane at offset o, and multiply the product of the block by it."""
    for q in range(V.shape[1]):
        # Contiguous: nodes that the last event did not write are empty.
        gone = not T.kept[q] and stamp[k, q] != stamp[k, -1]
        for a in range(V.shape[2]):
            P[k, o, q, a] = wide(V.dtype.type(0) if gone else V[k, q, a], exponent[k, 0])
        for a in range(M.shape[2]):
            PM[k, o, q, a] = M[k, q, a]
    has[k, o] = True
    if begun[k]:
        product(T, F[k], FM[k], P[k, o], PM[k, o], D, DM, p)
        _copy(D, DM, F[k], FM[k])
    else:
        _copy(P[k, o], PM[k, o], F[k], FM[k])
        begun[k] = True


@kernel()
def _end_block(T, P, PM, has, begun, A, AM, tail, k, D, DM, p):
    """Compute the products up to the end of the block, and begin the next one."""
    G, GM = np.zeros_like(D), np.zeros_like(DM)
    some = False
    for o in range(P.shape[1] - 1, -1, -1):
        if has[k, o]:
            if some:
                product(T, P[k, o], PM[k, o], G, GM, D, DM, p)
                _copy(D, DM, G, GM)
            else:
                _copy(P[k, o], PM[k, o], G, GM)
            some = True
        tail[k, o] = some
        has[k, o] = False
        if some:
            _copy(G, GM, A[k, o], AM[k, o])
    begun[k] = False


@kernel()
def _windows(T, F, FM, begun, A, AM, tail, k, o, when, p, rows, out, R, RM):
    """Write a row for every query with matches in the window that ends at offset o."""
    whole = o > 0 and tail[k, o]
    if not whole and not begun[k]:
        return rows
    out_query, out_key, out_window = out
    for query in range(T.output_ptr.shape[0] - 1):
        for a in range(R.shape[1]):
            R[rows, a] = R.dtype.type(0)
        for a in range(RM.shape[1]):
            RM[rows, a] = NO_VALUE
        some = False
        for n in range(T.output_ptr[query], T.output_ptr[query + 1]):
            q = T.output[n]
            if whole and begun[k]:
                some |= multiply(T, q, A[k, o], AM[k, o], F[k], FM[k], R, RM, rows, p)
                continue
            X, XM = (A[k, o], AM[k, o]) if whole else (F[k], FM[k])
            if present(X[q, 0]):
                some = True
                for a in range(R.shape[1]):
                    R[rows, a] = add(R[rows, a], X[q, a], p)
                for a in range(RM.shape[1]):
                    RM[rows, a] = min(RM[rows, a], XM[q, a])
        if some:
            out_query[rows], out_key[rows], out_window[rows] = query, k, when
            rows += 1
    return rows


@kernel()
def seal_shared(
    T, V, M, stamp, exponent, limit, B, k, upto, width, slide, unit, zero, p, D, DM, rows, out,
    R, RM,
):  # fmt: skip
    """Close panes of a key before pane ``upto``; return whether all, and the number of rows.

    If the buffer for rows is full, it stops at a pane boundary; the next call continues there.
    """
    P, PM, has, F, FM, begun, A, AM, tail, sealed = B
    panes = P.shape[1]
    queries = T.output_ptr.shape[0] - 1
    if not sealed[k]:
        o = (limit[k] // width - 1) % panes
        _end_pane(T, V, M, stamp, exponent, P, PM, has, F, FM, begun, k, o, D, DM, p)
        reset_key(T, V, M, stamp, exponent, k, unit, zero)
        sealed[k] = True
        limit[k] -= width
    # From here on no pane is open, and ``limit`` is the last boundary that was passed.
    while limit[k] < upto * width:
        b = limit[k] // width + 1
        o = b % panes
        if (b - panes) % slide == 0:
            if rows + queries + 1 > R.shape[0]:
                return False, rows
            rows = _windows(T, F, FM, begun, A, AM, tail, k, o, b, p, rows, out, R, RM)
        if o == 0:
            _end_block(T, P, PM, has, begun, A, AM, tail, k, D, DM, p)
        limit[k] = b * width
        # Products up to the end only get shorter: if the next one is empty, so are all that follow.
        if not begun[k] and (o + 1 == panes or not tail[k, o + 1]):
            # All windows are empty: skip the gap.
            for left in range(panes):
                tail[k, left] = False
            limit[k] = upto * width
    return True, rows


def _events(T, V, M, stamp, exponent, limit, B, ts, *_):
    """Estimate the work of a run by its events, and not by the buffer for rows."""
    return float(ts.shape[0])


def _keys(T, V, *_):
    """Estimate the work of a flush."""
    return float(V.shape[0])


@kernel(work=_events)
def run_shared_panes(
    T, V, M, stamp, exponent, limit, B, ts, key, codes, W, X, begin, width, slide, grouped,
    semantics, room, unit, zero, p, out, R, RM,
):  # fmt: skip
    """Aggregate sliding windows; O(touched sources x parts) per event, O(products) per pane.

    Parameters
    ----------
    limit
        (keys,) the end of each key's open pane.
    B
        The block: panes, their product, and the products of the block before.
    width, slide
        The length of a pane, and of a slide in panes.

    Returns
    -------
    status, next event, number of rows
    """
    rows, i = 0, begin
    nodes, parts, mins = V.shape[1], V.shape[2], M.shape[2]
    D, DM = np.zeros((nodes, parts), B[0].dtype), np.zeros((nodes, mins), np.int64)
    sealed = B[9]
    while True:
        status, i = advance_until(
            T, V, M, stamp, limit, ts, key, codes, W, X, i, grouped, semantics, room, zero, p
        )
        if status != ENDED:
            # Matrices have no exponent: a large double needs wide numbers at once.
            return (NARROW if status == GROWN else status), i, rows
        k, pane = key[i], ts[i] // width
        done, rows = seal_shared(
            T, V, M, stamp, exponent, limit, B, k, pane, width, slide, unit, zero, p, D, DM, rows,
            out, R, RM,
        )  # fmt: skip
        if not done:
            return FULL, i, rows
        sealed[k] = False
        limit[k] = (pane + 1) * width


@kernel(work=_keys)
def flush_shared_panes(
    T, V, M, stamp, exponent, limit, B, first, upto, width, slide, unit, zero, p, out, R, RM
):
    """Close the panes of all keys before pane ``upto``; return next key and number of rows."""
    rows = 0
    nodes, parts, mins = V.shape[1], V.shape[2], M.shape[2]
    D, DM = np.zeros((nodes, parts), B[0].dtype), np.zeros((nodes, mins), np.int64)
    for k in range(first, V.shape[0]):
        if limit[k] <= upto * width:
            done, rows = seal_shared(
                T, V, M, stamp, exponent, limit, B, k, upto, width, slide, unit, zero, p, D, DM,
                rows, out, R, RM,
            )  # fmt: skip
            if not done:
                return k, rows
    return V.shape[0], rows
