"""Passes over columns, O(n) each: look up codes, check times, encode values in order."""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

_MAGNITUDE = np.int64(2**63 - 1)
_INFINITY = np.int64(0x7FF0000000000000)
_NAN_KEY = np.int64(2**63 - 2)

MARKED = -2
"""Stands in a table of numbers for one that is still to be given."""


@kernel()
def look_up(indices, table, out):
    """Set out[i] = table[indices[i]]; NumPy would widen the indices first."""
    for i in range(indices.shape[0]):
        out[i] = table[indices[i]]


@look_up.interpreted
def _(indices, table, out):
    out[:] = table[indices]


@kernel()
def look_up_shifted(values, lowest, table, out):
    """Set out[i] = table[values[i] - lowest], or -1 outside of the table; count negative ones."""
    length, negative = table.shape[0], 0
    if lowest > 0:
        # The table may go on beyond the largest number.
        length = min(length - 1, _MAGNITUDE - lowest) + 1
    highest = lowest + (length - 1)
    for i in range(values.shape[0]):
        number = -1
        if lowest <= values[i] <= highest:
            number = table[values[i] - lowest]
        out[i] = number
        negative += number < 0
    return negative


@look_up_shifted.interpreted
def _(values, lowest, table, out):
    highest = min(int(lowest) + table.shape[0] - 1, int(_MAGNITUDE))
    inside = (values >= lowest) & (values <= highest)
    out[:] = np.where(inside, table[np.where(inside, values - lowest, 0)], -1)
    return int((out < 0).sum())


@kernel()
def mark_shifted(values, lowest, table):
    """Set table[values[i] - lowest] to MARKED where it is negative; values lie in the table."""
    for i in range(values.shape[0]):
        place = values[i] - lowest
        if table[place] < 0:
            table[place] = MARKED


@mark_shifted.interpreted
def _(values, lowest, table):
    places = np.subtract(values, lowest, dtype=np.int64)
    table[places[table[places] < 0]] = MARKED


@kernel()
def look_up_texts(offsets, data, ends, names, table, out):
    """Set out[i] = table[j] if text i is name j, and 0 if it is none of a few names.

    Texts lie one after another in ``data``, text i from ``offsets[i]`` on; names in ``names``,
    which end at ``ends[j + 1]``.
    """
    for i in range(offsets.shape[0] - 1):
        first, length, found = offsets[i], offsets[i + 1] - offsets[i], 0
        for name in range(table.shape[0]):
            begin = ends[name]
            if ends[name + 1] - begin != length:
                continue
            place = 0
            while place < length and data[first + place] == names[begin + place]:
                place += 1
            if place == length:
                found = table[name]
                break
        out[i] = found


@look_up_texts.interpreted
def _(offsets, data, ends, names, table, out):
    out[:] = 0
    lengths = offsets[1:] - offsets[:-1]
    for name in range(table.shape[0]):
        begin, length = int(ends[name]), int(ends[name + 1] - ends[name])
        rows = np.flatnonzero(lengths == length)
        for place in range(length):
            rows = rows[data[offsets[rows] + place] == names[begin + place]]
        out[rows] = table[name]


@kernel()
def scan_times(times):
    """Find the first row where times go back (-1 for none), and check for equal times."""
    ties = False
    for i in range(1, times.shape[0]):
        if times[i] <= times[i - 1]:
            if times[i] < times[i - 1]:
                return i, ties
            ties = True
    return -1, ties


@scan_times.interpreted
def _(times):
    back = np.flatnonzero(times[1:] < times[:-1])
    first = int(back[0]) + 1 if len(back) else -1
    upto = first if first >= 0 else times.shape[0]
    return first, bool((times[1:upto] == times[: max(upto - 1, 0)]).any())


@kernel()
def order_keys(bits, largest, out):
    """Map the bits of doubles to integers of the same order, NaN last and one zero.

    For the maximum the order is reversed.
    """
    for i in range(bits.shape[0]):
        key = bits[i]
        magnitude = key & _MAGNITUDE
        if magnitude > _INFINITY:
            key = _NAN_KEY
        elif magnitude == 0:
            key = magnitude
        elif key < 0:
            key ^= _MAGNITUDE
        out[i] = ~key if largest else key


@order_keys.interpreted
def _(bits, largest, out):
    magnitude = bits & _MAGNITUDE
    key = np.where(bits < 0, bits ^ _MAGNITUDE, bits)
    key[magnitude > _INFINITY] = _NAN_KEY
    key[magnitude == 0] = 0
    out[:] = ~key if largest else key


@kernel()
def is_counting(numbers):
    """Check whether numbers are 0, 1, 2 and so on."""
    i = 0
    while i < numbers.shape[0] and numbers[i] == i:
        i += 1
    return i == numbers.shape[0]


@is_counting.interpreted
def _(numbers):
    return bool((numbers == np.arange(numbers.shape[0])).all())
