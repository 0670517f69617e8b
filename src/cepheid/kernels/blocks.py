"""Blocks of sorted items: look up places in them, and cut items into blocks again."""

from __future__ import annotations

from cepheid.kernels.tiers import kernel


@kernel()
def upper_bounds(values, low, high, asked, out):
    """Find in sorted parts [low, high) the first value above each asked one; O(log n) each."""
    for i in range(asked.shape[0]):
        begin, end, value = low[i], high[i], asked[i]
        while begin < end:
            middle = (begin + end) >> 1
            if values[middle] > value:
                end = middle
            else:
                begin = middle + 1
        out[i] = begin


@kernel()
def cut_blocks(cell, time, stood, size, starts):
    """List where blocks begin, each of one cell and about ``size`` items; return their number.

    Items of one time stay together. Items that stood in blocks with others between them, which
    were not touched, are cut apart.
    """
    count, run, part = 0, 0, 0
    for i in range(cell.shape[0]):
        if i == 0 or cell[i] != cell[i - 1] or stood[i] > stood[i - 1] + 1:
            run, part = i, 0
            starts[count] = i
            count += 1
        elif time[i] != time[i - 1] and (i - run) // size != part:
            part = (i - run) // size
            starts[count] = i
            count += 1
    return count


@kernel()
def merge_items(kept_cell, kept_time, kept_item, kept_stood, cell, time, item, stood, place, out):
    """Merge new items into others, each before a place; ``out`` has a row for each column."""
    n = 0
    for i in range(kept_cell.shape[0] + 1):
        while n < place.shape[0] and place[n] == i:
            row = i + n
            out[0, row], out[1, row], out[2, row], out[3, row] = cell[n], time[n], item[n], stood[n]
            n += 1
        if i < kept_cell.shape[0]:
            row = i + n
            out[0, row], out[1, row] = kept_cell[i], kept_time[i]
            out[2, row], out[3, row] = kept_item[i], kept_stood[i]
