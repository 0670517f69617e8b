"""Aggregate all segments at once with whole-array operations: the interpreter's ``prefix_wide.py``.

Segments do not see each other, so one step takes the rows of one time of every segment. The trees
and the order of the additions to each of their numbers are those of ``prefix_wide.py``. The numbers
are plain doubles. They equal wide numbers, which are doubles times powers of two, as long as no
number leaves the range of doubles and no two numbers are so far apart that a wide sum leaves one of
them out; what exceeds the bounds below declines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cepheid.kernels.prefix import FANOUT, LOW, NO_VALUE, PREFIX, RIGHT, SHIFT
from cepheid.kernels.ring import SHRINK, STEP
from cepheid.kernels.watch import check_time

WEIGHT_MIN, WEIGHT_MAX = 2.0**-300, 2.0**100
COUNT_MAX = 2.0**350
"""Sums of sums of 2^25 such products stay below 2^512, and their differences above 2^-400."""

EVENTS_A_STEP = 6
"""Events that a step must have on average to be faster than a loop over them."""

_MASK = RIGHT.reshape(FANOUT, FANOUT)
_CHILDREN = np.arange(FANOUT)


def are_usual(weights: np.ndarray, most: float = WEIGHT_MAX) -> bool:
    """Check whether plain doubles can replace wide numbers: no NaN, nothing huge or tiny."""
    sizes = np.abs(weights[weights != 0.0])
    return bool(((sizes >= WEIGHT_MIN) & (sizes <= most)).all())


def widened(doubles: np.ndarray) -> np.ndarray:
    """Convert finite doubles to wide numbers, as ``ring.widen`` does."""
    powers = (np.frexp(doubles)[1] - 1) // int(STEP) * int(STEP)
    wide = np.zeros(doubles.shape, np.complex128)
    wide.real = np.ldexp(doubles, -powers)
    wide.imag = np.where(doubles != 0.0, powers, 0)
    return wide


def doubles_of(numbers: np.ndarray, most: float = WEIGHT_MAX) -> np.ndarray | None:
    """Convert wide numbers to plain doubles, if these are within the bounds."""
    powers = numbers.imag
    if ((powers != 0.0) & (powers != -STEP)).any():
        return None
    doubles = np.where(powers < 0.0, numbers.real * SHRINK, numbers.real)
    return doubles if are_usual(doubles, most) else None


class _Trees:
    """The shapes of the trees of all segments, which lie one after the other."""

    def __init__(self, sizes: np.ndarray) -> None:
        width, start = sizes + 1, np.zeros_like(sizes)
        self.starts, self.depth = [], np.zeros_like(sizes)
        open_ = np.ones(len(sizes), np.bool_)
        while open_.any():
            self.starts.append(start)
            self.depth += open_
            width = -(-width // FANOUT)
            start = start + np.where(open_, width * FANOUT, 0)
            open_ = open_ & (width > 1)
        self.offset = np.cumsum(start) - start
        self.nothing = int(start.sum())
        """The block that stays empty; the one after it takes what belongs nowhere."""
        self.room = self.nothing + 2 * FANOUT

    def reads(self, segment: np.ndarray, upto: np.ndarray, *, prefix: bool) -> list[np.ndarray]:
        """Compute the numbers that each row looks up, level by level."""
        found = []
        for level, start in enumerate(self.starts if prefix else self.starts[:1]):
            at = self.offset[segment] + start[segment] + (upto >> SHIFT * level)
            there = (upto >= 0) & (level < self.depth[segment])
            found.append(np.where(there, at, self.nothing))
        return found

    def writes(self, segment: np.ndarray, place: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Compute the blocks that each row enters, level by level, and its place in them."""
        found = []
        for level, start in enumerate(self.starts):
            here = place >> SHIFT * level
            at = self.offset[segment] + start[segment] + (here & ~LOW)
            there = (place >= 0) & (level < self.depth[segment])
            found.append((np.where(there, at, self.nothing + FANOUT), here & LOW))
        return found


class _State:
    """The rows that a state binds, in the order of the steps, and what they read and write."""

    def __init__(self, G: Any, D: Any, trees: _Trees, q: int, first: int) -> None:
        ptr = D.segment_ptr[first:]
        begin, end = ptr[0], ptr[-1]
        variable = G.variable[q]
        rows = begin + np.flatnonzero(D.bits[begin:end] >> variable & 1)
        self.rows = rows = rows[np.argsort(D.order[rows], kind="stable")]
        self.segment = np.searchsorted(ptr, rows, "right") - 1
        steps = int(D.order[begin:end].max(initial=-1)) + 1
        self.bounds = np.searchsorted(D.order[rows], np.arange(steps + 1)).tolist()
        tied = np.zeros(steps, np.bool_)
        same = self.segment[1:] == self.segment[:-1]
        tied[D.order[rows][1:][same & (np.diff(D.order[rows]) == 0)]] = True
        self.tied = tied.tolist()
        self.ends = bool(G.ends[q])
        barred = D.barred[q, rows] if D.barred.shape[0] else np.zeros(len(rows), np.bool_)
        self.units = np.where(barred, 0.0, 1.0) if G.begins[q] else np.zeros(len(rows))
        weights, values = enumerate(D.weight_of[variable]), enumerate(D.value_of[variable])
        self.weights = [(a, D.weights[c, rows]) for a, c in weights if a and c >= 0]
        self.values = [(a, D.values[c, rows]) for a, c in values if c >= 0]
        self.asks: list[tuple[int, int, list[np.ndarray]]] = []
        for edge in range(G.edge_ptr[q], G.edge_ptr[q + 1]):
            low, high = G.query_ptr[edge], G.query_ptr[edge + 1]
            if low == high:
                self.asks.append((int(G.source[edge]), -1, []))
            for n in range(low, high):
                index, upto = int(G.query_index[n]), D.upto[G.query[n], rows]
                prefix = G.index_kind[index] == PREFIX
                self.asks.append((-1, index, trees.reads(self.segment, upto, prefix=prefix)))
        self.enters: list[tuple[int, bool, list[tuple[np.ndarray, np.ndarray]]]] = []
        for index in G.enter[G.enter_ptr[q] : G.enter_ptr[q + 1]].tolist():
            place, prefix = D.place[index, rows], bool(G.index_kind[index] == PREFIX)
            if prefix:
                self.enters.append((index, True, trees.writes(self.segment, place)))
            else:
                at = trees.offset[self.segment] + place
                at = np.where(place >= 0, at, trees.nothing + FANOUT)
                self.enters.append((index, False, [(at, at)]))


class _Run:
    """The sums of all segments."""

    def __init__(self, G: Any, room: int, segments: int, parts: int, mins: int) -> None:
        indexes, states = len(G.index_kind), len(G.variable)
        self.cells = np.zeros((indexes, room, parts))
        self.least = np.full((indexes, room, mins), NO_VALUE, np.int64)
        self.sums = np.zeros((states, segments, parts))
        self.smallest = np.full((states, segments, mins), NO_VALUE, np.int64)

    def gather(self, state: _State, here: slice, amounts: np.ndarray, values: np.ndarray) -> None:
        """Compute the aggregates of the matches that end with some rows, of one time each."""
        for source, index, reads in state.asks:
            if index < 0:
                amounts += self.sums[source][state.segment[here]]
                np.minimum(values, self.smallest[source][state.segment[here]], out=values)
            for at in reads:
                amounts += self.cells[index][at[here]]
                if values.shape[1]:
                    np.minimum(values, self.least[index][at[here]], out=values)
        count = amounts[:, 0]
        count += state.units[here]
        for a, weights in state.weights:
            amounts[:, a] += weights[here] * count
        for a, own in state.values:
            values[:, a] = np.where(count > 0.0, np.minimum(values[:, a], own[here]), values[:, a])

    def enter(
        self, state: _State, q: int, here: slice, amounts: np.ndarray, values: np.ndarray, *,
        tied: bool,
    ) -> None:  # fmt: skip
        """Make rows visible to later ones; rows of one time and segment enter one by one."""
        segment = state.segment[here]
        _add(self.sums[q], segment, amounts, tied=tied)
        np.minimum.at(self.smallest[q], segment, values)
        for index, prefix, levels in state.enters:
            for at, place in levels:
                if not prefix:
                    _add(self.cells[index], at[here], amounts, tied=tied)
                    np.minimum.at(self.least[index], at[here], values)
                    continue
                right, blocks = _MASK[place[here]], at[here][:, None] + _CHILDREN
                more = amounts[:, None, :] * right[:, :, None]
                _add(self.cells[index], blocks, more, tied=tied)
                if values.shape[1]:
                    low = np.where(right[:, :, None] > 0.0, values[:, None, :], NO_VALUE)
                    np.minimum.at(self.least[index], blocks, low)


def _add(to: np.ndarray, at: np.ndarray, amounts: np.ndarray, *, tied: bool) -> None:
    """Add amounts to some numbers, in order where a number can get several."""
    if tied:
        np.add.at(to, at, amounts)
    else:
        to[at] += amounts


def _run(G, D, first, parts, mins):
    """Aggregate all segments from one on; return the states, and what each of their rows holds."""
    trees = _Trees(np.diff(D.segment_ptr[first:]))
    states = [_State(G, D, trees, q, first) for q in range(len(G.variable))]
    run = _Run(G, trees.room, len(D.segment_ptr) - 1 - first, parts, mins)
    amounts = [np.zeros((len(state.rows), parts)) for state in states]
    values = [np.full((len(state.rows), mins), NO_VALUE, np.int64) for state in states]
    for step in range(len(states[0].tied) if states else 0):
        check_time()
        now = []
        for q, state in enumerate(states):
            here = slice(state.bounds[step], state.bounds[step + 1])
            if here.start < here.stop:
                run.gather(state, here, amounts[q][here], values[q][here])
                now.append((state, q, here))
        for state, q, here in now:
            tied = state.tied[step]
            run.enter(state, q, here, amounts[q][here], values[q][here], tied=tied)
    return states, amounts, values


def aggregate_all(G, D, first, numbers, values, *, plain_order):
    """Aggregate all segments from one on; return False if their numbers leave the bounds.

    ``plain_order`` asks for the order of ``run_count``, which adds up each look-up on its own. Sums
    of whole numbers below 2^53 are the same in any order.
    """
    begin, end = D.segment_ptr[first], D.segment_ptr[-1]
    if (D.order[begin:end].max(initial=-1) + 1) * EVENTS_A_STEP > end - begin:
        return False
    parts, mins = numbers.shape[1], values.shape[1]
    if not are_usual(D.weights[:, begin:end]):
        return False
    states, amounts, found = _run(G, D, first, parts, mins)
    most = max((here[:, 0].max(initial=0.0) for here in amounts), default=0.0)
    several = any(len(state.asks) > 1 for state in states)
    if not most <= (2.0**53 if plain_order and several else COUNT_MAX):
        return False
    ending = [q for q, state in enumerate(states) if state.ends]
    total = np.zeros((len(D.segment_ptr) - 1 - first, parts))
    if ending:
        # Rows add to the result by their times, then one by one, then by states.
        rows = np.concatenate([states[q].rows for q in ending])
        order = np.lexsort((rows, D.order[rows]))
        segment = np.concatenate([states[q].segment for q in ending])[order]
        np.add.at(total, segment, np.concatenate([amounts[q] for q in ending])[order])
        np.minimum.at(values[first:], segment, np.concatenate([found[q] for q in ending])[order])
    some = total != 0.0
    numbers[first:][some] = widened(total[some])
    return True


def run_count(G, D, chain, tree, room, total, held, planes_held, segment, first, numbers):
    """Count all segments as ``prefix.run_count`` does, or decline."""
    no_values = np.zeros((len(numbers), 0), np.int64)
    if segment or first or not aggregate_all(G, D, 0, numbers, no_values, plain_order=True):
        return NotImplemented
    return len(numbers), 0


def run_wide(
    G, D, chain, tree, least, room, sums, smallest, held, held_least, first, numbers, values, kept
):
    """Aggregate all segments as ``prefix_wide.run_wide`` does, or decline."""
    if len(kept) or not aggregate_all(G, D, first, numbers, values, plain_order=False):
        return NotImplemented
    return None
