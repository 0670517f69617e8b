"""Aggregate queries with common edge predicates together: every number is a row of lanes.

As ``prefix.py``, for many queries. The states of all queries are merged to *nodes*; nodes that bind
the same events and look up the same earlier ones form a *bundle*, in which each is a lane. The
events of a bundle are ranked once, and a row of lanes is looked up and entered at once: its
additions are vector instructions. Overlapping windows are lanes too, as in ``lanes.py``.

    total[bundle, window, lane, part]       sums of all rows so far
    entry[bundle, window, lane, part]       what a new row begins with
    tree[index, place, window, lane, part]  sums over ranks (Fenwick)

Edges without a predicate add to ``entry`` of a larger bundle (*push*), or are read from ``total``
of one (*pull*), so that a row does not pay for edges of others. A bundle that waits behind a NOT is
bound to no row: rows of others are added to its ``total`` (*tally*), which rows of the NOT empty.
All arrays are flat, and their places are computed before (``kinds/workload/look_back_tables.py``).

Sources: Poppe et al., "HAMLET", SIGMOD 2021, where queries share the propagation inside a Kleene
part, and what enters the part differs; "GRETA", VLDB 2017.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.lanes import UNIT
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

NO_VALUE = np.iinfo(np.int64).max


@kernel(inline="code")
def _add(target, at, amounts, source, width):
    """Add a stretch of numbers to another; unsigned integers allow vector instructions."""
    first, second = np.uint64(at), np.uint64(source)
    for n in range(np.uint64(width)):
        target[first + n] += amounts[second + n]


@_add.interpreted
def _(target, at, amounts, source, width):
    target[at : at + width] += amounts[source : source + width]


@kernel(inline="code")
def _lower(target, at, values, source, width):
    """Lower a stretch of numbers to the smaller ones of another."""
    first, second = np.uint64(at), np.uint64(source)
    for n in range(np.uint64(width)):
        target[first + n] = min(target[first + n], values[second + n])


@_lower.interpreted
def _(target, at, values, source, width):
    mine = target[at : at + width]
    np.minimum(mine, values[source : source + width], out=mine)


@kernel(inline="code")
def _look_up(tree, first, upto, stride, equal, amounts, at, width):
    """Add a prefix of an index to a row of lanes, or for equality a single place."""
    if equal:
        _add(amounts, at, tree, first + upto * stride, width)
        return
    while upto > 0:
        _add(amounts, at, tree, first + upto * stride, width)
        upto &= upto - 1


@kernel(inline="code")
def _look_up_least(tree, first, upto, stride, equal, values, at, width):
    """Lower a row of lanes to a prefix of an index, or for equality to a single place."""
    if equal:
        _lower(values, at, tree, first + upto * stride, width)
        return
    while upto > 0:
        _lower(values, at, tree, first + upto * stride, width)
        upto &= upto - 1


@kernel(inline="code")
def _enter(tree, first, place, size, stride, equal, amounts, at, width):
    """Add a row of lanes to an index."""
    node = place if equal else place + 1
    if equal:
        _add(tree, first + node * stride, amounts, at, width)
        return
    while node <= size:
        _add(tree, first + node * stride, amounts, at, width)
        node += node & -node


@kernel(inline="code")
def _enter_least(tree, first, place, size, stride, equal, values, at, width):
    """Lower an index to a row of lanes."""
    node = place if equal else place + 1
    if equal:
        _lower(tree, first + node * stride, values, at, width)
        return
    while node <= size:
        _lower(tree, first + node * stride, values, at, width)
        node += node & -node


@kernel(inline="code")
def _gather(
    b, row, here, low, high, base, step, entry, total, held, tree, room, uptos, pull_ptr,
    pull_from, pull_step, pull_to, ask_ptr, ask_lookup, ask_index, ask_plain, pair_ptr, pair_from,
    pair_to, tree_at, tree_step, tree_equal, windows, parts,
):  # fmt: skip
    """Add up what a row may follow, in all lanes of a bundle and the windows [low, high).

    ``here`` is where the lanes of the bundle begin in ``held``.
    """
    mine = step[b]
    skip, width = low * mine, (high - low) * mine
    for n in range(np.uint64(width)):
        held[np.uint64(here + skip) + n] = entry[np.uint64(base[b] + skip) + n]
    for n in range(pull_ptr[b], pull_ptr[b + 1]):
        for w in range(low, high):
            target, origin = here + w * mine + pull_to[n], pull_from[n] + w * pull_step[n]
            for a in range(parts):
                held[target + a] += total[origin + a]
    for ask in range(ask_ptr[b], ask_ptr[b + 1]):
        upto = np.int64(uptos[ask_lookup[ask], row])
        if upto < 0:
            continue
        index = ask_index[ask]
        many = tree_step[index]
        at, stride = tree_at[index] + low * many, windows * many
        plain = ask_plain[ask]
        if plain:
            _look_up(tree, at, upto, stride, tree_equal[index], held, here + skip, width)
        else:
            room[low * many : high * many] = 0.0
            _look_up(
                tree, at, upto, stride, tree_equal[index], room, low * many, (high - low) * many
            )
        for n in range(pair_ptr[ask], pair_ptr[ask] if plain else pair_ptr[ask + 1]):
            for w in range(low, high):
                target, origin = here + w * mine + pair_to[n], w * many + pair_from[n]
                for a in range(parts):
                    held[target + a] += room[origin + a]


@kernel()
def _bind(weights, adds, row, first, lanes, here, low, high, parts, summed, held):
    """Add a row's own values to the sums of all matches that end with it."""
    for a in range(1, summed):
        weight = weights[a - 1, row]
        for w in range(low, high):
            for lane in range(lanes):
                node = here + (w * lanes + lane) * parts
                held[node + a] += weight * adds[first + lane, a] * held[node]


@kernel()
def _count_last(G, D, S, b, here, low, high, parts, segment, ts, begun, ended):
    """Count the matches of the last time of a window: those that end, or backwards begin there."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    for w in range(low, high):
        if ts != D.high[segment, w]:
            continue
        for lane in range(lanes):
            node = here + (w * lanes + lane) * parts
            if begun:
                S.held[node + parts - 1] += G.begins[first + lane] * UNIT
            else:
                ended[segment, w, first + lane] += S.held[node]


@kernel()
def _gather_least(
    b, row, here, low, high, base, step, entry, total, held, tree, room, uptos, pull_ptr,
    pull_from, pull_step, pull_to, ask_ptr, ask_lookup, ask_index, pair_ptr, pair_from, pair_to,
    tree_at, tree_step, tree_equal, windows, mins,
):  # fmt: skip
    """Find the least values of the matches that a row may follow; see ``_gather``."""
    mine = step[b]
    skip = low * mine
    for n in range((high - low) * mine):
        held[here + skip + n] = entry[base[b] + skip + n]
    for n in range(pull_ptr[b], pull_ptr[b + 1]):
        for w in range(low, high):
            target, origin = here + w * mine + pull_to[n], pull_from[n] + w * pull_step[n]
            for a in range(mins):
                held[target + a] = min(held[target + a], total[origin + a])
    for ask in range(ask_ptr[b], ask_ptr[b + 1]):
        upto = np.int64(uptos[ask_lookup[ask], row])
        if upto < 0:
            continue
        index = ask_index[ask]
        many = tree_step[index]
        for n in range(low * many, high * many):
            room[n] = NO_VALUE
        _look_up_least(
            tree, tree_at[index] + low * many, upto, windows * many, tree_equal[index], room,
            low * many, (high - low) * many,
        )  # fmt: skip
        for n in range(pair_ptr[ask], pair_ptr[ask + 1]):
            for w in range(low, high):
                target, origin = here + w * mine + pair_to[n], w * many + pair_from[n]
                for a in range(mins):
                    held[target + a] = min(held[target + a], room[origin + a])


@kernel()
def _bind_least(values, takes, row, first, lanes, here, low, high, mins, held, counts, at, parts):
    """Lower the least values of all matches that end with a row to the row's own values."""
    for w in range(low, high):
        for lane in range(lanes):
            if counts[at + (w * lanes + lane) * parts] <= 0.0:
                continue
            node = here + (w * lanes + lane) * mins
            for a in range(mins):
                if takes[first + lane, a]:
                    held[node + a] = min(held[node + a], values[a, row])


@kernel(inline="code")
def _commit(
    b, row, here, low, high, base, step, entry, total, held, tree, places, push_ptr, push_from,
    push_to, push_step, tally_ptr, tally_from, tally_to, tally_step, enter_ptr, enter_index,
    index_lookup, tree_at, tree_equal, windows, parts, size,
):  # fmt: skip
    """Make a row visible to later rows and to the results."""
    mine = step[b]
    skip, width = low * mine, (high - low) * mine
    _add(total, base[b] + skip, held, here + skip, width)
    for n in range(push_ptr[b], push_ptr[b + 1]):
        for w in range(low, high):
            origin, into = here + w * mine + push_from[n], push_to[n] + w * push_step[n]
            for a in range(parts):
                entry[into + a] += held[origin + a]
    for n in range(tally_ptr[b], tally_ptr[b + 1]):
        for w in range(low, high):
            origin, into = here + w * mine + tally_from[n], tally_to[n] + w * tally_step[n]
            for a in range(parts):
                total[into + a] += held[origin + a]
    for n in range(enter_ptr[b], enter_ptr[b + 1]):
        index = enter_index[n]
        place = np.int64(places[index_lookup[index], row])
        if place >= 0:
            _enter(
                tree, tree_at[index] + skip, place, size, windows * mine, tree_equal[index], held,
                here + skip, width,
            )  # fmt: skip


@kernel()
def _commit_least(
    b, row, here, low, high, base, step, entry, total, held, tree, places, push_ptr, push_from,
    push_to, push_step, tally_ptr, tally_from, tally_to, tally_step, enter_ptr, enter_index,
    index_lookup, tree_at, tree_equal, windows, mins, size,
):  # fmt: skip
    """Make the least values of a row visible; see ``_commit``."""
    mine = step[b]
    skip, width = low * mine, (high - low) * mine
    _lower(total, base[b] + skip, held, here + skip, width)
    for n in range(push_ptr[b], push_ptr[b + 1]):
        for w in range(low, high):
            origin, into = here + w * mine + push_from[n], push_to[n] + w * push_step[n]
            for a in range(mins):
                entry[into + a] = min(entry[into + a], held[origin + a])
    for n in range(tally_ptr[b], tally_ptr[b + 1]):
        for w in range(low, high):
            origin, into = here + w * mine + tally_from[n], tally_to[n] + w * tally_step[n]
            for a in range(mins):
                total[into + a] = min(total[into + a], held[origin + a])
    for n in range(enter_ptr[b], enter_ptr[b + 1]):
        index = enter_index[n]
        place = np.int64(places[index_lookup[index], row])
        if place >= 0:
            _enter_least(
                tree, tree_at[index] + skip, place, size, windows * mine, tree_equal[index], held,
                here + skip, width,
            )  # fmt: skip


@kernel()
def _gather_all_least(G, D, S, Q, b, row, place, here, low, high, parts, mins):
    """Find the least values of the matches that a row ends."""
    windows = D.low.shape[1]
    there = place * G.bundle.shape[0] * windows * mins + Q.base[b]
    _gather_least(
        b, row, there, low, high, Q.base, Q.step, S.entry_least, S.total_least, S.least,
        S.tree_least, S.room_least, D.upto, G.pull_ptr, Q.pull_from, Q.pull_step, Q.pull_to,
        G.ask_ptr, G.ask_lookup, G.ask_index, G.pair_ptr, Q.pair_from, Q.pair_to, Q.tree_at,
        Q.tree_step, G.index_equal, windows, mins,
    )  # fmt: skip
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    _bind_least(
        D.values, G.takes, row, first, lanes, there, low, high, mins, S.least, S.held, here, parts
    )


@kernel()
def _commit_all_least(G, D, S, Q, b, row, place, low, high, mins, size):
    """Make the least values of a row visible."""
    windows = D.low.shape[1]
    there = place * G.bundle.shape[0] * windows * mins + Q.base[b]
    _commit_least(
        b, row, there, low, high, Q.base, Q.step, S.entry_least, S.total_least, S.least,
        S.tree_least, D.place, G.push_ptr, Q.push_from, Q.push_to, Q.push_step, G.tally_ptr,
        Q.tally_from, Q.tally_to, Q.tally_step, G.enter_ptr, G.enter_index, G.index_lookup,
        Q.tree_at, G.index_equal, windows, mins, size,
    )  # fmt: skip


@kernel()
def _open(G, S, P, Q, size, windows, parts):
    """Reset the previous segment: nothing has come, and matches may begin."""
    S.total[:] = 0.0
    S.entry[:] = 0.0
    S.total_least[:] = NO_VALUE
    S.entry_least[:] = NO_VALUE
    for index in range(P.tree_at.shape[0]):
        at, least_at = P.tree_at[index], Q.tree_at[index]
        S.tree[at : at + (size + 1) * windows * P.tree_step[index]] = 0.0
        S.tree_least[least_at : least_at + (size + 1) * windows * Q.tree_step[index]] = NO_VALUE
    for b in range(G.first.shape[0] - 1):
        for n in range(G.first[b], G.first[b + 1]):
            for w in range(windows):
                lane = P.base[b] + w * P.step[b] + (n - G.first[b]) * parts
                if G.waits[b]:
                    S.total[lane] = G.begins[n] * UNIT
                else:
                    S.entry[lane] = G.begins[n] * UNIT


@kernel()
def _forbid(G, S, P, Q, kind, low, high):
    """Empty the bundles that a row of a NOT ends, in some windows."""
    for n in range(G.clear_ptr[kind], G.clear_ptr[kind + 1]):
        b = G.clear_bundle[n]
        S.total[P.base[b] + low * P.step[b] : P.base[b] + high * P.step[b]] = 0.0
        S.total_least[Q.base[b] + low * Q.step[b] : Q.base[b] + high * Q.step[b]] = NO_VALUE


@kernel()
def _run_segment(G, D, S, P, Q, segment, begin, end, windows, parts, mins, tailed, ended):
    """Aggregate the windows of one segment; rows of one time see only the rows before that time."""
    size, nodes = end - begin, G.bundle.shape[0]
    summed = parts - 1 if tailed else parts
    apart = tailed or ended.shape[0] > 0
    # Read once: reading an array out of a tuple counts a reference, and loops do it every time.
    order, kinds, times, uptos, places = D.order, D.kinds, D.ts, D.upto, D.place
    lows, highs, weights = D.low, D.high, D.weights
    kind_ptr, kind_bundle, firsts, adds = G.kind_ptr, G.kind_bundle, G.first, G.adds
    pull_ptr, push_ptr, ask_ptr, enter_ptr = G.pull_ptr, G.push_ptr, G.ask_ptr, G.enter_ptr
    ask_lookup, ask_index, ask_plain, pair_ptr = G.ask_lookup, G.ask_index, G.ask_plain, G.pair_ptr
    enter_index, index_lookup, equal = G.enter_index, G.index_lookup, G.index_equal
    held, total, entry, tree, room = S.held, S.total, S.entry, S.tree, S.room
    base, step, tree_at, tree_step = P.base, P.step, P.tree_at, P.tree_step
    pull_from, pull_step, pull_to = P.pull_from, P.pull_step, P.pull_to
    push_from, push_step, push_to = P.push_from, P.push_step, P.push_to
    pair_from, pair_to = P.pair_from, P.pair_to
    tally_ptr, clear_ptr = G.tally_ptr, G.clear_ptr
    tally_from, tally_to, tally_step = P.tally_from, P.tally_to, P.tally_step
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        j, ts = i + 1, times[i]
        while j < end and order[j] == order[i]:
            j += 1
        # Windows that follow each other begin and end one after the other.
        low, high = 0, windows
        while low < windows and highs[segment, low] < ts:
            low += 1
        while high > low and lows[segment, high - 1] >= ts:
            high -= 1
        if low == high:
            i = j
            continue
        for row in range(i, j):
            for n in range(kind_ptr[kinds[row]], kind_ptr[kinds[row] + 1]):
                b = kind_bundle[n]
                here = (row - i) * nodes * windows * parts + base[b]
                _gather(
                    b, row, here, low, high, base, step, entry, total, held, tree, room, uptos,
                    pull_ptr, pull_from, pull_step, pull_to, ask_ptr, ask_lookup, ask_index,
                    ask_plain, pair_ptr, pair_from, pair_to, tree_at, tree_step, equal, windows,
                    parts,
                )  # fmt: skip
                first, lanes = firsts[b], firsts[b + 1] - firsts[b]
                if apart:
                    _count_last(G, D, S, b, here, low, high, parts, segment, ts, tailed, ended)
                if summed > 1:
                    _bind(weights, adds, row, first, lanes, here, low, high, parts, summed, held)
                if mins:
                    _gather_all_least(G, D, S, Q, b, row, row - i, here, low, high, parts, mins)
        for row in range(i, j):
            if clear_ptr[kinds[row]] < clear_ptr[kinds[row] + 1]:
                _forbid(G, S, P, Q, kinds[row], low, high)
        for row in range(i, j):
            for n in range(kind_ptr[kinds[row]], kind_ptr[kinds[row] + 1]):
                b = kind_bundle[n]
                here = (row - i) * nodes * windows * parts + base[b]
                _commit(
                    b, row, here, low, high, base, step, entry, total, held, tree, places,
                    push_ptr, push_from, push_to, push_step, tally_ptr, tally_from, tally_to,
                    tally_step, enter_ptr, enter_index, index_lookup, tree_at, equal, windows,
                    parts, size,
                )  # fmt: skip
                if mins:
                    _commit_all_least(G, D, S, Q, b, row, row - i, low, high, mins, size)
        i = j


def _work(G, D, *_):
    return float(D.order.shape[0])


@kernel(work=_work)
def run_shared(G, D, S, P, Q, tailed, numbers, values, ended):
    """Aggregate all windows of all segments, node by node.

    Parameters
    ----------
    G, D, S
        Tables of nodes and bundles, rows and segments, and buffers.
    P, Q
        Where the parts and the least values of nodes, lanes and indexes are in the flat arrays.
    tailed
        Whether the last part counts the matches whose first row is the last one of a window; so it
        is where rows come backwards.
    numbers, values
        (segments, windows, nodes, parts or extremes) filled with the sums of all rows of a node.
    ended
        (segments, windows, nodes) filled with the matches that end with the last row of a window;
        without segments, they are not counted.
    """
    windows, parts, mins = numbers.shape[1], numbers.shape[3], values.shape[3]
    for segment in range(D.segment_ptr.shape[0] - 1):
        let_signals_in(segment)
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        _open(G, S, P, Q, end - begin, windows, parts)
        _run_segment(G, D, S, P, Q, segment, begin, end, windows, parts, mins, tailed, ended)
        for b in range(G.first.shape[0] - 1):
            for w in range(windows):
                for n in range(G.first[b], G.first[b + 1]):
                    lane = n - G.first[b]
                    at = P.base[b] + w * P.step[b] + lane * parts
                    for a in range(parts):
                        numbers[segment, w, n, a] = S.total[at + a]
                    at = Q.base[b] + w * Q.step[b] + lane * mins
                    for a in range(mins):
                        values[segment, w, n, a] = S.total_least[at + a]
