"""Multiply step functions of matrices: every value of a parameter at once.

A stretch of events is a matrix (``panes.py``). Where conditions compare with a parameter, it is
another matrix for other values, but only where an event of the stretch passes or fails: a step
function from values to matrices. Two parameters give a grid. Stretches that follow each other are
multiplied cell by cell, on the union of their steps; so a stretch never has more cells than its
events have steps, nor more than there are values.

A *node* is such a function. Its cells lie one after another, the second parameter's side by side.
Cells are the last axis of all arrays, so that loops over them run through memory.

    cell            node -> its first cell
    ptr, begin      node -> where its intervals of one parameter begin: numbers of values, from 0
    V, M, S         [configuration, part, lane, cell], [lane, cell], as in ``compose.py``
"""

from __future__ import annotations

from cepheid.kernels.linear import NO_VALUE
from cepheid.kernels.ring import add, mul, present
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel

CHUNK = 2048
"""Cells that are multiplied together, so that they stay in the CPU cache."""


@kernel()
def unite_steps(left, right, ptr, begin, r_ptr, r_begin, out_ptr, out):
    """Unite the intervals of pairs of nodes; a node without a partner (-1) keeps its own."""
    count = 0
    for i in range(left.shape[0]):
        a, a_end = ptr[left[i]], ptr[left[i] + 1]
        b, b_end = 0, 0
        if right[i] >= 0:
            b, b_end = r_ptr[right[i]], r_ptr[right[i] + 1]
        while a < a_end or b < b_end:
            earlier = b >= b_end or (a < a_end and begin[a] <= r_begin[b])
            here = begin[a] if earlier else r_begin[b]
            a += a < a_end and begin[a] == here
            b += b < b_end and r_begin[b] == here
            out[count] = here
            count += 1
        out_ptr[i + 1] = count


@kernel()
def pair_cells(
    left, right, cell, ptr1, begin1, ptr2, begin2, r_cell, r_ptr1, r_begin1, r_ptr2, r_begin2,
    o_ptr1, o_begin1, o_ptr2, o_begin2, first, second,
):  # fmt: skip
    """Find the two cells that each cell of a united node is made of; -1 without a partner."""
    z = 0
    for i in range(left.shape[0]):
        x, y = left[i], right[i]
        if y < 0:
            for c in range((ptr1[x + 1] - ptr1[x]) * (ptr2[x + 1] - ptr2[x])):
                first[z], second[z] = cell[x] + c, -1
                z += 1
            continue
        xw, yw = ptr2[x + 1] - ptr2[x], r_ptr2[y + 1] - r_ptr2[y]
        x1, y1 = ptr1[x], r_ptr1[y]
        for u in range(o_ptr1[i], o_ptr1[i + 1]):
            while x1 + 1 < ptr1[x + 1] and begin1[x1 + 1] <= o_begin1[u]:
                x1 += 1
            while y1 + 1 < r_ptr1[y + 1] and r_begin1[y1 + 1] <= o_begin1[u]:
                y1 += 1
            x2, y2 = ptr2[x], r_ptr2[y]
            x_row = cell[x] + (x1 - ptr1[x]) * xw - ptr2[x]
            y_row = r_cell[y] + (y1 - r_ptr1[y]) * yw - r_ptr2[y]
            for v in range(o_ptr2[i], o_ptr2[i + 1]):
                while x2 + 1 < ptr2[x + 1] and begin2[x2 + 1] <= o_begin2[v]:
                    x2 += 1
                while y2 + 1 < r_ptr2[y + 1] and r_begin2[y2 + 1] <= o_begin2[v]:
                    y2 += 1
                first[z], second[z] = x_row + x2, y_row + y2
                z += 1


@kernel(inline="code")
def _begin(V, M, S, W, WM, WS, first, second, lane, begin, end, oV, oM, oS, zero):
    """Start a lane of products with what the second matrix begins by itself."""
    size, parts, mins = V.shape[0], V.shape[1], M.shape[1]
    for c in range(begin, end):
        xs, y = S[lane, first[c]], second[c]
        oS[lane, c] = WS[xs, y] if xs >= 0 else -1
        for q in range(size):
            for a in range(parts):
                oV[q, a, lane, c] = W[q, a, xs, y] if xs >= 0 else zero
            for a in range(mins):
                oM[q, a, lane, c] = WM[q, a, xs, y] if xs >= 0 else NO_VALUE


@kernel(inline="code")
def _clear(lane, begin, end, oV, oM, oS, zero):
    """Start a lane of products that begins nothing by itself."""
    for c in range(begin, end):
        oS[lane, c] = -1
    for q in range(oV.shape[0]):
        for a in range(oV.shape[1]):
            for c in range(begin, end):
                oV[q, a, lane, c] = zero
        for a in range(oM.shape[1]):
            for c in range(begin, end):
                oM[q, a, lane, c] = NO_VALUE


@kernel(inline="code")
def _extend(V, M, W, WM, first, second, lane, r, q, came, begin, end, oV, oM, p):
    """Add the matches of configuration r that the second matrix takes to configuration q."""
    parts, mins = V.shape[1], M.shape[1]
    if parts == 1 and mins == 0:
        for c in range(begin, end):
            product = mul(V[r, 0, lane, first[c]], W[q, 0, came, second[c]], p)
            oV[q, 0, lane, c] = add(oV[q, 0, lane, c], product, p)
        return
    for c in range(begin, end):
        x, y = first[c], second[c]
        some, count = V[r, 0, lane, x], W[q, 0, came, y]
        # A sum that is no number must not reach lanes without matches.
        if not present(some) or not present(count):
            continue
        oV[q, 0, lane, c] = add(oV[q, 0, lane, c], mul(some, count, p), p)
        for a in range(1, parts):
            both = add(mul(some, W[q, a, came, y], p), mul(V[r, a, lane, x], count, p), p)
            oV[q, a, lane, c] = add(oV[q, a, lane, c], both, p)
        for a in range(mins):
            least = min(M[r, a, lane, x], WM[q, a, came, y])
            oM[q, a, lane, c] = min(oM[q, a, lane, c], least)


@kernel(inline="code")
def _copy(V, M, S, first, lane, begin, end, oV, oM, oS):
    """Leave a lane as it is."""
    for c in range(begin, end):
        oS[lane, c] = S[lane, first[c]]
        for q in range(V.shape[0]):
            for a in range(V.shape[1]):
                oV[q, a, lane, c] = V[q, a, lane, first[c]]
            for a in range(M.shape[1]):
                oM[q, a, lane, c] = M[q, a, lane, first[c]]


@kernel()
def multiply_cells(V, M, S, W, WM, WS, first, second, reach, nS, zero, oV, oM, oS, p):
    """Multiply pairs of cells of V and of W; a second cell -1 leaves the first as it is.

    Parameters
    ----------
    V, M, S
        Matrices, or vectors: those have the first lane only.
    reach
        (to, from): whether matches in a configuration can come to be in another one.
    """
    size, lanes = V.shape[0], V.shape[2]
    begin = 0
    while begin < first.shape[0]:
        look_at_clock()
        end = begin + 1
        alone = second[begin] < 0
        while end < first.shape[0] and end - begin < CHUNK and (second[end] < 0) == alone:
            end += 1
        for lane in range(lanes):
            if alone:
                _copy(V, M, S, first, lane, begin, end, oV, oM, oS)
                continue
            if lane < nS:
                _begin(V, M, S, W, WM, WS, first, second, lane, begin, end, oV, oM, oS, zero)
            else:
                _clear(lane, begin, end, oV, oM, oS, zero)
            for r in range(size):
                if lane >= nS and not reach[r, lane - nS]:
                    continue
                for q in range(size):
                    if reach[q, r]:
                        _extend(
                            V, M, W, WM, first, second, lane, r, q, nS + r, begin, end, oV, oM, p
                        )
        begin = end


@kernel()
def add_cells(R, RM, first, second, oR, oRM, p):
    """Add pairs of results: numbers by addition, values by the minimum."""
    for c in range(first.shape[0]):
        x, y = first[c], second[c]
        for a in range(R.shape[0]):
            oR[a, c] = R[a, x] if y < 0 else add(R[a, x], R[a, y], p)
        for a in range(RM.shape[0]):
            oRM[a, c] = RM[a, x] if y < 0 else min(RM[a, x], RM[a, y])
