"""Aggregate matches as a linear system: one vector per partition, updated by each event.

Without edge predicates every match in a configuration can be extended by the same events, so one
running aggregate per configuration is enough and no event is kept.

    V[key, configuration, part, lane]    counts and sums; part 0 counts matches
    M[key, configuration, part, lane]    smallest value keys (largest ones are kept as complements)
    start[key, lane]                     the start configuration of a lane, -1 for none
    exponent[key, lane]                  doubles only: V stands for V * 2^exponent

A lane is one run of the system. Windows that do not overlap need one lane. For sliding windows a
pane is summarised by one lane per start configuration and per configuration: a matrix.

Source: Poppe et al., "Event Trend Aggregation Under Rich Event Matching Semantics", SIGMOD 2019,
sections 4 and 6, generalised: negation, ambiguity and all semantics are one finite linear system.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.ring import LIMIT, add, large, mul, present, settle, tiny, wide
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel

ANY, NEXT, CONTIGUOUS = 0, 1, 2
NO_VALUE = np.iinfo(np.int64).max
OK, NARROW, ENDED = 0, 1, 3
"""Status of a run; NARROW: the range of doubles with a shared exponent is too small, so the run
must continue with wide numbers. ENDED: an event comes after a stretch."""


@kernel()
def rooms(V, M):
    """Allocate the buffers of ``advance``: additions and moves, with one more row each."""
    size, lanes = V.shape[1] + 1, V.shape[3]
    numbers = np.zeros((size, V.shape[2] * lanes), V.dtype)
    values = np.full((size, M.shape[2] * lanes), NO_VALUE, np.int64)
    return numbers, values, numbers.copy(), values.copy()


# Rows hold the parts and lanes of one configuration. Loops over them run in vectors if indexes are
# unsigned, and views of them would cost more than the loops.


@kernel(inline="code")
def _fill(V, M, q, zero):
    for n in range(np.uint64(V.shape[1])):
        V[q, n] = zero
    for n in range(np.uint64(M.shape[1])):
        M[q, n] = NO_VALUE


# numpy takes as long for one number as for ten, and Python a fifth of it.
FEW = 3


@_fill.interpreted
def _(V, M, q, zero):
    if V.shape[1] == 1:
        V[q, 0] = zero
    else:
        V[q] = zero
    if M.shape[1]:
        M[q] = NO_VALUE


@kernel(inline="code")
def _add_row(V, M, q, W, X, r, p):
    """Add row r of W, X to row q of V, M; return the number of large values."""
    many = 0
    for n in range(np.uint64(V.shape[1])):
        total = add(V[q, n], W[r, n], p)
        V[q, n] = total
        many += large(total)
    for n in range(np.uint64(M.shape[1])):
        M[q, n] = min(M[q, n], X[r, n])
    return many


@_add_row.interpreted
def _(V, M, q, W, X, r, p):
    many, width = 0, V.shape[1]
    if V.dtype.char != "d":
        for n in range(width):
            V[q, n] = add(V[q, n], W[r, n], p)
    elif width <= FEW:
        for n in range(width):
            V[q, n] = total = V[q, n] + W[r, n]
            many += int(abs(total) > LIMIT)
    else:
        V[q] += W[r]
        many = int(np.count_nonzero(np.abs(V[q]) > LIMIT))
    if M.shape[1]:
        np.minimum(M[q], X[r], out=M[q])
    return many


@kernel(inline="code")
def _add_event(V, M, q, W, X, wcol, xcol, variable, e, lanes, zero, p):
    """Add an event to the new matches of row q."""
    for a in range(1, wcol.shape[1]):
        column = wcol[variable, a]
        if column >= 0:
            weight, first = W[column, e], np.uint64(a) * lanes
            for n in range(lanes):
                # A NaN weight must not reach lanes without matches.
                more = mul(weight, V[q, n], p) if present(V[q, n]) else zero
                V[q, first + n] = add(V[q, first + n], more, p)
    for a in range(xcol.shape[1]):
        column = xcol[variable, a]
        if column >= 0:
            value, first = X[column, e], np.uint64(a) * lanes
            for n in range(lanes):
                least = value if present(V[q, n]) else NO_VALUE
                M[q, first + n] = min(M[q, first + n], least)


@kernel(inline="code")
def move(V, M, base, size, move_from, move_to, first, last, mV, mM, zero, p):
    """Move the matches of configurations by a letter; all leave before any arrives."""
    many = 0
    for q in range(size):
        _fill(mV, mM, q, zero)
    for m in range(first, last):
        if move_to[m] >= 0:
            _add_row(mV, mM, move_to[m], V, M, base + move_from[m], p)
    for m in range(first, last):
        _fill(V, M, base + move_from[m], zero)
    for q in range(size):
        many += _add_row(V, M, base + q, mV, mM, q, p)
    return many


@kernel()
def advance(
    T, V, M, start, one, exponent, until, dirty, ts, key, codes, letters, W, X, wcol, xcol, room,
    i, n, grouped, semantics, zero, p,
):  # fmt: skip
    """Apply events i to n, up to the first that is too late; O(edges x parts x lanes) per event.

    Parameters
    ----------
    T
        The tables of a program (``engine.program.Tables``).
    until, dirty
        (keys,) the end of the open stretch, and whether it has events.
    codes, letters
        The code of every event, and the letter of its time.
    W, X
        Weights (parts x events) and value keys (parts x events).
    wcol, xcol
        (variable, part) -> row of W or X, or -1.
    room
        The buffers of ``rooms``. Afterwards the first two hold the additions of the last events, in
        the rows of the configurations that they could add to.
    grouped
        Whether events of one key and time are processed together (TIES strict).

    Returns
    -------
    OK, NARROW, or ENDED if the next event is too late; and the next event.
    """
    # Fields of tuples and views count references, which would take most of the time in the loop.
    (
        target_ptr, target, source_ptr, source, starts, clear_ptr, clear, move_ptr, move_from,
        move_to, start_next, finished, _, variable,
    ) = T  # fmt: skip
    nV, nM, mV, mM = room
    size, lanes = V.shape[1], np.uint64(V.shape[3])
    starting = min(V.shape[3], starts.shape[1])
    D = V.reshape(V.shape[0] * size, V.shape[2] * V.shape[3])
    DM = M.reshape(V.shape[0] * size, M.shape[2] * V.shape[3])
    while i < n:
        look_at_clock()
        k = key[i]
        if ts[i] >= until[k]:
            return ENDED, i
        j, base, many = i + 1, k * size, 0
        while grouped and j < n and ts[j] == ts[i] and key[j] == k:
            j += 1
        several = j - i > 1
        if several:
            for q in range(size):
                _fill(nV, nM, q, zero)
        for e in range(i, j):
            for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                # Events of one time may add to the same configuration, so each has a row to itself.
                q = target[t]
                row = size if several else q
                _fill(nV, nM, row, zero)
                # Contiguous matches that go on past tied events would leave one of them out, so
                # only those that begin here stay; finished ones count all the same (§3.3).
                if not (several and semantics == CONTIGUOUS and not finished[q]):
                    for s in range(source_ptr[t], source_ptr[t + 1]):
                        _add_row(nV, nM, row, D, DM, base + source[s], p)
                for lane in range(starting):
                    if start[k, lane] >= 0 and starts[t, start[k, lane]]:
                        unit = one[k, lane]
                        if tiny(unit) and not present(nV[row, lane]):
                            if not present(D[base + q, lane]):
                                return NARROW, i
                        nV[row, lane] = add(nV[row, lane], unit, p)
                _add_event(nV, nM, row, W, X, wcol, xcol, variable[q], e, lanes, zero, p)
                if several:
                    _add_row(nV, nM, q, nV, nM, size, p)
        if semantics == CONTIGUOUS:
            for q in range(size):
                if not finished[q]:
                    _fill(D, DM, base + q, zero)
        elif semantics == NEXT:
            for e in range(i, j):
                for t in range(clear_ptr[codes[e]], clear_ptr[codes[e] + 1]):
                    _fill(D, DM, base + clear[t], zero)
        first, last = move_ptr[letters[i]], move_ptr[letters[i] + 1]
        if first < last:
            many += move(D, DM, base, size, move_from, move_to, first, last, mV, mM, zero, p)
        for lane in range(starting):
            if start[k, lane] >= 0:
                start[k, lane] = start_next[letters[i], start[k, lane]]
        if several:
            for q in range(size):
                many += _add_row(D, DM, base + q, nV, nM, q, p)
        else:
            for t in range(target_ptr[codes[i]], target_ptr[codes[i] + 1]):
                many += _add_row(D, DM, base + target[t], nV, nM, target[t], p)
        dirty[k] = True
        i = j
        if many > 0 and not settle(V, one, exponent, k):
            return NARROW, i
    return OK, i


@kernel()
def close_row(counts, V, M, k, exponent, R, RM, row, p):
    """Add up the configurations that count, in lane 0; return whether there is any match."""
    some = False
    for a in range(V.shape[2]):
        R[row, a] = wide(V.dtype.type(0), 0)
    for a in range(M.shape[2]):
        RM[row, a] = NO_VALUE
    for q in range(V.shape[1]):
        if counts[q] and present(V[k, q, 0, 0]):
            some = True
            for a in range(V.shape[2]):
                R[row, a] = add(R[row, a], wide(V[k, q, a, 0], exponent[k, 0]), p)
            for a in range(M.shape[2]):
                RM[row, a] = min(RM[row, a], M[k, q, a, 0])
    return some


@kernel()
def reset(V, M, start, one, exponent, unit, zero, k):
    """Reset the state of a partition."""
    V[k] = zero
    M[k] = NO_VALUE
    start[k] = 0
    one[k, 0] = unit
    exponent[k, 0] = 0


@kernel(shortcut="linear_arrays")
def aggregate_linear(
    T,
    V,
    M,
    start,
    one,
    exponent,
    opened,
    ts,
    key,
    codes,
    letters,
    W,
    X,
    wcol,
    xcol,
    begin,
    width,
    grouped,
    semantics,
    unit,
    zero,
    p,
    out_key,
    out_start,
    R,
    RM,
):
    """Aggregate windows that do not overlap; O(edges) per event and one vector per key.

    Parameters
    ----------
    opened
        (keys,) the start of each key's open window; its events are in V.
    begin
        The first event to process.
    width
        The length of a window, 0 for one window that never ends.
    grouped
        Whether events of one key and time are processed together (TIES strict).

    Returns
    -------
    status, next event, number of rows
    """
    rows, i, n = 0, begin, ts.shape[0]
    room = rooms(V, M)
    dirty = np.zeros(V.shape[0], np.bool_)
    until = opened + width if width > 0 else np.full(V.shape[0], NO_VALUE)
    while True:
        status, i = advance(
            T, V, M, start, one, exponent, until, dirty, ts, key, codes, letters, W, X, wcol, xcol,
            room, i, n, grouped, semantics, zero, p,
        )  # fmt: skip
        if status != ENDED:
            return status, i, rows
        k = key[i]
        if close_row(T.counts, V, M, k, exponent, R, RM, rows, p):
            out_key[rows] = k
            out_start[rows] = opened[k]
            rows += 1
        reset(V, M, start, one, exponent, unit, zero, k)
        opened[k] = ts[i] // width * width
        until[k] = opened[k] + width


@kernel()
def flush_linear(
    T, V, M, start, one, exponent, opened, until, width, unit, zero, p, out_key, out_start, R, RM
):
    """Close every window that ends by ``until``; return the number of rows."""
    rows = 0
    for k in range(V.shape[0]):
        if width > 0 and opened[k] + width > until:
            continue
        if close_row(T.counts, V, M, k, exponent, R, RM, rows, p):
            out_key[rows] = k
            out_start[rows] = opened[k]
            rows += 1
        reset(V, M, start, one, exponent, unit, zero, k)
    return rows
