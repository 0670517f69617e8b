"""Aggregate overlapping windows together: every number is a row of lanes, one for each window.

As ``prefix.py``, for sliding windows. The rows of a partition are in time order, and a *group* is
some windows that follow each other, so its rows are a range of them. One step over all lanes costs
little more than one for a single window. The places of a group are numbered densely
(``near_places.py``), so its trees are as small as it has values, and mostly stay in the cache.

    tree[index, place, part, lane]     sums over ranks (Fenwick)
    total[state, part, lane]           sums for edges without predicate
    groups[n]                          partition, number, first row, last row, slot of the result
"""

from __future__ import annotations

import math

import numpy as np

from cepheid.kernels.near_places import number_places
from cepheid.kernels.prefix import EQUAL, shifted
from cepheid.kernels.signals import let_signals_in
from cepheid.kernels.tiers import kernel

UNIT, UNIT_POWER = 2.0**-700, -700.0
"""One match, so that numbers have room for values between 2^-300 and 2^100."""
LONG_AGO = np.iinfo(np.int64).min


@kernel()
def find_groups(part_ptr, ts, begin_us, length, step, count, groups):
    """Find the groups that hold rows, partition by partition, and return their number.

    Group n holds the times from ``begin_us + n * step`` on, of this length. They are written as far
    as there is room.
    """
    found = 0
    for part in range(part_ptr.shape[0] - 1):
        low, last = part_ptr[part], part_ptr[part + 1]
        high, group = low, np.int64(0)
        while low < last:
            group = max(group, (ts[low] - begin_us - length) // step + 1)
            if group >= count:
                break
            start = begin_us + group * step
            while low < last and ts[low] < start:
                low += 1
            if low == last or ts[low] >= start + length:
                continue
            high = max(high, low)
            while high < last and ts[high] < start + length:
                high += 1
            if found < groups.shape[0]:
                groups[found, 0], groups[found, 1] = part, group
                groups[found, 2], groups[found, 3] = low, high
            found += 1
            group += 1
    return found


@kernel(inline="code")
def _add(target, at, amounts, source, width):
    """Add numbers to others; unsigned integers allow vector instructions."""
    first, second = np.uint64(at), np.uint64(source)
    for n in range(np.uint64(width)):
        target[first + n] += amounts[second + n]


@_add.interpreted
def _(target, at, amounts, source, width):
    target[at : at + width] += amounts[source : source + width]


@kernel(inline="code")
def _add_prefix(held, at, tree, first, upto, width):
    """Add all numbers at places below a bound; -1 is none."""
    while upto > 0:
        _add(held, at, tree, first + upto * width, width)
        upto &= upto - 1


@kernel(inline="code")
def _enter(tree, first, place, size, held, at, width):
    """Add numbers to the sums over a place; -1 is none."""
    node = place + 1
    while 0 < node <= size:
        _add(tree, first + node * width, held, at, width)
        node += node & -node


@kernel(inline="code")
def _multiply(target, at, factors, width):
    first = np.uint64(at)
    for n in range(np.uint64(width)):
        target[first + n] *= factors[np.uint64(n)]


@_multiply.interpreted
def _(target, at, factors, width):
    target[at : at + width] *= factors[:width]


@kernel(inline="code")
def _set_units(held, at, units, width, lanes, first_lane):
    """Begin matches in the windows from a lane on, and clear all other numbers."""
    start = np.uint64(at)
    for n in range(np.uint64(width)):
        held[start + n] = units[np.uint64(n)]
    for n in range(min(first_lane, lanes)):
        held[at + n] = 0.0


@kernel(inline="code")
def _bind(held, at, lanes, weights, weight_of, variable, row, parts):
    """Add the values of a row to all matches that end with it."""
    for a in range(1, parts):
        column = weight_of[variable, a]
        if column >= 0:
            weight = weights[column, row]
            for n in range(at, at + lanes):
                held[n + a * lanes] += weight * held[n]


@_bind.interpreted
def _(held, at, lanes, weights, weight_of, variable, row, parts):
    for a in range(1, parts):
        column = weight_of[variable, a]
        if column >= 0:
            part = at + a * lanes
            held[part : part + lanes] += weights[column, row] * held[at : at + lanes]


@kernel()
def _open_lanes(mask, units, lanes, parts, ts, base, within, slide):
    """Mark the windows of a group that hold a time; return the time when they change."""
    opened, closed = ts // slide - base, (ts - within) // slide - base
    for lane in range(lanes):
        inside = 1.0 if closed < lane <= opened else 0.0
        units[lane] = inside * UNIT
        for a in range(parts):
            mask[a * lanes + lane] = inside
    # Windows open and close at multiples of the slide, counted from both of their ends.
    return min((ts // slide + 1) * slide, ((ts - within) // slide + 1) * slide + within)


@kernel(inline="code")
def _first_lane(bars, q, row, base):
    """Compute the first lane in which no leading NOT keeps a row from beginning a match."""
    return bars[q, row] - base if bars.shape[0] else np.int64(0)


@kernel()
def _run_chain(
    D, near, bound, together, tree, results, mask, units, held, begin, end, base, within, slide,
    lanes, parts, width, size, variable,
):  # fmt: skip
    """Aggregate as ``_run_group`` does where the pattern is one variable with Kleene plus, ``S+``.

    It has no loops over states and edges, which would take most of the time.
    """
    ts, bars, weights, weight_of = D.ts, D.bars, D.weights, D.weight_of
    until, rounds, i = np.int64(LONG_AGO), 0, begin
    while i < end:
        rounds = let_signals_in(rounds)
        if ts[i] >= until:
            until = _open_lanes(mask, units, lanes, parts, ts[i], base, within, slide)
        j = i
        while j < end and (j == i or (together and ts[j] == ts[i])):
            at = (j - i) * width
            _set_units(held, at, units, width, lanes, _first_lane(bars, 0, j, base))
            upto = np.int64(bound[0, j - begin])
            if upto > 0:
                _add_prefix(held, at, tree, 0, upto, width)
                _multiply(held, at, mask, width)
            if parts > 1:
                _bind(held, at, lanes, weights, weight_of, variable, j, parts)
            _add(results, 0, held, at, width)
            j += 1
        for row in range(i, j):
            place = np.int64(near[0, row - begin])
            _enter(tree, 0, place, size, held, (row - i) * width, width)
        i = j


@kernel()
def _run_group(
    G, D, near, bound, sizes, together, tree, room, total, results, mask, units, held, begin, end,
    base, within, slide, lanes, parts, width,
):  # fmt: skip
    """Aggregate the windows of one group."""
    # Read once: reading an array out of a tuple counts a reference, and loops do it every time.
    ts, bits, bars, weights, weight_of = D.ts, D.bits, D.bars, D.weights, D.weight_of
    variable, begins, ends, lookup_of = G.variable, G.begins, G.ends, D.lookup_of
    edge_ptr, source, query_ptr, query = G.edge_ptr, G.source, G.query_ptr, G.query
    query_index, index_kind, enter_ptr, enters = G.query_index, G.index_kind, G.enter_ptr, G.enter
    states, until = variable.shape[0], np.int64(LONG_AGO)
    rounds, i = 0, begin
    while i < end:
        rounds = let_signals_in(rounds)
        if ts[i] >= until:
            until = _open_lanes(mask, units, lanes, parts, ts[i], base, within, slide)
        j = i
        while j < end and (j == i or (together and ts[j] == ts[i])):
            for q in range(states):
                if not bits[j] >> variable[q] & 1:
                    continue
                at = ((j - i) * states + q) * width
                free = _first_lane(bars, q, j, base) if begins[q] else lanes
                _set_units(held, at, units, width, lanes, free)
                for edge in range(edge_ptr[q], edge_ptr[q + 1]):
                    if query_ptr[edge] == query_ptr[edge + 1]:
                        _add(held, at, total, source[edge] * width, width)
                    for n in range(query_ptr[edge], query_ptr[edge + 1]):
                        upto, index = np.int64(bound[query[n], j - begin]), query_index[n]
                        node = index * room * width
                        if index_kind[index] != EQUAL:
                            _add_prefix(held, at, tree, node, upto, width)
                        elif upto >= 0:
                            _add(held, at, tree, node + upto * width, width)
                _multiply(held, at, mask, width)
                _bind(held, at, lanes, weights, weight_of, variable[q], j, parts)
            j += 1
        for row in range(i, j):
            for q in range(states):
                if not bits[row] >> variable[q] & 1:
                    continue
                at = ((row - i) * states + q) * width
                _add(total, q * width, held, at, width)
                if ends[q]:
                    _add(results, 0, held, at, width)
                for n in range(enter_ptr[q], enter_ptr[q + 1]):
                    index = enters[n]
                    place = np.int64(near[lookup_of[index], row - begin])
                    node = index * room * width
                    if index_kind[index] != EQUAL:
                        _enter(tree, node, place, sizes[lookup_of[index]], held, at, width)
                    elif place >= 0:
                        _add(tree, node + place * width, held, at, width)
        i = j


@kernel()
def run_lanes(
    G, D, chain, together, tree, room, total, held, near, bound, words, before, within, slide,
    first, lanes, width, numbers,
):  # fmt: skip
    """Aggregate all windows of all groups; O(log n) steps for all lanes of an event.

    Parameters
    ----------
    D
        Rows, in the order of partitions and times, and groups. ``places`` has the number of places
        of each partition; ``lookup_of`` the predicate of each index.
    chain
        Whether the pattern is one variable with Kleene plus, and its edge a prefix.
    together
        Whether rows of one time do not follow each other.
    tree, total, held, near, bound, words, before
        Buffers; trees have ``room`` places each.
    first
        The number of the first window of group 0.
    lanes, width
        The windows of a group, and the numbers of a place: those of all parts, and some that stay
        zero, because 16 fit vector instructions.
    numbers
        (slots, lanes, parts) to which the results are added.
    """
    parts, lookups = numbers.shape[2], D.place.shape[0]
    mask, units, results = np.zeros(width), np.zeros(width), np.zeros(width)
    sizes = np.zeros(lookups + 1, np.int64)
    for n in range(D.groups.shape[0]):
        let_signals_in(n)
        part, number, begin, end = D.groups[n, 0], D.groups[n, 1], D.groups[n, 2], D.groups[n, 3]
        for lookup in range(lookups):
            sizes[lookup] = number_places(
                D.place[lookup], D.upto[lookup], begin, end, D.places[lookup, part],
                D.equal[lookup], words, before, near[lookup], bound[lookup], 0,
            )  # fmt: skip
        for index in range(G.index_kind.shape[0]):
            at = index * room * width
            tree[at : at + (sizes[D.lookup_of[index]] + 1) * width] = 0.0
        results[:] = 0.0
        base = first + number * lanes
        if chain:
            _run_chain(
                D, near, bound, together, tree, results, mask, units, held, begin, end, base,
                within, slide, lanes, parts, width, sizes[0], G.variable[0],
            )  # fmt: skip
        else:
            total[:] = 0.0
            _run_group(
                G, D, near, bound, sizes, together, tree, room, total, results, mask, units, held,
                begin, end, base, within, slide, lanes, parts, width,
            )  # fmt: skip
        slot = D.groups[n, 4]
        for a in range(parts):
            for lane in range(lanes):
                numbers[slot, lane, a] += results[a * lanes + lane]


@kernel()
def number_parts(part_ptr, place, upto, equal, words, before, places):
    """Give dense numbers to the places of whole partitions; ``places`` gets how many there are."""
    for lookup in range(place.shape[0]):
        for part in range(part_ptr.shape[0] - 1):
            begin, end = part_ptr[part], part_ptr[part + 1]
            places[lookup, part] = number_places(
                place[lookup], upto[lookup], begin, end, end - begin, equal[lookup], words, before,
                place[lookup], upto[lookup], begin,
            )  # fmt: skip


@kernel()
def widen_results(numbers, wide):
    """Convert results to wide numbers; return whether the range of doubles sufficed."""
    right = True
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            for a in range(numbers.shape[2]):
                right &= math.isfinite(numbers[i, j, a])
                wide[i, j, a] = shifted(numbers[i, j, a], -UNIT_POWER)
    return right
