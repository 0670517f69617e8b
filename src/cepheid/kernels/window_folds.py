"""Windows over stretches of events: find the stretches of a window, and fold their values.

A stretch lies in the windows first to last; both increase along a group. So the stretches of a
window are consecutive, and both ends only move forwards: every fold is O(1) amortised, with two
stacks and no subtraction, which would lose precision.
"""

from __future__ import annotations

from cepheid.kernels.tiers import kernel

SUM, MIN, MAX = 0, 1, 2


@kernel()
def stretches_of_windows(groups, firsts, lasts, window_groups, windows, low, high):
    """Set low and high to the stretches [low, high) of every window; both in order of group."""
    count = groups.shape[0]
    begin = end = 0
    for w in range(windows.shape[0]):
        group, window = window_groups[w], windows[w]
        while groups[begin] < group or lasts[begin] < window:
            begin += 1
        end = max(end, begin)
        while end < count and groups[end] == group and firsts[end] <= window:
            end += 1
        low[w], high[w] = begin, end


@kernel()
def _fold(operation, a, b):
    if operation == SUM:
        return a + b
    if operation == MIN:
        # NaN never affects a minimum: it is larger than every number.
        return b if a != a or b < a else a
    return b if b != b or b > a else a


@kernel()
def fold_windows(values, low, high, operation, neutral, back, out):
    """Set out[w] to the fold of values[low[w]:high[w]]; back is a buffer of the same length."""
    middle = reached = 0
    front = neutral
    for w in range(low.shape[0]):
        if low[w] >= middle:
            middle = reached = high[w]
            front = neutral
            folded = neutral
            for i in range(high[w] - 1, low[w] - 1, -1):
                folded = _fold(operation, folded, values[i])
                back[i] = folded
        for i in range(reached, high[w]):
            front = _fold(operation, front, values[i])
        reached = max(reached, high[w])
        out[w] = _fold(operation, back[low[w]], front)


@kernel()
def fold_into(slots, values, operation, out):
    """Fold every value into its slot."""
    for i in range(values.shape[0]):
        out[slots[i]] = _fold(operation, out[slots[i]], values[i])


@kernel()
def place_in_windows(times, keys, slide, state, latest, windows, places, owners, counts, rows):
    """Give each event the row of its window and key, and count the events of the rows.

    Windows do not overlap, and come in order. ``state`` is the number of the open window, its first
    row, and the numbers of windows and of rows; ``latest`` has the last row of each key, -1 if
    there is none. ``windows`` gets the number of each window, ``places`` and ``owners`` the place
    of its window there and the key of each row.

    Whether an event opens a row is chance, so there is no branch: what belongs to the next row is
    written for every event, and needs room for one row more than there are events.
    """
    window, begin, place, count = state
    start = window * slide
    for i in range(times.shape[0]):
        time = times[i]
        if time - start >= slide or place == 0:
            window = time // slide
            start = window * slide
            begin = count
            windows[place] = window
            place += 1
        key = keys[i]
        last = latest[key]
        opens = last < begin
        row = count if opens else last
        latest[key] = row
        places[count] = place - 1
        owners[count] = key
        counts[count] = 0
        counts[row] += 1
        count += opens
        rows[i] = row
    state[0], state[1], state[2], state[3] = window, begin, place, count


@kernel()
def order_rows(places, owners, ranks, key_ends, window_ends, by_key, order):
    """Order rows by window and by the rank of their key, by counting; windows come in order.

    The ends have a zero for each key and window; ``by_key`` is a buffer for the rows.
    """
    for row in range(places.shape[0]):
        key_ends[ranks[owners[row]]] += 1
        window_ends[places[row]] += 1
    for ends in (key_ends, window_ends):
        begin = 0
        for i in range(ends.shape[0]):
            size = ends[i]
            ends[i] = begin
            begin += size
    for row in range(places.shape[0]):
        rank = ranks[owners[row]]
        by_key[key_ends[rank]] = row
        key_ends[rank] += 1
    for i in range(places.shape[0]):
        row = by_key[i]
        place = places[row]
        order[window_ends[place]] = row
        window_ends[place] += 1
