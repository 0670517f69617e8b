"""Selectivities in, the expected cost of a replay out (Körber, section 3.4.3).

Candidates of a symbol are taken for a Poisson process. How long a chain of them is follows a
hypoexponential distribution; chains longer than the window drop out. Intervals of those that are
left fall onto row groups like balls into urns (Cardenas).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

READ_COST = 0.5
"""Reading a row group, and"""

RUN_COST = 0.5
"""running its events through the engine; the unit of cost is both."""

ENTRY_COST = 1 / 20_000
"""Reading and sorting an entry of a secondary index."""

ALONE_FACTOR = 1.6
"""How much dearer a row group is that is not read together with its neighbours."""

CHOICES_MAX = 1_000
"""All choices of symbols and indexes are compared, if they are not more."""


class SymbolCost(NamedTuple):
    """Candidates of a symbol, the entries to be read for them, and where they stand in a match."""

    candidates: int
    entries: int
    first: bool
    last: bool


class StreamSize(NamedTuple):
    """What the blocks leave of a stream, and the length of a window; 0 for none.

    ``groups`` of ``total`` row groups, ``share`` of its length ``span``.
    """

    groups: int
    total: int
    share: float
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
    return stream.groups * _expected(symbols, stream, 1 / max(stream.groups, 1))


def _expected(symbols: Sequence[SymbolCost], stream: StreamSize, extra: float) -> float:
    """Return the share of the stream in replay intervals, each ``extra`` longer."""
    if any(symbol.candidates == 0 for symbol in symbols):
        return 0.0
    if not symbols or not stream.within:
        return 1.0
    span = max(stream.span * stream.share, 1.0)
    rates = [symbol.candidates / span for symbol in symbols[1:]]
    intervals = symbols[0].candidates * chain_probability(rates, stream.within)
    ends = symbols[0].first + symbols[-1].last
    length = stream.within * (2 - ends) if ends < 2 else stream.within / 2
    share = min(1 - 1e-12, length / span + extra)
    return float(-np.expm1(intervals * np.log1p(-share)))


def replay_cost(groups: float, share: float, total: int) -> float:
    """Return the cost of reading row groups and running a share of all events."""
    alone = ALONE_FACTOR if groups < total else 1.0
    return groups * READ_COST * alone + total * share * RUN_COST


def query_cost(symbols: Sequence[SymbolCost], stream: StreamSize) -> float:
    """Return the cost of a query that looks some symbols up; without any, of a replay."""
    if not symbols:
        return replay_cost(stream.groups, stream.share, stream.total)
    entries = sum(symbol.entries for symbol in symbols)
    groups = expected_groups(symbols, stream)
    share = stream.share * _expected(symbols, stream, 0.0)
    return replay_cost(groups, share, stream.total) + entries * ENTRY_COST


def choose_symbols(
    symbols: Sequence[Sequence[SymbolCost]], stream: StreamSize
) -> tuple[tuple[int, int], ...]:
    """Return which symbols are worth a look-up, each with its way; none means no look-up at all.

    A symbol can be looked up in several ways, with more and more indexes. All choices are compared
    as long as they are few, else the most selective symbols, one more at a time.
    """
    ways = [[None, *range(len(costs))] for costs in symbols]
    options: Iterable[tuple[int | None, ...]] = product(*ways)
    if math.prod(len(own) for own in ways) > CHOICES_MAX:
        known = [place for place, own in enumerate(symbols) if own]
        order = sorted(known, key=lambda place: symbols[place][-1].candidates)
        options = [
            tuple(len(o) - 1 if place in order[:size] else None for place, o in enumerate(symbols))
            for size in range(len(order) + 1)
        ]
    chosen = [_picked(option) for option in options]
    return min(chosen, key=lambda c: query_cost([symbols[place][way] for place, way in c], stream))


def _picked(option: tuple[int | None, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((place, way) for place, way in enumerate(option) if way is not None)
