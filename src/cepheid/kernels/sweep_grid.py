"""Count matches for every cell of a grid of values, event by event.

An event adds some numbers of a cell to another one. Which ones depends on its two ranks alone: on
which side of its row and of its column the cell lies. So the cells that change alike are four
rectangles, whose loops run in vectors.

    state       [segment, slot, cell]: a count for every configuration, the unit, and zero
    exponent    [segment, cell]: counts stand for count * 2^exponent
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import NARROW, OK
from cepheid.kernels.ring import SHRINK
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel

SETTLE = 64
"""Events after which numbers are looked at; until then they grow by three bits an event at most."""

SOURCES_MAX = 7
"""Numbers that an event may add, so that they grow by no more."""

LARGEST, LEAST = 2.0**800, 2.0**-1000
"""Numbers of a cell stay between these. The wider they are apart, the longer a match that ends
early can stand beside those that go on growing."""


@kernel(inline="code")
def _add(D, to, of, begin, end):
    """Add the numbers of one row to those of another, or double them."""
    if to == of:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] *= 2.0
    else:
        for c in range(np.uint64(begin), np.uint64(end)):
            D[to, c] += D[of, c]


@kernel(inline="code")
def _settle(state, exponent, begins, g):
    """Rescale large numbers of a segment; return False if small ones would be lost."""
    size = state.shape[1] - 2
    for c in range(state.shape[2]):
        largest = 0.0
        for q in range(size):
            largest = max(largest, state[g, q, c])
        if largest <= LARGEST:
            continue
        exponent[g, c] += 512
        for q in range(size + 1):
            state[g, q, c] *= SHRINK
        for q in range(size):
            x = state[g, q, c]
            if (x > 0.0 and x < LEAST) or (x == 0.0 and begins[q]):
                return False
    return True


@kernel()
def run_grid(
    state, exponent, target, source, begins, segment, codes, rank1, rank2, below1, below2, width,
    begin, since,
):  # fmt: skip
    """Apply events in order; return OK or NARROW, and the next event.

    Parameters
    ----------
    target, source
        code -> slot that grows, -1 for none; code -> slots that it adds, its own first.
    begins
        Whether matches begin in a configuration.
    codes
        (event, 4) the code of an event that fails both conditions, passes the second, the first,
        or both.
    rank1, rank2, below1, below2
        The row and the column where an event changes, and whether it passes before these.
    width
        The number of columns.
    since
        (segments,) events since numbers were looked at.
    """
    slots, cells = state.shape[1], state.shape[2]
    zero = slots - 1
    rows = cells // width
    D = state.reshape(state.shape[0] * slots, cells)
    for e in range(begin, codes.shape[0]):
        look_at_clock()
        g = segment[e]
        for a in range(2):
            top, bottom = (0, rank1[e]) if a == 0 else (rank1[e], rows)
            first = 2 * (below1 if a == 0 else 1 - below1)
            for b in range(2):
                left, right = (0, rank2[e]) if b == 0 else (rank2[e], width)
                code = codes[e, first + (below2 if b == 0 else 1 - below2)]
                to = target[code]
                if to < 0 or left == right or top == bottom:
                    continue
                for s in range(source.shape[1]):
                    of = source[code, s]
                    if of == zero:
                        continue
                    if right - left == width:
                        _add(D, g * slots + to, g * slots + of, top * width, bottom * width)
                        continue
                    for i in range(top, bottom):
                        _add(D, g * slots + to, g * slots + of, i * width + left, i * width + right)
        since[g] += 1
        if since[g] >= SETTLE:
            since[g] = 0
            if not _settle(state, exponent, begins, g):
                return NARROW, e + 1
    return OK, codes.shape[0]
