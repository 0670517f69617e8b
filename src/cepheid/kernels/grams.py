"""Find texts by sequences of four bytes, *grams*, that stand anywhere in them.

Texts lie one after another in an array of bytes, as Arrow keeps them. A gram is a number of 32
bits; ``SIZE`` is the length of tables by the hash of a gram.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels.tiers import kernel

WIDTH = 4
SIZE = 1 << 16
_ALL = (1 << 32) - 1


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
def find_grams(data, offsets, table, grams, following, seen, texts, numbers):
    """Find the wanted grams in texts, each once in a text; O(1) for each byte.

    Parameters
    ----------
    table
        The number of the first wanted gram of each hash, -1 for none.
    grams, following
        The wanted grams, and the number of the next one with the same hash, -1 for none.
    seen
        The last text that had each gram; -1 at first.
    texts, numbers
        Room for the texts and the numbers of the grams in them, in the order of texts.

    Returns
    -------
    How many there are; if there is no room for all of them, the call is repeated with more.
    """
    count = 0
    for text in range(offsets.shape[0] - 1):
        begin, end = offsets[text], offsets[text + 1]
        gram = np.int64(0)
        for place in range(begin, end):
            gram = ((gram << 8) | np.int64(data[place])) & _ALL
            number = table[_slot(gram)]
            if number < 0 or place - begin < WIDTH - 1:
                continue
            while number >= 0:
                if grams[number] == gram and seen[number] != text:
                    seen[number] = text
                    if count < texts.shape[0]:
                        texts[count] = text
                        numbers[count] = number
                    count += 1
                number = following[number]
    return count
