"""Selectivities in, the expected cost of a replay out (Körber, section 3.4.3).

Candidates of a symbol are taken for a Poisson process. How long a chain of them is follows a
hypoexponential distribution; chains longer than the window drop out. Intervals of those that are
left fall onto row groups like balls into urns (Cardenas).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP_COST = 1.0
"""Reading a row group and running its events through the engine; the unit of cost."""

ENTRY_COST = 1 / 20_000
"""Reading and sorting an entry of a secondary index."""

ALONE_FACTOR = 1.6
"""How much dearer a row group is that is not read together with its neighbours."""

SUBSETS_SYMBOLS_MAX = 8
"""All sets of up to so many symbols are compared."""


class SymbolCost(NamedTuple):
    """Candidates of a symbol, the entries to be read for them, and where they stand in a match."""

    candidates: int
    entries: int
    first: bool
    last: bool


class StreamSize(NamedTuple):
    """Row groups and length of a stream, and the length of a window; 0 for none."""

    groups: int
    span: int
    within: int


def chain_probability(rates: Sequence[float], within: float) -> float:
    """Return the probability that waiting for one event of each rate in turn takes less time.

    Examples
    --------
    >>> round(chain_probability([1.0], 1.0), 4), round(chain_probability([1.0, 1.0], 1.0), 4)
    (0.6321, 0.2642)
    """
    if not rates:
        return 1.0
    if min(rates) <= 0.0:
        return 0.0
    # A phase for each symbol; what has left the last one has found the whole chain.
    size = len(rates)
    moves = np.zeros((size + 1, size + 1))
    for phase, rate in enumerate(rates):
        moves[phase, phase] = -rate
        moves[phase, phase + 1] = rate
    return float(np.clip(_exponential(moves * within)[0, size], 0.0, 1.0))


def _exponential(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e to the power of a small matrix, by squaring the series of a fraction of it."""
    steps = max(0, int(np.ceil(np.log2(max(np.abs(matrix).max(), 1e-12)))) + 4)
    part = matrix / 2.0**steps
    term = result = np.eye(len(matrix))
    for n in range(1, 12):
        term = term @ part / n
        result = result + term
    for _ in range(steps):
        result = result @ result
    return result


def expected_groups(symbols: Sequence[SymbolCost], stream: StreamSize) -> float:
    """Return how many row groups the replay intervals of some symbols touch."""
    if not symbols or not stream.groups:
        return float(stream.groups)
    if any(symbol.candidates == 0 for symbol in symbols):
        return 0.0
    if not stream.within:
        return float(stream.groups)
    span = max(stream.span, 1)
    rates = [symbol.candidates / span for symbol in symbols[1:]]
    intervals = symbols[0].candidates * chain_probability(rates, stream.within)
    ends = symbols[0].first + symbols[-1].last
    length = stream.within * (2 - ends) if ends < 2 else stream.within / 2
    share = min(1.0, length / span + 1 / stream.groups)
    return stream.groups * float(-np.expm1(intervals * np.log1p(-min(share, 1 - 1e-12))))


def query_cost(symbols: Sequence[SymbolCost], stream: StreamSize) -> float:
    """Return the cost of a query that looks some symbols up; without any, of a full replay."""
    if not symbols:
        return stream.groups * GROUP_COST
    entries = sum(symbol.entries for symbol in symbols)
    groups = expected_groups(symbols, stream)
    return groups * GROUP_COST * ALONE_FACTOR + entries * ENTRY_COST


def choose_symbols(symbols: Sequence[SymbolCost], stream: StreamSize) -> tuple[int, ...]:
    """Return the places of the symbols that are worth a look-up; none means a full replay."""
    places = range(len(symbols))
    sizes = range(len(symbols) + 1)
    if len(symbols) > SUBSETS_SYMBOLS_MAX:
        # Too many sets: the most selective symbols, one more at a time.
        order = sorted(places, key=lambda place: symbols[place].candidates)
        options = [tuple(sorted(order[:size])) for size in sizes]
    else:
        options = [chosen for size in sizes for chosen in combinations(places, size)]
    return min(options, key=lambda chosen: query_cost([symbols[p] for p in chosen], stream))
