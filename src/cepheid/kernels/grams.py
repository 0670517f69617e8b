"""Find texts by sequences of three bytes, *grams*, that stand anywhere in them.

Texts lie one after another in an array of bytes, as Arrow keeps them. A gram is a number of 24
bits; ``SIZE`` is the length of tables by the hash of a gram.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.tiers import kernel

WIDTH = 3
SIZE = 1 << 16
AT_BEGIN, AT_END, WHOLE = 1, 2, 4
"""Where a needle stands in a text; WHOLE if it is all of it."""

_ALL = (1 << 24) - 1


_FACTOR = 10_368_889


def slots_of(grams: NDArray[np.int64]) -> NDArray[np.int64]:
    """Hash grams, as ``_slot`` does; the products stay within 64 bits."""
    return ((grams * _FACTOR) >> 20) & (SIZE - 1)


@kernel(inline="code")
def _slot(gram):
    return ((gram * _FACTOR) >> 20) & (SIZE - 1)


@kernel()
def count_grams(data, offsets, counts):
    """Count the grams of texts by their hashes."""
    for text in range(offsets.shape[0] - 1):
        begin, end = offsets[text], offsets[text + 1]
        gram = np.int64(0)
        for place in range(begin, end):
            gram = ((gram << 8) | np.int64(data[place])) & _ALL
            if place - begin >= WIDTH - 1:
                counts[_slot(gram)] += 1


@kernel()
def find_needles(
    data, offsets, table, grams, following, needles, ends, shifts, seen, texts, numbers, places
):  # fmt: skip
    """Find needles in texts, each once in a text; O(1) for each byte that begins none.

    Parameters
    ----------
    table
        The number of the first needle of each hash, -1 for none; of a power of two.
    grams, following
        A gram of each needle, and the number of the next needle with the same hash, -1 for none.
    needles, ends, shifts
        The needles one after another, where each ends, and how far behind its begin its gram ends.
    seen
        The last pair of a text and each needle; -1 at first.
    texts, numbers, places
        Room for pairs: a text, the number of a needle in it, and where it stands there, as bits
        (``AT_BEGIN``, ``AT_END``, ``WHOLE``). They come in the order of texts.

    Returns
    -------
    How many there are; if there is no room for all of them, the call is repeated with more.
    """
    count = 0
    mask = table.shape[0] - 1
    for text in range(offsets.shape[0] - 1):
        begin, end = offsets[text], offsets[text + 1]
        gram = np.int64(0)
        for place in range(begin, end):
            gram = ((gram << 8) | np.int64(data[place])) & _ALL
            number = table[_slot(gram) & mask]
            if number < 0 or place - begin < WIDTH - 1:
                continue
            while number >= 0:
                if grams[number] == gram:
                    first = place - shifts[number]
                    start, length = ends[number], ends[number + 1] - ends[number]
                    same = first >= begin and first + length <= end
                    ahead = 0
                    while same and ahead < length:
                        same = data[first + ahead] == needles[start + ahead]
                        ahead += 1
                    if same:
                        at_begin, at_end = first == begin, first + length == end
                        where = at_begin * AT_BEGIN | at_end * AT_END
                        if at_begin and at_end:
                            where |= WHOLE
                        pair = seen[number]
                        # Pairs beyond the room are counted only, and found again.
                        if pair >= 0 and pair < texts.shape[0] and texts[pair] == text:
                            places[pair] |= where
                        else:
                            seen[number] = count
                            if count < texts.shape[0]:
                                texts[count], numbers[count] = text, number
                                places[count] = where
                            count += 1
                number = following[number]
    return count
