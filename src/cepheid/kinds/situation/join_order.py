"""Choose the join order of situations from sizes and selectivities (§5.5.4 of the thesis).

A match that one situation triggers takes one situation of every other definition. The cost is the
number of intermediate partial matches, and a binary search for each relation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cepheid.plans.situations import RELATION_COUNT, SituationConstraint

INITIAL_SELECTIVITIES = (
    *(0.445, 0.0049, 0.01, 0.0049, 0.03, 0.0049, 0.0006),
    *(0.0049, 0.03, 0.0049, 0.01, 0.0049, 0.445),
)
"""The assumed frequency of each relation, without statistics (table 5.3 of the thesis)."""

LEAST = 1e-6
"""The lower bound of selectivities, so that products do not vanish."""

INITIAL_SIZE = 64.0
"""The assumed number of situations of a definition in a window, without statistics."""

EXHAUSTIVE_MAX = 6
"""With more other definitions, the order is chosen greedily."""


def initial_selectivity(mask: int) -> float:
    """Estimate the share of pairs that a constraint keeps."""
    known = sum(INITIAL_SELECTIVITIES[n] for n in range(RELATION_COUNT) if mask >> n & 1)
    return min(1.0, max(known, LEAST))


def order_joins(
    count: int,
    constraints: Sequence[SituationConstraint],
    sizes: Sequence[float],
    selectivities: Sequence[float],
) -> tuple[tuple[int, ...], ...]:
    """Choose for each definition the order in which the others are joined to its situations.

    Parameters
    ----------
    sizes
        The number of situations of each definition in a window.
    selectivities
        The share of pairs that each constraint keeps.
    """
    share = _shares(constraints, selectivities)
    orders = []
    for first in range(count):
        rest = tuple(n for n in range(count) if n != first)
        if len(rest) <= EXHAUSTIVE_MAX:
            order = _search((first,), rest, 1.0, sizes, share, {})[1]
        else:
            order = _greedy(first, rest, sizes, share)
        orders.append(order)
    return tuple(orders)


def most_partial_matches(
    constraints: Sequence[SituationConstraint],
    orders: Sequence[Sequence[int]],
    sizes: Sequence[float],
    selectivities: Sequence[float],
) -> float:
    """Estimate the maximum number of partial matches of a trigger, before the last join."""
    share = _shares(constraints, selectivities)
    most = 0.0
    for first, order in enumerate(orders):
        matches, bound = 1.0, [first]
        for next_ in order[:-1]:
            matches *= _step(bound, next_, sizes, share)[0]
            bound.append(next_)
            most = max(most, matches)
    return most


def _shares(
    constraints: Sequence[SituationConstraint], selectivities: Sequence[float]
) -> dict[tuple[int, int], float]:
    share: dict[tuple[int, int], float] = {}
    for constraint, selectivity in zip(constraints, selectivities, strict=True):
        share[constraint.left, constraint.right] = selectivity
        share[constraint.right, constraint.left] = selectivity
    return share


def _step(
    bound: Sequence[int],
    next_: int,
    sizes: Sequence[float],
    share: dict[tuple[int, int], float],
) -> tuple[float, bool]:
    """Estimate the growth factor of partial matches by a join, and whether a constraint applies."""
    found = [share[next_, other] for other in bound if (next_, other) in share]
    return max(sizes[next_], 1.0) * math.prod(found), bool(found)


def _candidates(
    bound: tuple[int, ...],
    rest: tuple[int, ...],
    sizes: Sequence[float],
    share: dict[tuple[int, int], float],
) -> list[tuple[float, int]]:
    """List the possible next joins; cross products only if there is no other."""
    steps = [(*_step(bound, n, sizes, share), n) for n in rest]
    related = [(factor, n) for factor, connected, n in steps if connected]
    return related or [(factor, n) for factor, _, n in steps]


def _search(
    bound: tuple[int, ...],
    rest: tuple[int, ...],
    matches: float,
    sizes: Sequence[float],
    share: dict[tuple[int, int], float],
    known: dict[frozenset[int], tuple[float, tuple[int, ...]]],
) -> tuple[float, tuple[int, ...]]:
    """Find the cheapest order; the cost of the rest depends only on the set that is bound."""
    if not rest:
        return 0.0, ()
    name = frozenset(bound)
    if name not in known:
        best: tuple[float, tuple[int, ...]] = (math.inf, ())
        for factor, next_ in _candidates(bound, rest, sizes, share):
            after = matches * factor
            cost = after + 4 * matches * math.log2(max(sizes[next_], 2.0))
            others = tuple(n for n in rest if n != next_)
            later, order = _search((*bound, next_), others, after, sizes, share, known)
            best = min(best, (cost + later, (next_, *order)))
        known[name] = best
    return known[name]


def _greedy(
    first: int,
    rest: tuple[int, ...],
    sizes: Sequence[float],
    share: dict[tuple[int, int], float],
) -> tuple[int, ...]:
    bound: tuple[int, ...] = (first,)
    while rest:
        _, next_ = min(_candidates(bound, rest, sizes, share))
        bound = (*bound, next_)
        rest = tuple(n for n in rest if n != next_)
    return bound[1:]
