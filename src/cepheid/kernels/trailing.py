"""Aggregate trailing windows: a result whenever a match ends, over the events of (t - w, t].

The events of a partition that are in the window form two stacks. For each time in the *front*
a vector is kept: the empty match pushed through all times from there to the end of the front. The
*back* is one matrix, the product of all later times. The result is a vector times a matrix. When
the front is empty, the back is converted to a new front, from its end to its start. Every time is
pushed once and converted once, so an event costs O(size^2 x lanes) amortised, whatever the number
of events in the window; A-Seq keeps a counter for every start instead.

Source: Qi et al., "Complex Event Analytics: Online Aggregation of Stream Sequence Patterns", SIGMOD
2014, section 3.2, for the semantics; two stacks for associative products are folklore.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import NO_VALUE, advance, move, rooms
from cepheid.kernels.panes import copy_lanes, identity, product, times
from cepheid.kernels.ring import add, mul, present
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

ENDED, EXPIRED, LEFT = 1, 2, 4
"""Kinds of rows: matches ended, matches changed because events left, or events left without."""


@kernel()
def _write(counts, oV, oM, t, kind, moved, row, p, out_time, out_kind, out_ended, R, RM):
    """Write a row, adding up the configurations that count; return the number of the next one."""
    out_time[row], out_kind[row], out_ended[row] = t, kind, moved
    for a in range(oV.shape[1]):
        R[row, a] = oV.dtype.type(0)
    for a in range(oM.shape[1]):
        RM[row, a] = NO_VALUE
    for q in range(oV.shape[0]):
        if counts[q] and present(oV[q, 0]):
            for a in range(oV.shape[1]):
                R[row, a] = add(R[row, a], oV[q, a], p)
            for a in range(oM.shape[1]):
                RM[row, a] = min(RM[row, a], oM[q, a])
    return row + 1


@kernel()
def _add_events(T, V, M, start, one, exponent, S, i, j, ts, codes, letters, W, X, wcol, xcol,
                added, semantics, zero, p):  # fmt: skip
    """Apply the events i to j, all of one time; ``added`` holds only their additions.

    ``S`` holds the state of an endless stream of one key for ``advance``.
    """
    added[0][:, :] = zero
    added[1][:, :] = NO_VALUE
    key, until, dirty = S
    advance(
        T, V, M, start, one, exponent, until, dirty, ts, key, codes, letters, W, X, wcol, xcol,
        added, i, j, j - i > 1, semantics, zero, p,
    )  # fmt: skip


@kernel()
def _turn(T, first, last, at, V, M, start, one, exponent, S, ts, codes, letters, W, X, wcol,
          xcol, added, A, AM, AS, B, BS, semantics, nS, unit, zero, p):  # fmt: skip
    """Build a front of the times first to last: suffix vectors, from the last one to the first.

    ``A[h]`` begins with the empty match before time h; ``B[h, s]`` with the matches that begin at h
    in the start configuration s, which becomes ``BS[h, s]`` at h.
    """
    size, parts, lanes, mins = V.shape[1], V.shape[2], V.shape[3], M.shape[2]
    nV = added[0][:size].reshape(size, parts, lanes)
    nM = added[1][:size].reshape(size, mins, lanes)
    G = np.zeros((size, parts, lanes), V.dtype)
    GM = np.full((size, mins, lanes), NO_VALUE, np.int64)
    GS = np.zeros(lanes, np.int32)
    for lane in range(lanes):
        GS[lane] = lane if lane < nS else -1
        if lane >= nS:
            G[lane - nS, 0, lane] = unit
    H, HM, HS = G.copy(), GM.copy(), GS.copy()
    oV = np.zeros((size, parts), V.dtype)
    oM = np.zeros((size, mins), np.int64)
    for h in range(last - 1, first - 1, -1):
        let_signals_in(h)
        identity(V, M, start, one, exponent, unit, zero, 0, nS)
        i, j = at[h], at[h + 1]
        _add_events(
            T, V, M, start, one, exponent, S, i, j, ts, codes, letters, W, X, wcol, xcol, added,
            semantics, zero, p,
        )  # fmt: skip
        for s in range(B.shape[1]):
            times(nV, nM, s, np.int32(-1), G, GM, GS, nS, oV, oM, p)
            for q in range(size):
                B[h, s, q] = oV[q, 0]
            BS[h, s] = start[0, s]
        product(V[0], M[0], start[0], G, GM, GS, nS, H, HM, HS, oV, oM, p)
        G, GM, GS, H, HM, HS = H, HM, HS, G, GM, GS
        copy_lanes(G, GM, GS, A[h], AM[h], AS[h], 1)


@kernel()
def aggregate_trailing(
    T,
    ts,
    codes,
    letters,
    W,
    X,
    wcol,
    xcol,
    at,
    fresh,
    width,
    until,
    expiries,
    semantics,
    nS,
    unit,
    zero,
    p,
    size,
    parts,
    mins,
    out_time,
    out_kind,
    out_ended,
    R,
    RM,
):
    """Aggregate the events of one partition.

    Parameters
    ----------
    at
        The start offsets of the events that are processed together; one more entry at the end.
    fresh
        Rows are written for times from here on; earlier ones were reported before.
    until
        Expiries up to this time are reported; later ones may still meet new events.
    expiries
        Whether a row is also written whenever events leave the window.

    Returns ------- The number of rows: (time, kind, matches that end or that leave, aggregates). If
    events leave and others arrive at one time, the row of those that leave comes first.
    """
    lanes = nS + size
    V = np.zeros((1, size, parts, lanes), R.dtype)
    M = np.zeros((1, size, mins, lanes), np.int64)
    start = np.zeros((1, lanes), np.int32)
    one, exponent = np.ones((1, lanes), R.dtype), np.zeros((1, lanes), np.int64)
    added = rooms(V, M)
    S = np.zeros_like(codes), np.full(1, NO_VALUE), np.zeros(1, np.bool_)
    oV, oM = np.zeros((size, parts), R.dtype), np.zeros((size, mins), np.int64)
    n = at.shape[0] - 1
    A = np.zeros((n + 1, size, parts, 1), R.dtype)
    AM = np.full((n + 1, size, mins, 1), NO_VALUE, np.int64)
    # The last entry is the empty match, with which the back begins when there is no front.
    AS = np.zeros((n + 1, 1), np.int32)
    # Only what leaves together with events before it begins in another start configuration than 0.
    starts = nS if _tied(ts, at) else 1
    begun, after = np.zeros((n, starts, size), R.dtype), np.zeros((n, starts), np.int32)
    E = np.zeros((size, 1), R.dtype)
    identity(V, M, start, one, exponent, unit, zero, 0, nS)
    out = (out_time, out_kind, out_ended, R, RM)
    first, front, rows, g, f, rounds = 0, 0, 0, 0, n, 0
    while True:
        rounds = let_signals_in(rounds)
        now = ts[at[g]] if g < n else until
        leaving = first < g and ts[at[first]] + width <= now
        if g >= n and not (leaving and expiries):
            return rows
        # Without rows for expiries, all that has left by now leaves at once.
        t = ts[at[first]] + width if leaving and expiries else now
        if leaving:
            before, died, s = zero, zero, np.int32(0)
            if expiries:
                before = _value(T.counts, V, M, start, A, AM, AS, f, nS, oV, oM, p)
            while first < g and ts[at[first]] + width <= t:
                if first == front:
                    _turn(
                        T, front, g, at, V, M, start, one, exponent, S, ts, codes, letters, W, X,
                        wcol, xcol, added, A, AM, AS, begun, after, semantics, nS, unit, zero, p,
                    )  # fmt: skip
                    identity(V, M, start, one, exponent, unit, zero, 0, nS)
                    front = g
                if expiries and s >= 0:
                    died = add(died, _dying(T.counts, begun, V, first, s, nS, p), p)
                    s = after[first, s]
                first += 1
            f = first if first < front else n
            if expiries:
                rest = _value(T.counts, V, M, start, A, AM, AS, f, nS, oV, oM, p)
                # Later matches can tell that events left only by their start configuration.
                changed = present(died) or (s != 0 and before != rest)
                kind = LEFT | EXPIRED if changed else LEFT
                if t >= fresh:
                    rows = _write(T.counts, oV, oM, t, kind, died, rows, p, *out)
                continue
        i, j = at[g], at[g + 1]
        _add_events(
            T, V, M, start, one, exponent, S, i, j, ts, codes, letters, W, X, wcol, xcol, added,
            semantics, zero, p,
        )  # fmt: skip
        # TIES arrival: one row for all events of a time; one may forbid what ended with another.
        if g > 0 and ts[at[g - 1]] == t:
            _forbid(T, E, letters[i], zero, p)
        g += 1
        _end(added[0][:size], A, AS, f, nS, E, p)
        if g < n and ts[at[g]] == t:
            continue
        if t >= fresh:
            _value(T.counts, V, M, start, A, AM, AS, f, nS, oV, oM, p)
            ended = _counted(T.counts, E, p)
            rows = _write(T.counts, oV, oM, t, int(present(ended)) * ENDED, ended, rows, p, *out)
        E[:] = zero


@kernel()
def _forbid(T, E, letter, zero, p):
    """Apply an event's moves and removals to matches that ended with others of its time."""
    first, last = T.move_ptr[letter], T.move_ptr[letter + 1]
    none = np.zeros((E.shape[0], 0), np.int64)
    moving = np.zeros_like(E)
    move(E, none, 0, E.shape[0], T.move_from, T.move_to, first, last, moving, none, zero, p)


@kernel()
def _tied(ts, at):
    """Check whether events of one time are processed one by one."""
    starts = ts[at[:-1]]
    return (starts[1:] == starts[:-1]).any()


@kernel()
def _counted(counts, E, p):
    """Count the ended matches that are in counting configurations."""
    total = E.dtype.type(0)
    for q in range(E.shape[0]):
        if counts[q]:
            total = add(total, E[q, 0], p)
    return total


@kernel()
def _value(counts, V, M, start, A, AM, AS, f, nS, oV, oM, p):
    """Compute the vector of the whole window; return the number of its matches."""
    times(A[f], AM[f], 0, AS[f, 0], V[0], M[0], start[0], nS, oV, oM, p)
    total = oV.dtype.type(0)
    for q in range(oV.shape[0]):
        if counts[q]:
            total = add(total, oV[q, 0], p)
    return total


@kernel()
def _dying(counts, begun, V, first, s, nS, p):
    """Count the matches in counting configurations that begin with the leaving events."""
    total = begun.dtype.type(0)
    for q in range(begun.shape[2]):
        if present(begun[first, s, q]):
            for r in range(begun.shape[2]):
                if counts[r]:
                    total = add(total, mul(begun[first, s, q], V[0, r, 0, nS + q], p), p)
    return total


@kernel()
def _end(nV, A, AS, f, nS, E, p):
    """Add the matches that end with the events just added, configuration by configuration."""
    for q in range(nV.shape[0]):
        total = E[q, 0]
        if AS[f, 0] >= 0:
            total = add(total, nV[q, AS[f, 0]], p)
        for r in range(nV.shape[0]):
            if present(A[f, r, 0, 0]):
                total = add(total, mul(A[f, r, 0, 0], nV[q, nS + r], p), p)
        E[q, 0] = total


@kernel()
def add_up_partitions(slot, time, kind, numbers, values, slots, wanted, fresh, p, out_time, R, RM):
    """Add up the partitions of one group over time; O(log partitions) per change.

    Parameters
    ----------
    slot, time, kind, numbers, values
        The changes of the group sorted by time; ``slot`` numbers its partitions from 0.
    slots
        The number of partitions.
    wanted
        The kinds of changes (ENDED, EXPIRED) that produce a row.

    Returns
    -------
    The number of rows: (time, aggregates of the whole group).
    """
    leaves = 1
    while leaves < slots:
        leaves *= 2
    parts, mins = numbers.shape[1], values.shape[1]
    # A tree of sums: node n has the children 2n and 2n + 1, partitions are the leaves.
    total = np.zeros((2 * leaves, parts), numbers.dtype)
    least = np.full((2 * leaves, mins), NO_VALUE, np.int64)
    rows = 0
    asked = 0
    for c in range(len(slot)):
        node = leaves + slot[c]
        total[node] = numbers[c]
        least[node] = values[c]
        node //= 2
        while node >= 1:
            for a in range(parts):
                total[node, a] = add(total[2 * node, a], total[2 * node + 1, a], p)
            for a in range(mins):
                least[node, a] = min(least[2 * node, a], least[2 * node + 1, a])
            node //= 2
        asked |= kind[c] & wanted
        if c + 1 < len(slot) and time[c + 1] == time[c]:
            continue
        if asked and time[c] >= fresh:
            out_time[rows] = time[c]
            R[rows] = total[1]
            RM[rows] = least[1]
            rows += 1
        asked = 0
    return rows
