"""Aggregate the matches of many queries as one linear system: an event updates only its own nodes.

    V[key, node, part]    counts and sums; part 0 counts matches
    M[key, node, part]    smallest value keys (largest ones are kept as complements)
    exponent[key, heap]   doubles only: V stands for V * 2^exponent of the node's heap

A node grows by events of some codes, by the sum of its sources. Nodes that depend on each other
form a *heap* and share an exponent per key, so that one query's huge counts do not underflow
others. Under contiguous, every event empties the nodes that it does not extend: nodes carry the
number of the event that wrote them (``stamp``), and older numbers count as zero.
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.linear import CONTIGUOUS, NARROW, NO_VALUE, OK
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import LIMIT, SHRINK, TINY, add, mul, present, tiny, wide, widen
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel, operation

ENDED, GROWN = 3, 4
"""Status: a window or pane of the next event's key ends, or a double needs another exponent."""


@operation()
def large(x):
    """Check whether a double needs another exponent."""
    return abs(x) > LIMIT and math.isfinite(x)


@large.wide
@large.residue
def _(x):
    return False


@kernel()
def advance_until(
    T, V, M, stamp, limit, ts, key, codes, W, X, begin, grouped, semantics, room, zero, p
):
    """Apply events up to the first one outside of its key's window or pane.

    An event reads all its sources, then empties nodes, then adds; O(touched sources x parts) per
    event. The first event of a time moves matches to a node ``once``. Everything is one loop,
    because passing so many tables to a function for every event is too slow.

    Parameters
    ----------
    T
        The tables of a group (``engine.shared_tables.SharedTables``).
    stamp
        (keys, nodes + 1) the event that wrote a node; the last entry counts events; contiguous
        only.
    limit
        (keys,) the time at which each key's open window or pane ends.
    grouped
        Whether events of one key and time are processed together (TIES strict).
    room
        (nV, nM, mark, touched): the additions to nodes, their flags, and the list of these nodes.

    Returns
    -------
    status, next event: ENDED for a window that ends, GROWN for a double that grew large
    """
    nV, nM, mark, touched = room
    target_ptr, target, clear_ptr, clear = T.target_ptr, T.target, T.clear_ptr, T.clear
    source_ptr, source, unit, kept, idle = T.source_ptr, T.source, T.unit, T.kept, T.idle
    once, parts, mins, last = T.once, V.shape[2], M.shape[2], stamp.shape[1] - 1
    i, n, contiguous = begin, codes.shape[0], semantics == CONTIGUOUS
    while i < n:
        look_at_clock()
        k, j = key[i], i + 1
        if grouped:
            while j < n and ts[j] == ts[i] and key[j] == k:
                j += 1
        elif not contiguous and idle[codes[i]]:
            i = j
            continue
        if ts[i] >= limit[k]:
            return ENDED, i
        # Matches that continue past tied events would skip one of them (§3.3).
        alone = contiguous and j - i > 1
        m = 0
        for e in range(i, j):
            for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                q = target[t]
                if once[q] and mark[q]:
                    continue
                inc, lost = zero, False
                for s in range(source_ptr[q], source_ptr[q + 1]):
                    r = source[s]
                    if unit[r]:
                        lost = tiny(V[k, r, 0]) and (parts > 1 or not present(V[k, r, 0]))
                    elif contiguous and _is_cut(kept, stamp[k], r, q, alone):
                        continue
                    inc = add(inc, V[k, r, 0], p)
                if lost and tiny(inc) and not present(V[k, q, 0]):
                    _take_back(nV, nM, mark, touched, m, zero)
                    return NARROW, i
                if not present(inc):
                    continue
                if not mark[q]:
                    mark[q] = True
                    touched[m] = q
                    m += 1
                nV[q, 0] = add(nV[q, 0], inc, p)
                if parts + mins > 1:
                    _gather_values(
                        V[k], M[k], q, e, inc, source_ptr, source, unit, kept, stamp[k],
                        T.weight_row, T.value_row, W, X, nV, nM, contiguous, alone, zero, p,
                    )  # fmt: skip
        if contiguous:
            stamp[k, last] += 1
        for e in range(i, j):
            for t in range(clear_ptr[codes[e]], clear_ptr[codes[e] + 1]):
                _empty(V[k], M[k], clear[t], zero)
        grown = False
        for x in range(m):
            q = touched[x]
            mark[q] = False
            if contiguous and not kept[q]:
                _empty(V[k], M[k], q, zero)
                stamp[k, q] = stamp[k, last]
            for a in range(parts):
                V[k, q, a] = add(V[k, q, a], nV[q, a], p)
                grown = grown or large(V[k, q, a])
                nV[q, a] = zero
            for a in range(mins):
                M[k, q, a] = min(M[k, q, a], nM[q, a])
                nM[q, a] = NO_VALUE
        i = j
        if grown:
            return GROWN, i
    return OK, n


@kernel()
def _is_cut(kept, stamp, r, q, alone):
    """Check whether events cut off the matches of a node of a key (contiguous).

    The last event has emptied it by not writing it, or a match would go on past tied events. The
    only nodes that are kept and extended are those of the empty match.
    """
    return not kept[r] and ((alone and not kept[q]) or stamp[r] != stamp[stamp.shape[0] - 1])


@kernel()
def _take_back(nV, nM, mark, touched, m, zero):
    """Discard the gathered additions."""
    for x in range(m):
        mark[touched[x]] = False
        _empty(nV, nM, touched[x], zero)


@kernel()
def _gather_values(
    V, M, q, e, inc, source_ptr, source, unit, kept, stamp, weight_row, value_row, W, X, nV, nM,
    contiguous, alone, zero, p,
):  # fmt: skip
    """Gather sums and extremes as ``advance_until`` gathers counts."""
    for s in range(source_ptr[q], source_ptr[q + 1]):
        r = source[s]
        if contiguous and not unit[r] and _is_cut(kept, stamp, r, q, alone):
            continue
        for a in range(1, V.shape[1]):
            nV[q, a] = add(nV[q, a], V[r, a], p)
        if present(V[r, 0]):
            for a in range(M.shape[1]):
                nM[q, a] = min(nM[q, a], M[r, a])
    for a in range(1, V.shape[1]):
        if weight_row[q, a] >= 0:
            nV[q, a] = add(nV[q, a], mul(W[weight_row[q, a], e], inc, p), p)
    for a in range(M.shape[1]):
        if value_row[q, a] >= 0:
            nM[q, a] = min(nM[q, a], X[value_row[q, a], e])


@kernel()
def _empty(V, M, q, zero):
    """Remove all matches from a node."""
    for a in range(V.shape[1]):
        V[q, a] = zero
    for a in range(M.shape[1]):
        M[q, a] = NO_VALUE


@operation(of=1)
def settle_heaps(T, V, exponent, k):
    """Rescale the doubles of a key below LIMIT, heap by heap; return False on underflow.

    Other number types need no rescaling.
    """
    for h in range(exponent.shape[1]):
        some = False
        for n in range(T.heap_ptr[h], T.heap_ptr[h + 1]):
            for a in range(V.shape[2]):
                some = some or large(V[k, T.heap_node[n], a])
        if some and not shrink_heap(T, V, exponent, k, h):
            return False
    return True


@settle_heaps.wide
@settle_heaps.residue
def _(T, V, exponent, k):
    return True


@kernel()
def shrink_heap(T, V, exponent, k, h):
    """Change the exponent of a heap; return False if small numbers would underflow."""
    for n in range(T.heap_ptr[h], T.heap_ptr[h + 1]):
        q = T.heap_node[n]
        for a in range(V.shape[2]):
            if not T.unit[q] and V[k, q, a] != 0.0 and abs(V[k, q, a]) * SHRINK < TINY:
                return False
    for n in range(T.heap_ptr[h], T.heap_ptr[h + 1]):
        q = T.heap_node[n]
        for a in range(V.shape[2]):
            V[k, q, a] *= SHRINK
        if T.unit[q] and V[k, q, 0] < SHRINK:
            # A start adds nothing any more, unless it is the first match of its node.
            V[k, q, 0] = 0.0
    exponent[k, h] += 512
    return True


@kernel()
def close_key(T, V, M, exponent, k, when, p, rows, out, R, RM):
    """Write a row for every query that has matches; return the number of rows.

    ``out`` are the query, the key and the window of every row.
    """
    out_query, out_key, out_window = out
    for o in range(T.output_ptr.shape[0] - 1):
        some = False
        for n in range(T.output_ptr[o], T.output_ptr[o + 1]):
            q = T.output[n]
            if not present(V[k, q, 0]):
                continue
            if not some:
                some = True
                for a in range(R.shape[1]):
                    R[rows, a] = R.dtype.type(0)
                for a in range(RM.shape[1]):
                    RM[rows, a] = NO_VALUE
            for a in range(V.shape[2]):
                R[rows, a] = add(R[rows, a], wide(V[k, q, a], exponent[k, T.heap[q]]), p)
            for a in range(M.shape[2]):
                RM[rows, a] = min(RM[rows, a], M[k, q, a])
        if some:
            out_query[rows], out_key[rows], out_window[rows] = o, k, when
            rows += 1
    return rows


@kernel()
def reset_key(T, V, M, stamp, exponent, k, unit, zero):
    """Reset a key to the empty match, or to the matrix of an empty stretch."""
    for q in range(V.shape[1]):
        for a in range(V.shape[2]):
            V[k, q, a] = zero
        if T.initial[q]:
            V[k, q, 0] = unit
        for a in range(M.shape[2]):
            M[k, q, a] = NO_VALUE
    for h in range(exponent.shape[1]):
        exponent[k, h] = 0
    for q in range(stamp.shape[1] - 1):
        stamp[k, q] = stamp[k, -1]


def _events(T, V, M, stamp, exponent, limit, ts, *_):
    """Estimate the work of a run by its events, and not by the buffer for rows."""
    return float(ts.shape[0])


def _keys(T, V, *_):
    """Estimate the work of a flush."""
    return float(V.shape[0])


@kernel(work=_events)
def run_shared_windows(
    T, V, M, stamp, exponent, limit, ts, key, codes, W, X, begin, width, grouped, semantics,
    room, unit, zero, p, out, R, RM,
):  # fmt: skip
    """Aggregate windows that do not overlap.

    Parameters
    ----------
    limit
        (keys,) the end of each key's open window.
    begin
        The first event to process.
    width
        The length of a window, 0 for one that never ends.

    Returns
    -------
    status, next event, number of rows
    """
    rows, i = 0, begin
    queries = T.output_ptr.shape[0] - 1
    while True:
        status, i = advance_until(
            T, V, M, stamp, limit, ts, key, codes, W, X, i, grouped, semantics, room, zero, p
        )
        if status == ENDED:
            if rows + queries > R.shape[0]:
                return FULL, i, rows
            k = key[i]
            rows = close_key(T, V, M, exponent, k, limit[k] - width, p, rows, out, R, RM)
            reset_key(T, V, M, stamp, exponent, k, unit, zero)
            limit[k] = ts[i] // width * width + width
        elif status == GROWN:
            if not settle_heaps(T, V, exponent, key[i - 1]):
                return NARROW, i, rows
        else:
            return status, i, rows


@kernel()
def count_until(V, limit, ts, key, codes, begin, width, counts, inc):
    """Count as ``advance_until`` does, for doubles only; O(touched nodes) per event.

    ``V`` is (keys, nodes), and ``inc`` is a buffer for the additions of one event.
    """
    target_ptr, target, source, unit, clear_ptr, clear = counts
    n, sources = codes.shape[0], source.shape[1]
    for i in range(begin, n):
        c = codes[i]
        first, last = target_ptr[c], target_ptr[c + 1]
        first_clear, last_clear = clear_ptr[c], clear_ptr[c + 1]
        if first == last and first_clear == last_clear:
            continue
        look_at_clock()
        k = np.uint64(key[i])
        if width > 0 and ts[i] >= limit[k]:
            return ENDED, i
        for t in range(first, last):
            total = V[k, source[t, 0]]
            for s in range(1, sources):
                total += V[k, source[t, s]]
            if total < TINY and unit[t] >= 0 and V[k, unit[t]] == 0.0 and V[k, target[t]] == 0.0:
                return NARROW, i
            inc[t - first] = total
        for t in range(first_clear, last_clear):
            V[k, clear[t]] = 0.0
        most = 0.0
        for t in range(first, last):
            q = target[t]
            value = V[k, q] + inc[t - first]
            V[k, q] = value
            most = max(most, value)
        if most > LIMIT:
            return GROWN, i + 1
    return OK, n


@kernel(work=_events)
def count_shared_windows(
    T, V, M, stamp, exponent, limit, ts, key, codes, begin, width, counts, out, R, RM
):
    """Count as ``run_shared_windows``, under skip-till-any-match.

    Parameters
    ----------
    counts
        The nodes that every code touches (``engine.shared_tables.Counts``).
    """
    rows, i = 0, begin
    queries = T.output_ptr.shape[0] - 1
    numbers = V[:, :, 0]
    inc = np.empty(V.shape[1])
    while True:
        status, i = count_until(numbers, limit, ts, key, codes, i, width, counts, inc)
        if status == ENDED:
            if rows + queries > R.shape[0]:
                return FULL, i, rows
            k = key[i]
            begun = limit[k] - width
            rows = close_key(T, V, M, exponent, k, begun, np.uint64(0), rows, out, R, RM)
            reset_key(T, V, M, stamp, exponent, k, 1.0, 0.0)
            limit[k] = ts[i] // width * width + width
        elif status == GROWN:
            if not settle_heaps(T, V, exponent, key[i - 1]):
                return NARROW, i, rows
        else:
            return status, i, rows


@kernel(work=_keys)
def flush_shared_windows(
    T, V, M, stamp, exponent, limit, first, until, width, unit, zero, p, out, R, RM
):
    """Close every window that ends by ``until``; return the next key and the number of rows."""
    rows = 0
    queries = T.output_ptr.shape[0] - 1
    for k in range(first, V.shape[0]):
        if width > 0 and limit[k] > until:
            continue
        if rows + queries > R.shape[0]:
            return k, rows
        rows = close_key(T, V, M, exponent, k, limit[k] - width, p, rows, out, R, RM)
        reset_key(T, V, M, stamp, exponent, k, unit, zero)
    return V.shape[0], rows


@kernel()
def widen_heaps(V, exponent, heap, out):
    """Convert doubles with an exponent per heap to wide numbers."""
    for k in range(V.shape[0]):
        for q in range(V.shape[1]):
            for a in range(V.shape[2]):
                out[k, q, a] = widen(V[k, q, a], float(exponent[k, heap[q]]))
