"""Count as ``shared_trailing.py``, for doubles and events that are processed one by one.

The back and the front have one number a node; one node more stays zero.

    V[node]    the back
    G[node]    the front, the rows of the empty match
    E[node]    what the events of one time have added to the back

Nothing else is kept for an event, so most of the time is that of one loop.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import widen
from cepheid.kernels.shared_trailing import HUGE, ask, pass_over
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.trailing import ENDED, EXPIRED, LEFT


@kernel()
def _log_of(codes, first, last, rows_touched, log_node, log_event, log_old):
    """Make room for the values that a front of the events first to last keeps."""
    needed = 0
    for e in range(first, last):
        needed += rows_touched[codes[e]]
    if needed <= log_node.shape[0]:
        return log_node, log_event, log_old
    room = 2 * needed
    return np.empty(room, np.uint32), np.empty(room, np.int64), np.empty(room)


@kernel()
def _turn(G, codes, first, last, before_ptr, before, after, reset_ptr, reset, row, initial, inc,
          log_node, log_event, log_old):  # fmt: skip
    """Build a front of the events first to last; return the number of values kept, or -1."""
    logged, rounds = 0, 0
    for e in range(last - 1, first - 1, -1):
        rounds = let_signals_in(rounds)
        c = codes[e]
        begin, end = before_ptr[c], before_ptr[c + 1]
        for t in range(begin, end):
            inc[t - begin] = G[after[t]]
        for t in range(reset_ptr[c], reset_ptr[c + 1]):
            q = reset[t]
            if row[q] and G[q] != 0.0:
                log_node[logged], log_event[logged], log_old[logged] = q, e, G[q]
                logged += 1
            G[q] = 0.0
        for t in range(begin, end):
            if inc[t - begin] != 0.0:
                q = before[t]
                if row[q]:
                    log_node[logged], log_event[logged], log_old[logged] = q, e, G[q]
                    logged += 1
                G[q] += inc[t - begin]
                if G[q] > HUGE:
                    return -1
    # Only the rows of the empty match are needed; others are made those of an empty stretch again.
    if last - first >= row.shape[0]:
        for q in range(row.shape[0]):
            G[q] = G[q] if row[q] else initial[q]
        return logged
    for e in range(first, last):
        c = codes[e]
        for t in range(before_ptr[c], before_ptr[c + 1]):
            G[before[t]] = G[before[t]] if row[before[t]] else initial[before[t]]
        for t in range(reset_ptr[c], reset_ptr[c + 1]):
            G[reset[t]] = G[reset[t]] if row[reset[t]] else initial[reset[t]]
    return logged


@kernel()
def _reset(V, initial, codes, first, last, target_ptr, target, clear_ptr, clear):
    """Make the back of the events first to last that of no events."""
    if last - first >= V.shape[0]:
        for q in range(initial.shape[0]):
            V[q] = initial[q]
        return
    for e in range(first, last):
        c = codes[e]
        for t in range(target_ptr[c], target_ptr[c + 1]):
            V[target[t]] = initial[target[t]]
        for t in range(clear_ptr[c], clear_ptr[c + 1]):
            V[clear[t]] = initial[clear[t]]


@kernel(inline="code")
def _leave(G, upto, logged, log_node, log_event, log_old):
    """Let all events up to one leave the front; return the number of values still kept."""
    while logged > 0 and log_event[logged - 1] <= upto:
        logged -= 1
        G[log_node[logged]] = log_old[logged]
    return logged


@kernel()
def _report(V, G, L, E, output_ptr, output, product_ptr, left, right, asked, asks, waiting, kind,
            every, n, time, rows, out):  # fmt: skip
    """Write a row for each query whose matches change; return the number of rows, -1 if full.

    They do if some are made of a part in ``L`` and a part in ``E``. With ``every``, all queries
    that are asked for get a row.
    """
    out_query, out_part, out_time, out_kind, R = out
    for w in range(waiting):
        query = asks[w]
        asked[query] = False
        total, some = 0.0, False
        for o in range(output_ptr[query], output_ptr[query + 1]):
            q = output[o]
            for t in range(product_ptr[q], product_ptr[q + 1]):
                x, y = left[t], right[t]
                count = G[x]
                if count != 0.0:
                    total += count * V[y]
                some = some or (L[x] != 0.0 and E[y] != 0.0)
        if some or every:
            if rows == out_query.shape[0]:
                return -1
            out_query[rows], out_part[rows], out_time[rows] = query, n, time
            out_kind[rows] = kind if some else 0
            R[rows, 0] = widen(total, 0.0)
            rows += 1
    return rows


@kernel()
def _add(V, E, c, tied, target_ptr, target, source, clear_ptr, clear, once, inc,
         ended):  # fmt: skip
    """Add an event to the back; return the largest count that it changes."""
    first, last = target_ptr[c], target_ptr[c + 1]
    for t in range(first, last):
        total = V[source[t, 0]]
        for s in range(1, source.shape[1]):
            total += V[source[t, s]]
        inc[t - first] = total
        if tied:
            ended[t - first] = total
            if once[target[t]]:
                # TIES arrival: an event moves what ended with another one of its time.
                ended[t - first] = 0.0
                for s in range(source.shape[1]):
                    ended[t - first] += E[source[t, s]]
    for t in range(clear_ptr[c], clear_ptr[c + 1]):
        V[clear[t]] = 0.0
        if tied:
            # TIES arrival: an event may forbid what ended with another one of its time.
            E[clear[t]] = 0.0
    most = 0.0
    for t in range(first, last):
        q = target[t]
        value = V[q] + inc[t - first]
        V[q] = value
        most = max(most, value)
        if tied:
            E[q] += ended[t - first]
    return most


@kernel()
def _expire(codes, ts, behind, ahead, results, room, log, state, i, until, fresh, width, n, rows,
            out):  # fmt: skip
    """Let events before i leave by a time, as ``_expire`` of ``shared_trailing.py``."""
    V, G, _, D, inc, _, asked, asks = room
    target_ptr, target, _, clear_ptr, clear, initial, _, _ = behind
    before_ptr, before, after, reset_ptr, reset, row, rows_touched, left_ptr, left_query = ahead[2:]
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
            log = _log_of(codes, first, i, rows_touched, *log)
            logged = _turn(
                G, codes, first, i, before_ptr, before, after, reset_ptr, reset, row, initial, inc,
                *log,
            )  # fmt: skip
            if logged < 0:
                return (head, front, logged), log, -2
            _reset(V, initial, codes, front, i, target_ptr, target, clear_ptr, clear)
            front = i
        waiting, leaving = 0, logged
        if time >= fresh:
            while leaving > 0 and log[1][leaving - 1] < head:
                leaving -= 1
                D[log[0][leaving]] = 1.0
                waiting = ask(log[0][leaving], left_ptr, left_query, asked, asks, waiting)
        leaving, logged = logged, _leave(G, head - 1, logged, *log)
        if waiting:
            rows = _report(
                V, G, D, V, *results, asked, asks, waiting, LEFT | EXPIRED, False, n, time, rows,
                out,
            )  # fmt: skip
            if rows < 0:
                return (head, front, logged), log, -1
            for g in range(logged, leaving):
                D[log[0][g]] = 0.0
    return (head, front, logged), log, rows


def _events(ts, *_):
    """Estimate the work by the events, and not by the buffer for rows."""
    return float(ts.shape[0])


@kernel(work=_events)
def count_shared_trailing(
    ts, codes, seg, begin, fresh, width, until, expiries, behind, ahead, results, room, out
):  # fmt: skip
    """Count the matches of all partitions from one on, as ``run_shared_trailing``.

    Parameters
    ----------
    behind, ahead, results
        What events add behind the back, and before the front; and what results read
        (``TrailingCounts``).
    room
        Both stacks as those of no events, and buffers.

    Returns
    -------
    status, next partition, number of rows, as for ``run_shared_trailing``
    """
    target_ptr, target, source, clear_ptr, clear, initial, idle, once = behind
    end_ptr, end_query, before_ptr, before, after, reset_ptr, reset, row, rows_touched = ahead[:9]
    V, G, E, _, inc, ended, asked, asks = room
    log = np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0)
    done, rounds = 0, 0
    for n in range(begin, seg.shape[0] - 1):
        rows, last = done, seg[n + 1]
        head, front, logged, waiting, since = seg[n], seg[n], 0, 0, seg[n]
        for i in range(seg[n], last + 1):
            rounds = let_signals_in(rounds)
            if i < last and idle[codes[i]]:
                continue
            if waiting and (i == last or ts[i] != ts[since]):
                rows = _report(
                    V, G, G, E, *results, asked, asks, waiting, ENDED, expiries, n, ts[since],
                    rows, out,
                )  # fmt: skip
                if rows < 0:
                    return FULL, n, done
                for e in range(since, i):
                    for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                        E[target[t]] = 0.0
                waiting = 0
            now = ts[i] if i < last else until
            if expiries:
                head = pass_over(ts, codes, head, i, now - width, rows_touched)
            if expiries and head < i and ts[head] + width <= now:
                (head, front, logged), log, rows = _expire(
                    codes, ts, behind, ahead, results, room, log, (head, front, logged), i,
                    now, fresh, width, n, rows, out,
                )  # fmt: skip
                if rows < 0:
                    return FULL if rows == -1 else NARROW, n, done
            if i == last:
                break
            c = codes[i]
            if end_ptr[c] < end_ptr[c + 1] and now >= fresh:
                if ts[head] + width <= now:
                    while head < i and ts[head] + width <= now:
                        head += 1
                    logged = _leave(G, head - 1, logged, *log)
                    if head > front:
                        log = _log_of(codes, head, i, rows_touched, *log)
                        logged = _turn(
                            G, codes, head, i, before_ptr, before, after, reset_ptr, reset, row,
                            initial, inc, *log,
                        )  # fmt: skip
                        if logged < 0:
                            return NARROW, n, done
                        _reset(V, initial, codes, front, i, target_ptr, target, clear_ptr, clear)
                        front = i
                if not waiting:
                    since = i
                waiting = ask(c, end_ptr, end_query, asked, asks, waiting)
            most = _add(
                V, E, c, waiting > 0, target_ptr, target, source, clear_ptr, clear, once, inc,
                ended,
            )  # fmt: skip
            if most > HUGE:
                return NARROW, n, done
        _leave(G, last, logged, *log)
        _reset(V, initial, codes, front, last, target_ptr, target, clear_ptr, clear)
        done = rows
    return OK, seg.shape[0] - 1, done
