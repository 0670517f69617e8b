"""Choose the symbols that are worth a look-up, without trying all subsets (Körber, section 3.4.3).

If there are few subsets, all are compared. Otherwise, a subset dominates another of the same size
if it reads fewer index entries and leaves fewer row groups; the subsets of a pattern are combined
from the Pareto-optimal ones of its two halves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import NamedTuple

from cepheid.store.cost import StreamSize, SymbolCost, expected_groups, query_cost
from cepheid.store.rates import Rates

ALL_MAX = 128
"""Up to this number, all choices are compared."""

WORTH_MAX = 0.8
"""The maximum share of the cost that look-ups may leave."""

FRONTIER_MAX = 8
"""The maximum number of choices kept for each number of symbols."""

Picked = tuple[tuple[int, int], ...]
"""Symbols by their positions, each with its depth of look-up."""


class Choice(NamedTuple):
    """A subset of symbols, the index entries to read for them, and the row groups that remain."""

    picked: Picked
    entries: int
    groups: float


def choose_symbols(
    symbols: Sequence[Sequence[SymbolCost]], stream: StreamSize, rates: Rates
) -> Picked:
    """Choose the symbols that are worth a look-up, each with its depth; empty for none.

    The depth of a symbol is the number of indexes that are read for it.
    """
    places = [place for place, own in enumerate(symbols) if own]
    if not places:
        return ()
    found: Iterable[Picked] = _all_of(symbols)
    if math.prod(1 + len(own) for own in symbols) > ALL_MAX:
        found = [choice.picked for choice in chain(*_frontiers(symbols, stream, places))]

    def cost(picked: Picked) -> float:
        return query_cost(costs_of(symbols, picked), stream, rates)

    best = min(found, key=cost)
    # Estimates err: a small gain is not worth the risk.
    return best if cost(best) < WORTH_MAX * cost(()) else ()


def _all_of(symbols: Sequence[Sequence[SymbolCost]]) -> Iterator[Picked]:
    for ways in product(*([None, *range(len(own))] for own in symbols)):
        yield tuple((place, way) for place, way in enumerate(ways) if way is not None)


def costs_of(symbols: Sequence[Sequence[SymbolCost]], picked: Picked) -> list[SymbolCost]:
    """Collect the costs of the symbols of a choice."""
    return [symbols[place][way] for place, way in picked]


def _frontiers(
    symbols: Sequence[Sequence[SymbolCost]], stream: StreamSize, places: Sequence[int]
) -> list[list[Choice]]:
    """Compute the Pareto-optimal choices of zero symbols, of one, of two, and so on."""
    if len(places) == 1:
        ways = range(len(symbols[places[0]]))
        single = [_choice(symbols, stream, ((places[0], way),)) for way in ways]
        return [[_choice(symbols, stream, ())], _best(single)]
    half = len(places) // 2
    left = _frontiers(symbols, stream, places[:half])
    right = _frontiers(symbols, stream, places[half:])
    found = []
    for size in range(len(places) + 1):
        both = {
            one.picked + other.picked
            for n in range(size + 1)
            if n < len(left) and size - n < len(right)
            for one in left[n]
            for other in right[size - n]
        }
        found.append(_best(_choice(symbols, stream, picked) for picked in sorted(both)))
    return found


def _choice(symbols: Sequence[Sequence[SymbolCost]], stream: StreamSize, picked: Picked) -> Choice:
    costs = costs_of(symbols, picked)
    return Choice(picked, sum(cost.entries for cost in costs), expected_groups(costs, stream))


def _best(choices: Iterable[Choice]) -> list[Choice]:
    """Keep the choices that no other choice dominates: the Pareto frontier."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda c: (c.entries, c.groups)):
        if not kept or choice.groups < kept[-1].groups:
            kept.append(choice)
    # Of too many, those with the fewest entries and those with the fewest row groups.
    if len(kept) > FRONTIER_MAX:
        half = FRONTIER_MAX // 2
        kept = kept[:half] + kept[-half:]
    return kept
