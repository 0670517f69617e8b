"""Count chosen matches without building any: AFTER MATCH SKIP over a program (§14).

The program is that of ``linear.py``, over sets instead of numbers.

PAST LAST: a chosen match drops all that begin by its end, so everything begins anew after it. A
configuration only has to know whether it has a partial match, and where the first of them begins:
``alive[key, configuration]`` is the set of the periods of SLIDE in which they begin, as bits. When
a match ends, the earliest of its periods tells which windows hold the chosen one.

TO NEXT: every event begins at most one chosen match, the first that ends. Events that begin matches
in the same configurations have the same future, so they are counted together: ``sets[key, n]`` is a
set of configurations as bits, and ``numbers[key, n]`` the events whose matches are there.

    first[key]     the first window that is not reported
    closes[key]    when it ends
    tally[key]     chosen matches of open windows, window w at w % length
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.linear import CONTIGUOUS, NEXT, OK
from cepheid.kernels.signals import look_at_clock
from cepheid.kernels.tiers import kernel

FULL, CROWDED = 1, 2
"""Why a kernel stopped: the rows are full, or the sets of a key."""
PERIODS = 62
"""Periods that the bits of a number can tell apart."""


@kernel()
def close_windows(first, closes, tally, k, until, within, slide, out_key, out_window, R, rows):
    """Report the windows of a key that end by a time; return the rows and the next window."""
    ring = tally.shape[1]
    low = (until - within) // slide + 1
    for w in range(first[k], min(low, first[k] + ring)):
        if tally[k, w % ring]:
            out_key[rows], out_window[rows], R[rows] = k, w, tally[k, w % ring]
            tally[k, w % ring] = 0
            rows += 1
    first[k], closes[k] = low, low * slide + within
    return rows


@kernel()
def flush_windows(first, closes, tally, keys, until, within, slide, out_key, out_window, R):
    """Report the windows of some keys that end by a time; ``alive`` forgets with the next event."""
    rows = 0
    for n in range(keys.shape[0]):
        ring, k = tally.shape[1], keys[n]
        for w in range(first[k], first[k] + ring):
            if w * slide + within <= until and tally[k, w % ring]:
                out_key[rows], out_window[rows], R[rows] = k, w, tally[k, w % ring]
                tally[k, w % ring] = 0
                rows += 1
    return rows


@kernel()
def _forget(alive, k, before, low):
    """Forget the matches that begin before a period."""
    kept = 0
    if low - before < PERIODS:
        kept = (1 << PERIODS) - 1
        for period in range(before, low):
            kept &= ~(1 << (period % PERIODS))
    for q in range(alive.shape[1]):
        alive[k, q] &= kept


@kernel()
def _count_earliest(tally, k, begins, first):
    """Count a chosen match in the windows up to the earliest period in which it can begin."""
    w = first
    while True:
        tally[k, w % tally.shape[1]] += 1
        if begins >> (w % PERIODS) & 1:
            return
        w += 1


@kernel()
def _move(alive, k, move_from, move_to, begin, end, moved):
    """Move partial matches by a letter; all leave before any arrives."""
    for m in range(begin, end):
        if move_to[m] >= 0:
            moved[move_to[m]] |= alive[k, move_from[m]]
    for m in range(begin, end):
        alive[k, move_from[m]] = 0
    for m in range(begin, end):
        if move_to[m] >= 0:
            alive[k, move_to[m]] |= moved[move_to[m]]
            moved[move_to[m]] = 0


@kernel()
def count_past_last(
    T, alive, start, first, closes, ends, bit, tally, ts, key, codes, letters, begin, within, slide,
    grouped, semantics, out_key, out_window, R,
):  # fmt: skip
    """Count the matches that SKIP PAST LAST chooses; O(edges) per event.

    Parameters
    ----------
    T
        The tables of a program; see ``linear.advance``.
    start
        (keys,) the start configuration, -1 for none.
    ends, bit
        (keys,) when the period of the last event ends, and its bit.
    slide
        The length of a period, 0 for one that never ends.
    grouped
        Whether events of one key and time are processed together (TIES strict): the first that ends
        a match is the one of the chosen match, and no event of this time begins another.
    """
    (
        target_ptr, target, source_ptr, source, starts, clear_ptr, clear, move_ptr, move_from,
        move_to, start_next, finished, counts, _,
    ) = T  # fmt: skip
    size, room, rows, i, n = alive.shape[1], out_key.shape[0], 0, begin, codes.shape[0]
    new, moved = np.zeros(size, np.int64), np.zeros(size, np.int64)
    while i < n:
        look_at_clock()
        k = key[i]
        if slide > 0 and ts[i] >= closes[k]:
            if rows + tally.shape[1] > room:
                return FULL, i, rows
            before = first[k]
            rows = close_windows(
                first, closes, tally, k, ts[i], within, slide, out_key, out_window, R, rows
            )
            _forget(alive, k, before, first[k])
        if slide > 0 and ts[i] >= ends[k]:
            period = ts[i] // slide
            ends[k] = (period + 1) * slide
            bit[k] = 1 << (period % PERIODS)
        j = i + 1
        while grouped and j < n and ts[j] == ts[i] and key[j] == k:
            j += 1
        ended = np.int64(0)
        for e in range(i, j):
            ending = np.int64(0)
            for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                q, found = target[t], np.int64(0)
                # Contiguous matches cannot go on past tied events (§3.3).
                if j - i == 1 or semantics != CONTIGUOUS or finished[q]:
                    for s in range(source_ptr[t], source_ptr[t + 1]):
                        found |= alive[k, source[s]]
                if start[k] >= 0 and starts[t, start[k]]:
                    found |= bit[k]
                new[q] |= found
                if counts[q]:
                    ending |= found
            if ended == 0:
                ended = ending
        if ended != 0:
            _count_earliest(tally, k, ended, first[k])
            for q in range(size):
                alive[k, q] = 0
        else:
            if semantics == CONTIGUOUS:
                for q in range(size):
                    alive[k, q] = 0
            elif semantics == NEXT:
                for e in range(i, j):
                    for t in range(clear_ptr[codes[e]], clear_ptr[codes[e] + 1]):
                        alive[k, clear[t]] = 0
            letter = letters[i]
            if move_ptr[letter] < move_ptr[letter + 1]:
                _move(alive, k, move_from, move_to, move_ptr[letter], move_ptr[letter + 1], moved)
        if start[k] >= 0:
            start[k] = start_next[letters[i], start[k]]
        for e in range(i, j):
            for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                if ended == 0:
                    alive[k, target[t]] |= new[target[t]]
                new[target[t]] = 0
        i = j
    return OK, n, rows


@kernel()
def _add_set(sets, numbers, used, k, chosen, number):
    """Add events whose matches are in a set of configurations."""
    for m in range(used[k]):
        if sets[k, m] == chosen:
            numbers[k, m] += number
            return
    sets[k, used[k]], numbers[k, used[k]] = chosen, number
    used[k] += 1


@kernel()
def count_to_next(
    T, source_bits, clear_bits, sets, numbers, used, first, closes, tally, ts, key, codes, begin,
    within, grouped, semantics, out_key, out_window, R,
):  # fmt: skip
    """Count the matches that SKIP TO NEXT chooses, in windows that do not overlap.

    It takes O(edges x sets) per event. Programs have no letters that matter.

    Parameters
    ----------
    source_bits, clear_bits
        target -> set of configurations that it adds, code -> set of those that it empties.
    used
        (keys,) the number of sets.
    within
        The length of a window, 0 for one that never ends.
    """
    target_ptr, target, starts, finished, counts = (
        T.target_ptr, T.target, T.start, T.finished, T.counts
    )  # fmt: skip
    room, rows, i, n = out_key.shape[0], 0, begin, codes.shape[0]
    while i < n:
        look_at_clock()
        k = key[i]
        if within > 0 and ts[i] >= closes[k]:
            if rows + 1 > room:
                return FULL, i, rows
            rows = close_windows(
                first, closes, tally, k, ts[i], within, within, out_key, out_window, R, rows
            )
            used[k] = 0
        j = i + 1
        while grouped and j < n and ts[j] == ts[i] and key[j] == k:
            j += 1
        if used[k] + j - i > sets.shape[1]:
            return CROWDED, i, rows
        many, used[k] = used[k], 0
        for m in range(many):
            before, number = sets[k, m], numbers[k, m]
            after, ends = np.int64(0), False
            kept = before if semantics != CONTIGUOUS else np.int64(0)
            for e in range(i, j):
                if semantics == NEXT:
                    kept &= ~clear_bits[codes[e]]
                for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                    # Contiguous matches cannot go on past tied events (§3.3).
                    goes = j - i == 1 or semantics != CONTIGUOUS or finished[target[t]]
                    if goes and before & source_bits[t]:
                        after |= 1 << np.int64(target[t])
                        ends = ends or counts[target[t]]
            if ends:
                tally[k, first[k] % tally.shape[1]] += number
            elif kept | after:
                _add_set(sets, numbers, used, k, kept | after, number)
        for e in range(i, j):
            after, ends = np.int64(0), False
            for t in range(target_ptr[codes[e]], target_ptr[codes[e] + 1]):
                if starts[t, 0]:
                    after |= 1 << np.int64(target[t])
                    ends = ends or counts[target[t]]
            if ends:
                tally[k, first[k] % tally.shape[1]] += 1
            elif after:
                _add_set(sets, numbers, used, k, after, 1)
        i = j
    return OK, n, rows
