"""Trailing windows of many queries: two stacks of events, whose numbers queries share.

The events of a partition that are in the window are a *front* and a *back*. The back is one sparse
matrix, as a pane of ``shared_panes.py``: the number of ways from each configuration to each other
one, equal entries once. Of the front only the rows of the empty match are kept: the matches that
begin in it. A result adds up products of the two. When a start leaves the front, what it had added
is taken back from a list of earlier values, so nothing is ever subtracted. Values of this list that
are taken back also tell which matches change when events leave (§6.4).

When the front is empty, and events of the back leave, the back becomes a new front, from its last
event to its first; an event in front of a stretch adds entries to entries, as one behind it does.
So an event costs O(touched entries), whatever the number of starts in the window; A-Seq keeps a
counter for every start, and joins the counters of shared parts whenever a match ends.

    V[node, part], M[node, part]    the back
    G[node, part], H[node, part]    the front
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.linear import NARROW, NO_VALUE, OK
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import add, mul, present, wide
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel, operation
from cepheid.kernels.trailing import ENDED, EXPIRED, LEFT

HUGE = 2.0**400
"""Doubles up to it can be multiplied and added up."""


@operation()
def _huge(x):
    """Check whether a double is too large to be multiplied."""
    return abs(x) > HUGE and math.isfinite(x)


@_huge.wide
@_huge.residue
def _(x):
    return False


@kernel(inline="code")
def _gather(V, M, c, e, W, X, target_ptr, target, source_ptr, source, weight_row, value_row, nV,
            nM, mark, touched, m, zero, p):  # fmt: skip
    """Gather what an event of code c adds behind the back; return the number of nodes so far."""
    for t in range(target_ptr[c], target_ptr[c + 1]):
        q = target[t]
        inc = zero
        for s in range(source_ptr[q], source_ptr[q + 1]):
            inc = add(inc, V[source[s], 0], p)
        if not present(inc):
            continue
        if not mark[q]:
            mark[q] = True
            touched[m] = q
            m += 1
        nV[q, 0] = add(nV[q, 0], inc, p)
        for s in range(source_ptr[q], source_ptr[q + 1]):
            r = source[s]
            for a in range(1, V.shape[1]):
                nV[q, a] = add(nV[q, a], V[r, a], p)
            if present(V[r, 0]):
                for a in range(M.shape[1]):
                    nM[q, a] = min(nM[q, a], M[r, a])
        _weigh(q, q, inc, e, W, X, weight_row, value_row, nV, nM, p)
    return m


@kernel(inline="code")
def _gather_before(G, H, c, e, W, X, before_ptr, before, after, bound, weight_row, value_row, nV,
                   nM, mark, touched, m, p):  # fmt: skip
    """Gather what an event of code c adds before the front; return the number of nodes so far."""
    for t in range(before_ptr[c], before_ptr[c + 1]):
        q, r = before[t], after[t]
        inc = G[r, 0]
        if not present(inc):
            continue
        if not mark[q]:
            mark[q] = True
            touched[m] = q
            m += 1
        nV[q, 0] = add(nV[q, 0], inc, p)
        for a in range(1, G.shape[1]):
            nV[q, a] = add(nV[q, a], G[r, a], p)
        for a in range(H.shape[1]):
            nM[q, a] = min(nM[q, a], H[r, a])
        _weigh(bound[t], q, inc, e, W, X, weight_row, value_row, nV, nM, p)
    return m


@kernel(inline="code")
def _weigh(bound, q, inc, e, W, X, weight_row, value_row, nV, nM, p):
    """Add the values of an event, bound as in the node ``bound``, to what a node gains."""
    for a in range(1, nV.shape[1]):
        if weight_row[bound, a] >= 0:
            nV[q, a] = add(nV[q, a], mul(W[weight_row[bound, a], e], inc, p), p)
    for a in range(nM.shape[1]):
        if value_row[bound, a] >= 0:
            nM[q, a] = min(nM[q, a], X[value_row[bound, a], e])


@kernel(inline="code")
def _apply(V, M, nV, nM, mark, touched, m, zero, p):
    """Add what was gathered; return False if a double is too large."""
    fits = True
    for n in range(m):
        q = touched[n]
        mark[q] = False
        for a in range(V.shape[1]):
            V[q, a] = add(V[q, a], nV[q, a], p)
            fits = fits and not _huge(V[q, a])
            nV[q, a] = zero
        for a in range(M.shape[1]):
            M[q, a] = min(M[q, a], nM[q, a])
            nM[q, a] = NO_VALUE
    return fits


@kernel(inline="code")
def _set(V, M, q, count):
    """Make a node one of no events: with one match of no value, or none."""
    for a in range(V.shape[1]):
        V[q, a] = V.dtype.type(0)
    V[q, 0] = V.dtype.type(count)
    for a in range(M.shape[1]):
        M[q, a] = NO_VALUE


@kernel()
def _reset(V, M, initial, codes, first, last, target_ptr, target, clear_ptr, clear):
    """Make the back of the events first to last that of no events."""
    if last - first >= V.shape[0]:
        for q in range(V.shape[0]):
            _set(V, M, q, initial[q])
        return
    for e in range(first, last):
        c = codes[e]
        for t in range(target_ptr[c], target_ptr[c + 1]):
            _set(V, M, target[t], initial[target[t]])
        for t in range(clear_ptr[c], clear_ptr[c + 1]):
            _set(V, M, clear[t], initial[clear[t]])


@kernel()
def _keep(G, H, q, e, logged, log_node, log_event, log_old, log_least):
    """Keep the value of a node of the front, as it is without event e."""
    log_node[logged], log_event[logged] = q, e
    for a in range(G.shape[1]):
        log_old[logged, a] = G[q, a]
    for a in range(H.shape[1]):
        log_least[logged, a] = H[q, a]
    return logged + 1


@kernel()
def _leave(G, H, upto, logged, log_node, log_event, log_old, log_least):
    """Let all events up to one leave the front; return the number of values still kept."""
    while logged > 0 and log_event[logged - 1] <= upto:
        logged -= 1
        q = log_node[logged]
        for a in range(G.shape[1]):
            G[q, a] = log_old[logged, a]
        for a in range(H.shape[1]):
            H[q, a] = log_least[logged, a]
    return logged


@kernel()
def _room_for(codes, first, last, rows_touched, log):
    """Make room for the values that a front of the events first to last keeps."""
    needed = 0
    for e in range(first, last):
        needed += rows_touched[codes[e]]
    if needed <= log[0].shape[0]:
        return log
    room, old, least = 2 * needed, log[2], log[3]
    return (
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty((room, old.shape[1]), old.dtype),
        np.empty((room, least.shape[1]), np.int64),
    )


@kernel()
def _turn(G, H, ts, codes, first, last, W, X, grouped, before_ptr, before, after, bound, reset_ptr,
          reset, row, initial, weight_row, value_row, nV, nM, mark, touched, log_node, log_event,
          log_old, log_least, zero, p):  # fmt: skip
    """Build a front of the events first to last; return the number of values kept, or -1."""
    logged, j, rounds = 0, last, 0
    while j > first:
        rounds = let_signals_in(rounds)
        i = j - 1
        while grouped and i > first and ts[i - 1] == ts[j - 1]:
            i -= 1
        m = 0
        for e in range(i, j):
            m = _gather_before(
                G, H, codes[e], e, W, X, before_ptr, before, after, bound, weight_row, value_row,
                nV, nM, mark, touched, m, p,
            )  # fmt: skip
        # What is emptied comes back last.
        for e in range(i, j):
            for t in range(reset_ptr[codes[e]], reset_ptr[codes[e] + 1]):
                q = reset[t]
                if row[q] and present(G[q, 0]):
                    logged = _keep(G, H, q, i, logged, log_node, log_event, log_old, log_least)
                _set(G, H, q, 0)
        for n in range(m):
            if row[touched[n]]:
                logged = _keep(G, H, touched[n], i, logged, log_node, log_event, log_old, log_least)
        if not _apply(G, H, nV, nM, mark, touched, m, zero, p):
            return -1
        j = i
    # Only the rows of the empty match are needed; others are made those of an empty stretch again.
    if last - first >= row.shape[0]:
        for q in range(row.shape[0]):
            if not row[q]:
                _set(G, H, q, initial[q])
        return logged
    for e in range(first, last):
        c = codes[e]
        for t in range(before_ptr[c], before_ptr[c + 1]):
            if not row[before[t]]:
                _set(G, H, before[t], initial[before[t]])
        for t in range(reset_ptr[c], reset_ptr[c + 1]):
            if not row[reset[t]]:
                _set(G, H, reset[t], initial[reset[t]])
    return logged


@kernel(inline="code")
def _add_up(V, M, G, H, L, E, query, output_ptr, output, product_ptr, left, right, total, least,
            zero, p):  # fmt: skip
    """Add up the aggregates of a query over the window; return whether its matches change.

    They do if some are made of a part in ``L`` and a part in ``E``.
    """
    some = False
    for a in range(V.shape[1]):
        total[a] = zero
    for a in range(M.shape[1]):
        least[a] = NO_VALUE
    for o in range(output_ptr[query], output_ptr[query + 1]):
        for t in range(product_ptr[output[o]], product_ptr[output[o] + 1]):
            x, y = left[t], right[t]
            some = some or (present(L[x, 0]) and present(E[y, 0]))
            if not present(G[x, 0]) or not present(V[y, 0]):
                continue
            total[0] = add(total[0], mul(G[x, 0], V[y, 0], p), p)
            for a in range(1, V.shape[1]):
                both = add(mul(G[x, 0], V[y, a], p), mul(G[x, a], V[y, 0], p), p)
                total[a] = add(total[a], both, p)
            for a in range(M.shape[1]):
                least[a] = min(least[a], min(H[x, a], M[y, a]))
    return some


@kernel()
def _report(V, M, G, H, L, E, output_ptr, output, product_ptr, left, right, asked, asks, waiting,
            kind, every, n, time, rows, out, total, least, zero, p):  # fmt: skip
    """Write a row for each query whose matches change; return the number of rows, -1 if full.

    With ``every``, all queries that are asked for get a row; kind 0 if matches only were forbidden.
    """
    out_query, out_part, out_time, out_kind, R, RM = out
    for w in range(waiting):
        query = asks[w]
        asked[query] = False
        some = _add_up(
            V, M, G, H, L, E, query, output_ptr, output, product_ptr, left, right, total, least,
            zero, p,
        )  # fmt: skip
        if not some and not every:
            continue
        if rows == out_query.shape[0]:
            return -1
        out_query[rows], out_part[rows], out_time[rows] = query, n, time
        out_kind[rows] = kind if some else 0
        for a in range(V.shape[1]):
            R[rows, a] = wide(total[a], 0)
        for a in range(M.shape[1]):
            RM[rows, a] = least[a]
        rows += 1
    return rows


@kernel(inline="code")
def ask(c, ptr, query, asked, asks, waiting):
    """Note the queries that an event or node speaks of; return the number of those noted."""
    for t in range(ptr[c], ptr[c + 1]):
        if not asked[query[t]]:
            asked[query[t]] = True
            asks[waiting] = query[t]
            waiting += 1
    return waiting


@kernel(inline="code")
def _add(V, M, E, codes, i, j, W, X, waiting, target_ptr, target, source_ptr, source, clear_ptr,
         clear, once, weight_row, value_row, nV, nM, nE, mark, touched, zero, p):  # fmt: skip
    """Add the events i to j, all of one time, to the back; return False if a double is too large.

    ``E`` gathers what the events of one time add, if some match may end with them.
    """
    m = 0
    for e in range(i, j):
        m = _gather(
            V, M, codes[e], e, W, X, target_ptr, target, source_ptr, source, weight_row, value_row,
            nV, nM, mark, touched, m, zero, p,
        )  # fmt: skip
    if waiting:
        for n in range(m):
            q = touched[n]
            nE[q] = nV[q, 0]
            if once[q]:
                # TIES arrival: an event moves what ended with another one of its time.
                nE[q] = zero
                for s in range(source_ptr[q], source_ptr[q + 1]):
                    nE[q] = add(nE[q], E[source[s], 0], p)
    for e in range(i, j):
        for t in range(clear_ptr[codes[e]], clear_ptr[codes[e] + 1]):
            _set(V, M, clear[t], 0)
            # TIES arrival: an event may forbid what ended with another one of its time.
            E[clear[t], 0] = zero
    if waiting:
        for n in range(m):
            E[touched[n], 0] = add(E[touched[n], 0], nE[touched[n]], p)
    return _apply(V, M, nV, nM, mark, touched, m, zero, p)


@kernel(inline="code")
def pass_over(ts, codes, head, i, upto, rows_touched):
    """Skip events before i that leave by a time and begin no match; return the next one."""
    while head < i and rows_touched[codes[head]] == 0 and ts[head] <= upto:
        head += 1
    return head


@kernel()
def _expire(T, U, ts, codes, W, X, grouped, room, log, state, i, until, fresh, width, n, rows, zero,
            p, out):  # fmt: skip
    """Let events before i leave by a time, one time after the other, and report what changes.

    Returns the state, the list of earlier values, and the number of rows: -1 if they do not fit, -2
    if doubles are too small.
    """
    V, M, G, H, nV, nM, mark, touched, _, _, D, asked, asks, total, least = room
    before_ptr, before, after, bound = U[2:6]
    reset_ptr, reset, row, rows_touched, left_ptr, left_query = U[6:]
    head, front, logged = state
    while True:
        head = pass_over(ts, codes, head, i, until - width, rows_touched)
        if head >= i or ts[head] + width > until:
            break
        first, time = max(head, front), ts[head] + width
        while head < i and ts[head] + width == time:
            head += 1
        # Of one time, only events that change nothing can be in the front already.
        if head > front:
            log = _room_for(codes, first, i, rows_touched, log)
            logged = _turn(
                G, H, ts, codes, first, i, W, X, grouped, before_ptr, before, after, bound,
                reset_ptr, reset, row, T[8], T[14], T[15], nV, nM, mark, touched, *log, zero, p,
            )  # fmt: skip
            if logged < 0:
                return (head, front, logged), log, -2
            _reset(V, M, T[8], codes, front, i, T[0], T[1], T[2], T[3])
            front = i
        waiting, leaving = 0, logged
        if time >= fresh:
            while leaving > 0 and log[1][leaving - 1] < head:
                leaving -= 1
                D[log[0][leaving], 0] = V.dtype.type(1)
                waiting = ask(log[0][leaving], left_ptr, left_query, asked, asks, waiting)
        leaving, logged = logged, _leave(G, H, head - 1, logged, *log)
        if waiting:
            rows = _report(
                V, M, G, H, D, V, *T[16:21], asked, asks, waiting, LEFT | EXPIRED, False, n, time,
                rows, out, total, least, zero, p,
            )  # fmt: skip
            if rows < 0:
                return (head, front, logged), log, -1
            for g in range(logged, leaving):
                D[log[0][g], 0] = zero
    return (head, front, logged), log, rows


def _events(T, U, ts, *_):
    """Estimate the work by the events, and not by the buffer for rows."""
    return float(ts.shape[0])


@kernel(work=_events)
def run_shared_trailing(T, U, ts, codes, W, X, seg, begin, fresh, width, until, expiries, grouped,
                        room, log, zero, p, out):  # fmt: skip
    """Aggregate the events of all partitions from one on.

    Parameters
    ----------
    T, U
        The tables of a group (``SharedTables``, ``TrailingTables``).
    seg
        Where the events of each partition begin, and their number at the end.
    begin
        The first partition.
    fresh, width
        Rows are written for times from ``fresh`` on, over the events of (time - width, time].
    until, expiries
        Whether rows are also written for times at which events leave, and the last such time.
    grouped
        Whether events of one partition and time are processed together (TIES strict).
    room, log
        Both stacks as those of no events, and buffers of zeros; the list of earlier values.
    out
        Arrays for the rows: query, partition, time, kind, numbers, values.

    Returns
    -------
    OK; NARROW if doubles are too small; FULL if rows do not fit; then the next partition, and the
    number of rows. After NARROW and FULL, ``room`` must be made anew.
    """
    V, M, G, H, nV, nM, mark, touched, E, nE, _, asked, asks, total, least = room
    target_ptr, target, clear_ptr, clear, idle = T[:5]
    source_ptr, source, initial, weight_row, value_row, once = T[5], T[6], T[8], T[14], T[15], T[21]
    end_ptr, end_query, before_ptr, before, after = U[:5]
    bound, reset_ptr, reset, row, rows_touched = U[5:10]
    done, rounds = 0, 0
    for n in range(begin, seg.shape[0] - 1):
        rows, i, last = done, seg[n], seg[n + 1]
        head, front, logged, waiting, since = i, i, 0, 0, i
        while i <= last:
            rounds = let_signals_in(rounds)
            j = i + 1
            if i < last and not grouped and idle[codes[i]]:
                i = j
                continue
            if waiting and (i == last or ts[i] != ts[since]):
                rows = _report(
                    V, M, G, H, G, E, *T[16:21], asked, asks, waiting, ENDED, expiries, n,
                    ts[since], rows, out, total, least, zero, p,
                )  # fmt: skip
                if rows < 0:
                    return FULL, n, done
                for e in range(since, i):
                    for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                        E[target[t], 0] = zero
                waiting = 0
            now = ts[i] if i < last else until
            if expiries:
                head = pass_over(ts, codes, head, i, now - width, rows_touched)
            if expiries and head < i and ts[head] + width <= now:
                (head, front, logged), log, rows = _expire(
                    T, U, ts, codes, W, X, grouped, room, log, (head, front, logged), i,
                    now, fresh, width, n, rows, zero, p, out,
                )  # fmt: skip
                if rows < 0:
                    return FULL if rows == -1 else NARROW, n, done
            if i == last:
                break
            while grouped and j < last and ts[j] == ts[i]:
                j += 1
            if ts[i] >= fresh:
                since = since if waiting else i
                for e in range(i, j):
                    waiting = ask(codes[e], end_ptr, end_query, asked, asks, waiting)
            if waiting and since == i and ts[head] + width <= ts[i]:
                while head < i and ts[head] + width <= ts[i]:
                    head += 1
                logged = _leave(G, H, head - 1, logged, *log)
                if head > front:
                    log = _room_for(codes, head, i, rows_touched, log)
                    logged = _turn(
                        G, H, ts, codes, head, i, W, X, grouped, before_ptr, before, after, bound,
                        reset_ptr, reset, row, initial, weight_row, value_row, nV, nM, mark,
                        touched, *log, zero, p,
                    )  # fmt: skip
                    if logged < 0:
                        return NARROW, n, done
                    _reset(V, M, initial, codes, front, i, target_ptr, target, clear_ptr, clear)
                    front = i
            if not _add(
                V, M, E, codes, i, j, W, X, waiting, target_ptr, target, source_ptr, source,
                clear_ptr, clear, once, weight_row, value_row, nV, nM, nE, mark, touched, zero, p,
            ):  # fmt: skip
                return NARROW, n, done
            i = j
        _leave(G, H, last, logged, *log)
        _reset(V, M, initial, codes, front, last, target_ptr, target, clear_ptr, clear)
        done = rows
    return OK, seg.shape[0] - 1, done
