"""Count matches by their values, in bins that an event shifts by what it adds (§17.7, §17.9).

The parts of a row in a state are the number of matches that end there, those whose value is below
the bins, those of each bin, and those above. What left the bins never comes back, so that a result
without it is right. Two codes in ``weight_of`` say how bins change:

    SHIFT - n    an event shifts all bins by row n of the weights; where a match begins, its value
                 is in the bin of row 0
    SPAN         bins are those of first events, of row 0; where a match ends, the bin of its value
                 is as far from the first one as its last event is from its first
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.ring import add, present
from cepheid.kernels.tiers import kernel

SHIFT, SPAN = -(2**21), -(2**22)
UNDER, FIRST = 1, 2
"""The part of values below the bins, and that of the first bin; the last part is above them."""


@kernel()
def _move(V, row, state, part, target, p):
    """Move the matches of a bin into another one."""
    number = V[row, state, part]
    if present(number):
        V[row, state, part] = number - number
        V[row, state, target] = add(V[row, state, target], number, p)


@kernel()
def bind_bins(weights, code, V, row, state, unit, begins, p):
    """Bind an event as the last one of all matches that end with a row."""
    last = V.shape[2] - 1
    if begins:
        place = FIRST + np.int64(weights[0, row].real)
        V[row, state, place] = add(V[row, state, place], unit, p)
    if code <= SPAN:
        return
    shift = np.int64(weights[SHIFT - code, row].real)
    if shift > 0:
        for part in range(last - 1, UNDER, -1):
            _move(V, row, state, part, min(part + shift, last), p)
    elif shift < 0:
        for part in range(FIRST, last):
            _move(V, row, state, part, max(part + shift, UNDER), p)


@kernel()
def begin_bins(weights, code, V, row, state, prev, unit, p):
    """Add the match that consists of one earlier row."""
    place = FIRST + np.int64(weights[0, prev].real)
    if code > SPAN:
        place += np.int64(weights[SHIFT - code, prev].real)
    place = min(max(place, np.int64(UNDER)), np.int64(V.shape[2] - 1))
    V[row, state, place] = add(V[row, state, place], unit, p)


@kernel()
def report_bins(weights, code, V, row, state, segment, R, p):
    """Add the matches that end with a row to the bins of their segment."""
    R[segment, 0] = add(R[segment, 0], V[row, state, 0], p)
    for part in range(UNDER, V.shape[2]):
        number = V[row, state, part]
        if present(number):
            place = np.int64(part)
            if code <= SPAN:
                place = 2 * FIRST + np.int64(weights[0, row].real) - part
            R[segment, place] = add(R[segment, place], number, p)
