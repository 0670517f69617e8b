"""Skip-till-next-match for all segments at once: the interpreter's body of ``next_match.py``.

Which event takes a waiting row does not depend on numbers of matches, so it is found first, for all
pairs of rows of a segment. Then one step takes the rows of one time of every segment, and adds what
they took in the order of ``next_match.py``. Numbers are plain doubles within the bounds of
``prefix_arrays.py``. Long segments have too many pairs; they decline, as do guards and extremes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cepheid.kernels.moments import has_moments
from cepheid.kernels.prefix_arrays import COUNT_MAX, doubles_of, widened
from cepheid.kernels.watch import check_time

PAIRS_A_ROW = 200
"""Pairs of a row up to which testing them all is faster than a loop over the rows."""
NEVER = np.iinfo(np.int64).max


class _Pairs(NamedTuple):
    """All pairs of rows of a segment, the earlier and the later one."""

    prev: np.ndarray
    row: np.ndarray


class _Taken(NamedTuple):
    """The events that extend the waiting rows of a state: time, row, variable and place."""

    order: np.ndarray
    row: np.ndarray
    later: np.ndarray
    place: np.ndarray


class _Additions(NamedTuple):
    """The output of an edge: rows in the order of steps, and their predecessors."""

    row: np.ndarray
    prev: np.ndarray
    bounds: list[int]


def _pairs(D: Any) -> _Pairs:
    """List all pairs of rows of a segment with different times."""
    ptr = D.segment_ptr
    ends = np.repeat(ptr[1:], np.diff(ptr))
    rows = np.arange(ptr[0], ptr[-1])
    counts = ends - rows - 1
    prev = np.repeat(rows, counts)
    row = np.arange(len(prev)) - np.repeat(np.cumsum(counts) - counts, counts) + prev + 1
    apart = D.order[prev] < D.order[row]
    return _Pairs(prev[apart], row[apart])


def _related(G: Any, D: Any, pair: int, pairs: _Pairs) -> np.ndarray:
    """Check the predicates of two variables for pairs of rows."""
    holds = np.ones(len(pairs.row), np.bool_)
    if pair < 0:
        return holds
    for predicate in G.predicate[G.pair_ptr[pair] : G.pair_ptr[pair + 1]]:
        here, low = D.rank[predicate, pairs.prev], D.first[predicate, pairs.row]
        inside = (low <= here) & (here < D.last[predicate, pairs.row])
        holds &= (here >= 0) & (low >= 0) & (inside != G.outside[predicate])
    return holds


def _takers(G: Any, D: Any, state: int, pairs: _Pairs) -> _Taken:
    """Find for every row the first time whose rows take it from a state, and the first such row."""
    rows, variables = len(D.order), G.pair_of.shape[0]
    fitting = (D.bits | D.block) & G.allowed[state]
    found = _Taken(*(np.full(rows, NEVER) for _ in range(4)))
    for later in range(variables):
        if not G.allowed[state] >> later & 1:
            continue
        mine = (fitting[pairs.row] >> later & 1 == 1) & (
            D.bits[pairs.prev] >> G.variable[state] & 1 == 1
        )
        some = _Pairs(pairs.prev[mine], pairs.row[mine])
        holds = _related(G, D, G.pair_of[G.variable[state], later], some)
        # Pairs are in order: the first one of a row that waits is the first event that fits.
        prev, first = np.unique(some.prev[holds], return_index=True)
        row = some.row[holds][first]
        sooner = row < found.row[prev]
        prev, row = prev[sooner], row[sooner]
        predicate = G.index_predicate[G.waiting_set[state, later]]
        place = D.rank[predicate, prev] if predicate >= 0 else prev
        found.order[prev], found.row[prev] = D.order[row], row
        found.later[prev], found.place[prev] = later, place
    return found


def _additions(G: Any, D: Any, edge: int, q: int, taken: _Taken, pairs: _Pairs, steps: int) -> Any:
    """List the rows that the rows of a state add by an edge, in order."""
    mine = (D.order[pairs.row] == taken.order[pairs.prev]) & (
        D.bits[pairs.row] >> G.variable[q] & 1 == 1
    )
    some = _Pairs(pairs.prev[mine], pairs.row[mine])
    holds = _related(G, D, G.edge_pair[edge], some)
    prev, row = some.prev[holds], some.row[holds]
    keys = (taken.place[prev], taken.later[prev], taken.row[prev], row, D.order[row])
    order = np.lexsort(keys)
    prev, row = prev[order], row[order]
    bounds = np.searchsorted(D.order[row], np.arange(steps + 1)).tolist()
    return _Additions(row, prev, bounds)


def _run(G: Any, D: Any, weights: np.ndarray, parts: int) -> np.ndarray:
    """Compute the aggregates of the matches that end with every row in every state."""
    states, steps = len(G.variable), int(D.order.max(initial=-1)) + 1
    pairs = _pairs(D)
    taken = [_takers(G, D, state, pairs) for state in range(states)]
    edges = []
    for q in range(states):
        mine = range(G.edge_ptr[q], G.edge_ptr[q + 1])
        edges.append([
            (source, None if source < 0 else _additions(G, D, e, q, taken[source], pairs, steps))
            for e, source in ((e, int(G.source[e])) for e in mine)
        ])  # fmt: skip
    by_step = np.argsort(D.order, kind="stable")
    bounds = np.searchsorted(D.order[by_step], np.arange(steps + 1)).tolist()
    V = np.zeros((states, len(D.order), parts))
    bound = [D.bits >> variable & 1 == 1 for variable in G.variable]
    for step in range(steps):
        check_time()
        all_rows = by_step[bounds[step] : bounds[step + 1]]
        for q in range(states):
            rows = all_rows[bound[q][all_rows]]
            for source, added in edges[q]:
                if added is None:
                    V[q, rows, 0] += 1.0
                    continue
                here = slice(added.bounds[step], added.bounds[step + 1])
                if here.start < here.stop:
                    np.add.at(V[q], added.row[here], V[source, added.prev[here]])
            for a in range(1, parts):
                column = D.weight_of[G.variable[q], a]
                if column >= 0:
                    V[q, rows, a] += weights[column, rows] * V[q, rows, 0]
    return V


def run_next_segments(G, D, S, taken, unit, zero, p, R, RM, ended):
    """Run all segments as ``next_match.run_next_segments`` does, or decline."""
    lengths = np.diff(D.segment_ptr).astype(np.float64)
    if (lengths * lengths).sum() > 2 * PAIRS_A_ROW * lengths.sum():
        return NotImplemented
    unfit = len(G.guard) or len(G.way_guard) or not len(G.variable)
    unfit = unfit or has_moments(D.weight_of)
    if R.dtype.char != "D" or D.salt.shape[0] or D.mask.size or RM.shape[1] or unfit:
        return NotImplemented
    weights = doubles_of(D.weights)
    if weights is None:
        return NotImplemented
    V = _run(G, D, weights, R.shape[1])
    if not V[..., 0].max(initial=0.0) <= COUNT_MAX:
        return NotImplemented
    segment = np.repeat(np.arange(len(D.segment_ptr) - 1), np.diff(D.segment_ptr))
    total, last = np.zeros(R.shape), np.zeros(len(ended))
    ends = np.flatnonzero(np.diff(G.way_ptr) > 0)
    # Rows add to the result one by one, and each by its states.
    owner = np.repeat(segment, len(ends))
    found = V[ends].transpose(1, 0, 2).reshape(-1, R.shape[1])
    np.add.at(total, owner, found)
    at_end = np.repeat(D.ts == D.window[segment], len(ends))
    np.add.at(last, owner[at_end], found[at_end, 0])
    R[:], ended[:] = widened(total), widened(last)
    return None
