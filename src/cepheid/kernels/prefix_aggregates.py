"""Sums and smallest values through prefix sums over ranks; ``prefix.py`` explains how."""

from __future__ import annotations

import numpy as np
from numba import njit

from cepheid.kernels.prefix import (
    DOWN,
    LARGE,
    LEVELS_MAX,
    NO_VALUE,
    PLANE,
    PREFIX,
    SMALL,
    UNIT,
    UNIT_POWER,
    UP,
    clear,
    enter,
    look_up,
    result_of,
    room_of,
    set_levels,
    settle,
)


@njit(cache=True)
def _enter_least(tree, at, starts, levels, place, value):
    for level in range(levels):
        base = at + starts[level] + (place & ~15)
        for j in range(base + (place & 15) + 1, base + 16):
            tree[j] = min(tree[j], value)
        place >>= 4


@njit(cache=True)
def _look_up_least(tree, at, starts, levels, upto):
    least = NO_VALUE
    for level in range(levels):
        least = min(least, tree[at + starts[level] + upto])
        upto >>= 4
    return least


@njit(cache=True, inline="always")
def _gather_row(
    G, D, tree, least, room, total, total_least, starts, levels, row, q, amounts, smallest
):
    """Add up what a row may follow: all parts and planes, and the smallest values."""
    parts, planes, mins = total.shape[1], total.shape[2], total_least.shape[1]
    smallest[:] = NO_VALUE
    amounts[:] = 0.0
    for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
        if G.query_ptr[edge] == G.query_ptr[edge + 1]:
            source = G.source[edge]
            for a in range(parts):
                for plane in range(planes):
                    amounts[a, plane] += total[source, a, plane]
            for a in range(mins):
                smallest[a] = min(smallest[a], total_least[source, a])
        for n in range(G.query_ptr[edge], G.query_ptr[edge + 1]):
            upto = D.upto[G.query[n], row]
            if upto < 0:
                continue
            index = G.query_index[n]
            prefix = G.index_kind[index] == PREFIX
            for a in range(parts):
                for plane in range(planes):
                    at = ((index * parts + a) * planes + plane) * room
                    if prefix:
                        amounts[a, plane] += look_up(tree, at, starts, levels, upto)
                    else:
                        amounts[a, plane] += tree[at + upto]
            for a in range(mins):
                at = (index * mins + a) * room
                below = least[at + upto]
                if prefix:
                    below = _look_up_least(least, at, starts, levels, upto)
                smallest[a] = min(smallest[a], below)


@njit(cache=True, inline="always")
def _bind_row(G, D, row, q, amounts, smallest, held, planes_held):
    """Add what a row itself brings; return False if an amount needs one plane more."""
    parts, planes = amounts.shape
    if G.begins[q] and not (D.barred.shape[0] and D.barred[q, row]):
        amounts[0, 0] += UNIT
    count, plane = settle(amounts[0], SMALL, LARGE, UP, DOWN)
    if plane == planes:
        return False
    held[0] = count
    planes_held[0] = plane
    variable = G.variable[q]
    for a in range(1, parts):
        if D.weight_of[variable, a] >= 0:
            amounts[a, plane] += D.weights[D.weight_of[variable, a], row] * count
        part, where = settle(amounts[a], SMALL, LARGE, UP, DOWN)
        if where == planes:
            return False
        held[a] = part
        planes_held[a] = where
    if count > 0.0:
        for a in range(smallest.shape[0]):
            if D.value_of[variable, a] >= 0:
                smallest[a] = min(smallest[a], D.values[D.value_of[variable, a], row])
    return True


@njit(cache=True, inline="always")
def _enter_row(
    G, D, tree, least, room, total, total_least, starts, levels, row, q, held, planes_held,
    smallest,
):  # fmt: skip
    """Let later rows and the result see what a row holds."""
    states, parts, planes = G.variable.shape[0], total.shape[1], total.shape[2]
    mins = total_least.shape[1]
    for a in range(parts):
        total[q, a, planes_held[a]] += held[a]
        if G.ends[q]:
            total[states, a, planes_held[a]] += held[a]
    for a in range(mins):
        total_least[q, a] = min(total_least[q, a], smallest[a])
        if G.ends[q]:
            total_least[states, a] = min(total_least[states, a], smallest[a])
    for n in range(G.enter_ptr[q], G.enter_ptr[q + 1]):
        index = G.enter[n]
        place = D.place[index, row]
        if place < 0:
            continue
        prefix = G.index_kind[index] == PREFIX
        for a in range(parts):
            at = ((index * parts + a) * planes + planes_held[a]) * room
            if prefix:
                enter(tree, at, starts, levels, place, held[a])
            else:
                tree[at + place] += held[a]
        for a in range(mins):
            at = (index * mins + a) * room
            if prefix:
                _enter_least(least, at, starts, levels, place, smallest[a])
            else:
                least[at + place] = min(least[at + place], smallest[a])


@njit(cache=True)
def aggregate_prefix(
    G, D, tree, least, room, total, total_least, held, planes_held, held_least, amounts, starts,
    begin, end, first,
):  # fmt: skip
    """Aggregate a segment as ``count_prefix`` does, with sums and smallest values.

    tree[index, part, plane, node] (flat), total[state, part, plane]; a part has planes of its own.
    """
    levels = set_levels(end - begin, starts)
    states = G.variable.shape[0]
    i = first
    while i < end:
        j = i + 1
        while j < end and D.order[j] == D.order[i]:
            j += 1
        for row in range(i, j):
            for q in range(states):
                if not D.bits[row] >> G.variable[q] & 1:
                    continue
                smallest = held_least[row - i, q]
                _gather_row(
                    G, D, tree, least, room, total, total_least, starts, levels, row, q, amounts,
                    smallest,
                )  # fmt: skip
                mine, planes = held[row - i, q], planes_held[row - i, q]
                if not _bind_row(G, D, row, q, amounts, smallest, mine, planes):
                    return i
        for row in range(i, j):
            for q in range(states):
                if D.bits[row] >> G.variable[q] & 1:
                    _enter_row(
                        G, D, tree, least, room, total, total_least, starts, levels, row, q,
                        held[row - i, q], planes_held[row - i, q], held_least[row - i, q],
                    )  # fmt: skip
        i = j
    return end


@njit(cache=True)
def run_aggregates(
    G, D, tree, least, room, total, total_least, held, planes_held, held_least, segment, first,
    numbers, values,
):  # fmt: skip
    """Aggregate segments as ``run_count`` does."""
    states, parts, mins = G.variable.shape[0], numbers.shape[1], values.shape[1]
    indexes, planes = G.index_kind.shape[0], total.shape[2]
    amounts, starts = np.zeros((parts, planes)), np.zeros(LEVELS_MAX + 1, np.int64)
    count = D.segment_ptr.shape[0] - 1
    while segment < count:
        begin, end = D.segment_ptr[segment], D.segment_ptr[segment + 1]
        if first <= begin:
            used = room_of(end - begin)
            clear(tree, indexes * parts * planes, room, used, 0.0)
            clear(least, indexes * mins, room, used, NO_VALUE)
            total[:] = 0.0
            total_least[:] = NO_VALUE
            first = begin
        first = aggregate_prefix(
            G, D, tree, least, room, total, total_least, held, planes_held, held_least, amounts,
            starts, begin, end, first,
        )  # fmt: skip
        if first < end:
            return segment, first
        for a in range(parts):
            numbers[segment, a] = result_of(total[states, a], PLANE, UNIT_POWER)
        for a in range(mins):
            values[segment, a] = total_least[states, a]
        segment += 1
    return count, 0
