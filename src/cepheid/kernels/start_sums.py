"""Count the matches of trailing windows in O(1) an event, however many starts are active.

An event adds some counters to another one, so it multiplies all counters by a matrix I + E. None is
added to itself here, so E² = 0 and the inverse is I - E. With P the product of all events so far,
and Q its inverse, the counters of a start s are now P v, where v is the column of Q that belonged
to its counter when it began. Only the sums W over all active starts are kept, and followed like
counters of one start; a start that leaves takes P v away from them:

    event    W, P  times I + E from the left;  Q  times I - E from the right
    start    v = Q e, kept until it leaves;    W + e
    leaves   W - P v

Numbers are whole and wrap around at 2^64. P and Q may do so at any time. The sums never do, as the
kernel gives up when one exceeds what the caller allows. For plain programs in which no event
follows one of its own kind, and for counts only (``start_counters.py`` has the others).
"""

from __future__ import annotations

from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.trailing import ENDED, EXPIRED, LEFT


@kernel()
def _write(W, counts, time, kind, ended, n, rows, out):
    """Write the counts of all active starts; return the next row."""
    out_part, out_time, out_kind, out_ended, R, _ = out
    total = 0
    for q in range(W.shape[0]):
        if counts[q]:
            total += W[q]
    out_part[rows] = n
    out_time[rows] = time
    out_kind[rows] = kind
    out_ended[rows] = complex(ended, 0.0)
    R[rows, 0] = complex(total, 0.0)
    return rows + 1


@kernel()
def _leave(P, W, V, at, counts, head, tail, now, width, fresh, expiries, n, rows, out):
    """Let the starts go that left by a time; write a row for every time at which a match goes."""
    while head < tail and at[head] + width <= now:
        time, died = at[head] + width, 0
        while head < tail and at[head] + width == time:
            for q in range(W.shape[0]):
                gone = 0
                for r in range(W.shape[0]):
                    gone += P[q, r] * V[head, r]
                W[q] -= gone
                if counts[q]:
                    died += gone
            head += 1
        if expiries and died > 0 and time >= fresh:
            rows = _write(W, counts, time, LEFT | EXPIRED, died, n, rows, out)
    return head, rows


@kernel()
def sum_starts(
    target, source, begins, counts, ts, codes, seg, fresh, width, until, expiries, most, P, Q, W,
    V, at, out,
):  # fmt: skip
    """Count the matches of all partitions.

    Parameters
    ----------
    target, source, begins, seg, fresh, width, until, expiries, out
        As for ``start_counters.count_starts``.
    most
        The largest sum that is kept.
    P, Q, W
        Room for two matrices and a vector of whole numbers.
    V, at
        Room for the vector and the time of each start.

    Returns
    -------
    OK, or NARROW if a sum is larger; and the number of rows.
    """
    rows, rounds, head, tail = 0, 0, 0, 0
    for n in range(seg.shape[0] - 1):
        head, ended, last = tail, 0, ts[0]
        P[:], Q[:], W[:] = 0, 0, 0
        for q in range(W.shape[0]):
            P[q, q] = Q[q, q] = 1
        for i in range(seg[n], seg[n + 1]):
            rounds = let_signals_in(rounds)
            c = codes[i]
            t = target[c]
            if t < 0:
                continue
            now = ts[i]
            if ended > 0 and now != last:
                if last >= fresh:
                    rows = _write(W, counts, last, ENDED, ended, n, rows, out)
                ended = 0
            if head < tail and at[head] + width <= now:
                head, rows = _leave(
                    P, W, V, at, counts, head, tail, now, width, fresh, expiries, n, rows, out
                )
            # Without an active start all sums are zero, and no vector needs the matrices.
            if head < tail:
                for s in range(source.shape[1]):
                    r = source[c, s]
                    if r < 0:
                        break
                    if counts[t]:
                        ended += W[r]
                    W[t] += W[r]
                    for q in range(W.shape[0]):
                        P[t, q] += P[r, q]
                        Q[q, r] -= Q[q, t]
                if W[t] > most:
                    return NARROW, 0
            if begins[c]:
                for q in range(W.shape[0]):
                    V[tail, q] = Q[q, t]
                at[tail] = now
                W[t] += 1
                tail += 1
                ended += counts[t]
            last = now
        if ended > 0 and last >= fresh:
            rows = _write(W, counts, last, ENDED, ended, n, rows, out)
        if expiries:
            head, rows = _leave(
                P, W, V, at, counts, head, tail, until, width, fresh, expiries, n, rows, out
            )
    return OK, rows
