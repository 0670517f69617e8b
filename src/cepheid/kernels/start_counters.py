"""Aggregate trailing windows with counters for every event that begins matches (A-Seq, 3.2).

A match is in the window as long as its first event is. So each event that begins matches, a
*start*, has counters of its own: how many partial matches begin with it, by configuration. An event
adds to the counters of all active starts, which lie side by side; a start that leaves takes its
counters with it, so nothing is ever subtracted. An event costs O(active starts), and with some
thousands of them as much as with two stacks (``trailing.py``), where it costs O(1).

    C[configuration, part, place]    counts and sums; part 0 counts matches
    M[configuration, part, place]    smallest value keys
    at[place]                        the time of the start; places head to tail are active

For plain programs only: skip-till-any-match, no negation, one variable per event, no ties.
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.linear import NARROW, NO_VALUE, OK
from cepheid.kernels.ring import LIMIT, widen
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel
from cepheid.kernels.trailing import ENDED, EXPIRED, LEFT


@kernel()
def active_starts(ts, codes, begins, seg, width):
    """Return the sum of active starts over all events, and the most at one time; O(events).

    ``seg`` holds where the events of each partition begin, and their number at the end.
    """
    total, most = 0, 0
    for n in range(seg.shape[0] - 1):
        first, active = seg[n], 0
        for i in range(seg[n], seg[n + 1]):
            while ts[first] + width <= ts[i]:
                active -= begins[codes[first]]
                first += 1
            active += begins[codes[i]]
            total += active
            most = max(most, active)
    return total, most


@active_starts.interpreted
def _(ts, codes, begins, seg, width):
    total, most = 0, 0
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(begins[codes])))
    for n in range(seg.shape[0] - 1):
        times = ts[seg[n] : seg[n + 1]]
        first = seg[n] + np.searchsorted(times, times - width, side="right")
        active = upto[seg[n] + 1 : seg[n + 1] + 1] - upto[first]
        total += int(active.sum())
        most = max(most, int(active.max()))
    return total, most


@kernel()
def _total(C, q, a, head, tail):
    """Add up a number of all active starts, four at a time, so that they can be added together."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    s = head
    while s + 4 <= tail:
        first += C[q, a, s]
        second += C[q, a, s + 1]
        third += C[q, a, s + 2]
        fourth += C[q, a, s + 3]
        s += 4
    while s < tail:
        first += C[q, a, s]
        s += 1
    return (first + second) + (third + fourth)


@kernel()
def _write(C, M, counts, head, tail, time, kind, ended, n, rows, out):
    """Write the aggregates of all active starts; return the next row, -1 for a count too large."""
    out_part, out_time, out_kind, out_ended, R, RM = out
    for a in range(C.shape[1]):
        total = 0.0
        for q in range(C.shape[0]):
            if counts[q]:
                total += _total(C, q, a, head, tail)
        if a == 0 and not math.isfinite(total):
            return -1
        R[rows, a] = widen(total, 0.0)
    for a in range(M.shape[1]):
        RM[rows, a] = NO_VALUE
        for q in range(C.shape[0]):
            if counts[q]:
                for s in range(head, tail):
                    RM[rows, a] = min(RM[rows, a], M[q, a, s])
    out_part[rows] = n
    out_time[rows] = time
    out_kind[rows] = kind
    out_ended[rows] = widen(ended, 0.0)
    return rows + 1


@kernel()
def _leave(C, M, at, counts, head, tail, now, width, fresh, expiries, n, rows, out):
    """Let the starts go that left by a time; write a row for every time at which a match goes."""
    while head < tail and at[head] + width <= now and rows >= 0:
        time, died = at[head] + width, 0.0
        while head < tail and at[head] + width == time:
            if expiries:
                for q in range(C.shape[0]):
                    if counts[q]:
                        died += C[q, 0, head]
            head += 1
        if died > 0.0 and time >= fresh:
            rows = _write(C, M, counts, head, tail, time, LEFT | EXPIRED, died, n, rows, out)
    return head, rows


@kernel()
def _count(C, t, source, c, head, tail, sums):
    """Add an event to the matches of all active starts, in counters alone."""
    first, several = source[c, 0], source.shape[1] > 1 and source[c, 1] >= 0
    if first >= 0 and not several:
        for s in range(head, tail):
            C[t, 0, s] += C[first, 0, s]
    elif several:
        # A source may be the target, so what is added comes first.
        sums[0, head:tail] = 0.0
        for n in range(source.shape[1]):
            r = source[c, n]
            if r >= 0:
                for s in range(head, tail):
                    sums[0, s] += C[r, 0, s]
        for s in range(head, tail):
            C[t, 0, s] += sums[0, s]


@kernel()
def _extend(C, M, t, source, c, head, tail, v, W, X, wcol, xcol, i, sums):
    """Add an event to the aggregates of all active starts; return False if one is too large."""
    for s in range(head, tail):
        inc = 0.0
        for n in range(source.shape[1]):
            if source[c, n] >= 0:
                inc += C[source[c, n], 0, s]
        if inc == 0.0:
            continue
        if inc > LIMIT:
            return False
        for a in range(1, C.shape[1]):
            part = W[wcol[v, a], i] * inc if wcol[v, a] >= 0 else 0.0
            for n in range(source.shape[1]):
                if source[c, n] >= 0:
                    part += C[source[c, n], a, s]
            sums[a, s] = part
        for a in range(M.shape[1]):
            least = X[xcol[v, a], i] if xcol[v, a] >= 0 else NO_VALUE
            for n in range(source.shape[1]):
                if source[c, n] >= 0:
                    least = min(least, M[source[c, n], a, s])
            M[t, a, s] = min(M[t, a, s], least)
        C[t, 0, s] += inc
        for a in range(1, C.shape[1]):
            C[t, a, s] += sums[a, s]
            if abs(C[t, a, s]) > LIMIT and math.isfinite(C[t, a, s]):
                return False
    return True


@kernel()
def _begin(C, M, at, t, tail, v, W, X, wcol, xcol, i, time):
    """Begin matches with an event."""
    for q in range(C.shape[0]):
        for a in range(C.shape[1]):
            C[q, a, tail] = 0.0
        for a in range(M.shape[1]):
            M[q, a, tail] = NO_VALUE
    C[t, 0, tail] = 1.0
    for a in range(1, C.shape[1]):
        if wcol[v, a] >= 0:
            C[t, a, tail] = W[wcol[v, a], i]
    for a in range(M.shape[1]):
        if xcol[v, a] >= 0:
            M[t, a, tail] = X[xcol[v, a], i]
    at[tail] = time


@kernel()
def _to_front(C, M, at, head, tail):
    """Move the active starts to the first places."""
    for s in range(tail - head):
        at[s] = at[head + s]
        for q in range(C.shape[0]):
            for a in range(C.shape[1]):
                C[q, a, s] = C[q, a, head + s]
            for a in range(M.shape[1]):
                M[q, a, s] = M[q, a, head + s]


@kernel()
def count_starts(
    target, source, begins, counts, variable, ts, codes, W, X, wcol, xcol, seg, fresh, width,
    until, expiries, C, M, at, sums, out,
):  # fmt: skip
    """Aggregate the events of all partitions.

    Parameters
    ----------
    target, source, begins
        code -> configuration that grows, -1 for none; code -> configurations that it adds, padded
        with -1; whether an event of a code begins a match.
    seg
        Where the events of each partition begin, and their number at the end.
    fresh, width, until, expiries
        As for ``trailing.aggregate_trailing``, except that rows that change nothing are left out.
    C, M, at, sums
        Room for twice as many starts as are active at one time, and one more.
    out
        Arrays for the rows: partition, time, kind, matches that end or leave, numbers, values.

    Returns
    -------
    OK or NARROW, which means that doubles are too small; and the number of rows.
    """
    rows, rounds, room = 0, 0, at.shape[0]
    plain = C.shape[1] == 1 and M.shape[1] == 0
    for n in range(seg.shape[0] - 1):
        head, tail, ended, last = 0, 0, 0.0, np.int64(0)
        for i in range(seg[n], seg[n + 1]):
            rounds = let_signals_in(rounds)
            c = codes[i]
            t = target[c]
            if t < 0:
                continue
            now = ts[i]
            if ended > 0.0 and now != last:
                if last >= fresh:
                    rows = _write(C, M, counts, head, tail, last, ENDED, ended, n, rows, out)
                ended = 0.0
            if head < tail and at[head] + width <= now:
                head, rows = _leave(
                    C, M, at, counts, head, tail, now, width, fresh, expiries, n, rows, out
                )
            if rows < 0:
                return NARROW, 0
            if head == tail:
                head, tail = 0, 0
            elif counts[t]:
                for s in range(source.shape[1]):
                    if source[c, s] >= 0:
                        ended += _total(C, source[c, s], 0, head, tail)
            if plain:
                _count(C, t, source, c, head, tail, sums)
            elif not _extend(
                C, M, t, source, c, head, tail, variable[t], W, X, wcol, xcol, i, sums
            ):
                return NARROW, 0
            if begins[c]:
                if tail == room:
                    _to_front(C, M, at, head, tail)
                    head, tail = 0, tail - head
                _begin(C, M, at, t, tail, variable[t], W, X, wcol, xcol, i, now)
                tail += 1
                ended += counts[t]
            last = now
        if ended > 0.0 and last >= fresh:
            rows = _write(C, M, counts, head, tail, last, ENDED, ended, n, rows, out)
        if expiries and rows >= 0:
            head, rows = _leave(
                C, M, at, counts, head, tail, until, width, fresh, expiries, n, rows, out
            )
        if rows < 0:
            return NARROW, 0
    return OK, rows
