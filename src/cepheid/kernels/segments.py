"""Passes over segments of arrays: sort by code, running sums, counts, minima and maxima."""

from __future__ import annotations

from cepheid.kernels.tiers import kernel


@kernel()
def order_by_code(codes, ends, destination):
    """Set destination[i] to the position of row i when sorted by code (stable).

    ends has a zero and then one entry per code; it is set to the end offset of each code.
    """
    for i in range(codes.shape[0]):
        ends[codes[i] + 1] += 1
    for c in range(1, ends.shape[0]):
        ends[c] += ends[c - 1]
    place = ends[:-1].copy()
    for i in range(codes.shape[0]):
        code = codes[i]
        destination[i] = place[code]
        place[code] += 1


@kernel()
def first_of_codes(codes, count, first):
    """Set first[c] to the first row of code c, for as many codes as there are."""
    found = 0
    for i in range(codes.shape[0]):
        if found == count:
            return
        if first[codes[i]] < 0:
            first[codes[i]] = i
            found += 1


@kernel()
def scatter(values, destination, out):
    """Set out[destination[i]] = values[i]: for few codes much faster than a gather."""
    for i in range(values.shape[0]):
        out[destination[i]] = values[i]


@kernel()
def scatter_rows(destination, out):
    """Set out[destination[i]] = i."""
    for i in range(destination.shape[0]):
        out[destination[i]] = i


@kernel()
def index_entries(states, wanted, entries, before):
    """Set before[i] to the number of entries before i in a wanted state, and collect them.

    Return their total number.
    """
    count = 0
    for i in range(states.shape[0]):
        before[i] = count
        entries[count] = i
        count += wanted[states[i]]
    before[states.shape[0]] = count
    return count


@kernel()
def locate(entries, before, starts, offsets, current, offset, from_first, rows, found):
    """Set rows[i] to the row of the n-th first or last entry of some variables, if there is one.

    For output row i: starts[i] is the first row of its match, offsets[i] the first entry, and
    current[i] the place of the current row. Return whether all were found.
    """
    every = True
    for i in range(rows.shape[0]):
        low = before[offsets[i]]
        high = before[offsets[i] + current[i] + 1]
        which = low + offset if from_first else high - 1 - offset
        found[i] = low <= which < high
        if found[i]:
            rows[i] = starts[i] + entries[which] - offsets[i]
        else:
            rows[i] = 0
            every = False
    return every


@kernel()
def mark_outside(bounds, shift, outside):
    """Set outside[i] where row i + shift is in another partition than row i."""
    for p in range(bounds.shape[0] - 1):
        begin, stop = bounds[p], bounds[p + 1]
        if shift < 0:
            for i in range(begin, min(begin - shift, stop)):
                outside[i] = True
        else:
            for i in range(max(stop - shift, begin), stop):
                outside[i] = True


@kernel()
def first_rows_too_late(bounds, times, within, limits):
    """Set limits[i] to the first row j of i's partition with times[j] - times[i] >= within."""
    for p in range(bounds.shape[0] - 1):
        j = bounds[p]
        for i in range(bounds[p], bounds[p + 1]):
            while j < bounds[p + 1] and times[j] - times[i] < within:
                j += 1
            limits[i] = j


@kernel()
def running_count(offsets, use, out):
    """Set out[i] to the number of used entries of i's segment up to i."""
    for s in range(offsets.shape[0] - 1):
        count = 0
        for i in range(offsets[s], offsets[s + 1]):
            count += use[i]
            out[i] = count


@kernel()
def running_sum(offsets, use, values, out):
    """Set out[i] to the sum of the used entries of i's segment up to i.

    Return whether an integer sum overflowed 64 bits.
    """
    wrapped = False
    zero = values.dtype.type(0)
    for s in range(offsets.shape[0] - 1):
        total = zero
        rough = 0.0  # What wrapped is off by 2**64, which the rounding of doubles cannot hide.
        for i in range(offsets[s], offsets[s + 1]):
            if use[i]:
                total += values[i]
                rough += values[i]
                wrapped = wrapped or abs(rough - total) > 2.0**63
            out[i] = total
    return wrapped


@kernel()
def running_extreme(offsets, use, values, largest, out):
    """Set out[i] to the smallest or largest used entry of i's segment up to i; NaN is largest."""
    for s in range(offsets.shape[0] - 1):
        some = False
        best = values.dtype.type(0)
        for i in range(offsets[s], offsets[s + 1]):
            if use[i]:
                value = values[i]
                if not some:
                    better = True
                elif largest:
                    better = value > best or value != value
                else:
                    better = value < best or best != best
                if better:
                    best = value
                some = True
            out[i] = best


@kernel()
def spread_rows(starts, offsets, rows):
    """Set rows[i] to the row of entry i: matches are consecutive rows."""
    for m in range(starts.shape[0]):
        for i in range(offsets[m], offsets[m + 1]):
            rows[i] = starts[m] + i - offsets[m]


@kernel()
def search_slices(values, starts, stops, bounds, out):
    """Set out[i] to the first position in [starts[i], stops[i]) with a value above bounds[i].

    Values rise in each slice. A search begins where the one before it ended if its slice begins at
    the same place and its bound is not smaller, so bounds that rise cost O(1) each.
    """
    for i in range(starts.shape[0]):
        low, high = starts[i], stops[i]
        if i > 0 and starts[i - 1] == low and bounds[i - 1] <= bounds[i]:
            low = min(out[i - 1], high)
        step = 1
        while low + step < high and values[low + step] <= bounds[i]:
            low += step
            step *= 2
        high = min(low + step, high)
        while low < high:
            middle = (low + high) // 2
            if values[middle] <= bounds[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low
