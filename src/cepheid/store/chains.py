"""The required variables of a pattern, the sources of their candidates, and the look-up costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NamedTuple

from cepheid.patterns.required import Required
from cepheid.store.candidates import Axis, Found, Stretches, SymbolSource, united
from cepheid.store.cost import SymbolCost


class Chain(NamedTuple):
    """The required symbols of one pattern, the sources of their candidates, and their costs.

    A symbol has a cost for each number of indexes that can be read for it.
    """

    symbols: list[Required]
    sources: dict[str, SymbolSource]
    costs: list[list[SymbolCost]]


def light_places(chain: Chain) -> list[int]:
    """Find the symbols whose candidates block statistics can narrow."""
    return [
        place
        for place, symbol in enumerate(chain.symbols)
        if all(chain.sources[name].light for name in symbol.variables)
    ]


def fewest(chain: Chain) -> int:
    """Estimate the number of candidates of the most selective symbol."""
    return min((own[-1].candidates for own in chain.costs if own), default=sys.maxsize)


def costs_of(symbol: Required, found: dict[str, list[Found]]) -> list[SymbolCost]:
    """Estimate the costs of a symbol with one index for each variable, with two, and so on."""
    depths = [len(found[name]) - 1 for name in symbol.variables]
    if not all(depths):
        return []  # Only the blocks can narrow one of them.
    costs = []
    for depth in range(1, max(depths, default=0) + 1):
        mine = [found[n][min(depth, own)] for n, own in zip(symbol.variables, depths, strict=True)]
        candidates = sum(part.candidates for part in mine)
        entries = sum(part.entries for part in mine)
        look_ups = sum(min(depth, own) for own in depths)
        costs.append(SymbolCost(candidates, entries, symbol.first, symbol.last, look_ups))
    return costs


def find_symbol(chain: Chain, place: int, depth: int, axis: Axis = Axis.TIME) -> Stretches:
    """Find the candidates of a symbol: their times, or their positions in the stream."""
    sources = [chain.sources[name] for name in chain.symbols[place].variables]
    return united([source.find(min(depth, source.depth), axis) for source in sources])


def described(chain: Chain, chosen: Iterable[int]) -> list[str]:
    """Describe the conditions of some symbols in words."""
    texts = []
    for place in chosen:
        parts = []
        for name in chain.symbols[place].variables:
            conditions = chain.sources[name].look_ups
            shown = " and ".join(str(look_up) for look_up in conditions)
            parts.append(f"{name} ({shown})")
        texts.append(" or ".join(parts))
    return texts
