"""Values of whole matches, and their squares: how an event that is bound changes their sums (§5.7).

A row of ``weight_of`` says of each part what an event that is bound to a variable adds to it:

    0, 1, ...    a row of weights, for each match that ends with the event
    -1           nothing
    DURATION     the time of its first event, subtracted where a match begins, and that of its last
                 event, added where it ends; rows a - 1 and a of the weights have them
    second_of(b) to the squares of the values that part b adds up: (v + w)^2 = v^2 + 2 v w + w^2

So the sums of a value and of its squares are linear in the sums before. Parts of squares come after
those that they square, and are changed first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.bins import SPAN
from cepheid.kernels.ring import add, mul
from cepheid.kernels.tiers import kernel

DURATION = -(2**20)


def second_of(first: int) -> int:
    """Encode that a part adds up the squares of another one; its own inverse."""
    return -2 - first


def has_moments(weight_of: NDArray[np.int32]) -> bool:
    """Check whether a part needs the kernels that know of values of whole matches."""
    return bool((weight_of < -1).any())


def fill_elapsed(
    weights: NDArray[Any],
    weight_of: NDArray[np.int32],
    ptr: NDArray[np.int64],
    times: NDArray[np.int64],
) -> None:
    """Fill in the times of rows since the first row of their segment, where durations need them.

    In bins (``bins.py``), row 1 has their width.
    """
    if (weight_of == SPAN).any():
        weights[0] = elapsed_times(ptr, times) // weights[1]
    for a in np.flatnonzero((weight_of == DURATION).any(0)).tolist():
        # Relative to the segment, so that squares of doubles hold them.
        weights[a] = elapsed_times(ptr, times)
        weights[a - 1] = -weights[a]


def elapsed_times(ptr: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the times of rows since the first row of their segment."""
    lengths = np.diff(ptr)
    some = lengths > 0
    return np.asarray(times - np.repeat(times[ptr[:-1][some]], lengths[some]), np.int64)


@kernel()
def squared(first, second, count, weight, p):
    """Add a weight to values whose sum, squares and number are given; return the new squares."""
    twice = mul(weight, add(first, first, p), p)
    return add(add(second, twice, p), mul(mul(weight, weight, p), count, p), p)


@kernel()
def bind_moment(weights, weight_of, variable, code, V, row, state, a, unit, begins, p):
    """Change a part that is no plain sum, for all matches that end with a row."""
    if code == DURATION:
        if begins:
            V[row, state, a] = add(V[row, state, a], mul(weights[a - 1, row], unit, p), p)
        return
    first = -2 - code
    column = weight_of[variable, first]
    if column >= 0:
        V[row, state, a] = squared(
            V[row, state, first], V[row, state, a], V[row, state, 0], weights[column, row], p
        )
    elif begins:
        weight = weights[first - 1, row]
        V[row, state, a] = add(V[row, state, a], mul(mul(weight, weight, p), unit, p), p)


@kernel()
def moment_at_end(weights, weight_of, variable, code, V, row, state, a, p):
    """Compute a part that is no plain sum, of the matches that end with a row for good."""
    if code == DURATION:
        return add(V[row, state, a], mul(weights[a, row], V[row, state, 0], p), p)
    first = -2 - code
    if weight_of[variable, first] != DURATION:
        return V[row, state, a]
    return squared(V[row, state, first], V[row, state, a], V[row, state, 0], weights[first, row], p)
