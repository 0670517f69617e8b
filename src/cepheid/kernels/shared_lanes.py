"""Aggregate queries with common edge predicates together: every number is a row of lanes.

As ``prefix.py``, for many queries. The states of all queries are merged to *nodes*; nodes that bind
the same events and look up the same earlier ones form a *bundle*, in which each is a lane. The
events of a bundle are ranked once, and a row of lanes is looked up and entered at once: its
additions are vector instructions. Overlapping windows are lanes too, as in ``lanes.py``.

    total, entry [bundle, window, lane, part]     sums of all rows so far; what a new row begins with
    tree [index, place, window, lane, part]       sums over ranks (Fenwick)

Edges without a predicate add to ``entry`` of a larger bundle (*push*), or are read from ``total``
of one (*pull*), so that a row does not pay for edges of others. All arrays are flat.

Sources: Poppe et al., "HAMLET", SIGMOD 2021, where queries share the propagation inside a Kleene
part, and what enters the part differs; "GRETA", VLDB 2017.
"""

from __future__ import annotations

import numpy as np

from cepheid.kernels.lanes import UNIT
from cepheid.kernels.prefix import EQUAL
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
def _look_up(tree, first, upto, stride, skip, equal, amounts, at, width):
    """Add a prefix of an index to a row of lanes, or for equality a single place."""
    if equal:
        _add(amounts, at, tree, first + upto * stride + skip, width)
        return
    while upto > 0:
        _add(amounts, at, tree, first + upto * stride + skip, width)
        upto &= upto - 1


@kernel(inline="code")
def _look_up_least(tree, first, upto, stride, skip, equal, values, at, width):
    """Lower a row of lanes to a prefix of an index, or for equality to a single place."""
    if equal:
        _lower(values, at, tree, first + upto * stride + skip, width)
        return
    while upto > 0:
        _lower(values, at, tree, first + upto * stride + skip, width)
        upto &= upto - 1


@kernel(inline="code")
def _enter(tree, first, place, size, stride, skip, equal, amounts, at, width):
    """Add a row of lanes to an index."""
    if equal:
        _add(tree, first + place * stride + skip, amounts, at, width)
        return
    node = place + 1
    while node <= size:
        _add(tree, first + node * stride + skip, amounts, at, width)
        node += node & -node


@kernel(inline="code")
def _enter_least(tree, first, place, size, stride, skip, equal, values, at, width):
    """Lower an index to a row of lanes."""
    if equal:
        _lower(tree, first + place * stride + skip, values, at, width)
        return
    node = place + 1
    while node <= size:
        _lower(tree, first + node * stride + skip, values, at, width)
        node += node & -node


@kernel()
def _gather(G, D, S, row, b, at, low, high, windows, parts, place_room):
    """Add up what a row may follow, in all lanes of a bundle and the windows [low, high)."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base, step = first * windows * parts, lanes * parts
    skip, width = low * step, (high - low) * step
    held, total, entry, tree, room = S.held, S.total, S.entry, S.tree, S.room
    here = at + base + skip
    for n in range(width):
        held[here + n] = entry[base + skip + n]
    for n in range(G.pull_ptr[b], G.pull_ptr[b + 1]):
        source, lane = G.pull_from[n], G.pull_to[n]
        other = G.bundle[source]
        start, many = G.first[other], G.first[other + 1] - G.first[other]
        for w in range(low, high):
            target = at + base + (w * lanes + lane) * parts
            origin = start * windows * parts + (w * many + source - start) * parts
            for a in range(parts):
                held[target + a] += total[origin + a]
    for ask in range(G.ask_ptr[b], G.ask_ptr[b + 1]):
        index = G.ask_index[ask]
        upto = np.int64(D.upto[G.ask_lookup[ask], row])
        if upto < 0:
            continue
        equal, other = G.index_kind[index] == EQUAL, G.index_bundle[index]
        many = (G.first[other + 1] - G.first[other]) * parts
        tree_at = G.index_at[index] * place_room * windows * parts
        if G.ask_plain[ask]:
            _look_up(tree, tree_at, upto, windows * many, skip, equal, held, here, width)
            continue
        for n in range(low * many, high * many):
            room[n] = 0.0
        _look_up(
            tree, tree_at, upto, windows * many, low * many, equal, room, low * many,
            (high - low) * many,
        )  # fmt: skip
        for n in range(G.pair_ptr[ask], G.pair_ptr[ask + 1]):
            for w in range(low, high):
                target = at + base + (w * lanes + G.pair_to[n]) * parts
                origin = w * many + G.pair_from[n] * parts
                for a in range(parts):
                    held[target + a] += room[origin + a]


@kernel()
def _bind(G, D, S, row, b, at, low, high, windows, parts, summed):
    """Add a row's own values to the sums of all matches that end with it."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base = at + first * windows * parts
    held = S.held
    for a in range(1, summed):
        weight = D.weights[a - 1, row]
        for w in range(low, high):
            for lane in range(lanes):
                node = base + (w * lanes + lane) * parts
                held[node + a] += weight * G.adds[first + lane, a] * held[node]


@kernel()
def _bind_tail(G, D, S, b, at, low, high, windows, parts, segment, ts):
    """Begin the matches that are counted apart: those whose last event is the window's last one."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base = at + first * windows * parts
    for w in range(low, high):
        if ts == D.high[segment, w]:
            for lane in range(lanes):
                node = base + (w * lanes + lane) * parts
                S.held[node + parts - 1] += G.begins[first + lane] * UNIT


@kernel()
def _gather_least(G, D, S, row, b, at, least_at, low, high, windows, parts, mins, place_room):
    """Find the least values of the matches that a row ends; see ``_gather``."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base, step = first * windows * mins, lanes * mins
    skip, width = low * step, (high - low) * step
    held, total, entry, tree, room = S.least, S.total_least, S.entry_least, S.tree_least, S.room_least
    here = least_at + base + skip
    for n in range(width):
        held[here + n] = entry[base + skip + n]
    for n in range(G.pull_ptr[b], G.pull_ptr[b + 1]):
        source, lane = G.pull_from[n], G.pull_to[n]
        other = G.bundle[source]
        start, many = G.first[other], G.first[other + 1] - G.first[other]
        for w in range(low, high):
            target = least_at + base + (w * lanes + lane) * mins
            origin = start * windows * mins + (w * many + source - start) * mins
            for a in range(mins):
                held[target + a] = min(held[target + a], total[origin + a])
    for ask in range(G.ask_ptr[b], G.ask_ptr[b + 1]):
        index = G.ask_index[ask]
        upto = np.int64(D.upto[G.ask_lookup[ask], row])
        if upto < 0:
            continue
        equal, other = G.index_kind[index] == EQUAL, G.index_bundle[index]
        many = (G.first[other + 1] - G.first[other]) * mins
        tree_at = G.index_at[index] * place_room * windows * mins
        for n in range(low * many, high * many):
            room[n] = NO_VALUE
        _look_up_least(
            tree, tree_at, upto, windows * many, low * many, equal, room, low * many,
            (high - low) * many,
        )  # fmt: skip
        for n in range(G.pair_ptr[ask], G.pair_ptr[ask + 1]):
            for w in range(low, high):
                target = least_at + base + (w * lanes + G.pair_to[n]) * mins
                origin = w * many + G.pair_from[n] * mins
                for a in range(mins):
                    held[target + a] = min(held[target + a], room[origin + a])
    counts = at + first * windows * parts
    for w in range(low, high):
        for lane in range(lanes):
            if S.held[counts + (w * lanes + lane) * parts] <= 0.0:
                continue
            target = least_at + base + (w * lanes + lane) * mins
            for a in range(mins):
                if G.takes[first + lane, a]:
                    held[target + a] = min(held[target + a], D.values[a, row])


@kernel()
def _commit(G, D, S, row, b, at, low, high, windows, parts, place_room, size):
    """Make a row visible to later rows and to the results."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base, step = first * windows * parts, lanes * parts
    skip, width = low * step, (high - low) * step
    held, entry, tree = S.held, S.entry, S.tree
    _add(S.total, base + skip, held, at + base + skip, width)
    for n in range(G.push_ptr[b], G.push_ptr[b + 1]):
        target = G.push_to[n]
        other = G.bundle[target]
        start, many = G.first[other], G.first[other + 1] - G.first[other]
        for w in range(low, high):
            origin = at + base + (w * lanes + G.push_from[n]) * parts
            into = start * windows * parts + (w * many + target - start) * parts
            for a in range(parts):
                entry[into + a] += held[origin + a]
    for n in range(G.enter_ptr[b], G.enter_ptr[b + 1]):
        index = G.enter_index[n]
        place = np.int64(D.place[G.index_lookup[index], row])
        if place >= 0:
            tree_at = G.index_at[index] * place_room * windows * parts
            _enter(
                tree, tree_at, place, size, windows * step, skip, G.index_kind[index] == EQUAL,
                held, at + base + skip, width,
            )  # fmt: skip


@kernel()
def _commit_least(G, D, S, row, b, at, low, high, windows, mins, place_room, size):
    """Make the least values of a row visible; see ``_commit``."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base, step = first * windows * mins, lanes * mins
    skip, width = low * step, (high - low) * step
    held, entry, tree = S.least, S.entry_least, S.tree_least
    _lower(S.total_least, base + skip, held, at + base + skip, width)
    for n in range(G.push_ptr[b], G.push_ptr[b + 1]):
        target = G.push_to[n]
        other = G.bundle[target]
        start, many = G.first[other], G.first[other + 1] - G.first[other]
        for w in range(low, high):
            origin = at + base + (w * lanes + G.push_from[n]) * mins
            into = start * windows * mins + (w * many + target - start) * mins
            for a in range(mins):
                entry[into + a] = min(entry[into + a], held[origin + a])
    for n in range(G.enter_ptr[b], G.enter_ptr[b + 1]):
        index = G.enter_index[n]
        place = np.int64(D.place[G.index_lookup[index], row])
        if place >= 0:
            tree_at = G.index_at[index] * place_room * windows * mins
            _enter_least(
                tree, tree_at, place, size, windows * step, skip, G.index_kind[index] == EQUAL,
                held, at + base + skip, width,
            )  # fmt: skip


@kernel()
def _count_ended(G, D, S, b, at, low, high, windows, parts, segment, ts, ended):
    """Count the matches that end with the last event of a window."""
    first, lanes = G.first[b], G.first[b + 1] - G.first[b]
    base = at + first * windows * parts
    for w in range(low, high):
        if ts == D.high[segment, w]:
            for lane in range(lanes):
                ended[segment, w, first + lane] += S.held[base + (w * lanes + lane) * parts]


@kernel()
def _open(G, S, size, windows, parts, mins, place_room, tailed):
    """Reset the previous segment: nothing has come, and matches may begin."""
    S.total[:] = 0.0
    S.entry[:] = 0.0
    S.total_least[:] = NO_VALUE
    S.entry_least[:] = NO_VALUE
    for index in range(G.index_at.shape[0]):
        other = G.index_bundle[index]
        stride = (G.first[other + 1] - G.first[other]) * windows
        at = G.index_at[index] * place_room * windows
        S.tree[at * parts : (at + (size + 1) * stride) * parts] = 0.0
        S.tree_least[at * mins : (at + (size + 1) * stride) * mins] = NO_VALUE
    for b in range(G.first.shape[0] - 1):
        first, lanes = G.first[b], G.first[b + 1] - G.first[b]
        for w in range(windows):
            for lane in range(lanes):
                node = first * windows * parts + (w * lanes + lane) * parts
                S.entry[node] = G.begins[first + lane] * UNIT


@kernel()
def _run_segment(G, D, S, segment, begin, end, windows, parts, mins, place_room, tailed, ended):
    """Aggregate the windows of one segment; rows of one time see only the rows before that time."""
    size, nodes = end - begin, G.bundle.shape[0]
    summed = parts - 1 if tailed else parts
    order, kinds, times = D.order, D.kinds, D.ts
    kind_ptr, kind_bundle = G.kind_ptr, G.kind_bundle
    i, rounds = begin, 0
    while i < end:
        rounds = let_signals_in(rounds)
        j, ts = i + 1, times[i]
        while j < end and order[j] == order[i]:
            j += 1
        # Windows that follow each other begin and end one after the other.
        low, high = 0, windows
        while low < windows and D.high[segment, low] < ts:
            low += 1
        while high > low and D.low[segment, high - 1] >= ts:
            high -= 1
        if low == high:
            i = j
            continue
        for row in range(i, j):
            at, least_at = (row - i) * nodes * windows * parts, (row - i) * nodes * windows * mins
            for n in range(kind_ptr[kinds[row]], kind_ptr[kinds[row] + 1]):
                b = kind_bundle[n]
                _gather(G, D, S, row, b, at, low, high, windows, parts, place_room)
                if tailed:
                    _bind_tail(G, D, S, b, at, low, high, windows, parts, segment, ts)
                if summed > 1:
                    _bind(G, D, S, row, b, at, low, high, windows, parts, summed)
                if mins:
                    _gather_least(
                        G, D, S, row, b, at, least_at, low, high, windows, parts, mins, place_room
                    )
                if ended.shape[0]:
                    _count_ended(G, D, S, b, at, low, high, windows, parts, segment, ts, ended)
        for row in range(i, j):
            at, least_at = (row - i) * nodes * windows * parts, (row - i) * nodes * windows * mins
            for n in range(kind_ptr[kinds[row]], kind_ptr[kinds[row] + 1]):
                b = kind_bundle[n]
                _commit(G, D, S, row, b, at, low, high, windows, parts, place_room, size)
                if mins:
                    _commit_least(
                        G, D, S, row, b, least_at, low, high, windows, mins, place_room, size
                    )
        i = j


@kernel()
def run_shared(G, D, S, place_room, tailed, numbers, values, ended):
    """Aggregate all windows of all segments, node by node.

    Parameters
    ----------
    G, D, S
        Tables of nodes and bundles, rows and segments, and buffers.
    place_room
        The places of an index.
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
        _open(G, S, end - begin, windows, parts, mins, place_room, tailed)
        _run_segment(
            G, D, S, segment, begin, end, windows, parts, mins, place_room, tailed, ended
        )
        for b in range(G.first.shape[0] - 1):
            first, lanes = G.first[b], G.first[b + 1] - G.first[b]
            for w in range(windows):
                for lane in range(lanes):
                    node = first * windows + w * lanes + lane
                    for a in range(parts):
                        numbers[segment, w, first + lane, a] = S.total[node * parts + a]
                    for a in range(mins):
                        values[segment, w, first + lane, a] = S.total_least[node * mins + a]
