"""Rank values inside segments: a separated predicate becomes a range of integers.

Every segment is ranked separately when it is run, so the whole input is never sorted.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL = range(6)
OPERATORS = {
    "<": LESS,
    "<=": LESS_EQUAL,
    ">": GREATER,
    ">=": GREATER_EQUAL,
    "=": EQUAL,
    "<>": UNEQUAL,
}
NO_LIMIT = 2**62
_ONE = np.uint64(1)
_DIGIT, _TWO_DIGITS = np.uint64(11), np.uint64(22)
_DIGIT_SIZE = 2**11
_LOW = np.uint64(_DIGIT_SIZE - 1)
_SMALL = 48
_MOVES = 8


@kernel()
def sort_keys(keys, count, packed, room):
    """Sort numbers 0 to count - 1 by their keys, into ``packed``; return a mask for these numbers.

    Keys are truncated so that key and number fit one word, and words are distributed to four
    million buckets of equal width; an insertion sort then fixes the remaining disorder. If the
    buckets are too uneven for that, a radix sort uses all digits of the keys. O(n).
    """
    bits = np.uint64(1)
    while count >> np.int64(bits):
        bits += _ONE
    mask = (_ONE << bits) - _ONE
    if count == 0:
        return mask
    lowest, highest = keys[0], keys[0]
    for n in range(count):
        lowest, highest = min(lowest, keys[n]), max(highest, keys[n])
    # Differences of signed integers are correct as unsigned ones.
    base = np.uint64(lowest)
    width, shift = np.uint64(highest) - base, np.uint64(0)
    while (width >> shift) >> (np.uint64(64) - bits):
        shift += _ONE
    length = np.uint64(0)
    while (width >> shift) >> length:
        length += _ONE
    for n in range(count):
        packed[n] = (((np.uint64(keys[n]) - base) >> shift) << bits) | np.uint64(n)
    if count >= _SMALL:
        cut = length - _TWO_DIGITS if length > _TWO_DIGITS else np.uint64(0)
        _sort_digit(packed, count, bits + cut, room)
        _sort_digit(room, count, bits + cut + _DIGIT, packed)
    sorted_ = _insert(packed, count, NO_LIMIT if count < _SMALL else _MOVES * count)
    if sorted_ and shift:
        sorted_ = _insert_by_keys(keys, packed, count, bits, mask, _MOVES * count)
    if not sorted_:
        _sort_all_digits(keys, packed, count, base, room)
    return mask


@sort_keys.interpreted
def _(keys, count, packed, room):
    packed[:count] = np.argsort(keys[:count], kind="stable")
    return np.uint64(2 ** int(count).bit_length() - 1)


@kernel()
def _insert(packed, count, moves):
    """Sort nearly sorted words by insertion; return False after too many moves."""
    for n in range(1, count):
        word = packed[n]
        m = n
        while m > 0 and packed[m - 1] > word:
            packed[m] = packed[m - 1]
            m -= 1
        packed[m] = word
        moves -= n - m
        if moves < 0:
            return False
    return True


@kernel()
def _insert_by_keys(keys, packed, count, bits, mask, moves):
    """Sort words that differ only in the truncated bits."""
    for n in range(1, count):
        word = packed[n]
        if packed[n - 1] >> bits != word >> bits:
            continue
        key = keys[word & mask]
        m = n
        while m > 0 and packed[m - 1] >> bits == word >> bits and keys[packed[m - 1] & mask] > key:
            packed[m] = packed[m - 1]
            m -= 1
        packed[m] = word
        moves -= n - m
        if moves < 0:
            return False
    return True


@kernel()
def _sort_digit(packed, count, shift, to):
    """Sort words by one digit (stable)."""
    counts = np.zeros(_DIGIT_SIZE, np.int64)
    for n in range(count):
        counts[(packed[n] >> shift) & _LOW] += 1
    total = np.int64(0)
    for digit in range(_DIGIT_SIZE):
        here = counts[digit]
        counts[digit] = total
        total += here
    for n in range(count):
        digit = (packed[n] >> shift) & _LOW
        to[counts[digit]] = packed[n]
        counts[digit] += 1


@kernel()
def _sort_all_digits(keys, packed, count, base, room):
    """Sort numbers by all digits of their keys; six passes."""
    for n in range(count):
        packed[n] = np.uint64(n)
    source, to = packed, room
    for digit in range(6):
        shift = np.uint64(digit) * _DIGIT
        counts = np.zeros(_DIGIT_SIZE, np.int64)
        for n in range(count):
            counts[((np.uint64(keys[n]) - base) >> shift) & _LOW] += 1
        total = np.int64(0)
        for value in range(_DIGIT_SIZE):
            here = counts[value]
            counts[value] = total
            total += here
        for n in range(count):
            value = ((np.uint64(keys[source[n]]) - base) >> shift) & _LOW
            to[counts[value]] = source[n]
            counts[value] += 1
        source, to = to, source


@kernel()
def _range(operator, below, upto, count):
    """Compute the ranks that satisfy a comparison with a value that has ``below`` smaller ones."""
    if operator == LESS:
        return 0, below
    if operator == LESS_EQUAL:
        return 0, upto
    if operator == GREATER:
        return upto, count
    if operator == GREATER_EQUAL:
        return below, count
    return below, upto


@kernel()
def rank_segments(
    segment_ptr, prev_keys, prev_valid, next_keys, next_valid, operator, keys_room,
    rows_room, words_room, rank, first, last, ranks,
):  # fmt: skip
    """Compute the rank of every row, and the range of ranks that it may follow; O(n).

    Parameters
    ----------
    prev_keys, next_keys
        f and g of every row, as integers of the same order.
    prev_valid, next_valid
        Whether there is a value, and the row may be the earlier or the later one.
    keys_room, rows_room, words_room
        Buffers for two or three times the longest segment. Memory that NumPy allocates comes in
        large pages, which saves half of the time.
    rank, first, last, ranks
        Filled: the rank of f (-1: none), the range (first -1: none), the number of ranks.
    """
    keys, others = keys_room[0], keys_room[1]
    rows, other_rows = rows_room[0], rows_room[1]
    packed, asked, room = words_room[0], words_room[1], words_room[2]
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        rank[begin:end] = -1
        first[begin:end] = -1
        last[begin:end] = -1
        count = _collect(begin, end, prev_keys, prev_valid, keys, rows)
        mask = sort_keys(keys, count, packed, room)
        for n in range(count):
            rank[rows[packed[n] & mask]] = n
        ranks[begin:end] = count
        asking = _collect(begin, end, next_keys, next_valid, others, other_rows)
        other_mask = sort_keys(others, asking, asked, room)
        below, upto = 0, 0
        for n in range(asking):
            key = others[asked[n] & other_mask]
            while below < count and keys[packed[below] & mask] < key:
                below += 1
            upto = max(upto, below)
            while upto < count and keys[packed[upto] & mask] == key:
                upto += 1
            row = other_rows[asked[n] & other_mask]
            first[row], last[row] = _range(operator, below, upto, count)


@rank_segments.interpreted
def _(
    segment_ptr, prev_keys, prev_valid, next_keys, next_valid, operator, keys_room,
    rows_room, words_room, rank, first, last, ranks,
):  # fmt: skip
    begin, end = segment_ptr[0], segment_ptr[-1]
    for filled in (rank, first, last):
        filled[begin:end] = -1
    rows, place, counts = _sorted_rows(segment_ptr, prev_keys, prev_valid)
    rank[rows] = place
    ranks[begin:end] = np.repeat(counts, np.diff(segment_ptr))
    asking, below, upto = _neighbours(segment_ptr, prev_keys, prev_valid, next_keys, next_valid)
    if operator in (LESS, LESS_EQUAL):
        first[asking], last[asking] = 0, below if operator == LESS else upto
    elif operator in (GREATER, GREATER_EQUAL):
        first[asking], last[asking] = (upto if operator == GREATER else below), ranks[asking]
    else:
        first[asking], last[asking] = below, upto


def _owners(segment_ptr):
    """Return the number of the segment of every row, from the first row of a segment on."""
    return np.repeat(np.arange(len(segment_ptr) - 1), np.diff(segment_ptr))


def _sorted_rows(segment_ptr, keys, valid):
    """Sort the rows that have a key, segment by segment; return them, places, and counts."""
    begin, end = segment_ptr[0], segment_ptr[-1]
    rows = begin + np.flatnonzero(valid[begin:end])
    owner = _owners(segment_ptr)[rows - begin]
    rows = rows[
        np.lexsort((keys[rows], owner))
    ]  # The owners are in order, and stay where they are.
    counts = np.bincount(owner, minlength=len(segment_ptr) - 1)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts), counts


def _neighbours(segment_ptr, prev_keys, prev_valid, next_keys, next_valid):
    """Count for each row with a key the smaller keys of its segment, and those up to its own."""
    begin, end = segment_ptr[0], segment_ptr[-1]
    rows = begin + np.flatnonzero(prev_valid[begin:end])
    asking = begin + np.flatnonzero(next_valid[begin:end])
    owner = _owners(segment_ptr)
    # Dense numbers of the keys leave room for the number of the segment beside them.
    codes = np.unique(np.concatenate((prev_keys[rows], next_keys[asking])), return_inverse=True)[1]
    codes = codes.reshape(-1) + np.concatenate((owner[rows - begin], owner[asking - begin])) * (
        len(codes) + 1
    )
    known, wanted = np.sort(codes[: len(rows)]), codes[len(rows) :]
    before = np.searchsorted(owner[rows - begin], owner[asking - begin])
    below, upto = (np.searchsorted(known, wanted, side) for side in ("left", "right"))
    return asking, below - before, upto - before


@kernel()
def _collect(begin, end, keys, valid, to_keys, to_rows):
    """Collect the keys that are not NULL, and their rows; return their number."""
    count = 0
    for row in range(begin, end):
        if valid[row]:
            to_keys[count] = keys[row]
            to_rows[count] = row
            count += 1
    return count


@_collect.interpreted
def _(begin, end, keys, valid, to_keys, to_rows):
    rows = begin + np.flatnonzero(valid[begin:end])
    to_keys[: len(rows)] = keys[rows]
    to_rows[: len(rows)] = rows
    return len(rows)


@kernel()
def _prefix(operator, below, upto, count):
    """Count the places that satisfy a comparison; for > and >= they are counted backwards."""
    if operator == LESS:
        return below
    if operator == LESS_EQUAL:
        return upto
    if operator == GREATER:
        return count - upto
    if operator == GREATER_EQUAL:
        return count - below
    return below if below < upto else -1


@kernel()
def place_segments(
    segment_ptr, prev_keys, prev_valid, next_keys, next_valid, operator, keys_room, rows_room,
    words_room, same, placed,
):  # fmt: skip
    """Assign places to rows, so that each row may follow exactly those below a bound.

    ``placed`` gets places and bounds, -1 for none.

    As ``rank_segments``, for comparisons whose ranges begin at one end. Rows of one value share a
    place; for equality, ``upto`` is that place. If ``same``, f and g are equal for all
    rows, so that sorting once is enough.
    """
    # If both sides are the same, there is one buffer only.
    keys, others = keys_room[0], keys_room[-1]
    rows, other_rows = rows_room[0], rows_room[-1]
    room, packed, asked = words_room[0], words_room[1], words_room[-1]
    backwards = operator in (GREATER, GREATER_EQUAL)
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        placed[:, begin:end] = -1
        count = _collect(begin, end, prev_keys, prev_valid, keys, rows)
        mask = sort_keys(keys, count, packed, room)
        if not same:
            asking = _collect(begin, end, next_keys, next_valid, others, other_rows)
            other_mask = sort_keys(others, asking, asked, room)
            below, above = 0, 0
            for n in range(asking):
                key = others[asked[n] & other_mask]
                while below < count and keys[packed[below] & mask] < key:
                    below += 1
                above = max(above, below)
                while above < count and keys[packed[above] & mask] == key:
                    above += 1
                row = other_rows[asked[n] & other_mask]
                placed[1, row] = _prefix(operator, below, above, count)
        start, whole = 0, count == end - begin
        for n in range(count):
            # Most neighbours differ in the part of the key that stands in the word.
            if n + 1 < count and (packed[n + 1] ^ packed[n]) <= mask:
                if keys[packed[n + 1] & mask] == keys[packed[n] & mask]:
                    continue
            bound = _prefix(operator, start, n + 1, count)
            for k in range(start, n + 1):
                row = np.int64(packed[k] & mask)
                row = row + begin if whole else np.int64(rows[row])
                placed[0, row] = count - 1 - n if backwards else start
                if same:
                    placed[1, row] = bound
            start = n + 1


@place_segments.interpreted
def _(
    segment_ptr, prev_keys, prev_valid, next_keys, next_valid, operator, keys_room, rows_room,
    words_room, same, placed,
):  # fmt: skip
    placed[:, segment_ptr[0] : segment_ptr[-1]] = -1
    first = segment_ptr[0]
    counts = np.diff(np.concatenate(([0], np.cumsum(prev_valid[first:])))[segment_ptr - first])
    of_all = np.repeat(counts, np.diff(segment_ptr))
    if same:
        next_keys, next_valid = prev_keys, prev_valid
    asking, below, upto = _neighbours(segment_ptr, prev_keys, prev_valid, next_keys, next_valid)
    count = of_all[asking - segment_ptr[0]]
    if operator == LESS:
        bound = below
    elif operator == LESS_EQUAL:
        bound = upto
    elif operator == GREATER:
        bound = count - upto
    elif operator == GREATER_EQUAL:
        bound = count - below
    else:
        bound = np.where(below < upto, below, -1)
    placed[1, asking] = bound
    rows, below, upto = _neighbours(segment_ptr, prev_keys, prev_valid, prev_keys, prev_valid)
    backwards = operator in (GREATER, GREATER_EQUAL)
    placed[0, rows] = of_all[rows - first] - upto if backwards else below


@kernel()
def order_rows(segment_ptr, times, together, order):
    """Assign numbers to the times of every segment, or to its rows if ``together`` is false.

    Return the maximum number of rows of one time.
    """
    widest = 1
    for segment in range(segment_ptr.shape[0] - 1):
        begin, end = segment_ptr[segment], segment_ptr[segment + 1]
        number = np.int64(-1)
        alike = 0
        for row in range(begin, end):
            if row == begin or not together or times[row] != times[row - 1]:
                number += 1
                alike = 0
            alike += 1
            widest = max(widest, alike)
            order[row] = number
    return widest


@order_rows.interpreted
def _(segment_ptr, times, together, order):
    begin, end = segment_ptr[0], segment_ptr[-1]
    starts = segment_ptr[:-1][np.diff(segment_ptr) > 0]
    if not together or begin == end:
        order[begin:end] = np.arange(begin, end) - np.repeat(segment_ptr[:-1], np.diff(segment_ptr))
        return 1
    new = np.empty(end - begin, np.bool_)
    new[0], new[1:] = True, times[begin + 1 : end] != times[begin : end - 1]
    new[starts - begin] = True
    number = np.cumsum(new)
    lengths = np.diff(segment_ptr)[np.diff(segment_ptr) > 0]
    order[begin:end] = number - np.repeat(number[starts - begin], lengths)
    return int(np.bincount(number).max())
