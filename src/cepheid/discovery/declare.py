"""Count the rules of the Declare forms: in how many cases each is at stake, and holds.

A form with two types is a question about every pair of types in every case. All pairs are
counted at once: from the first and last places of types, from the places of the next and the last
event of every type around each event, and from how often a case has a type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.cases import OTHER, Cases

PART_CELLS = 1 << 18
"""Events of a part times types: an array of places that fits into the caches."""

_END = -2
_NEVER = np.iinfo(np.int32).max

Matrix = NDArray[np.int64]


class Facts(NamedTuple):
    """Numbers of cases, by type or by pairs of types (rows: the first type, columns: the second).

    ``has`` a type, has it ``once``, or as the ``first`` of all; has ``both`` types. The others
    count the cases with at least one event that the form is about, in which it holds.
    """

    cases: int
    has: Matrix
    once: Matrix
    first: Matrix
    both: Matrix
    response: Matrix
    precedence: Matrix
    succession: Matrix
    alternate_response: Matrix
    alternate_precedence: Matrix
    alternate_succession: Matrix
    chain_response: Matrix
    chain_precedence: Matrix
    chain_succession: Matrix

    def none(self) -> Facts:
        """Return the facts of no cases."""
        return Facts(0, *(one * 0 for one in self[1:]))


def _sum(counted: list[Facts]) -> Facts:
    cases = sum(one.cases for one in counted)
    matrices: list[Any] = [np.add.reduce(parts) for parts in zip(*counted, strict=True)]
    return Facts(cases, *matrices[1:])


def count_facts(cases: Cases) -> Facts:
    """Count the facts of all types and pairs of types, in parts that bound the memory."""
    events = max(PART_CELLS // max(cases.kinds, 1), 1)
    counted = [_facts_of(part) for part in cases.parts(events)]
    return _sum(counted) if counted else _facts_of(cases)


def _facts_of(cases: Cases) -> Facts:
    kinds, count = cases.kinds, cases.size
    known = np.flatnonzero(cases.kind != OTHER)
    cell = cases.case[known] * kinds + cases.kind[known]
    times = np.bincount(cell, minlength=count * kinds).reshape(count, kinds)
    first = np.full(count * kinds, _NEVER, np.int64)
    first[cell[::-1]] = known[::-1]  # Of several, the assignment of the earliest comes last.
    last = np.full(count * kinds, -1, np.int64)
    last[cell] = known
    has = times > 0
    opening = cases.kind[cases.starts[:-1]]
    pairs = _in_pairs(has, first.reshape(has.shape), last.reshape(has.shape))
    forth = _around(cases, times, forwards=True)
    back = _around(cases, times, forwards=False)
    return Facts(
        count,
        has.sum(axis=0),
        (times == 1).sum(axis=0),
        np.bincount(opening[opening != OTHER], minlength=kinds),
        *pairs,
        forth.alternate,
        back.alternate.T,
        forth.alternate_equal,
        forth.chain,
        back.chain.T,
        forth.chain_equal,
    )


def _in_pairs(
    has: NDArray[np.bool_], first: Matrix, last: Matrix
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Count cases with both types, and those in which the first or last events are in order."""
    kinds = has.shape[1]
    both, response, precedence, succession = (np.zeros((kinds, kinds), np.int64) for _ in range(4))
    for one in range(kinds):
        rows = np.flatnonzero(has[:, one])
        other = has[rows]
        after = other & (last[rows] > last[rows, one, None])
        before = other & (first[rows] > first[rows, one, None])
        both[one] = other.sum(axis=0)
        response[one] = after.sum(axis=0)
        precedence[one] = before.sum(axis=0)
        succession[one] = (after & before).sum(axis=0)
    return both, response, precedence, succession


class _Around(NamedTuple):
    """Counts by the type of an event (rows) and a type after it, or before it (columns)."""

    alternate: Matrix
    alternate_equal: Matrix
    chain: Matrix
    chain_equal: Matrix


def _around(cases: Cases, times: Matrix, *, forwards: bool) -> _Around:
    """Count cases in which all events of a type have one of another before the next of their own.

    Where a case has as many events of both types, each of the one has its own of the other, so the
    rule holds in the other direction, too: that is the succession.
    """
    kinds, rows = cases.kinds, np.flatnonzero(cases.kind != OTHER)
    order = np.lexsort([rows, cases.case[rows], cases.kind[rows]])
    rows = rows[order]
    kind, case = cases.kind[rows], cases.case[rows]
    zero = np.zeros((kinds, kinds), np.int64)
    if not len(rows):
        return _Around(zero, zero, zero, zero)
    new = np.ones(len(rows), np.bool_)
    new[1:] = (kind[1:] != kind[:-1]) | (case[1:] != case[:-1])
    groups = np.flatnonzero(new)
    of_type = kind[groups]
    mine = times[case[groups], of_type]
    places = _places(cases, forwards=forwards)
    own = places[rows, kind]
    missing = np.logical_or.reduceat(places[rows] >= own[:, None], groups, axis=0)
    equal = times[case[groups]] == mine[:, None]
    neighbour = _neighbours(cases, forwards=forwards)[rows]
    least = np.minimum.reduceat(neighbour, groups)
    chained = (least == np.maximum.reduceat(neighbour, groups)) & (least >= 0)
    chained &= least != of_type
    pair = of_type[chained] * kinds + least[chained]
    same = times[case[groups[chained]], least[chained]] == mine[chained]
    return _Around(
        _by_type(~missing, of_type, kinds),
        _by_type(~missing & equal, of_type, kinds),
        np.bincount(pair, minlength=kinds * kinds).reshape(kinds, kinds),
        np.bincount(pair[same], minlength=kinds * kinds).reshape(kinds, kinds),
    )


def _by_type(holds: NDArray[np.bool_], of_type: Matrix, kinds: int) -> Matrix:
    out = np.zeros((kinds, kinds), np.int64)
    starts = np.searchsorted(of_type, np.arange(kinds + 1))
    for one in range(kinds):
        out[one] = holds[starts[one] : starts[one + 1]].sum(axis=0)
    np.fill_diagonal(out, 0)
    return out


def _places(cases: Cases, *, forwards: bool) -> NDArray[np.int32]:
    """Compute the distance to the next event of every type, after each event of a case.

    The distance is that to the last one before it, if the direction is backwards.
    """
    events = len(cases.kind)
    out = np.full((events, cases.kinds), _NEVER, np.int32)
    at = np.arange(events)
    for kind in range(cases.kinds):
        is_kind = cases.kind == kind
        where = np.flatnonzero(is_kind)
        if not len(where):
            continue
        up_to = np.cumsum(is_kind)
        rank = up_to if forwards else up_to - is_kind - 1
        known = (rank < len(where)) & (rank >= 0)
        found = where[rank[known]]
        mine = at[known]
        same = cases.case[found] == cases.case[mine]
        out[mine[same], kind] = np.abs(found[same] - mine[same])
    return out


def _neighbours(cases: Cases, *, forwards: bool) -> NDArray[np.int64]:
    """Return the type of the event next to each event, _END at the end of a case."""
    out = np.full(len(cases.kind), _END, np.int64)
    same = cases.case[1:] == cases.case[:-1]
    if forwards:
        out[:-1][same] = cases.kind[1:][same]
    else:
        out[1:][same] = cases.kind[:-1][same]
    return out
