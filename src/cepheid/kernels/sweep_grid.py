"""Aggregate matches for every cell of a grid of values, event by event.

An event adds some numbers of a cell to another one. Which ones depends on its two ranks alone: on
which side of its row and of its column the cell lies. So the cells that change alike are four
rectangles, whose loops run in vectors. Cells of a few columns lie together, and some events at once
change them, so that they stay in the CPU cache.

    V           [segment, lane, slot, part, cell]: counts and sums of every configuration, of the
                unit, and of nothing
    M           [segment, lane, slot, extreme, cell]: the least values
    exponent    [segment, lane, cell]: numbers stand for number * 2^exponent

The first lane is what begins in a segment; each of the others what comes in, in one configuration.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import NARROW, NO_VALUE, OK
from cepheid.kernels.ring import SHRINK
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel

SETTLE = 64
"""Events after which numbers are looked at; until then they grow by three bits an event at most."""

SOURCES_MAX = 7
"""Numbers that an event may add, so that they grow by no more."""

LARGEST = 2.0**700
"""Numbers above this are made smaller, with all others of their cell."""

LEAST_COUNT, LEAST_BESIDE_SUMS = 2.0**-500, 2.0**-400
"""Counts below this are not made smaller: they, or sums of small values, would be lost. The less it
is, the longer a match that ends early can stand beside those that go on growing."""

COLUMNS = 8
"""Columns of cells that lie together: all rows of the first columns, then all rows of the next."""


@kernel(inline="source")
def _add(D, to, of, begin, end):
    """Add the numbers of one row to those of another, or double them."""
    if to == of:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] *= 2.0
    else:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] += D[of, c]


@kernel(inline="source")
def _add_two(D, to, of, other, begin, end):
    """Add the numbers of two rows to those of another, which may be the first of them."""
    if to == of:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] = 2.0 * D[to, c] + D[other, c]
    else:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] += D[of, c] + D[other, c]


@kernel(inline="source")
def _count(D, base, parts, to, source, code, live, lane, begin, end):
    """Add counts of the slots of a code to its target, two at a time."""
    waiting = -1
    for s in range(source.shape[1]):
        of = source[code, s]
        if not live[lane, of]:
            continue
        if waiting < 0:
            waiting = of
            continue
        _add_two(D, (base + to) * parts, (base + waiting) * parts, (base + of) * parts, begin, end)
        waiting = -1
    if waiting >= 0:
        _add(D, (base + to) * parts, (base + waiting) * parts, begin, end)


@kernel(inline="source")
def _sum(D, base, parts, part, to, source, code, live, lane, weight, begin, end):
    """Add the sums of the slots of a code, and the event's weight for each of their matches."""
    total, count = (base + to) * parts + part, (base + to) * parts
    own = False
    for s in range(source.shape[1]):
        of = source[code, s]
        if not live[lane, of]:
            continue
        if of == to:
            own = True
            continue
        more, some = (base + of) * parts + part, (base + of) * parts
        if own:
            own = False
            for c in range(np.uint64(begin), np.uint64(end)):
                both = weight * (D[count, c] + D[some, c])
                D[total, c] = 2.0 * D[total, c] + D[more, c] + both
        else:
            for c in range(np.uint64(begin), np.uint64(end)):
                D[total, c] += D[more, c] + weight * D[some, c]
    if own:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[total, c] = 2.0 * D[total, c] + weight * D[count, c]


@kernel(inline="source")
def _least(
    D, DM, base, parts, mins, part, to, source, code, live, lane, value, begin, end
):  # fmt: skip
    """Take the least values of the slots of a code, and the event's where they have matches."""
    total = (base + to) * mins + part
    for s in range(source.shape[1]):
        of = source[code, s]
        if not live[lane, of]:
            continue
        more, some = (base + of) * mins + part, (base + of) * parts
        if of == to:
            for c in range(np.uint64(begin), np.uint64(end)):
                here = value if D[some, c] > 0.0 else NO_VALUE
                DM[total, c] = min(DM[total, c], here)
        else:
            for c in range(np.uint64(begin), np.uint64(end)):
                here = value if D[some, c] > 0.0 else NO_VALUE
                DM[total, c] = min(DM[total, c], min(DM[more, c], here))


@kernel(inline="source")
def _aggregate(
    D, DM, base, to, source, code, live, lane, W, X, wcol, xcol, e, begin, end
):  # fmt: skip
    """Add the counts, sums and values of the slots of a code, and of the event, to its target."""
    parts, mins = wcol.shape[1], xcol.shape[1]
    # Counts come last: sums and values need them as they were.
    for a in range(1, parts):
        weight = W[wcol[to, a], e] if wcol[to, a] >= 0 else 0.0
        _sum(D, base, parts, a, to, source, code, live, lane, weight, begin, end)
    for a in range(mins):
        value = X[xcol[to, a], e] if xcol[to, a] >= 0 else NO_VALUE
        _least(D, DM, base, parts, mins, a, to, source, code, live, lane, value, begin, end)
    _count(D, base, parts, to, source, code, live, lane, begin, end)


@kernel(inline="source")
def _keep(D, DM, slot, parts, mins, begin, end, N, NM):
    """Copy the numbers of a slot."""
    for a in range(parts):
        for c in range(np.uint64(0), np.uint64(end - begin)):
            N[a, c] = D[slot * parts + a, np.uint64(begin) + c]
    for a in range(mins):
        for c in range(np.uint64(0), np.uint64(end - begin)):
            NM[a, c] = DM[slot * mins + a, np.uint64(begin) + c]


@kernel(inline="source")
def _put_back(D, DM, slot, parts, mins, begin, end, left, right, N, NM):
    """Put the numbers of other columns back: a few columns are no vector."""
    for a in range(parts):
        for c in range(np.uint64(0), np.uint64(end - begin)):
            column, at = c % np.uint64(COLUMNS), np.uint64(begin) + c
            inside = column >= np.uint64(left) and column < np.uint64(right)
            D[slot * parts + a, at] = D[slot * parts + a, at] if inside else N[a, c]
    for a in range(mins):
        for c in range(np.uint64(0), np.uint64(end - begin)):
            column, at = c % np.uint64(COLUMNS), np.uint64(begin) + c
            inside = column >= np.uint64(left) and column < np.uint64(right)
            DM[slot * mins + a, at] = DM[slot * mins + a, at] if inside else NM[a, c]


@kernel(inline="source")
def _settle(D, exponent, begins, base, size, parts, at):
    """Rescale large numbers of a lane; return False if small ones would be lost."""
    many, least = 0, LEAST_COUNT if parts == 1 else LEAST_BESIDE_SUMS
    for row in range(base * parts, (base + size) * parts):
        for c in range(np.uint64(0), np.uint64(D.shape[1])):
            many += abs(D[row, c]) > LARGEST
    if many == 0:
        return True
    for c in range(D.shape[1]):
        largest = 0.0
        for row in range(base * parts, (base + size) * parts):
            largest = max(largest, abs(D[row, c]))
        if largest <= LARGEST:
            continue
        starts = D[(base + size) * parts, c] > 0.0
        for q in range(size):
            x = D[(base + q) * parts, c]
            if (x > 0.0 and x < least) or (x == 0.0 and begins[q] and starts):
                return False
        exponent[at, c] += 512
        for row in range(base * parts, (base + size + 1) * parts):
            D[row, c] *= SHRINK
    return True


@kernel()
def run_grid(
    V, M, exponent, target, source, live, begins, segment, codes, rank1, rank2, below1, below2,
    W, X, wcol, xcol, rows, since, N, NM,
):  # fmt: skip
    """Apply events in order; return OK or NARROW, and the next event.

    Parameters
    ----------
    target, source
        code -> slot that grows, -1 for none; code -> slots that it adds, its own first.
    live
        (lane, slot) whether a slot can have matches.
    begins
        Whether matches begin in a configuration.
    codes
        (event, 4) the code of an event that fails both conditions, passes the second, the first,
        or both.
    rank1, rank2, below1, below2
        The row and the column where an event changes, and whether it passes before these.
    W, X, wcol, xcol
        Weights and values of events, and (slot, part) -> their row, or -1.
    rows
        The number of rows of cells.
    since
        (segments,) events since numbers were looked at.
    N, NM
        Buffers for the numbers of one slot, in all rows of COLUMNS columns.
    """
    lanes, slots, parts, cells = V.shape[1], V.shape[2], V.shape[3], V.shape[4]
    mins = M.shape[3]
    D = V.reshape(V.shape[0] * lanes * slots * parts, cells)
    DM = M.reshape(V.shape[0] * lanes * slots * mins, cells)
    E = exponent.reshape(V.shape[0] * lanes, cells)
    begin = 0
    while begin < codes.shape[0]:
        look_at_clock()
        g = segment[begin]
        end = begin + 1
        while end < codes.shape[0] and segment[end] == g and end - begin < SETTLE - since[g]:
            end += 1
        for place in range(g * lanes, (g + 1) * lanes):
            lane, base = place - g * lanes, place * slots
            for block in range(cells // (rows * COLUMNS)):
                origin = block * rows * COLUMNS
                for e in range(begin, end):
                    column = min(max(rank2[e] - block * COLUMNS, 0), COLUMNS)
                    for a in range(2):
                        top, bottom = (0, rank1[e]) if a == 0 else (rank1[e], rows)
                        if top == bottom:
                            continue
                        first = 2 * (below1 if a == 0 else 1 - below1)
                        for b in range(2):
                            left, right = (0, column) if b == 0 else (column, COLUMNS)
                            code = codes[e, first + (below2 if b == 0 else 1 - below2)]
                            to = target[code]
                            if to < 0 or left == right:
                                continue
                            x, z = origin + top * COLUMNS, origin + bottom * COLUMNS
                            whole = right - left == COLUMNS
                            if not whole:
                                _keep(D, DM, base + to, parts, mins, x, z, N, NM)
                            _aggregate(
                                D, DM, base, to, source, code, live, lane, W, X, wcol, xcol, e,
                                x, z,
                            )  # fmt: skip
                            if not whole:
                                _put_back(D, DM, base + to, parts, mins, x, z, left, right, N, NM)
        since[g] += end - begin
        if since[g] >= SETTLE:
            since[g] = 0
            for place in range(g * lanes, (g + 1) * lanes):
                if not _settle(D, E, begins, place * slots, slots - 2, parts, place):
                    return NARROW, end
        begin = end
    return OK, codes.shape[0]
