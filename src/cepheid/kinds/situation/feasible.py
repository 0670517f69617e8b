"""Check whether relations between situations are satisfiable together.

A relation orders four endpoints, a duration bounds the distance of two of them. Together these are
difference constraints, which are satisfiable unless a cycle of them has a negative sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from cepheid.plans.situations import NUMBERS, SituationDefinition, relations_of

FINISHES, FINISHED_BY = 9, 3
"""The numbers of the two relations whose names some books swap."""

STEPS_MAX = 500_000
"""Bounds that are checked for one query; beyond, everything is assumed to be possible."""

UNIT = 1000
"""Times are scaled by a thousand, so that "less" means at least one unit less."""

Pair = tuple[int, int]
Bound = tuple[int, int, int]
"""The maximum distance of two endpoints: (later, earlier, distance)."""

# The endpoints of A and B in time order; those of the same time are grouped.
_ORDERS = (
    "a A b B", "a Ab B", "a b A B", "a b AB", "a b B A", "ab A B", "ab AB", "ab B A", "b a A B",
    "b a AB", "b a B A", "b Ba A", "b B a A",
)  # fmt: skip


class Patience:
    """The remaining effort for the checks of one query."""

    def __init__(self) -> None:
        self.left = STEPS_MAX


def is_possible(
    definitions: Sequence[SituationDefinition],
    masks: Mapping[Pair, int],
    within: int | None,
    patience: Patience,
) -> bool:
    """Check whether some situations satisfy all constraints; True if the check takes too long.

    Parameters
    ----------
    masks
        The relations that are allowed between two definitions, by their numbers.
    within
        The maximum distance from the first start to the last end, in microseconds.
    patience
        Shared by all checks of one query.
    """
    bounds: list[Bound] = []
    for number, definition in enumerate(definitions):
        start, end = 2 * number, 2 * number + 1
        bounds.append((start, end, -max(definition.at_least * UNIT, 1)))
        if definition.at_most is not None:
            bounds.append((end, start, definition.at_most * UNIT))
    if within is not None:
        ends = range(len(definitions))
        bounds += [(2 * b + 1, 2 * a, within * UNIT) for a in ends for b in ends]
    # Pairs with few alternatives first: this prunes the search early.
    pairs = sorted(masks, key=lambda pair: masks[pair].bit_count())

    def search(depth: int, known: list[Bound]) -> bool:
        if not _holds(2 * len(definitions), known, patience):
            return False
        if depth == len(pairs) or patience.left < 0:
            return True
        pair = pairs[depth]
        return any(
            search(depth + 1, [*known, *_bounds_of(pair, NUMBERS[relation])])
            for relation in relations_of(masks[pair])
        )

    return search(0, bounds)


def _bounds_of(pair: Pair, relation: int) -> list[Bound]:
    """Convert a relation to bounds on the four endpoints."""
    places = {"a": 2 * pair[0], "A": 2 * pair[0] + 1, "b": 2 * pair[1], "B": 2 * pair[1] + 1}
    bounds: list[Bound] = []
    moments = [[places[end] for end in moment] for moment in _ORDERS[relation].split()]
    for moment in moments:
        bounds += [(one, other, 0) for one in moment for other in moment if one != other]
    for moment, following in pairwise(moments):
        bounds.append((moment[0], following[0], -1))
    return bounds


def _holds(count: int, bounds: list[Bound], patience: Patience) -> bool:
    """Check whether all bounds are satisfiable (Bellman-Ford: no cycle has a negative sum)."""
    times = [0] * count
    for _ in range(count + 1):
        moved = False
        patience.left -= len(bounds)
        if patience.left < 0:
            return True
        for later, earlier, distance in bounds:
            if times[later] > times[earlier] + distance:
                times[later] = times[earlier] + distance
                moved = True
        if not moved:
            return True
    return False
