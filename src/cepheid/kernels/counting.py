"""The fast path for plain queries: skip-till-any-match, no negation, one variable per event.

Then an event adds a few numbers to one: v[target] += v[source] + v[source] + ... The unit with
which matches begin is one more number, so a start is one more source. Sources are padded with a
number that is always zero, so the loop has no branch on the type of an event.

    S[key, slot(, lane)]    slots 0..size-1 configurations, slot size the unit, slot size+1 zero

Doubles share an exponent per key and lane, as in ``linear.py``.
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.hashing import AHEAD
from cepheid.kernels.linear import NARROW, NO_VALUE, OK
from cepheid.kernels.panes import FULL, seal
from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.ring import LIMIT, SHRINK, TINY, widen
from cepheid.kernels.tiers import kernel

BLOCK, MANY_KEYS = 32, 1 << 14
"""Events whose counts are asked for at once, and keys whose counts fit into no cache of a core."""


@kernel()
def shrink(S, exponent, k, size):
    """Rescale the numbers of a key below LIMIT; return False if small ones would underflow."""
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


@kernel()
def count_windows(
    S, exponent, opened, target, source, counts, ts, key, codes, begin, width, out_key, out_start, R
):
    """Count matches in windows that do not overlap; O(sources) per event.

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
    many = S.shape[0] >= MANY_KEYS
    for first in range(begin, n, BLOCK):
        last = min(first + BLOCK, n)
        if many:
            # Most events find their key in no cache, so the next block is asked for.
            for i in range(last, min(last + BLOCK, n)):
                prefetch(S, key[i] * S.shape[1])
                prefetch(opened, key[i])
        for i in range(first, last):
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
                if not shrink(S, exponent, k, size):
                    return NARROW, i + 1, rows
            elif total == 0.0 and S[k, size] == 0.0:
                return NARROW, i, rows
    return OK, n, rows


@kernel()
def flush_counts(S, exponent, opened, counts, keys, until, width, out_key, out_start, R):
    """Close the windows of some keys that end by ``until``; O(keys).

    Returns
    -------
    The number of rows, and of keys whose windows do not end by then, which come first in ``keys``.
    """
    rows, still = 0, 0
    size = S.shape[1] - 2
    for n in range(keys.shape[0]):
        if n + AHEAD < keys.shape[0]:
            prefetch(S, keys[n + AHEAD] * S.shape[1])
            prefetch(opened, keys[n + AHEAD])
            prefetch(exponent, keys[n + AHEAD])
        k = keys[n]
        if width > 0 and opened[k] + width > until:
            keys[still] = k
            still += 1
            continue
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
    return rows, still


@kernel()
def count_stream(S, exponent, target, source, codes, begin):
    """Count matches of one key in one window; only the codes are read."""
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
            if not shrink(S, exponent, 0, size):
                return NARROW, i + 1
        elif total == 0.0 and v[size] == 0.0:
            return NARROW, i
    return OK, n


@kernel()
def _close(P, M, counts, exponent, k, R, RM, row):
    """Add up the configurations that count; return whether there is any match."""
    some = False
    for a in range(P.shape[2]):
        total = 0.0
        for q in range(P.shape[1] - 2):
            if counts[q]:
                total += P[k, q, a]
        some = some or (a == 0 and total != 0.0)
        R[row, a] = widen(total, float(exponent[k]))
    for a in range(M.shape[2]):
        RM[row, a] = NO_VALUE
        for q in range(P.shape[1] - 2):
            if counts[q]:
                RM[row, a] = min(RM[row, a], M[k, q, a])
    return some


@kernel()
def _some_large(P, k, t):
    """Check whether a number needs an exponent; infinities and NaN never do."""
    some = False
    for a in range(P.shape[2]):
        some = some or (abs(P[k, t, a]) > LIMIT and math.isfinite(P[k, t, a]))
    return some


@kernel()
def _shrink_parts(P, exponent, k):
    size = P.shape[1] - 2
    for q in range(size):
        for a in range(P.shape[2]):
            if P[k, q, a] != 0.0 and abs(P[k, q, a]) * SHRINK < TINY:
                return False
    for q in range(size + 1):
        for a in range(P.shape[2]):
            P[k, q, a] *= SHRINK
    if P[k, size, 0] < SHRINK:
        P[k, size, 0] = 0.0
    exponent[k] += 512
    return True


@kernel()
def aggregate_windows(
    P,
    M,
    exponent,
    opened,
    target,
    source,
    counts,
    variable,
    ts,
    key,
    codes,
    W,
    X,
    wcol,
    xcol,
    begin,
    width,
    out_key,
    out_start,
    R,
    RM,
):
    """Count, sum and find extremes in windows that do not overlap; O(sources x parts) per event.

    ``P[key, slot, part]`` holds counts and sums, ``M[key, slot, part]`` the minimum value keys.
    """
    rows = 0
    n = codes.shape[0]
    size, parts, mins, wide = P.shape[1] - 2, P.shape[2], M.shape[2], source.shape[1]
    added = np.zeros(parts)
    least = np.zeros(mins, np.int64)
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if width > 0 and ts[i] >= opened[k] + width:
            if _close(P, M, counts, exponent, k, R, RM, rows):
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            P[k] = 0.0
            M[k] = NO_VALUE
            P[k, size, 0] = 1.0
            exponent[k] = 0
            opened[k] = ts[i] // width * width
        for a in range(parts):
            added[a] = 0.0
        for a in range(mins):
            least[a] = NO_VALUE
        for s in range(wide):
            r = source[c, s]
            for a in range(parts):
                added[a] += P[k, r, a]
            for a in range(mins):
                least[a] = min(least[a], M[k, r, a])
        inc = added[0]
        if inc == 0.0:
            if P[k, size, 0] != 0.0:
                continue
            if P[k, t, 0] == 0.0:
                return NARROW, i, rows
        v = variable[t]
        largest = P[k, t, 0] + inc
        P[k, t, 0] = largest
        for a in range(1, parts):
            part = P[k, t, a] + added[a]
            row = wcol[v, a]
            if row >= 0:
                part += W[row, i] * inc
            P[k, t, a] = part
            if abs(part) > largest and math.isfinite(part):
                largest = abs(part)
        for a in range(mins):
            value = min(M[k, t, a], least[a])
            row = xcol[v, a]
            if row >= 0:
                value = min(value, X[row, i])
            M[k, t, a] = value
        if largest > LIMIT and not _shrink_parts(P, exponent, k):
            return NARROW, i + 1, rows
    return OK, n, rows


@kernel()
def count_moving(
    S, exponent, opened, target, ending, source, clear, begins, counts, ts, key, codes, begin,
    width, out_key, out_start, R,
):  # fmt: skip
    """Count matches under skip-till-next-match and contiguous, in windows that do not overlap.

    Matches move instead of being copied: an event empties some slots and adds their content to one
    slot for matches that can continue and to one for those that end; O(sources + cleared).

    Parameters
    ----------
    target, ending
        code -> slot for matches that can continue, and for those that end; the last slot for none.
    clear
        code -> slots that an event empties, padded with the last slot.
    begins
        Whether a match may begin with an event of a code.
    """
    rows = 0
    n = codes.shape[0]
    size = S.shape[1] - 3
    wide, cleared = source.shape[1], clear.shape[1]
    for i in range(begin, n):
        c = codes[i]
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
        inc = 0.0
        for s in range(wide):
            inc += S[k, source[c, s]]
        if inc == 0.0 and begins[c] and S[k, size] == 0.0:
            return NARROW, i, rows
        for s in range(cleared):
            S[k, clear[c, s]] = 0.0
        S[k, target[c]] += inc
        S[k, ending[c]] += inc
        S[k, size + 2] = 0.0
        if max(S[k, target[c]], S[k, ending[c]]) > LIMIT and not shrink(S, exponent, k, size):
            return NARROW, i + 1, rows
    return OK, n, rows


PARTS, MINS = 4, 2
"""Numbers and extremes of ``aggregate_few``: fixed, so that they can stay in registers."""


@kernel()
def aggregate_few(
    P, M, exponent, opened, target, source, counts, variable, ts, key, codes, W, X, wrow, xrow,
    begin, width, out_key, out_start, R, RM,
):  # fmt: skip
    """Aggregate as ``aggregate_windows``, for a count with at most three sums and two extremes.

    ``wrow`` and ``xrow`` point to a row of zeros, or of no values, where a variable adds nothing.
    """
    rows = 0
    n = codes.shape[0]
    size, wide = P.shape[1] - 2, source.shape[1]
    for i in range(begin, n):
        c = codes[i]
        t = target[c]
        if t < 0:
            continue
        k = key[i]
        if width > 0 and ts[i] >= opened[k] + width:
            if _close(P, M, counts, exponent, k, R, RM, rows):
                out_key[rows] = k
                out_start[rows] = opened[k]
                rows += 1
            P[k] = 0.0
            M[k] = NO_VALUE
            P[k, size, 0] = 1.0
            exponent[k] = 0
            opened[k] = ts[i] // width * width
        a, b, d, e = 0.0, 0.0, 0.0, 0.0
        x, y = M[k, t, 0], M[k, t, 1]
        for s in range(wide):
            r = source[c, s]
            a += P[k, r, 0]
            b += P[k, r, 1]
            d += P[k, r, 2]
            e += P[k, r, 3]
            x = min(x, M[k, r, 0])
            y = min(y, M[k, r, 1])
        if a == 0.0:
            if P[k, size, 0] != 0.0:
                continue
            if P[k, t, 0] == 0.0:
                return NARROW, i, rows
        v = variable[t]
        b += P[k, t, 1] + W[wrow[v, 1], i] * a
        d += P[k, t, 2] + W[wrow[v, 2], i] * a
        e += P[k, t, 3] + W[wrow[v, 3], i] * a
        a += P[k, t, 0]
        P[k, t, 0], P[k, t, 1], P[k, t, 2], P[k, t, 3] = a, b, d, e
        M[k, t, 0] = min(x, X[xrow[v, 0], i])
        M[k, t, 1] = min(y, X[xrow[v, 1], i])
        fit = a <= LIMIT and abs(b) <= LIMIT and abs(d) <= LIMIT and abs(e) <= LIMIT
        if not fit and _some_large(P, k, t) and not _shrink_parts(P, exponent, k):
            return NARROW, i + 1, rows
    return OK, n, rows


LANES = 4
"""Lanes of ``count_panes``: a fixed number, so that a compiler can keep them side by side."""


@kernel()
def load_lanes(S, V, one, k):
    """Copy the matrix of a key's pane to the layout of ``count_panes``."""
    size, lanes = V.shape[1], V.shape[3]
    S[k] = 0.0
    for q in range(size):
        for lane in range(lanes):
            S[k, q, lane] = V[k, q, 0, lane]
    S[k, size, 0] = one[k, 0]


@kernel()
def save_lanes(S, V, one, k):
    """Copy the matrix back to the layout of ``panes.py``."""
    size, lanes = V.shape[1], V.shape[3]
    for q in range(size):
        for lane in range(lanes):
            V[k, q, 0, lane] = S[k, q, lane]
    one[k, 0] = S[k, size, 0]


@kernel()
def count_panes(
    S, V, M, start, one, exponent, pane, dirty, B, target, source, counts, ts, key, codes, begin,
    width, slide, out_key, out_end, R, RM,
):  # fmt: skip
    """Count matches in sliding windows whose matrices have at most four lanes.

    Works as ``panes.aggregate_panes``, with ``S`` instead of V while a pane is open.
    """
    rows = 0
    n, room, panes = codes.shape[0], out_key.shape[0], B[0].shape[1]
    size, wide = V.shape[1], source.shape[1]
    oV = np.zeros((size, 1), B[0].dtype)
    oM = np.zeros((size, 0), np.int64)
    p, unit, zero = np.uint64(0), 1.0, 0.0
    starts = V.shape[3] - size
    for i in range(begin, n):
        k = key[i]
        if ts[i] >= (pane[k] + 1) * width:
            if rows + 2 * panes + 2 > room:
                return FULL, i, rows
            save_lanes(S, V, one, k)
            rows = seal(
                counts, V, M, start, one, exponent, pane, dirty, B, k, ts[i] // width, slide,
                starts, unit, zero, p, oV, oM, out_key, out_end, R, RM, rows,
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


@kernel()
def _shrink_lanes(S, exponent, k, size):
    for lane in range(exponent.shape[1]):
        largest, least = 0.0, LIMIT
        for q in range(size):
            largest = max(largest, S[k, q, lane])
            if S[k, q, lane] != 0.0:
                least = min(least, S[k, q, lane])
        if largest <= LIMIT:
            continue
        if least * SHRINK < TINY:
            return False
        for q in range(size + 1):
            S[k, q, lane] *= SHRINK
        exponent[k, lane] += 512
    if S[k, size, 0] < SHRINK:
        S[k, size, 0] = 0.0
    return True
