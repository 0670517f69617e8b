"""Number the places of some rows densely: as few places as these rows have values.

``place_segments`` (``ranks.py``) numbers the rows of a whole partition. The rows of some windows
have few of these places. A bit for each place, and the number of bits before each word, give a row
its place among them in O(1), so that nothing is sorted again for every window.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

WORD = 64
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_TWO, _FOUR, _LAST = np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS, _QUADS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


@kernel(inline="code")
def _ones(word):
    """Count the bits of a word; compilers know these lines and use one instruction."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _QUADS) + ((word >> _TWO) & _QUADS)
    word = (word + (word >> _FOUR)) & _BYTES
    return np.int64((word * _SUM) >> _LAST)


@kernel()
def number_places(place, upto, begin, end, size, equal, words, before, near, bound, at):
    """Give the places of the rows [begin, end) numbers from 0 on; return how many there are.

    Parameters
    ----------
    place, upto
        Where rows enter and how far they look, below ``size``; -1 for nowhere.
    equal
        Whether a row looks up one place instead of all below it.
    words, before
        Buffers with one more word than the places need.
    near, bound
        Filled from ``at`` on: the same among the places of these rows. They may be ``place`` and
        ``upto`` themselves.
    """
    last = (size >> 6) + 1
    for n in range(last):
        words[n] = _ZERO
    for row in range(begin, end):
        if place[row] >= 0:
            words[place[row] >> 6] |= _ONE << np.uint64(place[row] & 63)
    total = 0
    for n in range(last):
        before[n] = total
        total += _ones(words[n])
    for row in range(begin, end):
        mine, asked, out = place[row], upto[row], at + row - begin
        near[out] = mine
        if mine >= 0:
            bit = _ONE << np.uint64(mine & 63)
            near[out] = before[mine >> 6] + _ones(words[mine >> 6] & (bit - _ONE))
        bound[out] = asked
        if asked >= 0:
            bit, word = _ONE << np.uint64(asked & 63), words[asked >> 6]
            bound[out] = before[asked >> 6] + _ones(word & (bit - _ONE))
            if equal and word & bit == _ZERO:
                bound[out] = -1
    return total


@number_places.interpreted
def _(place, upto, begin, end, size, equal, words, before, near, bound, at):
    mine, asked = place[begin:end].copy(), upto[begin:end].copy()
    known = np.unique(mine[mine >= 0])
    out = slice(at, at + end - begin)
    near[out] = np.where(mine >= 0, np.searchsorted(known, mine), -1)
    found = np.where(asked >= 0, np.searchsorted(known, asked), -1)
    bound[out] = np.where(np.isin(asked, known), found, -1) if equal else found
    return len(known)
