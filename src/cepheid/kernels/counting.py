"""The fast way for plain queries: skip-till-any-match, no negation, one variable an event.

Then an event adds a few numbers to one: v[target] += v[source] + v[source] + ... The unit with which
matches begin is one more number, so a start is one more source. Sources are padded with a number
that is always zero, so no event branches on its kind.

    S[key, slot(, lane)]    slots 0..size-1 configurations, slot size the unit, slot size+1 zero

Doubles share an exponent per key, as in ``linear.py``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.linear import NARROW, NO_VALUE, OK
from cepheid.kernels.panes import FULL, seal
from cepheid.kernels.ring import LIMIT, SHRINK, TINY, widen


@njit(cache=True)
def _shrink(S, exponent, k, size):  # type: ignore[no-untyped-def]
    """Bring the numbers of a key below LIMIT; return False if others would be lost by it."""
    for q in range(size):
        if S[k, q] != 0.0 and abs(S[k, q]) * SHRINK < TINY:
            return False
    for q in range(size + 1):
        S[k, q] *= SHRINK
    if S[k, size] < SHRINK:
        # A start adds nothing any more, unless it is the first match of its configuration.
        S[k, size] = 0.0
    exponent[k] += 512
    return True


@njit(cache=True)
def count_windows(  # type: ignore[no-untyped-def]
    S, exponent, opened, target, source, counts, ts, key, codes, begin, width, out_key, out_start, R
):
    """Count matches in windows that do not overlap; O(sources) an event.

    Parameters
    ----------
    target, source
        code -> slot that grows, -1 for none; code -> slots that it adds, padded.
    counts
        Whether matches in a configuration count when the window ends.
    width
        The length of a window, 0 for one that never ends; then ``ts`` is not read.
    """
    rows = 0
    n = codes.shape[0]
    size = S.shape[1] - 2
    wide = source.shape[1]
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if width > 0 and ts[i] >= opened[k] + width:
            total = 0.0
            for q in range(size):
                if counts[q]:
                    total += S[k, q]
                S[k, q] = 0.0
            if total != 0.0:
                R[rows, 0] = widen(total, float(exponent[k]))
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            S[k, size] = 1.0
            exponent[k] = 0
            opened[k] = ts[i] // width * width
        total = S[k, t]
        for s in range(wide):
            total += S[k, source[c, s]]
        S[k, t] = total
        if total > LIMIT:
            if not _shrink(S, exponent, k, size):
                return NARROW, i + 1, rows
        elif total == 0.0 and S[k, size] == 0.0:
            return NARROW, i, rows
    return OK, n, rows


@njit(cache=True)
def count_stream(S, exponent, target, source, codes, begin):  # type: ignore[no-untyped-def]
    """Count matches of one key in one window; nothing but the codes is read."""
    n = codes.shape[0]
    size = S.shape[1] - 2
    wide = source.shape[1]
    v = S[0]
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        total = v[t]
        for s in range(wide):
            total += v[source[c, s]]
        v[t] = total
        if total > LIMIT:
            if not _shrink(S, exponent, 0, size):
                return NARROW, i + 1
        elif total == 0.0 and v[size] == 0.0:
            return NARROW, i
    return OK, n


@njit(cache=True)
def aggregate_windows(  # type: ignore[no-untyped-def]
    S, P, M, exponent, opened, target, source, counts, variable, ts, key, codes, W, X, wcol, xcol,
    begin, width, out_key, out_start, R, RM,
):
    """Count, sum and find extremes in windows that do not overlap; O(sources x parts) an event.

    ``P[key, slot, part]`` holds the sums, ``M[key, slot, part]`` the least value keys.
    """
    rows = 0
    n = codes.shape[0]
    size = S.shape[1] - 2
    parts, mins, wide = P.shape[2], M.shape[2], source.shape[1]
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if width > 0 and ts[i] >= opened[k] + width:
            total = 0.0
            for q in range(size):
                total += S[k, q] if counts[q] else 0.0
            if total != 0.0:
                R[rows, 0] = widen(total, float(exponent[k]))
                for a in range(parts):
                    part = 0.0
                    for q in range(size):
                        part += P[k, q, a] if counts[q] else 0.0
                    R[rows, a + 1] = widen(part, float(exponent[k]))
                for a in range(mins):
                    RM[rows, a] = NO_VALUE
                    for q in range(size):
                        if counts[q]:
                            RM[rows, a] = min(RM[rows, a], M[k, q, a])
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            S[k] = 0.0
            P[k] = 0.0
            M[k] = NO_VALUE
            S[k, size] = 1.0
            exponent[k] = 0
            opened[k] = ts[i] // width * width
        v = variable[t]
        inc = 0.0
        for s in range(wide):
            inc += S[k, source[c, s]]
        if inc == 0.0:
            if S[k, size] == 0.0 and S[k, t] == 0.0:
                return NARROW, i, rows
            if S[k, size] != 0.0:
                continue
        largest = S[k, t] + inc
        S[k, t] = largest
        for a in range(parts):
            part = 0.0
            for s in range(wide):
                part += P[k, source[c, s], a]
            row = wcol[v, a + 1]
            if row >= 0:
                part += W[row, i] * inc
            part += P[k, t, a]
            P[k, t, a] = part
            if abs(part) > largest and np.isfinite(part):
                largest = abs(part)
        for a in range(mins):
            least = M[k, t, a]
            for s in range(wide):
                least = min(least, M[k, source[c, s], a])
            row = xcol[v, a]
            if row >= 0:
                least = min(least, X[row, i])
            M[k, t, a] = least
        if largest > LIMIT:
            for q in range(size):
                for a in range(parts):
                    if P[k, q, a] != 0.0 and abs(P[k, q, a]) * SHRINK < TINY:
                        return NARROW, i + 1, rows
            if not _shrink(S, exponent, k, size):
                return NARROW, i + 1, rows
            for q in range(size):
                for a in range(parts):
                    P[k, q, a] *= SHRINK
    return OK, n, rows


LANES = 4
"""Lanes of ``count_panes``: a fixed number, so that a compiler can keep them side by side."""


@njit(cache=True)
def load_lanes(S, V, one, k):  # type: ignore[no-untyped-def]
    """Lay the matrix of a key's pane out for ``count_panes``."""
    size, lanes = V.shape[1], V.shape[3]
    S[k] = 0.0
    for q in range(size):
        for lane in range(lanes):
            S[k, q, lane] = V[k, q, 0, lane]
    S[k, size, 0] = one[k]


@njit(cache=True)
def save_lanes(S, V, one, k):  # type: ignore[no-untyped-def]
    """Lay it out as ``panes.py`` wants it."""
    size, lanes = V.shape[1], V.shape[3]
    for q in range(size):
        for lane in range(lanes):
            V[k, q, 0, lane] = S[k, q, lane]
    one[k] = S[k, size, 0]


@njit(cache=True)
def count_panes(  # type: ignore[no-untyped-def]
    S, V, M, start, one, exponent, pane, dirty, B, target, source, counts, ts, key, codes,
    begin, width, slide, out_key, out_end, R, RM,
):
    """Count matches in sliding windows whose matrices have at most four lanes.

    As ``panes.aggregate_panes``, with ``S`` in the place of V while a pane is open.
    """
    rows = 0
    n, room, panes = codes.shape[0], out_key.shape[0], B[0].shape[1]
    size, wide = V.shape[1], source.shape[1]
    oV = np.zeros((size, 1), B[0].dtype)
    oM = np.zeros((size, 0), np.int64)
    one_key, unit = np.uint64(0), 1.0
    for i in range(begin, n):
        k = key[i]
        if ts[i] >= (pane[k] + 1) * width:
            if rows + 2 * panes + 2 > room:
                return FULL, i, rows
            save_lanes(S, V, one, k)
            rows = seal(
                counts, V, M, start, one, exponent, pane, dirty, B, k, ts[i] // width, slide, 1,
                unit, 0.0, one_key, oV, oM, out_key, out_end, R, RM, rows,
            )  # fmt: skip
            load_lanes(S, V, one, k)
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        dirty[k] = True
        a, b, d, e = S[k, t, 0], S[k, t, 1], S[k, t, 2], S[k, t, 3]
        for s in range(wide):
            r = source[c, s]
            a += S[k, r, 0]
            b += S[k, r, 1]
            d += S[k, r, 2]
            e += S[k, r, 3]
        S[k, t, 0], S[k, t, 1], S[k, t, 2], S[k, t, 3] = a, b, d, e
        if max(max(a, b), max(d, e)) > LIMIT:
            if not _shrink_lanes(S, exponent, k, size):
                return NARROW, i + 1, rows
        elif a == 0.0 and S[k, size, 0] == 0.0:
            return NARROW, i, rows
    return OK, n, rows


@njit(cache=True)
def _shrink_lanes(S, exponent, k, size):  # type: ignore[no-untyped-def]
    for q in range(size):
        for lane in range(LANES):
            if S[k, q, lane] != 0.0 and S[k, q, lane] * SHRINK < TINY:
                return False
    for q in range(size + 1):
        for lane in range(LANES):
            S[k, q, lane] *= SHRINK
    if S[k, size, 0] < SHRINK:
        S[k, size, 0] = 0.0
    exponent[k] += 512
    return True
