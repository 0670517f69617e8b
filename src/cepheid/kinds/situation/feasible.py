"""Can relations between situations hold together? Bounds between their ends in, yes or no out.

A relation says which of four ends comes first, a duration how far two of them are apart. Together
these are bounds on differences, which some times satisfy unless a cycle of them adds up to less
than nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from cepheid.plans.situations import NUMBERS, SituationDefinition, relations_of

FINISHES, FINISHED_BY = 9, 3
"""The numbers of the two relations that some books call by each other's name."""

STEPS_MAX = 500_000
"""Bounds that are looked at for one query; then everything is taken to be possible."""

UNIT = 1000
"""Times are counted in thousandths of a microsecond, so that less is at least one less."""

Pair = tuple[int, int]
Bound = tuple[int, int, int]
"""The one end is at most so much later than the other: (later, earlier, distance)."""

# The ends of A and B in the order of time, those at the same time together.
_ORDERS = (
    "a A b B", "a Ab B", "a b A B", "a b AB", "a b B A", "ab A B", "ab AB", "ab B A", "b a A B",
    "b a AB", "b a B A", "b Ba A", "b B a A",
)  # fmt: skip


class Patience:
    """How much longer questions about one query may take."""

    def __init__(self) -> None:
        self.left = STEPS_MAX


def is_possible(
    definitions: Sequence[SituationDefinition],
    masks: Mapping[Pair, int],
    within: int | None,
    patience: Patience,
) -> bool:
    """Return whether some situations satisfy all constraints; True if that takes too long to say.

    Parameters
    ----------
    masks
        The relations that are allowed between two definitions, by their numbers.
    within
        How far the last end may be from the first start, in microseconds.
    patience
        Shared by all questions about one query.
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
    # Pairs with few alternatives first: what they rule out is not tried again and again.
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
    """Return what a relation says of the four ends."""
    places = {"a": 2 * pair[0], "A": 2 * pair[0] + 1, "b": 2 * pair[1], "B": 2 * pair[1] + 1}
    bounds: list[Bound] = []
    moments = [[places[end] for end in moment] for moment in _ORDERS[relation].split()]
    for moment in moments:
        bounds += [(one, other, 0) for one in moment for other in moment if one != other]
    for moment, following in pairwise(moments):
        bounds.append((moment[0], following[0], -1))
    return bounds


def _holds(count: int, bounds: list[Bound], patience: Patience) -> bool:
    """Return whether times satisfy all bounds (Bellman and Ford: no cycle is less than nothing)."""
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
