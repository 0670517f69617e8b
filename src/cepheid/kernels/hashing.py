"""Number distinct values through a hash table that lives as long as they do.

A table of numbers (-1 for none) is searched from the place of a value's hash on. The values lie
beside it in the order of their numbers: whole words of 64 bits, or texts one after another in one
array of bytes. A call stops at the first new value for which there is no room; its caller makes
room and continues there.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.prefetch import prefetch
from cepheid.kernels.tiers import kernel

AHEAD = 16
"""Memory is asked for this many words ahead."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_BYTE = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)


@kernel(inline="code")
def _mixed(word):
    """Mix the bits of a hash, so that its low bits depend on all of them."""
    word = (word ^ (word >> _HALF)) * _MIX
    word = (word ^ (word >> _HALF)) * _MIX
    return word ^ (word >> _HALF)


@kernel()
def number_words(words, table, known, count, begin, out):
    """Find the number of every word; O(1) each.

    Parameters
    ----------
    table
        The hash table; its length is a power of two and at least twice that of ``known``.
    known, count
        The distinct words so far, with room for more, and how many there are.
    begin
        The first word to number.

    Returns
    -------
    The next word, for which there was no room, or the number of words; and the new count.
    """
    mask = np.uint64(table.shape[0] - 1)
    for i in range(begin, words.shape[0]):
        if i + AHEAD < words.shape[0]:
            prefetch(table, np.int64(_mixed(np.uint64(words[i + AHEAD])) & mask))
        word = words[i]
        place = _mixed(np.uint64(word)) & mask
        number = np.int64(table[place])
        while number >= 0 and known[number] != word:
            place = (place + np.uint64(1)) & mask
            number = np.int64(table[place])
        if number < 0:
            if count == known.shape[0]:
                return i, count
            number = count
            known[count] = word
            table[place] = count
            count += 1
        out[i] = number
    return words.shape[0], count


@kernel()
def _same(data, first, last, known, begin, end):
    """Check whether two texts are equal."""
    if last - first != end - begin:
        return False
    same = True
    i = 0
    while same and first + i < last:
        same = data[first + i] == known[begin + i]
        i += 1
    return same


@kernel()
def number_texts(offsets, data, table, hashes, ends, known, count, begin, out):
    """Find the number of every text; O(length) each.

    Parameters
    ----------
    offsets, data
        The texts: text i is ``data[offsets[i]:offsets[i + 1]]``.
    hashes, ends, known, count
        For every distinct text its hash and its end in ``known``, which begins with the end before
        it; ``ends`` has a zero in front. How many there are.

    Returns
    -------
    As ``number_words``.
    """
    mask = np.uint64(table.shape[0] - 1)
    for i in range(begin, offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1]
        code = _SEED
        for place in range(first, last):
            code = (code ^ np.uint64(data[place])) * _BYTE
        code = _mixed(code)
        slot = code & mask
        number = np.int64(table[slot])
        while number >= 0 and (
            hashes[number] != code
            or not _same(data, first, last, known, ends[number], ends[number + 1])
        ):
            slot = (slot + np.uint64(1)) & mask
            number = np.int64(table[slot])
        if number < 0:
            room = known.shape[0] - ends[count]
            if count == hashes.shape[0] or last - first > room:
                return i, count
            number = count
            hashes[count] = code
            ends[count + 1] = ends[count] + last - first
            for place in range(last - first):
                known[ends[count] + place] = data[first + place]
            table[slot] = count
            count += 1
        out[i] = number
    return offsets.shape[0] - 1, count


@kernel()
def place_hashes(hashes, count, table):
    """Fill an empty table with the numbers of distinct texts."""
    mask = np.uint64(table.shape[0] - 1)
    for number in range(count):
        slot = hashes[number] & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = number


@kernel()
def add_present(key, isin, found):
    """Mark the keys that occur; list those that were not marked, and return how many."""
    count = 0
    for i in range(key.shape[0]):
        k = key[i]
        if not isin[k]:
            isin[k] = True
            found[count] = k
            count += 1
    return count


@add_present.interpreted
def _(key, isin, found):
    keys, first = np.unique(key, return_index=True)
    new = keys[np.argsort(first)]
    new = new[~isin[new]]
    isin[new] = True
    found[: len(new)] = new
    return len(new)


@kernel()
def number_present(key, place, found, out):
    """Find the keys that occur, in the order of their first events; return how many.

    ``place`` holds -1 for every key, and does so again afterwards.
    """
    count = 0
    for i in range(key.shape[0]):
        k = key[i]
        if place[k] < 0:
            place[k] = count
            found[count] = k
            count += 1
        out[i] = place[k]
    for n in range(count):
        place[found[n]] = -1
    return count


@number_present.interpreted
def _(key, place, found, out):
    keys, first, number = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    found[: len(keys)] = keys[order]
    place[keys[order]] = np.arange(len(keys))
    out[:] = place[keys][number]
    place[keys] = -1
    return len(keys)
