"""Count the matches of many queries over trailing windows by sums over all starts.

``start_sums.py`` tells why sums can be taken back. Here the counters are the nodes of a merged
system, so an event may add to several of them, though never to one that it adds from.

    W[node]        the matches of all active starts
    P[q, r]        the product of all events so far; not zero only where r leads to q
    Q[q, r]        the transpose of its inverse; not zero only where q leads to r
    V, at, code    the vectors of the active starts, one behind the other; their times and codes

Rows are those of ``shared_trailing_counts.py`` without rows for starts that leave.
"""

from __future__ import annotations

from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.panes import FULL
from cepheid.kernels.ring import widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.trailing import ENDED


@kernel()
def _report(W, results, asked, asks, waiting, n, time, rows, out):
    """Write a row for each query of which matches ended; return the next row, -1 if full."""
    out_query, out_part, out_time, out_kind, R = out
    output_ptr, output = results[2], results[3]
    for w in range(waiting):
        if rows == out_query.shape[0]:
            return -1
        query = asks[w]
        asked[query] = False
        total = 0
        for o in range(output_ptr[query], output_ptr[query + 1]):
            total += W[output[o]]
        out_query[rows], out_part[rows], out_time[rows] = query, n, time
        out_kind[rows] = ENDED
        R[rows, 0] = widen(float(total), 0.0)
        rows += 1
    return rows


@kernel()
def _leave(code, first, adds, spread, P, W, V, v):
    """Take the matches of a start away, whose vector begins at ``first``; return where it ends."""
    target_ptr, target, begins = adds[0], adds[1], adds[2]
    below_ptr, below, above_ptr, above = spread
    for e in range(target_ptr[code], target_ptr[code + 1]):
        if not begins[e]:
            continue
        t = target[e]
        for k in range(below_ptr[t], below_ptr[t + 1]):
            v[below[k]] = V[first]
            first += 1
        for k in range(below_ptr[t], below_ptr[t + 1]):
            q, gone = below[k], 0
            for r in range(above_ptr[q], above_ptr[q + 1]):
                gone += P[q, above[r]] * v[above[r]]
            W[q] -= gone
        for k in range(below_ptr[t], below_ptr[t + 1]):
            v[below[k]] = 0
    return first


@kernel()
def _add(c, adds, spread, P, Q, W, inc):
    """Add what an event extends to ``inc``, and the event to the products."""
    target_ptr, target, _, source_ptr, source = adds
    below_ptr, below, above_ptr, above = spread
    for e in range(target_ptr[c], target_ptr[c + 1]):
        t, total = target[e], 0
        for s in range(source_ptr[e], source_ptr[e + 1]):
            r = source[s]
            total += W[r]
            for k in range(above_ptr[r], above_ptr[r + 1]):
                P[t, above[k]] += P[r, above[k]]
            for k in range(below_ptr[t], below_ptr[t + 1]):
                Q[r, below[k]] -= Q[t, below[k]]
        inc[e - target_ptr[c]] = total


def _events(ts, *_):
    """Estimate the work by the events, and not by the buffer for rows."""
    return float(ts.shape[0])


@kernel(work=_events)
def sum_shared_starts(
    ts, codes, seg, begin, fresh, width, most, adds, spread, results, room, out
):  # fmt: skip
    """Count the matches of all partitions from one on.

    Parameters
    ----------
    ts, codes, seg, begin, fresh, width, out
        As for ``run_shared_trailing``.
    most
        The largest sum that is kept.
    adds
        For every code its targets, and for each target how often it begins a match, and its
        sources.
    spread
        For every node those that it leads to, and those that lead to it, itself among both.
    results
        For every node the queries that read it, and for every query the nodes that it reads.
    room
        P, Q, W, V, at and code, and buffers.

    Returns
    -------
    status, next partition, number of rows, as for ``run_shared_trailing``; NARROW if a sum is
    larger
    """
    target_ptr, target, begins = adds[0], adds[1], adds[2]
    below_ptr, below = spread[0], spread[1]
    reader_ptr, reader = results[0], results[1]
    P, Q, W, V, at, code, inc, v, asked, asks = room
    done, rounds = 0, 0
    for n in range(begin, seg.shape[0] - 1):
        rows, head, tail, oldest, newest, waiting, last = done, 0, 0, 0, 0, 0, 0
        W[:] = 0
        for i in range(seg[n], seg[n + 1]):
            rounds = let_signals_in(rounds)
            c = codes[i]
            first = target_ptr[c]
            if first == target_ptr[c + 1]:
                continue
            now = ts[i]
            if waiting and now != last:
                rows = _report(W, results, asked, asks, waiting, n, last, rows, out)
                if rows < 0:
                    return FULL, n, done
                waiting = 0
            while head < tail and at[head] + width <= now:
                oldest = _leave(code[head], oldest, adds, spread, P, W, V, v)
                head += 1
            # Without an active start all sums are zero, and no vector needs the products.
            if head < tail:
                _add(c, adds, spread, P, Q, W, inc)
            starts = 0
            for e in range(first, target_ptr[c + 1]):
                t, more = target[e], begins[e]
                if more:
                    for k in range(below_ptr[t], below_ptr[t + 1]):
                        V[newest] = more * Q[t, below[k]]
                        newest += 1
                    starts = 1
                if head < tail:
                    more += inc[e - first]
                W[t] += more
                if W[t] > most:
                    return NARROW, n, done
                if more and now >= fresh:
                    for r in range(reader_ptr[t], reader_ptr[t + 1]):
                        if not asked[reader[r]]:
                            asked[reader[r]] = True
                            asks[waiting] = reader[r]
                            waiting += 1
            if starts:
                at[tail], code[tail] = now, c
                tail += 1
            last = now
        if waiting:
            rows = _report(W, results, asked, asks, waiting, n, last, rows, out)
            if rows < 0:
                return FULL, n, done
        done = rows
    return OK, seg.shape[0] - 1, done
